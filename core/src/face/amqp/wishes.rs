//! What a sender asks for in message annotations. They stay in the message as they came; the broker only reads them.

use bytes::Bytes;
use qq_proto_amqp::section::{SectionError, SectionRange, Sections, find_in_map};
use qq_proto_amqp::types::{DecodeError, Value};

use crate::vocab::{Delay, Wishes};

/// The moment of delivery, milliseconds since the Unix epoch.
const TIME: &str = "x-opt-delivery-time";
/// The same by another name that clients use.
const SCHEDULED: &str = "x-opt-scheduled-enqueue-time";
/// Milliseconds from the arrival to the delivery.
const DELAY: &str = "x-opt-delivery-delay";

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
    Ok(delay.map(|delay| Box::new(Wishes { delay: Some(delay) })))
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
        let map: Map = pairs
            .iter()
            .map(|(key, value)| (Value::Symbol(Symbol::from_static(key)), value.clone()))
            .collect();
        let mut buf = BytesMut::new();
        encode_message_annotations(&map, &mut buf);
        buf.put_slice(&[0x00, 0x53, 0x75, 0xa0, 1, b'x']);
        let payload = buf.freeze();
        let sections = Sections::scan(&payload)?;
        Ok(wishes_of(&payload, &sections)?.and_then(|wishes| wishes.delay))
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
}
