//! AMQP sections as a record of the binary protocol.

use bytes::Bytes;
use qq_proto_amqp::section::{BodyKind, SectionRange, Sections};
use qq_proto_amqp::types::{Map, Value};
use qq_proto_binary::stored::{self, Parts};

use super::text::text_of;
use super::{BODY, CORRELATION_ID, DEDUP_ID, REPLY_TO};
use crate::schema::octets;

/// The record of a message. `fallback_id` is its id where the sender gave none, since nobody could acknowledge it by
/// its id otherwise. None: these are no sections.
pub(in crate::face) fn record_of(message: &Bytes, fallback_id: &str) -> Option<Bytes> {
    let sections = Sections::scan(message).ok()?;
    let properties = sections.properties(message).ok()?.unwrap_or_default();
    let message_id = properties.message_id.as_ref().map(text_of);
    let message_id = message_id.as_deref().filter(|id| !id.is_empty());
    let mut headers: Vec<(String, String)> = Vec::new();
    let named = [
        (REPLY_TO, &properties.reply_to),
        (CORRELATION_ID, &properties.correlation_id),
    ];
    for (name, value) in named {
        if let Some(value) = value {
            headers.push((name.to_owned(), text_of(value).into_owned()));
        }
    }
    for (key, value) in map_at(message, sections.application_properties.as_ref()) {
        let key = text_of(&key);
        // A property of the message comes before one of its sender.
        if !headers
            .iter()
            .take(named.len())
            .any(|(name, _)| *name == key)
        {
            headers.push((key.into_owned(), text_of(&value).into_owned()));
        }
    }
    let annotations = map_at(message, sections.message_annotations.as_ref());
    let dedup_id = annotations.iter().find_map(|(key, value)| {
        let is_it = matches!(key, Value::Symbol(name) if name.as_str() == DEDUP_ID);
        is_it.then(|| text_of(value))
    });
    let encoded = message.slice(sections.body.range.clone());
    let payload = match sections.body.kind {
        BodyKind::Data => octets(&encoded)?,
        BodyKind::Value => {
            headers.push((BODY.to_owned(), "value".to_owned()));
            encoded
        }
        BodyKind::Sequence => {
            headers.push((BODY.to_owned(), "sequence".to_owned()));
            encoded
        }
    };
    let parts = Parts {
        message_id: message_id.unwrap_or(fallback_id),
        payload: &payload,
        published_at_ms: properties.creation_time.unwrap_or_default(),
        ordering_key: properties.group_id.as_ref().map_or("", |id| id.as_str()),
        idempotency_key: dedup_id.as_deref().unwrap_or_default(),
    };
    let headers = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    Some(stored::encode(&parts, headers))
}

pub(super) fn map_at(message: &Bytes, section: Option<&SectionRange>) -> Map {
    let Some(section) = section else {
        return Map::new();
    };
    match Value::decode(&message.slice(section.value.clone())) {
        Ok((Value::Map(map), _)) => map,
        _ => Map::new(),
    }
}
