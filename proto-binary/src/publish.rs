//! PUBLISH read in place: it is what a broker decodes most, and of its texts it keeps none as they came.
//!
//! A test holds it to the derive's judgement of every body.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use crate::message::PublishRequest;
use crate::wire::{Field, Fields, Malformed, Value};

/// Where something stands in a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    start: u32,
    end: u32,
}

impl Place {
    /// Of the content of a delimited field, which ends where the field does.
    fn of(field: &Field<'_>, content: &[u8]) -> Result<Self, Malformed> {
        let end = u32::try_from(field.end).map_err(|_| Malformed)?;
        // No longer than the body.
        let start = end - content.len() as u32;
        Ok(Self { start, end })
    }

    fn of_text(field: &Field<'_>, content: &[u8]) -> Result<Self, Malformed> {
        match core::str::from_utf8(content) {
            Ok(_) => Self::of(field, content),
            Err(_) => Err(Malformed),
        }
    }

    const fn range(self) -> core::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// What a [`PublishRequest`] says, as places in the body that it came in.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    body: Bytes,
    queue: Place,
    payload: Place,
    /// See [`PublishRequest::transient`].
    pub transient: bool,
    /// Apart, so that messages without them are moved about at less cost.
    rare: Option<Box<Rare>>,
}

/// What most messages do without.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rare {
    headers: BTreeMap<String, String>,
    message_id: Option<Place>,
    idempotency_key: Option<Place>,
    ordering_key: Place,
    ttl_ms: u64,
    delay_ms: u64,
    priority: Option<u32>,
}

impl Publish {
    /// Reads a body.
    pub(crate) fn read(body: Bytes) -> Result<Self, Malformed> {
        let (mut queue, mut payload) = (Place::default(), Place::default());
        let mut transient = false;
        let mut rare: Option<Box<Rare>> = None;
        for field in Fields::of(&body) {
            let field = field?;
            match (field.number, field.value) {
                (1, Value::Delimited(text)) => queue = Place::of_text(&field, text)?,
                (2, Value::Delimited(content)) => payload = Place::of(&field, content)?,
                (53, Value::Varint(value)) => transient = value != 0,
                (3..=6 | 50..=52, _) => rare.get_or_insert_default().read(&field)?,
                (1..=6 | 50..=53, _) => return Err(Malformed),
                _ => {}
            }
        }
        Ok(Self {
            body,
            queue,
            payload,
            transient,
            rare,
        })
    }

    /// Whether it names a queue.
    pub(crate) const fn has_queue(&self) -> bool {
        self.queue.start < self.queue.end
    }

    /// See [`PublishRequest::queue`].
    #[must_use]
    pub fn queue(&self) -> &str {
        self.text(self.queue)
    }

    /// Whether its queue is this one.
    #[must_use]
    pub fn is_to(&self, queue: &str) -> bool {
        self.body[self.queue.range()] == *queue.as_bytes()
    }

    /// See [`PublishRequest::payload`].
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.body[self.payload.range()]
    }

    /// See [`PublishRequest::message_id`]. Empty: absent, or given as such.
    #[must_use]
    pub fn message_id(&self) -> &str {
        self.rare_text(|rare| rare.message_id)
    }

    /// See [`PublishRequest::idempotency_key`]. Empty: absent, or given as such.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        self.rare_text(|rare| rare.idempotency_key)
    }

    /// See [`PublishRequest::ordering_key`].
    #[must_use]
    pub fn ordering_key(&self) -> &str {
        self.rare_text(|rare| Some(rare.ordering_key))
    }

    /// See [`PublishRequest::ttl_ms`].
    #[must_use]
    pub fn ttl_ms(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.ttl_ms)
    }

    /// See [`PublishRequest::delay_ms`].
    #[must_use]
    pub fn delay_ms(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.delay_ms)
    }

    /// See [`PublishRequest::priority`].
    #[must_use]
    pub fn priority(&self) -> Option<u32> {
        self.rare.as_ref()?.priority
    }

    /// See [`PublishRequest::headers`]; in the order of their names.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let headers = self.rare.iter().flat_map(|rare| rare.headers.iter());
        headers.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    fn rare_text(&self, which: impl FnOnce(&Rare) -> Option<Place>) -> &str {
        let place = self.rare.as_deref().and_then(which);
        place.map_or("", |place| self.text(place))
    }

    fn text(&self, place: Place) -> &str {
        // It was looked at when it was read.
        core::str::from_utf8(&self.body[place.range()]).unwrap_or_default()
    }
}

impl Rare {
    /// Takes one of its fields.
    fn read(&mut self, field: &Field<'_>) -> Result<(), Malformed> {
        match (field.number, field.value) {
            (3, Value::Delimited(entry)) => {
                let (key, value) = header(entry)?;
                self.headers.insert(key, value);
            }
            (4, Value::Delimited(text)) => self.message_id = Some(Place::of_text(field, text)?),
            (5, Value::Delimited(text)) => {
                self.idempotency_key = Some(Place::of_text(field, text)?);
            }
            (6, Value::Delimited(text)) => self.ordering_key = Place::of_text(field, text)?,
            (50, Value::Varint(value)) => self.ttl_ms = value,
            (51, Value::Varint(value)) => self.delay_ms = value,
            (52, Value::Varint(value)) => self.priority = Some(value as u32),
            _ => return Err(Malformed),
        }
        Ok(())
    }
}

