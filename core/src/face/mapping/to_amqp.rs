//! A record of the binary protocol as AMQP sections.

use bytes::{BufMut, Bytes, BytesMut};
use qq_proto_amqp::section::{Properties, encode_message_annotations};
use qq_proto_amqp::types::{Described, Map, Str, Symbol, Value};
use qq_proto_binary::stored::{Damaged, Stored};

use super::{CORRELATION_ID, DEDUP_ID, REPLY_TO};

/// Descriptor of the application-properties section (part 3, 3.2.5).
pub(super) const APPLICATION_PROPERTIES: u64 = 0x74;
/// A described value of descriptor 0x75: a data section (3.2.6).
const DATA: [u8; 3] = [0x00, 0x53, 0x75];
const BINARY8: u8 = 0xa0;
const BINARY32: u8 = 0xb0;

/// Everything behind the header and the delivery annotations.
///
/// # Errors
/// The bytes are no record.
pub(in crate::face) fn sections_of(record: &Bytes) -> Result<Bytes, Damaged> {
    let stored = Stored::read(record)?;
    let payload = stored.payload();
    let mut buf = BytesMut::with_capacity(record.len() + 64);
    if !stored.idempotency_key.is_empty() {
        let key = Value::Symbol(Symbol::from_static(DEDUP_ID));
        let annotations = vec![(key, string(stored.idempotency_key))];
        encode_message_annotations(&annotations, &mut buf);
    }
    let mut properties = Properties {
        message_id: present(stored.message_id).map(string),
        creation_time: (stored.published_at_ms != 0).then_some(stored.published_at_ms),
        group_id: present(stored.ordering_key).map(Str::from),
        ..Properties::default()
    };
    let mut others = Map::new();
    for header in stored.headers() {
        let (name, value) = header?;
        match name {
            REPLY_TO => properties.reply_to = Some(string(value)),
            CORRELATION_ID => properties.correlation_id = Some(string(value)),
            _ => others.push((string(name), string(value))),
        }
    }
    properties.encode(&mut buf);
    if !others.is_empty() {
        let section = Described {
            descriptor: Value::Ulong(APPLICATION_PROPERTIES),
            value: Value::Map(others),
        };
        Value::Described(Box::new(section)).encode(&mut buf);
    }
    put_data(&mut buf, &payload);
    Ok(buf.freeze())
}

/// A data section.
pub(super) fn put_data(buf: &mut BytesMut, payload: &[u8]) {
    buf.put_slice(&DATA);
    match u8::try_from(payload.len()) {
        Ok(len) => buf.put_slice(&[BINARY8, len]),
        Err(_) => {
            buf.put_u8(BINARY32);
            // What brought it bounds it far below.
            buf.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
        }
    }
    buf.put_slice(payload);
}

fn present(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn string(text: &str) -> Value {
    Value::Str(Str::from(text))
}
