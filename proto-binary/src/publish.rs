//! PUBLISH decoded by hand: it is what a broker decodes most, and the derive takes twice as long.
//!
//! A test holds it to the derive's judgement of every body.

use alloc::string::String;

use bytes::Bytes;

use crate::message::PublishRequest;
use crate::wire::{Fields, Malformed, Value};

/// Decodes the body of a PUBLISH. The payload stays a slice of it.
pub(crate) fn decode_publish(body: &Bytes) -> Result<PublishRequest, Malformed> {
    let mut publish = PublishRequest::default();
    for field in Fields::of(body) {
        let field = field?;
        match (field.number, field.value) {
            (1, Value::Delimited(text)) => publish.queue = string(text)?,
            (2, Value::Delimited(payload)) => publish.payload = body.slice_ref(payload),
            (3, Value::Delimited(entry)) => {
                let (key, value) = header(entry)?;
                publish.headers.insert(key, value);
            }
            (4, Value::Delimited(text)) => publish.message_id = Some(string(text)?),
            (5, Value::Delimited(text)) => publish.idempotency_key = Some(string(text)?),
            (6, Value::Delimited(text)) => publish.ordering_key = string(text)?,
            (50, Value::Varint(value)) => publish.ttl_ms = value,
            (51, Value::Varint(value)) => publish.delay_ms = value,
            (52, Value::Varint(value)) => publish.priority = Some(value as u32),
            (53, Value::Varint(value)) => publish.transient = value != 0,
            (1..=6 | 50..=53, _) => return Err(Malformed),
            _ => {}
        }
    }
    Ok(publish)
}

fn header(entry: &[u8]) -> Result<(String, String), Malformed> {
    let (mut key, mut value) = (String::new(), String::new());
    for field in Fields::of(entry) {
        let field = field?;
        match (field.number, field.value) {
            (1, Value::Delimited(text)) => key = string(text)?,
            (2, Value::Delimited(text)) => value = string(text)?,
            (1 | 2, _) => return Err(Malformed),
            _ => {}
        }
    }
    Ok((key, value))
}

fn string(text: &[u8]) -> Result<String, Malformed> {
    match core::str::from_utf8(text) {
        Ok(text) => Ok(String::from(text)),
        Err(_) => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::decode_publish;
    use crate::message::PublishRequest;
    use bytes::Bytes;
    use proptest::prelude::*;
    use prost::Message as _;
    use std::vec::Vec;

    /// One field, right or wrong in some way.
    fn any_field() -> impl Strategy<Value = Vec<u8>> {
        let number = prop_oneof![
            4 => 1..8_u32,
            2 => 49..55_u32,
            1 => any::<u32>().prop_map(|number| number >> 3),
        ];
        let delimited = prop_oneof![
            "[a-c]{0,4}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..6),
            ("[a-c]{0,2}", "[a-c]{0,2}").prop_map(|(key, value)| {
                let mut entry = std::vec![0x0a, key.len() as u8];
                entry.extend(key.bytes());
                entry.extend([0x12, value.len() as u8]);
                entry.extend(value.bytes());
                entry
            }),
        ];
        use std::string::String;
        (number, 0..8_u32, any::<u64>(), delimited).prop_map(|(number, kind, value, bytes)| {
            let mut field = Vec::new();
            let put = |field: &mut Vec<u8>, mut value: u64| {
                while value >= 0x80 {
                    field.push(value as u8 | 0x80);
                    value >>= 7;
                }
                field.push(value as u8);
            };
            // Most fields have the type that theirs has.
            let wire_type = match kind {
                0..=4 if number >= 50 => 0,
                0..=4 => 2,
                5 => 0,
                6 => 2,
                _ => value as u32 % 8,
            };
            put(&mut field, u64::from(number) << 3 | u64::from(wire_type));
            match wire_type {
                0 => put(&mut field, value >> (kind * 8)),
                _ => {
                    put(&mut field, bytes.len() as u64);
                    field.extend(bytes);
                }
            }
            field
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn it_judges_as_the_derive_does(fields in prop::collection::vec(any_field(), 0..6), cut in 0..4_usize) {
            let mut body = fields.concat();
            body.truncate(body.len() - cut.saturating_sub(2).min(body.len()));
            let body = Bytes::from(body);
            prop_assert_eq!(decode_publish(&body).ok(), PublishRequest::decode(body).ok());
        }
    }
}