impl From<&Publish> for PublishRequest {
    fn from(publish: &Publish) -> Self {
        let text = |place| publish.text(place).to_string();
        let rare = publish.rare.as_deref().cloned().unwrap_or_default();
        Self {
            queue: text(publish.queue),
            payload: publish.body.slice(publish.payload.range()),
            headers: rare.headers,
            message_id: rare.message_id.map(text),
            idempotency_key: rare.idempotency_key.map(text),
            ordering_key: text(rare.ordering_key),
            ttl_ms: rare.ttl_ms,
            delay_ms: rare.delay_ms,
            priority: rare.priority,
            transient: publish.transient,
        }
    }
}

/// Reads the messages of the body of a PUBLISH_BATCH.
pub(crate) fn read_batch(body: &Bytes) -> Result<Vec<Publish>, Malformed> {
    let mut batch = Vec::new();
    for field in Fields::of(body) {
        let field = field?;
        match (field.number, field.value) {
            (1, Value::Delimited(message)) => batch.push(Publish::read(body.slice_ref(message))?),
            (1, _) => return Err(Malformed),
            _ => {}
        }
    }
    Ok(batch)
}

fn header(entry: &[u8]) -> Result<(String, String), Malformed> {
    let (mut key, mut value) = (String::new(), String::new());
    for field in Fields::of(entry) {
        let field = field?;
        match (field.number, field.value) {
            (1, Value::Delimited(text)) => key = string(text)?,
            (2, Value::Delimited(text)) => value = string(text)?,
            (1 | 2, _) => return Err(Malformed),
            _ => {}
        }
    }
    Ok((key, value))
}

fn string(text: &[u8]) -> Result<String, Malformed> {
    match core::str::from_utf8(text) {
        Ok(text) => Ok(String::from(text)),
        Err(_) => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::{Publish, read_batch};
    use crate::message::{PublishBatchRequest, PublishRequest};
    use bytes::Bytes;
    use proptest::prelude::*;
    use prost::Message as _;
    use std::vec::Vec;

    /// One field, right or wrong in some way.
    fn any_field() -> impl Strategy<Value = Vec<u8>> {
        let number = prop_oneof![
            4 => 1..8_u32,
            2 => 49..55_u32,
            1 => any::<u32>().prop_map(|number| number >> 3),
        ];
        let delimited = prop_oneof![
            "[a-c]{0,4}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..6),
            ("[a-c]{0,2}", "[a-c]{0,2}").prop_map(|(key, value)| {
                let mut entry = std::vec![0x0a, key.len() as u8];
                entry.extend(key.bytes());
                entry.extend([0x12, value.len() as u8]);
                entry.extend(value.bytes());
                entry
            }),
        ];
        use std::string::String;
        (number, 0..8_u32, any::<u64>(), delimited).prop_map(|(number, kind, value, bytes)| {
            let mut field = Vec::new();
            let put = |field: &mut Vec<u8>, mut value: u64| {
                while value >= 0x80 {
                    field.push(value as u8 | 0x80);
                    value >>= 7;
                }
                field.push(value as u8);
            };
            // Most fields have the type that theirs has.
            let wire_type = match kind {
                0..=4 if number >= 50 => 0,
                0..=4 => 2,
                5 => 0,
                6 => 2,
                _ => value as u32 % 8,
            };
            put(&mut field, u64::from(number) << 3 | u64::from(wire_type));
            match wire_type {
                0 => put(&mut field, value >> (kind * 8)),
                _ => {
                    put(&mut field, bytes.len() as u64);
                    field.extend(bytes);
                }
            }
            field
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn it_judges_as_the_derive_does(fields in prop::collection::vec(any_field(), 0..6), cut in 0..4_usize) {
            let mut body = fields.concat();
            body.truncate(body.len() - cut.saturating_sub(2).min(body.len()));
            let body = Bytes::from(body);
            let read = Publish::read(body.clone()).ok();
            prop_assert_eq!(read.as_ref().map(PublishRequest::from), PublishRequest::decode(body).ok());
        }

        #[test]
        fn it_judges_batches_as_the_derive_does(
            messages in prop::collection::vec(prop::collection::vec(any_field(), 0..3), 0..4),
            others in prop::collection::vec(any_field(), 0..2),
            cut in 0..4_usize,
        ) {
            let mut body = Vec::new();
            for message in &messages {
                let message = message.concat();
                body.extend([0x0a, message.len() as u8]);
                body.extend(message);
            }
            body.extend(others.concat());
            body.truncate(body.len() - cut.saturating_sub(2).min(body.len()));
            let body = Bytes::from(body);
            let read = read_batch(&body).ok().map(|batch| PublishBatchRequest {
                messages: batch.iter().map(PublishRequest::from).collect(),
            });
            prop_assert_eq!(read, PublishBatchRequest::decode(body).ok());
        }
    }
}
