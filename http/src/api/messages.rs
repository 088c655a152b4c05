//! Messages: look, publish, move.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use qq_core::admin::{Peeked, PublishTo, Reply, Request};
use qq_core::face::mapping::{Draft, show};
use qq_core::route::Datum;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Answer, Call, ask, moment, unexpected};
use crate::backend::Backend;
use crate::problem::Problem;
use crate::response::Response;

/// Bytes of payload that are shown of a message when nothing is said, and at most.
const PAYLOAD_SHOWN: usize = 65_536;
const PAYLOAD_MAX: u64 = 1 << 20;

fn texts<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Map<String, Value> {
    pairs
        .map(|(name, text)| (name.to_owned(), Value::from(text)))
        .collect()
}

fn message_json(peeked: &Peeked, payload_max: usize) -> Value {
    let message = &peeked.message;
    let shown = show(message);
    let envelope = &message.envelope;
    let len = shown.payload.len();
    let payload = &shown.payload[..len.min(payload_max)];
    let deaths = envelope.deaths.as_deref().map(|deaths| &deaths.list[..]);
    let deaths: Vec<Value> = deaths
        .unwrap_or_default()
        .iter()
        .map(|death| {
            json!({
                "queue": death.queue,
                "reason": death.cause.name(),
                "count": death.count,
                "time": moment(death.at_ms),
            })
        })
        .collect();
    let mut value = json!({
        "id": shown.id.unwrap_or_else(|| peeked.position.to_string()),
        "position": peeked.position,
        "queue": peeked.queue.name,
        "payload": STANDARD.encode(payload),
        "payload_bytes": len,
        "truncated": len > payload_max,
        "properties": texts(shown.properties.iter().map(|(name, text)| (*name, text.as_str()))),
        "attempt": u64::from(peeked.delivery_count) + 1,
        "published_at": shown.published_at_ms.map(moment),
        "state": state_of(peeked),
        "durable": envelope.durable,
        "priority": envelope.priority,
        "ttl_ms": peeked.ttl_ms,
        "deaths": deaths,
    });
    if !shown.headers.is_empty() {
        let headers = shown
            .headers
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()));
        value["headers"] = texts(headers).into();
    }
    value
}

fn state_of(peeked: &Peeked) -> &'static str {
    match (peeked.is_held, peeked.is_delayed) {
        (true, _) => "held",
        (false, true) => "delayed",
        (false, false) => "ready",
    }
}

fn peek_queue(backend: &dyn Backend, call: &Call, queue: String, usual: usize) -> Answer {
    let limit = call.number("limit", 1, 1_000)?;
    let limit = limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(usual);
    let from = call.number("from", 0, u64::MAX)?.unwrap_or(0);
    let payload_max = call.number("payload_max", 0, PAYLOAD_MAX)?;
    let payload_max = payload_max.and_then(|max| usize::try_from(max).ok());
    let payload_max = payload_max.unwrap_or(PAYLOAD_SHOWN);
    let request = Request::Peek {
        queue,
        from,
        limit,
        with_held: call.flag("held")?,
    };
    match ask(backend, request)? {
        Reply::Messages(messages) => {
            let messages = messages
                .iter()
                .map(|message| message_json(message, payload_max));
            Ok(Response::json(200, &messages.collect::<Vec<_>>()))
        }
        _ => Err(unexpected()),
    }
}

pub(crate) fn peek(backend: &dyn Backend, call: &Call) -> Answer {
    peek_queue(backend, call, call.name().to_owned(), 10)
}

/// The queue of dead letters of the queue in the path, if it exists.
fn dead(backend: &dyn Backend, call: &Call) -> Result<Option<String>, Problem> {
    Ok(super::queues::detail(backend, call)?.dead_letter_queue)
}

pub(crate) fn peek_dead(backend: &dyn Backend, call: &Call) -> Answer {
    match dead(backend, call)? {
        Some(queue) => peek_queue(backend, call, queue, 100),
        None => Ok(Response::json(200, &json!([]))),
    }
}

pub(crate) fn purge_dead(backend: &dyn Backend, call: &Call) -> Answer {
    let Some(name) = dead(backend, call)? else {
        return Ok(Response::json(200, &json!({"purged": 0})));
    };
    match ask(backend, Request::Purge { name })? {
        Reply::Purged { messages } => Ok(Response::json(200, &json!({"purged": messages}))),
        _ => Err(unexpected()),
    }
}

