//! The validator accepts exactly what another implementation decodes: the dynamic messages of prost-reflect.
//!
//! Where the two differ by intent is excluded from what is made here and tested by bytes elsewhere: required fields,
//! which the reference does not ask for; a map whose tag has another wire type, which it does not look at; and depth
//! near the limit, where a few kinds of fields count one level more or less.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use super::schema;
use crate::schema::Schema;
use crate::store::codec::put_varint;

const TEXT: &str = r#"
    syntax = "proto2";
    message All {
        optional double a = 1;
        optional float b = 2;
        optional int32 c = 3;
        repeated int64 d = 4;
        repeated uint32 e = 5 [packed = true];
        optional uint64 f = 6;
        optional sint32 g = 7;
        repeated sint64 h = 8;
        repeated fixed32 i = 9;
        optional fixed64 j = 10;
        optional sfixed32 k = 11;
        repeated sfixed64 l = 12 [packed = true];
        repeated bool m = 13;
        optional string n = 14;
        repeated bytes o = 15;
        repeated Level p = 16;
        optional All q = 17;
        repeated group R = 18 { optional string s = 1; optional All t = 2; }
        oneof u { int32 v = 19; string w = 20; All x = 21; }
        extensions 30 to 40;
    }
    extend All { repeated string y = 30; }
    enum Level { LOW = 1; HIGH = 2; }
"#;

/// Bytes that look like fields: tags near those of the message, with values that fit them or do not.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let leaf = proptest::collection::vec(
        field(proptest::collection::vec(any::<u8>(), 0..12).boxed()),
        0..5,
    );
    let leaf = leaf.prop_map(|fields| fields.concat()).boxed();
    leaf.prop_recursive(4, 64, 5, |inner| {
        proptest::collection::vec(field(inner), 0..6).prop_map(|fields| fields.concat())
    })
}

fn field(inner: BoxedStrategy<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
    let wire = prop_oneof![4 => Just(0_u64), 2 => Just(1), 6 => Just(2), 3 => Just(3), 1 => Just(4), 2 => Just(5), 1 => 6..8_u64];
    let number = prop_oneof![20 => 1..32_u64, 1 => Just(0), 1 => Just(536_870_911), 1 => any::<u32>().prop_map(u64::from)];
    let cut = prop_oneof![30 => Just(0_usize), 1 => 1..4_usize];
    (number, wire, any::<u64>(), inner, cut, any::<bool>())
        .prop_map(|(number, wire, value, inner, cut, is_text)| {
            let mut out = Vec::new();
            put_varint(&mut out, number << 3 | wire);
            match wire {
                0 => put_varint(&mut out, value),
                1 => out.extend_from_slice(&value.to_le_bytes()),
                5 => out.extend_from_slice(&value.to_le_bytes()[..4]),
                2 if is_text => {
                    out.push(3);
                    out.extend_from_slice(b"abc");
                }
                2 => {
                    put_varint(&mut out, inner.len() as u64);
                    out.extend_from_slice(&inner);
                }
                3 => {
                    out.extend_from_slice(&inner);
                    put_varint(&mut out, number << 3 | 4);
                }
                _ => {}
            }
            out.truncate(out.len().saturating_sub(cut).max(1));
            out
        })
        .boxed()
}

static ALL: LazyLock<(Arc<Schema>, MessageDescriptor)> = LazyLock::new(|| {
    let all = schema(TEXT, "All");
    let pool = DescriptorPool::decode(all.descriptor().clone()).expect("it was compiled");
    let descriptor = pool.get_message_by_name("All");
    (all, descriptor.expect("it is in the text"))
});

fn decode(message: &[u8]) -> Option<DynamicMessage> {
    DynamicMessage::decode(ALL.1.clone(), message).ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn what_is_accepted_is_what_the_reference_decodes(message in soup()) {
        let all = &ALL.0;
        let checked = all.check(&message, false);
        prop_assert_eq!(checked.is_ok(), decode(&message).is_some(), "{:?}: {:?}", message, checked);
    }

    #[test]
    fn what_the_reference_encodes_is_accepted(message in soup()) {
        let all = &ALL.0;
        if let Some(decoded) = decode(&message) {
            let again = decoded.encode_to_vec();
            prop_assert_eq!(all.check(&again, false), Ok(()));
        }
    }
}

/// A soup that is always refused, or never, would prove little.
#[test]
fn the_soup_has_both_kinds() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let all = &ALL.0;
    let mut runner = TestRunner::deterministic();
    let taken = (0..1_000)
        .filter(|_| {
            let made = soup().new_tree(&mut runner).expect("a soup").current();
            !made.is_empty() && all.check(&made, false).is_ok()
        })
        .count();
    assert!((50..950).contains(&taken), "{taken} of 1,000 are messages");
}
