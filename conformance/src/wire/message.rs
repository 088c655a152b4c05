//! Message sections (messaging 3.2): split a payload, build a small message.

use super::perf::{Perf, perf_of};
use super::value::{BadValue, Reader, Value};

/// Descriptor codes of the sections.
pub mod code {
    /// header
    pub const HEADER: u64 = 0x70;
    /// delivery-annotations
    pub const DELIVERY_ANNOTATIONS: u64 = 0x71;
    /// message-annotations
    pub const MESSAGE_ANNOTATIONS: u64 = 0x72;
    /// properties
    pub const PROPERTIES: u64 = 0x73;
    /// application-properties
    pub const APPLICATION_PROPERTIES: u64 = 0x74;
    /// data
    pub const DATA: u64 = 0x75;
    /// amqp-sequence
    pub const SEQUENCE: u64 = 0x76;
    /// amqp-value
    pub const VALUE: u64 = 0x77;
    /// footer
    pub const FOOTER: u64 = 0x78;
}

/// One section: its code, its value and its bytes.
#[derive(Debug, Clone)]
pub struct Section {
    /// Descriptor code.
    pub code: u64,
    /// The whole described value.
    pub value: Value,
    /// The section as it came.
    pub bytes: Vec<u8>,
}

/// Splits a payload into sections.
pub fn sections(payload: &[u8]) -> Result<Vec<Section>, BadValue> {
    let mut reader = Reader::new(payload);
    let mut out = Vec::new();
    while !reader.is_empty() {
        let start = reader.at;
        let value = reader.value()?;
        let code = match &value {
            Value::Described(d, _) => match &**d {
                Value::Sym(s) => symbol_code(s),
                other => other.number(),
            },
            _ => None,
        };
        let code = code.ok_or_else(|| BadValue(format!("not a section: {value:?}")))?;
        out.push(Section {
            code,
            value,
            bytes: payload[start..reader.at].to_vec(),
        });
    }
    Ok(out)
}

fn symbol_code(symbol: &str) -> Option<u64> {
    Some(match symbol {
        "amqp:header:list" => code::HEADER,
        "amqp:delivery-annotations:map" => code::DELIVERY_ANNOTATIONS,
        "amqp:message-annotations:map" => code::MESSAGE_ANNOTATIONS,
        "amqp:properties:list" => code::PROPERTIES,
        "amqp:application-properties:map" => code::APPLICATION_PROPERTIES,
        "amqp:data:binary" => code::DATA,
        "amqp:amqp-sequence:list" => code::SEQUENCE,
        "amqp:amqp-value:*" => code::VALUE,
        "amqp:footer:map" => code::FOOTER,
        _ => return None,
    })
}

/// The header section of a payload.
pub fn header_of(payload: &[u8]) -> Option<Perf> {
    let all = sections(payload).ok()?;
    all.iter()
        .find(|s| s.code == code::HEADER)
        .and_then(|s| perf_of(&s.value))
}

/// header.delivery-count; an absent header or field is 0 (messaging 3.2.1).
pub fn delivery_count(payload: &[u8]) -> u64 {
    header_of(payload)
        .and_then(|h| h.field("delivery-count").number())
        .unwrap_or(0)
}

/// The bytes from properties to the last body section: what no intermediary may change.
pub fn bare(payload: &[u8]) -> Vec<u8> {
    let Ok(all) = sections(payload) else {
        return payload.to_vec();
    };
    let kept = all
        .into_iter()
        .filter(|s| (code::PROPERTIES..=code::VALUE).contains(&s.code));
    kept.flat_map(|s| s.bytes).collect()
}

/// Bytes of the first data section.
pub fn data_of(payload: &[u8]) -> Option<Vec<u8>> {
    let all = sections(payload).ok()?;
    all.into_iter()
        .find(|s| s.code == code::DATA)
        .and_then(|s| match s.value {
            Value::Described(_, v) => match *v {
                Value::Binary(b) => Some(b),
                _ => None,
            },
            _ => None,
        })
}

/// A described section.
pub fn section(code: u64, value: Value) -> Vec<u8> {
    Value::Described(Box::new(Value::Ulong(code)), Box::new(value)).bytes()
}

/// One data section.
pub fn data(body: &[u8]) -> Vec<u8> {
    section(code::DATA, Value::Binary(body.to_vec()))
}
