//! Messages for filters to look at.

use bytes::BytesMut;
use qq_proto_amqp::types::{Described, Map, Str, Symbol, Value};

use crate::filter::{Filter, FilterError, FilterSpec, MessageView};
use crate::vocab::{Envelope, Format, Message};

pub(super) fn text(text: &str) -> Value {
    Value::Str(Str::from(text))
}

pub(super) fn symbol(name: &str) -> Value {
    Value::Symbol(Symbol::new(name).expect("ASCII"))
}

pub(super) fn described(code: u64, value: Value) -> Value {
    Value::Described(Box::new(Described {
        descriptor: Value::Ulong(code),
        value,
    }))
}

/// A message of these sections, in the order of the standard, behind header and delivery annotations.
pub(super) fn message(envelope: Envelope, sections: &[(u64, Value)]) -> Message {
    let mut payload = BytesMut::new();
    for (code, value) in sections {
        described(*code, value.clone()).encode(&mut payload);
    }
    Message {
        envelope,
        format: Format::Amqp(0),
        payload: payload.freeze(),
    }
}

pub(super) fn data() -> (u64, Value) {
    (0x75, Value::Binary(bytes::Bytes::from_static(b"body")))
}

/// A durable message with application properties alone.
pub(super) fn with_properties(properties: &[(&str, Value)]) -> Message {
    let map: Map = properties
        .iter()
        .map(|(name, value)| (text(name), value.clone()))
        .collect();
    let envelope = Envelope {
        durable: true,
        priority: 4,
        ..Envelope::default()
    };
    message(envelope, &[(0x74, Value::Map(map)), data()])
}

/// An order of a shop: what most tests look at.
pub(super) fn order() -> Message {
    with_properties(&[
        ("color", text("blue")),
        ("weight", Value::Int(2_500)),
        ("price", Value::Double(9.5_f64.to_bits())),
        ("paid", Value::Bool(true)),
        ("count", Value::Ubyte(3)),
        ("big", Value::Ulong(u64::MAX)),
        ("empty", text("")),
        ("nothing", Value::Null),
        ("it's", text("it's")),
        ("order-status", text("new")),
        ("under_score", text("_x%")),
    ])
}

/// The wall clock of tests, milliseconds since 1970.
pub(super) const NOW_MS: i64 = 1_750_000_000_000;

pub(super) fn selector(text: &str) -> Result<Filter, FilterError> {
    Filter::compile(FilterSpec::Selector(text.to_owned()))
}

pub(super) fn sql(text: &str) -> Result<Filter, FilterError> {
    Filter::compile(FilterSpec::Sql(text.to_owned()))
}

pub(super) fn is_passed(filter: &Filter, message: &Message) -> bool {
    filter.is_passed(&MessageView::new(message, NOW_MS))
}

/// Whether a condition is true, false or unknown: unknown is what neither it nor its negation is.
pub(super) fn truth(
    compile: fn(&str) -> Result<Filter, FilterError>,
    condition: &str,
    message: &Message,
) -> Option<bool> {
    let of = |text: &str| {
        is_passed(
            &compile(text).unwrap_or_else(|e| panic!("{text}: {e}")),
            message,
        )
    };
    match (of(condition), of(&format!("NOT ({condition})"))) {
        (true, true) => panic!("{condition} is true and false"),
        (true, false) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}
