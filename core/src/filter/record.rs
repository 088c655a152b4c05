//! Reads single fields out of a stored message of the binary protocol: a Protocol Buffers record whose fields are those of
//! its MESSAGE (message_id 1, headers 4, published_at 6, ordering_key 7, idempotency_key 52).
//!
//! As with AMQP sections, whatever is malformed reads as absent.

use crate::route::Scalar;

const MESSAGE_ID: u64 = 1;
const HEADER: u64 = 4;
const PUBLISHED_AT: u64 = 6;
const IDEMPOTENCY_KEY: u64 = 52;

/// The fields of a record, one after the other.
struct Fields<'a> {
    rest: &'a [u8],
}

enum Value<'a> {
    Number(u64),
    Delimited(&'a [u8]),
    /// Of a wire type that records do not use.
    Other,
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            // Of the tenth byte one bit has a place; what is beyond it falls off.
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let (slice, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(slice)
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                Value::Delimited(self.slice(len)?)
            }
            1 => {
                self.slice(8)?;
                Value::Other
            }
            5 => {
                self.slice(4)?;
                Value::Other
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        field
    }
}

fn text(bytes: &[u8]) -> Scalar<'_> {
    match std::str::from_utf8(bytes) {
        // Absent and empty are the same on that wire.
        Ok(text) if !text.is_empty() => Scalar::Text(text),
        _ => Scalar::Null,
    }
}

fn text_field(record: &[u8], number: u64) -> Scalar<'_> {
    Fields { rest: record }
        .find_map(|(found, value)| match value {
            Value::Delimited(bytes) if found == number => Some(text(bytes)),
            _ => None,
        })
        .unwrap_or(Scalar::Null)
}

/// The message's id.
pub(super) fn message_id(record: &[u8]) -> Scalar<'_> {
    text_field(record, MESSAGE_ID)
}

/// What duplicates are recognised by.
pub(super) fn idempotency_key(record: &[u8]) -> Scalar<'_> {
    text_field(record, IDEMPOTENCY_KEY)
}

/// When it was published, milliseconds since 1970.
pub(super) fn published_at(record: &[u8]) -> Scalar<'_> {
    Fields { rest: record }
        .find_map(|(found, value)| match value {
            Value::Number(number) if found == PUBLISHED_AT => {
                Some(Scalar::Int(number.cast_signed().into()))
            }
            _ => None,
        })
        .unwrap_or(Scalar::Null)
}

/// The headers in their order: names and texts.
pub(super) fn headers(record: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    Fields { rest: record }.filter_map(|(number, value)| match value {
        Value::Delimited(entry) if number == HEADER => header(entry),
        _ => None,
    })
}

fn header(entry: &[u8]) -> Option<(&str, &str)> {
    let (mut name, mut text): (&[u8], &[u8]) = (&[], &[]);
    for field in (Fields { rest: entry }) {
        match field {
            (1, Value::Delimited(bytes)) => name = bytes,
            (2, Value::Delimited(bytes)) => text = bytes,
            _ => {}
        }
    }
    Some((
        std::str::from_utf8(name).ok()?,
        std::str::from_utf8(text).ok()?,
    ))
}

/// One header; an empty one is there.
pub(super) fn find_header<'a>(record: &'a [u8], name: &str) -> Scalar<'a> {
    headers(record)
        .find(|(found, _)| *found == name)
        .map_or(Scalar::Null, |(_, text)| Scalar::Text(text))
}
