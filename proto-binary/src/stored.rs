//! A message at rest: what a broker keeps of a publish, in a form that a delivery is made from without decoding it.
//!
//! A record is a [`Message`](crate::message::Message) without `queue` and `attempt`, which change from delivery to
//! delivery, its fields in ascending order. Payload and headers stand next to each other and have the same numbers in
//! MESSAGE and STREAM_MESSAGE, so they are copied as they are.

use core::ops::Range;

use alloc::vec::Vec;

use bytes::{BufMut, Bytes};

use crate::message::PublishRequest;
use crate::publish::Publish;
use crate::wire::{
    Fields, Malformed, Value, bytes_field_len, put_delimited, put_str_field, put_text_field,
    put_uint_field, str_field_len, text_field_len, uint_field_len,
};

/// Numbers of the fields of MESSAGE that a record has.
pub(crate) const MESSAGE_ID: u32 = 1;
const PAYLOAD: u32 = 3;
const HEADERS: u32 = 4;
const PUBLISHED_AT: u32 = 6;
const ORDERING_KEY: u32 = 7;
const IDEMPOTENCY_KEY: u32 = 52;

/// What a record is made of, its headers aside.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// Not empty: a message without an id cannot be acknowledged by it.
    pub message_id: &'a str,
    /// The body.
    pub payload: &'a [u8],
    /// Milliseconds since the Unix epoch.
    pub published_at_ms: i64,
    /// Empty: none.
    pub ordering_key: &'a str,
    /// Empty: none.
    pub idempotency_key: &'a str,
}

/// Length of a header, as an entry of a map, without its own tag and length. Both fields are always written: there are
/// readers that want them.
fn header_len(key: &str, value: &str) -> usize {
    bytes_field_len(1, key.len()) + bytes_field_len(2, value.len())
}

/// Makes a record in one allocation of exactly its size. Headers keep their order.
pub fn encode<'h>(
    parts: &Parts<'_>,
    headers: impl Iterator<Item = (&'h str, &'h str)> + Clone,
) -> Bytes {
    write(parts.message_id.as_bytes(), parts, headers)
}

/// The same with an id that is known to be UTF-8, instead of the one among the parts.
fn write<'h>(
    message_id: &[u8],
    parts: &Parts<'_>,
    headers: impl Iterator<Item = (&'h str, &'h str)> + Clone,
) -> Bytes {
    let headers_len: usize = headers
        .clone()
        .map(|(key, value)| bytes_field_len(HEADERS, header_len(key, value)))
        .sum();
    let payload_len = match parts.payload.len() {
        0 => 0,
        len => bytes_field_len(PAYLOAD, len),
    };
    let len = text_field_len(MESSAGE_ID, message_id)
        + payload_len
        + headers_len
        + uint_field_len(PUBLISHED_AT, parts.published_at_ms as u64)
        + str_field_len(ORDERING_KEY, parts.ordering_key)
        + str_field_len(IDEMPOTENCY_KEY, parts.idempotency_key);
    let mut buf = Vec::with_capacity(len);
    put_text_field(&mut buf, MESSAGE_ID, message_id);
    if !parts.payload.is_empty() {
        put_delimited(&mut buf, PAYLOAD, parts.payload.len());
        buf.put_slice(parts.payload);
    }
    for (key, value) in headers {
        put_delimited(&mut buf, HEADERS, header_len(key, value));
        put_delimited(&mut buf, 1, key.len());
        buf.put_slice(key.as_bytes());
        put_delimited(&mut buf, 2, value.len());
        buf.put_slice(value.as_bytes());
    }
    put_uint_field(&mut buf, PUBLISHED_AT, parts.published_at_ms as u64);
    put_str_field(&mut buf, ORDERING_KEY, parts.ordering_key);
    put_str_field(&mut buf, IDEMPOTENCY_KEY, parts.idempotency_key);
    debug_assert_eq!(buf.len(), len, "lengths are computed as they are written");
    Bytes::from(buf)
}

/// The record of a publish, under the id that the broker gave it or let it keep.
#[must_use]
pub fn of_publish(publish: &PublishRequest, message_id: &str, published_at_ms: i64) -> Bytes {
    let parts = Parts {
        message_id,
        payload: &publish.payload,
        published_at_ms,
        ordering_key: &publish.ordering_key,
        idempotency_key: publish.idempotency_key.as_deref().unwrap_or_default(),
    };
    let headers = publish
        .headers
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    encode(&parts, headers)
}

/// The record of a publish that was read in place, under the id that the broker gave it or let it keep: UTF-8.
#[must_use]
pub fn of_read(publish: &Publish, message_id: &[u8], published_at_ms: i64) -> Bytes {
    let parts = Parts {
        message_id: "",
        payload: publish.payload(),
        published_at_ms,
        ordering_key: publish.ordering_key(),
        idempotency_key: publish.idempotency_key(),
    };
    write(message_id, &parts, publish.headers())
}