pub(crate) fn retry_dead(backend: &dyn Backend, call: &Call) -> Answer {
    let limit = call.number("limit", 1, u64::MAX)?.unwrap_or(u64::MAX);
    let Some(queue) = dead(backend, call)? else {
        return Ok(Response::json(200, &json!({"retried": 0})));
    };
    let request = Request::Move {
        queue,
        to: Some(call.name().to_owned()),
        only_from: None,
        limit,
    };
    match ask(backend, request)? {
        Reply::Moved { moved, .. } => Ok(Response::json(200, &json!({"retried": moved}))),
        _ => Err(unexpected()),
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MoveBody {
    to: Option<String>,
    limit: Option<u64>,
}

fn move_all(backend: &dyn Backend, call: &Call, body: MoveBody) -> Answer {
    if body.limit == Some(0) {
        return Err(
            Problem::invalid("limit must be 1 at least").with_field(Some("limit".to_owned()))
        );
    }
    let request = Request::Move {
        queue: call.name().to_owned(),
        to: body.to,
        only_from: None,
        limit: body.limit.unwrap_or(u64::MAX),
    };
    match ask(backend, request)? {
        Reply::Moved { moved, left } => {
            Ok(Response::json(200, &json!({"moved": moved, "left": left})))
        }
        _ => Err(unexpected()),
    }
}

pub(crate) fn move_to(backend: &dyn Backend, call: &Call) -> Answer {
    let body: MoveBody = call.read()?;
    if body.to.is_none() {
        return Err(Problem::invalid("to is missing: the queue to move to")
            .with_field(Some("to".to_owned())));
    }
    move_all(backend, call, body)
}

pub(crate) fn redrive(backend: &dyn Backend, call: &Call) -> Answer {
    let body = if call.body.is_empty() {
        MoveBody::default()
    } else {
        call.read()?
    };
    move_all(backend, call, body)
}

const NO_MESSAGE: &str = "message not found";

pub(crate) fn one(backend: &dyn Backend, call: &Call) -> Answer {
    let position = call
        .parts
        .get(1)
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let position = position.and_then(|text| text.parse().ok());
    let Some(position) = position else {
        return Err(Problem::missing(NO_MESSAGE, "a position is a whole number"));
    };
    let queue = call.name().to_owned();
    let asked = ask(backend, Request::Message { queue, position });
    // Which of the two is missing only the queue can tell.
    let reply = asked.or_else(|problem| {
        if problem.status == 404 {
            super::queues::detail(backend, call)?;
            return Err(problem.with_short(NO_MESSAGE));
        }
        Err(problem)
    })?;
    match reply {
        Reply::Message { message, why } => {
            let mut value = message_json(&message, PAYLOAD_SHOWN);
            value["why"] = json!(why);
            Ok(Response::json(200, &value))
        }
        _ => Err(unexpected()),
    }
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Utf8,
    Base64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishBody {
    payload: String,
    #[serde(default)]
    encoding: Encoding,
    #[serde(default)]
    headers: Map<String, Value>,
    message_id: Option<String>,
    correlation_id: Option<String>,
    reply_to: Option<String>,
    subject: Option<String>,
    content_type: Option<String>,
    ordering_key: Option<String>,
    idempotency_key: Option<String>,
    priority: Option<u8>,
    ttl_ms: Option<u32>,
    delay_ms: Option<u64>,
    durable: Option<bool>,
    to: Option<String>,
    exchange: Option<String>,
    routing_key: Option<String>,
}

impl PublishBody {
    fn draft(self) -> Result<Draft, Problem> {
        let payload = match self.encoding {
            Encoding::Utf8 => self.payload.into_bytes(),
            Encoding::Base64 => STANDARD.decode(&self.payload).map_err(|error| {
                Problem::invalid(format!("payload: {error}")).with_field(Some("payload".to_owned()))
            })?,
        };
        if self
            .content_type
            .as_ref()
            .is_some_and(|text| !text.is_ascii())
        {
            let field = Some("content_type".to_owned());
            return Err(Problem::invalid("content_type must be ASCII").with_field(field));
        }
        let mut headers = Vec::with_capacity(self.headers.len());
        for (name, value) in self.headers {
            let datum = datum(value).ok_or_else(|| {
                let detail = format!("headers: {name:?} must be a text, a number, true or false");
                Problem::invalid(detail).with_field(Some("headers".to_owned()))
            })?;
            headers.push((name, datum));
        }
        Ok(Draft {
            payload: Bytes::from(payload),
            headers,
            message_id: self.message_id,
            correlation_id: self.correlation_id,
            reply_to: self.reply_to,
            subject: self.subject.or(self.routing_key),
            content_type: self.content_type,
            group_id: self.ordering_key,
            dedup_id: self.idempotency_key,
            delay_ms: self.delay_ms,
            priority: self.priority,
            ttl_ms: self.ttl_ms,
            durable: self.durable.unwrap_or(true),
            created_at_ms: super::node::now_ms(),
        })
    }
}

fn datum(value: Value) -> Option<Datum> {
    Some(match value {
        Value::String(text) => Datum::Text(text),
        Value::Bool(value) => Datum::Bool(value),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => Datum::Int(number),
            (_, Some(number), _) => Datum::Uint(number),
            (_, _, number) => Datum::Float(number?),
        },
        _ => return None,
    })
}

fn publish_draft(backend: &dyn Backend, to: PublishTo, draft: &Draft) -> Answer {
    let message = draft
        .compose()
        .map_err(|error| Problem::invalid(error.to_string()))?;
    match ask(backend, Request::Publish { to, message })? {
        Reply::Published { is_routed } => Ok(Response::json(201, &json!({"routed": is_routed}))),
        _ => Err(unexpected()),
    }
}

pub(crate) fn publish(backend: &dyn Backend, call: &Call) -> Answer {
    let body: PublishBody = call.read()?;
    if body.to.is_some() || body.exchange.is_some() || body.routing_key.is_some() {
        let detail = "the path names the queue; /api/v1/publish takes to, exchange and routing_key";
        return Err(Problem::invalid(detail).with_field(Some("to".to_owned())));
    }
    let to = PublishTo::Queue(call.name().to_owned());
    publish_draft(backend, to, &body.draft()?)
}

pub(crate) fn publish_to(backend: &dyn Backend, call: &Call) -> Answer {
    let body: PublishBody = call.read()?;
    let key = body
        .routing_key
        .clone()
        .or_else(|| body.subject.clone())
        .unwrap_or_default();
    let to = match (body.to.clone(), body.exchange.clone()) {
        (Some(name), None) => PublishTo::Name { name, key },
        (None, Some(name)) => PublishTo::Exchange { name, key },
        _ => {
            let detail = "either to, a queue or an exchange, or exchange must be given";
            return Err(Problem::invalid(detail).with_field(Some("to".to_owned())));
        }
    };
    publish_draft(backend, to, &body.draft()?)
}
