//! Streams on AMQP: where a receiver begins, as an entry of its source's filter set, and the offset of each message.
//!
//! The entry is known by its descriptor, or by its name where it has none: `qq:stream-start`, or RabbitMQ's
//! `rabbitmq:stream-offset-spec`. Its value is `first`, `last` or `next`, an offset as any whole number, a moment as a
//! timestamp, or how long ago as a text such as `90s` or `7D`.

use bytes::{BufMut, BytesMut};
use qq_proto_amqp::types::{Map, Symbol, Value};

use super::attach::refusal;
use crate::vocab::{Reason, Refusal, StreamStart};

const NAMES: [&str; 2] = ["qq:stream-start", "rabbitmq:stream-offset-spec"];

/// The annotation that holds a message's offset.
const OFFSET: &str = "x-stream-offset";

/// What a source says about the beginning.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Beginning {
    /// The entry of the filter set that says it.
    pub(super) entry: (Value, Value),
    pub(super) start: StreamStart,
}

/// What the filter set of a source says about the beginning.
///
/// # Errors
/// `Invalid` for a value that means nothing.
pub(super) fn start_of(filters: &Map) -> Result<Option<Beginning>, Refusal> {
    for (name, value) in filters {
        let spec = match value {
            Value::Described(described) if is_ours(&described.descriptor) => &described.value,
            Value::Described(_) | Value::Null => continue,
            plain if is_ours(name) => plain,
            _ => continue,
        };
        let Some(start) = read(spec) else {
            let text = "a stream is read from \"first\", \"last\" or \"next\", an offset, a timestamp, or a time ago such \
                        as \"90s\", \"5m\", \"1h\" or \"7D\"";
            return Err(refusal(Reason::Invalid, text));
        };
        let entry = (name.clone(), value.clone());
        return Ok(Some(Beginning { entry, start }));
    }
    Ok(None)
}

fn is_ours(name: &Value) -> bool {
    let name = match name {
        Value::Symbol(name) => name.as_str(),
        Value::Str(name) => name.as_str(),
        _ => return false,
    };
    NAMES.contains(&name)
}

fn read(value: &Value) -> Option<StreamStart> {
    let number = match value {
        Value::Str(text) => return read_text(text.as_str()),
        Value::Symbol(text) => return read_text(text.as_str()),
        Value::Timestamp(wall_ms) => return Some(StreamStart::Since(*wall_ms)),
        Value::Ubyte(number) => u64::from(*number),
        Value::Ushort(number) => u64::from(*number),
        Value::Uint(number) => u64::from(*number),
        Value::Ulong(number) => *number,
        Value::Byte(number) => u64::try_from(*number).ok()?,
        Value::Short(number) => u64::try_from(*number).ok()?,
        Value::Int(number) => u64::try_from(*number).ok()?,
        Value::Long(number) => u64::try_from(*number).ok()?,
        _ => return None,
    };
    Some(StreamStart::Offset(number))
}

fn read_text(text: &str) -> Option<StreamStart> {
    Some(match text {
        "first" => StreamStart::First,
        "last" => StreamStart::Last,
        "next" => StreamStart::Next,
        _ => StreamStart::Ago(read_interval(text)?),
    })
}

/// `10s`, `5m`, `1h`, `7D`, `1M` (30 days), `1Y` (365 days), in milliseconds.
fn read_interval(text: &str) -> Option<u64> {
    let at = text.len().checked_sub(1)?;
    let (number, unit) = (text.get(..at)?, text.get(at..)?);
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "D" => 86_400,
        "M" => 30 * 86_400,
        "Y" => 365 * 86_400,
        _ => return None,
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(seconds * 1_000)
}

/// The entry of an annotations map that says a message's offset: a symbol and a long.
pub(super) fn offset_entry(offset: u64) -> (Value, Value) {
    let key = Value::Symbol(Symbol::from_static(OFFSET));
    (key, Value::Long(i64::try_from(offset).unwrap_or(i64::MAX)))
}

/// A message annotations section (part 3, 3.2.3) with nothing but the offset, written without building it.
pub(super) fn put_offset_section(offset: u64, buf: &mut BytesMut) {
    const ENTRIES: u8 = 2;
    // The count of entries, a symbol with its length, a long.
    const SIZE: u8 = 1 + 2 + OFFSET.len() as u8 + 9;
    buf.put_slice(&[0x00, 0x53, 0x72, 0xc1, SIZE, ENTRIES, 0xa3]);
    buf.put_u8(OFFSET.len() as u8);
    buf.put_slice(OFFSET.as_bytes());
    buf.put_u8(0x81);
    buf.put_i64(i64::try_from(offset).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use qq_proto_amqp::section::Sections;
    use qq_proto_amqp::types::{Described, Str};

    use super::*;
    use crate::face::amqp::outcome::decode_map;

    fn described(descriptor: &'static str, value: Value) -> Map {
        let described = Described {
            descriptor: Value::Symbol(Symbol::from_static(descriptor)),
            value,
        };
        let name = Value::Symbol(Symbol::from_static("from here"));
        [(name, Value::Described(Box::new(described)))]
            .into_iter()
            .collect()
    }

    fn text(text: &str) -> Value {
        Value::Str(Str::from(text))
    }

    #[test]
    fn all_forms_of_a_beginning_are_read() {
        for (value, start) in [
            (text("first"), StreamStart::First),
            (
                Value::Symbol(Symbol::from_static("last")),
                StreamStart::Last,
            ),
            (text("next"), StreamStart::Next),
            (Value::Long(7), StreamStart::Offset(7)),
            (Value::Ulong(u64::MAX), StreamStart::Offset(u64::MAX)),
            (Value::Timestamp(-5), StreamStart::Since(-5)),
            (text("90s"), StreamStart::Ago(90_000)),
            (text("5m"), StreamStart::Ago(300_000)),
            (text("7D"), StreamStart::Ago(604_800_000)),
        ] {
            for name in NAMES {
                let map = described(name, value.clone());
                let found = start_of(&map).unwrap().unwrap();
                assert_eq!(found.start, start, "{value:?}");
            }
        }
        let plain: Map = [(text(NAMES[1]), text("first"))].into_iter().collect();
        assert_eq!(start_of(&plain).unwrap().unwrap().start, StreamStart::First);
        assert_eq!(start_of(&described("other", text("x"))).unwrap(), None);
    }

    #[test]
    fn a_beginning_that_means_nothing_is_refused() {
        for value in [
            text(""),
            text("5"),
            text("m"),
            text("-5m"),
            text("+5m"),
            text("5ü"),
            text("99999999999999999999s"),
            text("18446744073709551615Y"),
            Value::Long(-1),
            Value::Bool(true),
            Value::Null,
        ] {
            let refused = start_of(&described(NAMES[0], value.clone()));
            assert_eq!(refused.unwrap_err().reason, Reason::Invalid, "{value:?}");
        }
    }

    #[test]
    fn the_short_section_is_what_the_codec_writes() {
        for offset in [0, 1, u64::from(u32::MAX), i64::MAX as u64, u64::MAX] {
            let mut buf = BytesMut::new();
            put_offset_section(offset, &mut buf);
            let len = buf.len();
            // A scan wants a body, here an empty data section.
            buf.put_slice(&[0x00, 0x53, 0x75, 0xa0, 0x00]);
            let written = buf.clone().freeze();
            let range = Sections::scan(&written)
                .unwrap()
                .message_annotations
                .unwrap();
            let map = decode_map(&written.slice(range.value.clone()));
            assert_eq!(map, [offset_entry(offset)].into_iter().collect::<Map>());
            assert_eq!(range.end(), len);
        }
    }
}
