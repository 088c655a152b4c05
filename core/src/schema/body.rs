//! Which bytes of a message are the encoded value: the payload of one protocol, the data section of the other.

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::section::{BodyKind, Sections};
use qq_proto_amqp::types::Value;
use qq_proto_binary::stored::Stored;

use crate::vocab::{Format, Message};

/// The encoded value of a message; none where the body is something else.
#[must_use]
pub fn body_of(message: &Message) -> Option<Bytes> {
    match message.format {
        Format::Binary => Some(Stored::read(&message.payload).ok()?.payload()),
        Format::Amqp(_) => {
            let sections = Sections::scan(&message.payload).ok()?;
            match sections.body.kind {
                BodyKind::Data => octets(&message.payload.slice(sections.body.range)),
                BodyKind::Value | BodyKind::Sequence => None,
            }
        }
    }
}

/// The contents of data sections in a row. A single one, which is what everybody sends, is not copied.
pub(crate) fn octets(sections: &Bytes) -> Option<Bytes> {
    let mut rest = sections.clone();
    let mut first: Option<Bytes> = None;
    let mut joined = BytesMut::new();
    while !rest.is_empty() {
        let (value, len) = Value::decode(&rest).ok()?;
        let Value::Described(section) = value else {
            return None;
        };
        let Value::Binary(octets) = section.value else {
            return None;
        };
        if len == sections.len() {
            return Some(octets);
        }
        match first.take() {
            None if joined.is_empty() => first = Some(octets),
            earlier => {
                joined.extend_from_slice(&earlier.unwrap_or_default());
                joined.extend_from_slice(&octets);
            }
        }
        rest = rest.slice(len..);
    }
    Some(first.unwrap_or_else(|| joined.freeze()))
}
