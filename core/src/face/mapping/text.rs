//! AMQP values as texts, for a protocol whose headers are texts.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::BytesMut;
use qq_proto_amqp::types::Value;

/// A value as a text that people recognise: numbers in decimal, times in milliseconds, octets in hexadecimal.
pub(super) fn text_of(value: &Value) -> Cow<'_, str> {
    Cow::Owned(match value {
        Value::Str(text) => return Cow::Borrowed(text.as_str()),
        Value::Symbol(name) => return Cow::Borrowed(name.as_str()),
        Value::Null => return Cow::Borrowed(""),
        Value::Bool(value) => value.to_string(),
        Value::Ubyte(value) => value.to_string(),
        Value::Ushort(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Ulong(value) => value.to_string(),
        Value::Byte(value) => value.to_string(),
        Value::Short(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Long(value) | Value::Timestamp(value) => value.to_string(),
        Value::Float(bits) => f32::from_bits(*bits).to_string(),
        Value::Double(bits) => f64::from_bits(*bits).to_string(),
        Value::Char(value) => value.to_string(),
        Value::Uuid(bytes) => uuid(bytes),
        Value::Binary(bytes) => hex(bytes),
        Value::Decimal32(bytes) => hex(bytes),
        Value::Decimal64(bytes) => hex(bytes),
        Value::Decimal128(bytes) => hex(bytes),
        Value::List(_) | Value::Map(_) | Value::Array(_) | Value::Described(_) => {
            let mut encoded = BytesMut::new();
            value.encode(&mut encoded);
            hex(&encoded)
        }
    })
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The form of RFC 4122.
fn uuid(bytes: &[u8; 16]) -> String {
    let digits = hex(bytes);
    [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ]
    .join("-")
}
