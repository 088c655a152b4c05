//! What a sender asks for in message annotations. They stay in the message as they came; the broker only reads them.

use bytes::Bytes;
use qq_proto_amqp::section::{SectionError, SectionRange, Sections, find_in_map};
use qq_proto_amqp::types::{DecodeError, Value};

use crate::vocab::{DEDUP_ID_LEN_MAX, Delay, Wishes};

/// The moment of delivery, milliseconds since the Unix epoch.
const TIME: &str = "x-opt-delivery-time";
/// The same by another name that clients use.
const SCHEDULED: &str = "x-opt-scheduled-enqueue-time";
/// Milliseconds from the arrival to the delivery.
const DELAY: &str = "x-opt-delivery-delay";
/// By which a queue knows that it has the message already.
const DEDUP_ID: &str = "x-opt-dedup-id";

/// Reads them.
///
/// # Errors
/// A wish of a type that says nothing: a message that is not to be delivered yet must not be delivered at once.
pub(super) fn wishes_of(
    payload: &Bytes,
    sections: &Sections,
) -> Result<Option<Box<Wishes>>, SectionError> {
    let Some(range) = &sections.message_annotations else {
        return Ok(None);
    };
    let time = match number(payload, range, TIME)? {
        None => number(payload, range, SCHEDULED)?,
        some => some,
    };
    let delay = match (time, number(payload, range, DELAY)?) {
        (Some(at_ms), _) => Some(Delay::Until(at_ms)),
        (None, Some(delay_ms)) => u64::try_from(delay_ms).ok().map(Delay::For),
        (None, None) => None,
    };
    let dedup_id = key(payload, range, DEDUP_ID)?;
    Ok(Wishes { delay, dedup_id }.some())
}

/// A short text of any type that identifies things.
fn key(
    payload: &Bytes,
    range: &SectionRange,
    name: &'static str,
) -> Result<Option<Bytes>, SectionError> {
    let key = match find_in_map(payload, range, name)? {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Str(text)) => Bytes::copy_from_slice(text.as_bytes()),
        Some(Value::Symbol(name)) => Bytes::copy_from_slice(name.as_bytes()),
        Some(Value::Binary(bytes)) => Bytes::copy_from_slice(&bytes),
        Some(Value::Uuid(bytes)) => Bytes::copy_from_slice(&bytes),
        Some(Value::Ulong(number)) => Bytes::from(number.to_string()),
        Some(Value::Uint(number)) => Bytes::from(number.to_string()),
        Some(Value::Long(number)) => Bytes::from(number.to_string()),
        Some(Value::Int(number)) => Bytes::from(number.to_string()),
        Some(_) => return Err(SectionError::Decode(DecodeError::FieldType(name))),
    };
    if key.len() > DEDUP_ID_LEN_MAX {
        return Err(SectionError::Decode(DecodeError::FieldType(name)));
    }
    Ok((!key.is_empty()).then_some(key))
}

/// A whole number of any type, be it a floating point number without a fraction.
fn number(
    payload: &Bytes,
    range: &SectionRange,
    key: &'static str,
) -> Result<Option<i64>, SectionError> {
    let wrong = SectionError::Decode(DecodeError::FieldType(key));
    Ok(Some(match find_in_map(payload, range, key)? {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Ubyte(value)) => value.into(),
        Some(Value::Ushort(value)) => value.into(),
        Some(Value::Uint(value)) => value.into(),
        Some(Value::Ulong(value)) => i64::try_from(value).unwrap_or(i64::MAX),
        Some(Value::Byte(value)) => value.into(),
        Some(Value::Short(value)) => value.into(),
        Some(Value::Int(value)) => value.into(),
        Some(Value::Long(value) | Value::Timestamp(value)) => value,
        Some(Value::Double(bits)) => {
            let value = f64::from_bits(bits);
            if value.fract() != 0.0 || value.abs() > 9e15 {
                return Err(wrong);
            }
            value as i64
        }
        Some(_) => return Err(wrong),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{BufMut, BytesMut};
    use qq_proto_amqp::section::encode_message_annotations;
    use qq_proto_amqp::types::{Map, Str, Symbol};

    fn read(pairs: &[(&'static str, Value)]) -> Result<Option<Delay>, SectionError> {
        Ok(read_all(pairs)?.and_then(|wishes| wishes.delay))
    }

    fn read_all(pairs: &[(&'static str, Value)]) -> Result<Option<Box<Wishes>>, SectionError> {
        let map: Map = pairs
            .iter()
            .map(|(key, value)| (Value::Symbol(Symbol::from_static(key)), value.clone()))
            .collect();
        let mut buf = BytesMut::new();
        encode_message_annotations(&map, &mut buf);
        buf.put_slice(&[0x00, 0x53, 0x75, 0xa0, 1, b'x']);
        let payload = buf.freeze();
        let sections = Sections::scan(&payload)?;
        wishes_of(&payload, &sections)
    }

    #[test]
    fn delays_are_read_whatever_type_of_number_a_client_has() {
        let hour = 3_600_000;
        for value in [
            Value::Uint(3_600_000),
            Value::Ulong(3_600_000),
            Value::Int(3_600_000),
            Value::Long(3_600_000),
            Value::Double(3_600_000f64.to_bits()),
        ] {
            assert_eq!(read(&[(DELAY, value)]), Ok(Some(Delay::For(hour))));
        }
        let at_ms = 1_700_000_000_000;
        for key in [TIME, SCHEDULED] {
            for value in [Value::Long(at_ms), Value::Timestamp(at_ms)] {
                assert_eq!(read(&[(key, value)]), Ok(Some(Delay::Until(at_ms))));
            }
        }
        let both = [(DELAY, Value::Uint(1)), (TIME, Value::Long(at_ms))];
        assert_eq!(read(&both), Ok(Some(Delay::Until(at_ms))));
    }

    #[test]
    fn no_delay_is_none_and_what_says_nothing_is_refused() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[(DELAY, Value::Null)]), Ok(None));
        assert_eq!(read(&[(DELAY, Value::Int(-1))]), Ok(None));
        let half = Value::Double(0.5f64.to_bits());
        for value in [Value::Str(Str::from_static("1h")), half] {
            let error = SectionError::Decode(DecodeError::FieldType(DELAY));
            assert_eq!(read(&[(DELAY, value)]), Err(error));
        }
    }

    #[test]
    fn a_key_is_read_whatever_identifies_things_at_the_sender() {
        let id = |value| {
            let wishes = read_all(&[(DEDUP_ID, value)])?;
            Ok(wishes.and_then(|wishes| wishes.dedup_id))
        };
        let text = Value::Str(Str::from_static("a-1"));
        let symbol = Value::Symbol(Symbol::from_static("a-1"));
        let binary = Value::Binary(Bytes::from_static(b"a-1"));
        for value in [text, symbol, binary] {
            assert_eq!(id(value), Ok(Some(Bytes::from_static(b"a-1"))));
        }
        assert_eq!(id(Value::Ulong(17)), Ok(Some(Bytes::from_static(b"17"))));
        assert_eq!(id(Value::Str(Str::from_static(""))), Ok(None));
        let error = Err(SectionError::Decode(DecodeError::FieldType(DEDUP_ID)));
        assert_eq!(id(Value::Bool(true)), error);
        let longest = "k".repeat(DEDUP_ID_LEN_MAX);
        assert!(id(Value::Str(Str::from(longest.as_str()))).is_ok());
        assert_eq!(
            id(Value::Str(Str::from(format!("{longest}k").as_str()))),
            error
        );
    }
}
