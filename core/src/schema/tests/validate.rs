//! What the validator takes and what it refuses, by bytes.

use super::{bytes, schema};
use crate::schema::{Schema, Unfit};

const EVENT: &str = r#"
    syntax = "proto3";
    message Event {
        int32 id = 1;
        string name = 2;
        repeated Line lines = 3;
        repeated sint64 deltas = 4;
        map<string, Line> by_key = 5;
        oneof what { bool is_new = 6; fixed64 stamp = 7; }
        Color color = 8;
        Event cause = 9;
    }
    message Line { string sku = 1; float price = 2; }
    enum Color { RED = 0; GREEN = 1; }
"#;

const OLD: &str = r#"
    syntax = "proto2";
    message Old {
        required string key = 1;
        optional group Box = 2 { required int32 side = 3; }
        repeated int32 sizes = 4;
        optional Level level = 5;
        repeated Level levels = 6 [packed = true];
        extensions 100 to 199;
    }
    extend Old { optional string note = 100; }
    enum Level { LOW = 1; HIGH = 2; }
"#;

fn verdict(schema: &Schema, hex: &str, is_closed: bool) -> Result<(), String> {
    let checked = schema.check(&bytes(hex), is_closed);
    checked.map_err(|unfit| unfit.to_string())
}

#[test]
fn whatever_a_reader_takes_is_taken() {
    let event = schema(EVENT, "Event");
    for (hex, why) in [
        ("", "all fields have their defaults"),
        ("082a", "a number"),
        ("08ffffffffffffffffff01", "a negative number has ten bytes"),
        ("0801 0802", "the last of several values holds"),
        ("1203 e282ac", "a character of three bytes"),
        ("980601", "an unknown field"),
        ("9b06 0801 9c06", "an unknown group"),
        ("1a05 0a03616263 1a00", "messages in a list"),
        ("2001 2002", "numbers one by one"),
        ("2202 0102", "numbers packed"),
        ("2200", "no numbers, packed"),
        ("2a07 0a016b 12020a00", "an entry of a map"),
        ("2a00", "an entry of which both halves have their defaults"),
        (
            "3001 390000000000000000",
            "both of a choice: the last holds",
        ),
        ("4063", "a number that an open enum does not name"),
        ("4a02 4a00", "a message in itself"),
    ] {
        assert_eq!(verdict(&event, hex, false), Ok(()), "{why}");
    }
}

#[test]
fn what_no_reader_takes_is_refused_by_its_field_and_rule() {
    let event = schema(EVENT, "Event");
    let within = "the message ends within it";
    for (hex, error) in [
        ("08", format!("id: {within}")),
        ("0880", format!("id: {within}")),
        (
            "08ffffffffffffffffffff",
            "id: a number has more than ten bytes or 64 bits".into(),
        ),
        (
            "08ffffffffffffffffff02",
            "id: a number has more than ten bytes or 64 bits".into(),
        ),
        ("1261", format!("name: {within}")),
        (
            "7f61",
            "not a field: its number or wire type does not exist".into(),
        ),
        (
            "00",
            "not a field: its number or wire type does not exist".into(),
        ),
        (
            "8080808010 00",
            "not a field: its number or wire type does not exist".into(),
        ),
        ("1202c328", "name: a string is not valid UTF-8".into()),
        (
            "0a0161",
            "id: the wire type is length-delimited, and varint is wanted".into(),
        ),
        (
            "0d00000000",
            "id: the wire type is 32-bit, and varint is wanted".into(),
        ),
        (
            "1a02 0801",
            "lines[0].sku: the wire type is varint, and length-delimited is wanted".into(),
        ),
        ("1a00 1a00 1a03 150000", format!("lines[2].price: {within}")),
        ("2a05 0a016b 1205", format!("by_key[0].value: {within}")),
        ("2202 0180", format!("deltas[0]: {within}")),
        ("0c", "a group ends that did not begin".into()),
        ("9c06", "a group ends that did not begin".into()),
        ("9b06 0801", within.into()),
        ("9b06 9406", "a group ends that did not begin".into()),
        ("4a04 4a02 1a05", format!("cause.cause.lines[0]: {within}")),
    ] {
        assert_eq!(
            verdict(&event, hex, false),
            Err(error.clone()),
            "{hex}: {error}"
        );
    }
}

#[test]
fn unknown_fields_are_refused_where_that_is_asked_at_any_depth() {
    let event = schema(EVENT, "Event");
    assert_eq!(verdict(&event, "082a 1a02 0a00", true), Ok(()));
    let error = Err("the schema has no field 99".to_owned());
    assert_eq!(verdict(&event, "980601", true), error);
    let error = Err("lines[1]: the schema has no field 3".to_owned());
    assert_eq!(verdict(&event, "1a00 1a02 1801", true), error);
    let error = Err("by_key[0]: the schema has no field 3".to_owned());
    assert_eq!(verdict(&event, "2a02 1801", true), error);
}

