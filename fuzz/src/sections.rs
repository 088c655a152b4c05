//! Target for message sections: bytes as a message. The places found must tile the message, and what is read from them
//! must encode and decode to itself.

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::section::{Header, Properties, SectionRange, Sections, find_in_map};
use qq_proto_amqp::types::Value;

/// One whole message.
pub fn sections(data: &[u8]) {
    let message = Bytes::copy_from_slice(data);
    let sections = match Sections::scan(&message) {
        Ok(sections) => sections,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    check_tiling(&sections, message.len());
    if let Ok(Some(header)) = sections.header(&message) {
        check_header(&header);
    }
    if let Ok(Some(properties)) = sections.properties(&message) {
        check_properties(&properties);
    }
    let is_checked = sections.check_annotations(&message).is_ok();
    for range in maps_of(&sections) {
        let decoded = Value::decode(&message.slice(range.value.clone()));
        if let Ok((value, used)) = decoded {
            assert!(matches!(value, Value::Map(_)));
            assert_eq!(used, range.value.len(), "the place is the value's");
            assert_eq!(
                find_in_map(&message, range, "no such key, or so we hope"),
                Ok(None)
            );
        }
    }
    // What was passed by its size alone may still be too deep to decode, but its keys are read.
    if is_checked {
        for range in maps_of(&sections) {
            assert!(
                find_in_map(&message, range, "x-opt-a").is_ok()
                    || Value::decode(&message.slice(range.value.clone())).is_err()
            );
        }
    }
}

fn maps_of(sections: &Sections) -> impl Iterator<Item = &SectionRange> {
    let ranges = [
        &sections.delivery_annotations,
        &sections.message_annotations,
        &sections.application_properties,
        &sections.footer,
    ];
    ranges.into_iter().flatten()
}

fn check_tiling(sections: &Sections, len: usize) {
    let mut at = 0;
    let before = [
        &sections.header,
        &sections.delivery_annotations,
        &sections.message_annotations,
        &sections.properties,
        &sections.application_properties,
    ];
    for (index, range) in before.into_iter().enumerate() {
        if index == 2 {
            assert_eq!(sections.kept_from(), at);
        }
        if let Some(range) = range {
            assert_eq!(range.start, at);
            assert!(range.start < range.value.start && range.value.start < range.end());
            at = range.end();
        }
    }
    assert_eq!(sections.body.range.start, at);
    assert!(sections.body.count > 0);
    at = sections.body.range.end;
    if let Some(range) = &sections.footer {
        assert_eq!(range.start, at);
        at = range.end();
    }
    assert_eq!(at, len, "every byte belongs to a section");
}

/// The encoded section in front of the smallest body.
fn with_body(encode: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut buf = BytesMut::new();
    encode(&mut buf);
    buf.extend_from_slice(&[0x00, 0x53, 0x77, 0x40]);
    buf.freeze()
}

fn check_header(header: &Header) {
    let message = with_body(|buf| header.encode(buf));
    let again = Sections::scan(&message)
        .expect("our own bytes")
        .header(&message);
    assert_eq!(again, Ok(Some(header.clone())));
}

fn check_properties(properties: &Properties) {
    let message = with_body(|buf| properties.encode(buf));
    let again = Sections::scan(&message)
        .expect("our own bytes")
        .properties(&message);
    assert_eq!(again, Ok(Some(properties.clone())));
}
