//! A message as operators read it, whatever its encoding.

use bytes::Bytes;
use qq_proto_amqp::section::{BodyKind, Sections};
use qq_proto_amqp::types::Value;
use qq_proto_binary::stored::Stored;

use super::text::text_of;
use super::to_record::map_at;
use crate::schema::octets;
use crate::vocab::{Format, Message};

/// What is shown of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Its message-id, if it has one.
    pub id: Option<String>,
    /// The octets of its body; a body of values or lists stays encoded.
    pub payload: Bytes,
    /// Its application properties as texts.
    pub headers: Vec<(String, String)>,
    /// The standard properties that are set, by their names in AMQP.
    pub properties: Vec<(&'static str, String)>,
    /// When it was made, by its sender's words, milliseconds since the Unix epoch.
    pub published_at_ms: Option<i64>,
}

/// Shows a message. What cannot be read is left out.
#[must_use]
pub fn show(message: &Message) -> Shown {
    let shown = match message.format {
        Format::Amqp(_) => of_sections(&message.payload),
        Format::Binary => of_record(&message.payload),
    };
    shown.unwrap_or_else(|| Shown {
        payload: message.payload.clone(),
        ..Shown::default()
    })
}

fn of_sections(bytes: &Bytes) -> Option<Shown> {
    let sections = Sections::scan(bytes).ok()?;
    let properties = sections.properties(bytes).ok()?.unwrap_or_default();
    let mut named: Vec<(&'static str, String)> = Vec::new();
    let values = [
        ("message-id", &properties.message_id),
        ("to", &properties.to),
        ("reply-to", &properties.reply_to),
        ("correlation-id", &properties.correlation_id),
    ];
    for (name, value) in values {
        named.extend(
            value
                .as_ref()
                .map(|value| (name, text_of(value).into_owned())),
        );
    }
    let texts = [
        (
            "subject",
            properties.subject.as_ref().map(|text| text.to_string()),
        ),
        (
            "group-id",
            properties.group_id.as_ref().map(|text| text.to_string()),
        ),
        (
            "content-type",
            properties
                .content_type
                .as_ref()
                .map(|name| name.as_str().to_owned()),
        ),
        (
            "content-encoding",
            properties
                .content_encoding
                .as_ref()
                .map(|name| name.as_str().to_owned()),
        ),
    ];
    named.extend(
        texts
            .into_iter()
            .filter_map(|(name, text)| Some((name, text?))),
    );
    let headers = map_at(bytes, sections.application_properties.as_ref());
    let body = bytes.slice(sections.body.range.clone());
    let payload = match sections.body.kind {
        BodyKind::Data => octets(&body)?,
        BodyKind::Value => value_of(&body).unwrap_or(body),
        BodyKind::Sequence => body,
    };
    Some(Shown {
        id: properties
            .message_id
            .as_ref()
            .map(|id| text_of(id).into_owned()),
        payload,
        headers: headers
            .iter()
            .map(|(key, value)| (text_of(key).into_owned(), text_of(value).into_owned()))
            .collect(),
        properties: named,
        published_at_ms: properties.creation_time,
    })
}

/// The octets of a body that is one text or one binary, which people want to read.
fn value_of(body: &Bytes) -> Option<Bytes> {
    let (Value::Described(section), _) = Value::decode(body).ok()? else {
        return None;
    };
    match section.value {
        Value::Str(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        Value::Binary(octets) => Some(octets),
        _ => None,
    }
}

fn of_record(bytes: &Bytes) -> Option<Shown> {
    let stored = Stored::read(bytes).ok()?;
    let present = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let named = [
        ("message-id", present(stored.message_id)),
        ("group-id", present(stored.ordering_key)),
    ];
    let mut headers = Vec::new();
    for header in stored.headers() {
        let (name, value) = header.ok()?;
        headers.push((name.to_owned(), value.to_owned()));
    }
    Some(Shown {
        id: present(stored.message_id),
        payload: stored.payload(),
        headers,
        properties: named
            .into_iter()
            .filter_map(|(name, text)| Some((name, text?)))
            .collect(),
        published_at_ms: (stored.published_at_ms != 0).then_some(stored.published_at_ms),
    })
}