#[test]
fn rules_of_proto2_hold_where_the_file_is_proto2() {
    let old = schema(OLD, "Old");
    let key = "0a016b";
    let missing = Err("the required field key is missing".to_owned());
    assert_eq!(verdict(&old, "", false), missing);
    assert_eq!(verdict(&old, key, false), Ok(()));
    assert_eq!(verdict(&old, &format!("{key} 13 1801 14"), false), Ok(()));
    let missing = Err("box: the required field side is missing".to_owned());
    assert_eq!(verdict(&old, &format!("{key} 13 14"), false), missing);
    let packed = format!("{key} 2202 0102 2003");
    assert_eq!(verdict(&old, &packed, false), Ok(()));
    // A number that a closed enum does not name is an unknown field.
    let unnamed = format!("{key} 2809");
    assert_eq!(verdict(&old, &unnamed, false), Ok(()));
    let error = Err("level: the enum has no value 9".to_owned());
    assert_eq!(verdict(&old, &unnamed, true), error);
    let error = Err("levels[0]: the enum has no value 0".to_owned());
    assert_eq!(verdict(&old, &format!("{key} 3202 0200"), true), error);
    // An extension is a field of the schema.
    assert_eq!(verdict(&old, &format!("{key} a20601 61"), true), Ok(()));
    let error = Err("[note]: a string is not valid UTF-8".to_owned());
    assert_eq!(verdict(&old, &format!("{key} a20601 ff"), true), error);
}

#[test]
fn depth_is_bounded_whatever_it_is_made_of() {
    let event = schema(EVENT, "Event");
    let nested = |levels: usize| {
        let mut inner = Vec::new();
        for _ in 0..levels {
            let mut outer = vec![0x4a];
            crate::store::codec::put_varint(&mut outer, inner.len() as u64);
            outer.extend_from_slice(&inner);
            inner = outer;
        }
        inner
    };
    let deep = |message: Vec<u8>| event.check(&message, false).map_err(|unfit| *unfit);
    let too_deep = |result: Result<(), Unfit>| match result {
        Err(Unfit::Mismatch { what, .. }) => what.starts_with("more than 100 messages"),
        _ => false,
    };
    assert_eq!(deep(nested(100)), Ok(()));
    assert!(too_deep(deep(nested(101))));
    assert!(too_deep(deep(nested(20_000))));
    // Groups that nobody knows, opened and never closed.
    assert!(too_deep(deep([0x9b, 0x06].repeat(20_000))));
    // Through a map: the entry is no level, the message in it is one.
    let recursive = "syntax = \"proto3\"; message M { map<int32, M> m = 1; }";
    let recursive = schema(recursive, "M");
    let mut inner = Vec::new();
    for _ in 0..101 {
        let mut entry = vec![0x12];
        crate::store::codec::put_varint(&mut entry, inner.len() as u64);
        entry.extend_from_slice(&inner);
        inner = vec![0x0a];
        crate::store::codec::put_varint(&mut inner, entry.len() as u64);
        inner.extend_from_slice(&entry);
    }
    let checked = recursive.check(&inner, false).map_err(|unfit| *unfit);
    assert!(too_deep(checked));
}

#[test]
fn more_required_fields_than_one_word_has_bits_are_all_missed() {
    let fields: String = (1..=300)
        .map(|n| format!("required bool f{n} = {n};"))
        .collect();
    let wide = schema(
        &format!("syntax = \"proto2\"; message W {{ {fields} }}"),
        "W",
    );
    let without = |missing: u32| {
        let mut message = Vec::new();
        for n in (1..=300).filter(|n| *n != missing) {
            crate::store::codec::put_varint(&mut message, u64::from(n) << 3);
            message.push(1);
        }
        message
    };
    assert_eq!(wide.check(&without(0), true), Ok(()));
    for n in [1, 64, 65, 256, 257, 300] {
        let error = wide
            .check(&without(n), true)
            .map_err(|unfit| unfit.to_string());
        assert_eq!(error, Err(format!("the required field f{n} is missing")));
    }
}

#[test]
fn numbers_are_found_wherever_they_lie() {
    let text = "syntax = \"proto3\"; message N { int32 a = 1; int32 b = 1023; int32 c = 1024; int32 d = 536870911; }";
    let sparse = schema(text, "N");
    for number in [1_u64, 1_023, 1_024, 536_870_911] {
        let mut message = Vec::new();
        crate::store::codec::put_varint(&mut message, number << 3);
        message.push(7);
        assert_eq!(sparse.check(&message, true), Ok(()), "{number}");
    }
    for number in [2_u64, 1_022, 1_025, 536_870_910] {
        let mut message = Vec::new();
        crate::store::codec::put_varint(&mut message, number << 3);
        message.push(7);
        assert_eq!(sparse.check(&message, false), Ok(()), "{number}");
        assert!(sparse.check(&message, true).is_err(), "{number}");
    }
}
