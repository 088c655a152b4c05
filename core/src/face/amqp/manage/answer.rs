//! Replies of `$management`: what became of a request, as the message that says so.

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::section::Properties;
use qq_proto_amqp::types::{Described, Str, Value};
use serde_json::{Value as Json, json};

use super::ask::Kind;
use super::json::from_json;
use crate::admin::{BadSetting, QueueDetail, Reply, status_of};
use crate::vocab::{Reason, Refusal};

const APPLICATION_PROPERTIES: u64 = 0x74;
const AMQP_VALUE: u64 = 0x77;

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    /// In HTTP's sense.
    pub(super) status: u16,
    /// For people.
    text: String,
    /// A map.
    body: Json,
    /// Further application properties.
    numbers: Vec<(&'static str, u64)>,
    /// Something was changed, so that the status must be told whatever becomes of the body.
    is_change: bool,
}

impl Answer {
    /// What was asked for.
    pub(super) fn read(body: Json) -> Self {
        Self {
            status: 200,
            text: "OK".to_owned(),
            body,
            numbers: Vec::new(),
            is_change: false,
        }
    }

    fn changed(status: u16, text: &str, body: Json) -> Self {
        Self {
            status,
            text: text.to_owned(),
            is_change: true,
            ..Self::read(body)
        }
    }

    fn made(is_new: bool, body: Json) -> Self {
        match is_new {
            true => Self::changed(201, "Created", body),
            false => Self::changed(200, "OK", body),
        }
    }

    /// Gone, and there is nothing to show.
    fn gone() -> Self {
        Self::changed(204, "No Content", json!({}))
    }

    /// It was not done.
    pub(super) fn error(status: u16, reason: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            status,
            body: json!({"status": status, "reason": reason, "detail": text}),
            text,
            numbers: Vec::new(),
            is_change: false,
        }
    }

    /// The request is wrong.
    pub(super) fn invalid(text: impl Into<String>) -> Self {
        let (status, reason) = status_of(Reason::Invalid);
        Self::error(status, reason, text)
    }

    /// As [`Answer::invalid`], where one field is at fault.
    pub(super) fn invalid_field(field: &str, text: impl Into<String>) -> Self {
        Self::invalid(text).with_field(field)
    }

    /// There is no such operation, or not for this.
    pub(super) fn not_implemented(text: impl Into<String>) -> Self {
        Self::error(501, "not-implemented", text)
    }

    fn refused(refusal: Refusal) -> Self {
        let (status, reason) = status_of(refusal.reason);
        Self::error(status, reason, refusal.text)
    }

    fn with_field(mut self, field: &str) -> Self {
        self.body["field"] = field.into();
        self
    }

    /// Adds an application property.
    pub(super) fn with_number(mut self, name: &'static str, number: u64) -> Self {
        self.numbers.push((name, number));
        self
    }

    /// The same without what makes it long: an error with this status and text, where nothing was changed.
    pub(super) fn shortened(self, status: u16, text: &str) -> Self {
        if !self.is_change {
            return Self::error(status, "limit-exceeded", text);
        }
        Self {
            body: json!({}),
            ..self
        }
    }

    /// What the broker said to a request for something of this kind.
    pub(super) fn of_reply(reply: Reply, kind: Kind) -> Self {
        match reply {
            Reply::Queue(queue) => match (kind, queue.row.spec.is_stream()) {
                (Kind::Stream, false) => Self::error(404, "not-found", "this is a queue"),
                _ => Self::read(shown(&queue)),
            },
            Reply::QueueDeclared { is_new, queue } => Self::made(is_new, shown(&queue)),
            Reply::QueueDeleted { messages } => Self::gone().with_number("messages", messages),
            Reply::Purged { messages } => Self::changed(200, "OK", json!({"purged": messages})),
            Reply::Exchange(exchange) => Self::read(json!(exchange)),
            Reply::ExchangeDeclared { is_new, exchange } => Self::made(is_new, json!(exchange)),
            Reply::Bound { is_new } => Self::made(is_new, json!({})),
            Reply::Done => Self::gone(),
            Reply::Conflict { field, text } => {
                Self::error(409, "conflict", text).with_field(&field)
            }
            Reply::InUse(refusal) => Self::error(409, "in-use", refusal.text),
            Reply::Refused(refusal) => Self::refused(refusal),
            _ => Self::error(500, "internal", "the broker answered something else"),
        }
    }

    /// The message, for whoever has that address.
    pub(super) fn encode(&self, to: &str, correlation: Option<Value>) -> Bytes {
        let mut buf = BytesMut::new();
        let properties = Properties {
            to: Some(string(to)),
            correlation_id: correlation,
            ..Properties::default()
        };
        properties.encode(&mut buf);
        let mut told = vec![
            (string("statusCode"), Value::Int(self.status.into())),
            (string("statusDescription"), string(&self.text)),
        ];
        let numbers = self.numbers.iter();
        told.extend(numbers.map(|(name, number)| (string(name), from_json(&json!(number)))));
        put_section(&mut buf, APPLICATION_PROPERTIES, Value::Map(told));
        put_section(&mut buf, AMQP_VALUE, from_json(&self.body));
        buf.freeze()
    }
}

impl From<BadSetting> for Answer {
    fn from(bad: BadSetting) -> Self {
        match bad.field {
            Some(field) => Self::invalid_field(&field, bad.text),
            None => Self::invalid(bad.text),
        }
    }
}

fn shown(queue: &QueueDetail) -> Json {
    match queue.row.spec.is_stream() {
        true => queue.stream_view(),
        false => json!(queue),
    }
}

fn string(text: &str) -> Value {
    Value::Str(Str::from(text))
}

fn put_section(buf: &mut BytesMut, code: u64, value: Value) {
    let descriptor = Value::Ulong(code);
    Value::Described(Box::new(Described { descriptor, value })).encode(buf);
}
