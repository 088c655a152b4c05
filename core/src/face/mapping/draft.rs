//! A message that an operator writes, as AMQP sections.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::section::{Header, Properties, SectionError, encode_message_annotations};
use qq_proto_amqp::types::{Described, Str, Symbol, Value};

use super::DEDUP_ID;
use super::to_amqp::{APPLICATION_PROPERTIES, put_data};
use crate::face::amqp::message_of;
use crate::route::Datum;
use crate::vocab::Message;

/// What is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// The body.
    pub payload: Bytes,
    /// Application properties.
    pub headers: Vec<(String, Datum)>,
    /// Its id.
    pub message_id: Option<String>,
    /// What it belongs to.
    pub correlation_id: Option<String>,
    /// Where answers go.
    pub reply_to: Option<String>,
    /// What it is about: the routing key.
    pub subject: Option<String>,
    /// Media type of the body: ASCII.
    pub content_type: Option<String>,
    /// The ordering key.
    pub group_id: Option<String>,
    /// Recognises duplicates.
    pub dedup_id: Option<String>,
    /// Milliseconds that it is held back.
    pub delay_ms: Option<u64>,
    /// Importance.
    pub priority: Option<u8>,
    /// Milliseconds that it lives.
    pub ttl_ms: Option<u32>,
    /// Survives a restart.
    pub durable: bool,
    /// When it was written, milliseconds since the Unix epoch.
    pub created_at_ms: i64,
}

impl Draft {
    /// The message.
    ///
    /// # Errors
    /// A field that no message may have.
    pub fn compose(&self) -> Result<Arc<Message>, SectionError> {
        let mut buf = BytesMut::with_capacity(self.payload.len() + 256);
        let header = Header {
            durable: self.durable,
            priority: self.priority,
            ttl: self.ttl_ms,
            ..Header::default()
        };
        header.encode(&mut buf);
        let mut annotations = Vec::new();
        let named = |name| Value::Symbol(Symbol::from_static(name));
        if let Some(id) = &self.dedup_id {
            annotations.push((named(DEDUP_ID), string(id)));
        }
        if let Some(delay_ms) = self.delay_ms {
            annotations.push((named("x-opt-delivery-delay"), Value::Ulong(delay_ms)));
        }
        if !annotations.is_empty() {
            encode_message_annotations(&annotations, &mut buf);
        }
        let properties = Properties {
            message_id: self.message_id.as_deref().map(string),
            correlation_id: self.correlation_id.as_deref().map(string),
            reply_to: self.reply_to.as_deref().map(string),
            subject: self.subject.as_deref().map(Str::from),
            content_type: self.content_type.as_deref().and_then(Symbol::new),
            group_id: self.group_id.as_deref().map(Str::from),
            creation_time: Some(self.created_at_ms),
            ..Properties::default()
        };
        properties.encode(&mut buf);
        if !self.headers.is_empty() {
            let values = self.headers.iter();
            let section = Described {
                descriptor: Value::Ulong(APPLICATION_PROPERTIES),
                value: Value::Map(
                    values
                        .map(|(name, value)| (string(name), value_of(value)))
                        .collect(),
                ),
            };
            Value::Described(Box::new(section)).encode(&mut buf);
        }
        put_data(&mut buf, &self.payload);
        message_of(0, buf.freeze())
    }
}

fn string(text: &str) -> Value {
    Value::Str(Str::from(text))
}

fn value_of(value: &Datum) -> Value {
    match value {
        Datum::Null | Datum::Typed(_) => Value::Null,
        Datum::Bool(value) => Value::Bool(*value),
        Datum::Int(value) => Value::Long(*value),
        Datum::Uint(value) => Value::Ulong(*value),
        Datum::Float(value) => Value::Double(value.to_bits()),
        Datum::Text(text) => string(text),
    }
}
