//! The messages that simulated clients exchange: a number, and a body that follows from it.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use qq_core::route::Datum;
use qq_core::vocab::Message;
use qq_proto_amqp::section::{Header, Sections, encode_message_annotations, find_in_map};
use qq_proto_amqp::types::{Str, Symbol, Value};

/// Application properties.
pub(super) type Properties = BTreeMap<String, Datum>;

/// A message to send.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Letter {
    /// Unique in a run.
    pub(super) number: u64,
    pub(super) is_durable: bool,
    pub(super) ttl_ms: Option<u32>,
    /// Bytes of the body, at least eight.
    pub(super) size: usize,
    pub(super) priority: Option<u8>,
    /// Nobody gets it before so many milliseconds are over.
    pub(super) delay_ms: Option<u64>,
    /// The routing key.
    pub(super) subject: Option<String>,
    /// Texts and whole numbers.
    pub(super) properties: Properties,
}

/// A message as it arrived.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) number: u64,
    /// Of the body.
    pub(super) hash: String,
    pub(super) header: Header,
    /// The queue in which it died first, when it is a dead letter.
    pub(super) origin: Option<String>,
}

impl Letter {
    /// Its sections.
    pub(super) fn encode(&self) -> Bytes {
        let mut buf = BytesMut::with_capacity(self.size + 40);
        if self.is_durable || self.ttl_ms.is_some() || self.priority.is_some() {
            let header = Header {
                durable: self.is_durable,
                priority: self.priority,
                ttl: self.ttl_ms,
                ..Header::default()
            };
            header.encode(&mut buf);
        }
        if let Some(delay_ms) = self.delay_ms {
            let key = Value::Symbol(Symbol::from_static("x-opt-delivery-delay"));
            let annotations = [(key, Value::Ulong(delay_ms))].into_iter().collect();
            encode_message_annotations(&annotations, &mut buf);
        }
        if let Some(subject) = &self.subject {
            let subject = Value::Str(Str::from(subject.as_str()));
            let fields = vec![Value::Null, Value::Null, Value::Null, subject];
            buf.put_slice(&[0x00, 0x53, 0x73]);
            Value::List(fields).encode(&mut buf);
        }
        if !self.properties.is_empty() {
            let entries = self.properties.iter().map(|(name, value)| {
                let name = Value::Str(Str::from(name.as_str()));
                (name, value_of(value))
            });
            buf.put_slice(&[0x00, 0x53, 0x74]);
            Value::Map(entries.collect()).encode(&mut buf);
        }
        buf.put_slice(&[0x00, 0x53, 0x75, 0xb0]);
        buf.put_u32(self.size as u32);
        buf.put_u64(self.number);
        buf.extend((8..self.size).map(|at| (self.number as u8).wrapping_add(at as u8)));
        buf.freeze()
    }

    /// The hash of its body.
    pub(super) fn hash(&self) -> String {
        let encoded = self.encode();
        hash_of(&encoded[encoded.len() - self.size..])
    }
}

/// A value in a message. Whole numbers have several widths there, and are the same in each.
fn value_of(datum: &Datum) -> Value {
    match datum {
        Datum::Text(text) => Value::Str(Str::from(text.as_str())),
        Datum::Int(number) if number % 2 == 0 => Value::Long(*number),
        Datum::Int(number) => i32::try_from(*number).map_or(Value::Long(*number), Value::Int),
        _ => Value::Null,
    }
}

/// The application properties of a message, as far as letters have such.
pub(super) fn properties_of(message: &Bytes) -> Properties {
    let sections = Sections::scan(message).ok();
    let range = sections.and_then(|sections| sections.application_properties);
    let map = range.and_then(|range| Value::decode(&message.slice(range.value)).ok());
    let Some((Value::Map(entries), _)) = map else {
        return Properties::new();
    };
    let read = entries.iter().filter_map(|(name, value)| {
        let Value::Str(name) = name else {
            return None;
        };
        let value = match value {
            Value::Str(text) => Datum::Text(text.as_str().to_owned()),
            Value::Long(number) => Datum::Int(*number),
            Value::Int(number) => Datum::Int(i64::from(*number)),
            _ => Datum::Null,
        };
        Some((name.as_str().to_owned(), value))
    });
    read.collect()
}

/// The routing key of a message.
pub(super) fn subject_of(message: &Message) -> String {
    let subject = message.envelope.subject.as_deref().unwrap_or_default();
    String::from_utf8_lossy(subject).into_owned()
}

/// FNV-1a, 64 bits.
fn hash_of(body: &[u8]) -> String {
    let hash = body.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Reads a message, whole or as a broker keeps it.
pub(super) fn read(message: &Bytes) -> Option<Arrived> {
    let body = body_of(message)?;
    let sections = Sections::scan(message).ok()?;
    let header = sections.header(message).ok()?;
    Some(Arrived {
        origin: origin_of(message, &sections),
        number: u64::from_be_bytes(body.get(..8)?.try_into().ok()?),
        hash: hash_of(&body),
        header: header.unwrap_or_default(),
    })
}

/// Deaths are listed newest first.
fn origin_of(message: &Bytes, sections: &Sections) -> Option<String> {
    let range = sections.message_annotations.as_ref()?;
    let found = find_in_map(message, range, "x-opt-deaths").ok()?;
    let Some(Value::List(deaths)) = found else {
        return None;
    };
    let Value::Map(oldest) = deaths.last()? else {
        return None;
    };
    let is_queue = |key: &Value| matches!(key, Value::Symbol(name) if name.as_str() == "queue");
    let queue = oldest.iter().find(|(key, _)| is_queue(key));
    match queue {
        Some((_, Value::Str(name))) => Some(name.as_str().to_owned()),
        _ => None,
    }
}

/// The number of a message, whole or as a broker keeps it.
pub(super) fn number_of(message: &Bytes) -> Option<u64> {
    let body = body_of(message)?;
    Some(u64::from_be_bytes(body.get(..8)?.try_into().ok()?))
}

/// The content of the data section.
fn body_of(message: &Bytes) -> Option<Bytes> {
    let sections = Sections::scan(message).ok()?;
    let section = message.slice(sections.body.range);
    let start = match section.get(3)? {
        0xa0 => 5,
        0xb0 => 8,
        _ => return None,
    };
    (section.len() >= start).then(|| section.slice(start..))
}
