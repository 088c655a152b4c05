//! There and back: a record that became sections and a record again is the one that it was.

use bytes::Bytes;
use proptest::prelude::*;
use qq_proto_binary::stored::{self, Parts};

use super::{record_of, sections_of};

proptest! {
    #[test]
    fn every_field_survives_both_ways(
        payload in prop::collection::vec(any::<u8>(), 0..600),
        headers in prop::collection::btree_map("[a-z]{1,8}", ".{0,20}", 0..5),
        id in ".{1,30}",
        ordering_key in ".{0,9}",
        idempotency_key in ".{0,9}",
        published_at_ms: i64,
    ) {
        let parts = Parts {
            message_id: &id,
            payload: &payload,
            published_at_ms,
            ordering_key: &ordering_key,
            idempotency_key: &idempotency_key,
        };
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let record = stored::encode(&parts, headers);
        let sections = sections_of(&record).expect("a record");
        prop_assert_eq!(record_of(&sections, "none"), Some(record));
    }
}

#[test]
fn an_idempotency_key_is_an_annotation() {
    let parts = Parts {
        message_id: "m",
        idempotency_key: "d-1",
        ..Parts::default()
    };
    let record = stored::encode(&parts, std::iter::empty());
    let sections = sections_of(&record).expect("a record");
    // Part 3, 3.2.3: descriptor 0x72, a map of a symbol and a string.
    let mut expected = vec![0x00, 0x53, 0x72, 0xc1, 0x16, 0x02, 0xa3, 0x0e];
    expected.extend_from_slice(b"x-opt-dedup-id");
    expected.extend_from_slice(&[0xa1, 0x03]);
    expected.extend_from_slice(b"d-1");
    assert_eq!(sections[..expected.len()], expected[..]);
}

#[test]
fn what_is_neither_is_refused() {
    assert!(sections_of(&Bytes::from_static(&[0xff])).is_err());
    assert_eq!(record_of(&Bytes::from_static(&[0xff]), "id"), None);
}