/// The record is damaged, or was not made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl core::fmt::Display for Damaged {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("not a record of a message")
    }
}

impl core::error::Error for Damaged {}

impl From<Malformed> for Damaged {
    fn from(_: Malformed) -> Self {
        Self
    }
}

/// A record, read in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    record: &'a Bytes,
    /// Where the id ends.
    id_end: usize,
    /// Where payload and headers are.
    content: Range<usize>,
    /// Where the moment and the ordering key are.
    dated: Range<usize>,
    /// The message's id.
    pub message_id: &'a str,
    /// Milliseconds since the Unix epoch.
    pub published_at_ms: i64,
    /// Empty: none.
    pub ordering_key: &'a str,
    /// Empty: none.
    pub idempotency_key: &'a str,
}

impl<'a> Stored<'a> {
    /// Reads what a delivery needs; the headers are not looked into.
    ///
    /// # Errors
    /// The bytes are not a record of [`encode`].
    pub fn read(record: &'a Bytes) -> Result<Self, Damaged> {
        let mut stored = Self {
            record,
            id_end: 0,
            content: 0..0,
            dated: 0..0,
            message_id: "",
            published_at_ms: 0,
            ordering_key: "",
            idempotency_key: "",
        };
        let mut start = 0;
        let mut last = 0;
        for field in Fields::of(record) {
            let field = field?;
            if field.number < last || (field.number == last && last != HEADERS) {
                return Err(Damaged);
            }
            last = field.number;
            if matches!(field.number, PUBLISHED_AT | ORDERING_KEY) {
                if stored.dated.is_empty() {
                    stored.dated.start = start;
                }
                stored.dated.end = field.end;
            }
            match (field.number, field.value) {
                (MESSAGE_ID, Value::Delimited(value)) => {
                    stored.message_id = as_str(value)?;
                    stored.id_end = field.end;
                }
                (PAYLOAD | HEADERS, Value::Delimited(_)) => {
                    if stored.content.is_empty() {
                        stored.content.start = start;
                    }
                    stored.content.end = field.end;
                }
                (PUBLISHED_AT, Value::Varint(value)) => stored.published_at_ms = value as i64,
                (ORDERING_KEY, Value::Delimited(value)) => stored.ordering_key = as_str(value)?,
                (IDEMPOTENCY_KEY, Value::Delimited(value)) => {
                    stored.idempotency_key = as_str(value)?;
                }
                _ => return Err(Damaged),
            }
            start = field.end;
        }
        Ok(stored)
    }

    /// The id as MESSAGE and STREAM_MESSAGE carry it: field 1.
    pub(crate) fn id_field(&self) -> &'a [u8] {
        &self.record[..self.id_end]
    }

    /// The moment and the ordering key as MESSAGE carries them: fields 6 and 7.
    pub(crate) fn dated(&self) -> &'a [u8] {
        &self.record[self.dated.clone()]
    }

    /// Payload and headers as MESSAGE and STREAM_MESSAGE carry them: fields 3 and 4.
    pub(crate) fn content(&self) -> &'a [u8] {
        &self.record[self.content.clone()]
    }

    /// The same, sharing the record.
    pub(crate) fn content_shared(&self) -> Bytes {
        self.record.slice(self.content.clone())
    }

    /// The body, sharing the record.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        match Fields::of(self.content()).next() {
            Some(Ok(field)) if field.number == PAYLOAD => match field.value {
                Value::Delimited(payload) => self.record.slice_ref(payload),
                _ => Bytes::new(),
            },
            _ => Bytes::new(),
        }
    }

    /// The headers, in their order.
    pub fn headers(&self) -> impl Iterator<Item = Result<(&'a str, &'a str), Damaged>> + use<'a> {
        Fields::of(self.content())
            .filter(|field| !matches!(field, Ok(field) if field.number == PAYLOAD))
            .map(|field| match field?.value {
                Value::Delimited(entry) => read_header(entry),
                _ => Err(Damaged),
            })
    }
}

fn read_header(entry: &[u8]) -> Result<(&str, &str), Damaged> {
    let (mut key, mut value) = ("", "");
    for field in Fields::of(entry) {
        let field = field?;
        match (field.number, field.value) {
            (1, Value::Delimited(text)) => key = as_str(text)?,
            (2, Value::Delimited(text)) => value = as_str(text)?,
            _ => return Err(Damaged),
        }
    }
    Ok((key, value))
}

fn as_str(bytes: &[u8]) -> Result<&str, Damaged> {
    core::str::from_utf8(bytes).map_err(|_| Damaged)
}
