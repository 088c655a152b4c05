//! The messages that simulated clients exchange: a number, and a body that follows from it.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use qq_core::route::Datum;
use qq_core::vocab::Message;
use qq_proto_amqp::section::{Header, Sections, encode_message_annotations, find_in_map};
use qq_proto_amqp::types::{Map, Str, Symbol, Value};
use qq_proto_binary::stored::Stored;

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
    /// By which a queue knows that it has the message already.
    pub(super) dedup_id: Option<String>,
    /// The ordering key.
    pub(super) group_id: Option<String>,
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
    /// Its position, when it comes from a stream.
    pub(super) offset: Option<u64>,
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
        let text = |text: &String| Value::Str(Str::from(text.as_str()));
        let delay = self.delay_ms.map(Value::Ulong);
        let annotations = [
            ("x-opt-delivery-delay", delay),
            ("x-opt-dedup-id", self.dedup_id.as_ref().map(text)),
        ];
        let annotations: Map = annotations
            .into_iter()
            .filter_map(|(key, value)| Some((Value::Symbol(Symbol::from_static(key)), value?)))
            .collect();
        if !annotations.is_empty() {
            encode_message_annotations(&annotations, &mut buf);
        }
        if self.subject.is_some() || self.group_id.is_some() {
            // Properties (part 3, 3.2.4): the subject is the fourth field, group-id the eleventh.
            let mut fields = vec![Value::Null; 11];
            fields[3] = self.subject.as_ref().map_or(Value::Null, text);
            fields[10] = self.group_id.as_ref().map_or(Value::Null, text);
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
        buf.put_slice(&self.body());
        buf.freeze()
    }

    /// Its content.
    pub(super) fn body(&self) -> Bytes {
        let mut buf = BytesMut::with_capacity(self.size);
        buf.put_u64(self.number);
        buf.extend((8..self.size).map(|at| (self.number as u8).wrapping_add(at as u8)));
        buf.freeze()
    }

    /// The hash of its body.
    pub(super) fn hash(&self) -> String {
        hash_of(&self.body())
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
pub(super) fn hash_of(body: &[u8]) -> String {
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
        offset: offset_of(message, &sections),
        number: u64::from_be_bytes(body.get(..8)?.try_into().ok()?),
        hash: hash_of(&body),
        header: header.unwrap_or_default(),
    })
}

fn offset_of(message: &Bytes, sections: &Sections) -> Option<u64> {
    let range = sections.message_annotations.as_ref()?;
    match find_in_map(message, range, "x-stream-offset").ok()? {
        Some(Value::Long(offset)) => u64::try_from(offset).ok(),
        _ => None,
    }
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

/// The content of a message: of its data section, or of a record of the binary protocol.
fn body_of(message: &Bytes) -> Option<Bytes> {
    if message.first() != Some(&0) {
        return Some(Stored::read(message).ok()?.payload());
    }
    let sections = Sections::scan(message).ok()?;
    let section = message.slice(sections.body.range);
    let start = match section.get(3)? {
        0xa0 => 5,
        0xb0 => 8,
        _ => return None,
    };
    (section.len() >= start).then(|| section.slice(start..))
}
