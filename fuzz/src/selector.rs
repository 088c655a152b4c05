//! Target for filters: bytes as a selector and a message. The first byte chooses the language, a zero ends the selector,
//! the rest is the payload of a message, whole or not.
//!
//! Whatever the bytes are, the selector compiles or is refused at a place within it; evaluation ends without a panic, says
//! the same twice, and never finds a condition and its negation true of one message.

use bytes::Bytes;
use qq_core::filter::{Filter, FilterSet, FilterSpec, MessageView};
use qq_core::route::Headers;
use qq_core::vocab::{Envelope, Format, Message};
use qq_proto_amqp::types::Value;

/// The wall clock of every run, milliseconds since 1970.
const NOW_MS: i64 = 1_750_000_000_000;

/// One selector and one message.
pub fn selector(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else {
        return;
    };
    let end = rest.iter().position(|byte| *byte == 0);
    let (text, payload) = match end {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (rest, &[][..]),
    };
    let message = Message {
        envelope: Envelope::default(),
        format: Format::Amqp(0),
        payload: Bytes::copy_from_slice(payload),
    };
    let view = MessageView::new(&message, NOW_MS);
    let mut count = 0;
    view.each(&mut |_, _| count += 1);
    assert!(count <= payload.len());
    check_set(payload);
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let spec = |text: String| {
        if choice % 2 == 0 {
            FilterSpec::Selector(text)
        } else {
            FilterSpec::Sql(text)
        }
    };
    match Filter::compile(spec(text.to_owned())) {
        Ok(filter) => {
            let is_passed = filter.is_passed(&view);
            assert_eq!(filter.is_passed(&view), is_passed, "another answer");
            // Too deep or too long by the few characters more, perhaps.
            if let Ok(negation) = Filter::compile(spec(format!("NOT ({text})"))) {
                assert!(
                    !is_passed || !negation.is_passed(&view),
                    "true and false: {text}"
                );
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let chars = text.chars().count();
            assert!(error.column.is_none_or(|at| (1..=chars + 1).contains(&at)));
        }
    }
}

/// The payload once more, as the filter set of a source.
fn check_set(payload: &[u8]) {
    let Ok((Value::Map(map), _)) = Value::decode(&Bytes::copy_from_slice(payload)) else {
        return;
    };
    let Ok(set) = FilterSet::read(&map) else {
        return;
    };
    let nulls = map
        .iter()
        .filter(|(_, value)| *value == Value::Null)
        .count();
    assert_eq!(
        set.effective.len() + set.unknown.len() + nulls,
        map.len(),
        "an entry is lost"
    );
    assert_eq!(set.spec.is_some(), !set.effective.is_empty());
    if let Some(spec) = set.spec {
        assert!(Filter::compile(spec).is_ok(), "it was checked");
    }
}
