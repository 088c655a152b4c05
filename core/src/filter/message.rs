//! The view of a message as it lies in a queue: its envelope, and its payload as it came.

use std::cell::OnceCell;

use super::read::Bytes;
use super::{Field, View, record};
use crate::route::{Headers, Scalar};
use crate::vocab::{Format, Message};

/// Where the sections of a payload begin, as far as somebody looked.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    annotations: Option<usize>,
    properties: Option<usize>,
    application_properties: Option<usize>,
    /// Where the body begins.
    body: usize,
}

/// See the module. Cheap to make: nothing is read before it is asked for.
#[derive(Debug)]
pub struct MessageView<'m> {
    message: &'m Message,
    places: OnceCell<Places>,
    delivery_count: u32,
    is_first_acquirer: bool,
    is_local: bool,
    now_ms: i64,
}

impl<'m> MessageView<'m> {
    /// A message that nobody has had yet; `now_ms` is the wall clock, milliseconds since 1970.
    #[must_use]
    pub fn new(message: &'m Message, now_ms: i64) -> Self {
        Self {
            message,
            places: OnceCell::new(),
            delivery_count: message.envelope.delivery_count,
            is_first_acquirer: true,
            is_local: false,
            now_ms,
        }
    }

    /// With what its queue knows: failed attempts, and whether nobody has had it.
    #[must_use]
    pub fn attempted(mut self, delivery_count: u32, is_first_acquirer: bool) -> Self {
        self.delivery_count = delivery_count;
        self.is_first_acquirer = is_first_acquirer;
        self
    }

    /// As published by the consumer's own connection, or not.
    #[must_use]
    pub fn local(mut self, is_local: bool) -> Self {
        self.is_local = is_local;
        self
    }

    fn payload(&self) -> &'m [u8] {
        &self.message.payload
    }

    fn places(&self) -> Places {
        *self.places.get_or_init(|| match self.message.format {
            Format::Amqp(_) => find_places(self.payload()),
            // Its own format has no sections.
            Format::Binary => Places::default(),
        })
    }

    fn entry(&self, start: Option<usize>, name: &str) -> Scalar<'m> {
        start
            .and_then(|at| Bytes::new(self.payload(), at).entry(name))
            .unwrap_or(Scalar::Null)
    }

    fn properties_item(&self, field: Field) -> Scalar<'m> {
        if self.message.format == Format::Binary {
            return self.binary_field(field);
        }
        let index = field.properties_index();
        let start = self.places().properties;
        start
            .zip(index)
            .and_then(|(at, index)| Bytes::new(self.payload(), at).item(index))
            .unwrap_or(Scalar::Null)
    }
}

impl<'m> MessageView<'m> {
    /// A field of a message of the binary protocol, by the mapping between the two.
    fn binary_field(&self, field: Field) -> Scalar<'m> {
        match field {
            Field::MessageId => record::message_id(self.payload()),
            Field::CreationTime => record::published_at(self.payload()),
            Field::ReplyTo => record::find_header(self.payload(), "reply_to"),
            Field::CorrelationId => record::find_header(self.payload(), "correlation_id"),
            _ => Scalar::Null,
        }
    }
}

/// Finds what stands in front of the body.
fn find_places(payload: &[u8]) -> Places {
    let mut places = Places::default();
    let mut bytes = Bytes::new(payload, 0);
    loop {
        places.body = bytes.at();
        let Some(section) = bytes.section() else {
            return places;
        };
        let at = Some(bytes.at());
        match section {
            0x72 => places.annotations = at,
            0x73 => places.properties = at,
            0x74 => places.application_properties = at,
            0x70 | 0x71 => {}
            _ => return places,
        }
        if bytes.skip(1).is_none() {
            return places;
        }
    }
}

/// Finds the footer, behind the body.
fn find_footer(payload: &[u8], body: usize) -> Option<usize> {
    let mut bytes = Bytes::new(payload, body);
    while bytes.section()? != 0x78 {
        bytes.skip(1)?;
    }
    Some(bytes.at())
}

fn text(bytes: Option<&bytes::Bytes>) -> Scalar<'_> {
    bytes
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .map_or(Scalar::Null, Scalar::Text)
}

impl View for MessageView<'_> {
    fn field(&self, field: Field) -> Scalar<'_> {
        let envelope = &self.message.envelope;
        let int = |value: i64| Scalar::Int(value.into());
        match field {
            Field::Durable => Scalar::Bool(envelope.durable),
            Field::Priority => Scalar::Int(envelope.priority.into()),
            Field::Ttl => envelope
                .ttl_ms
                .map_or(Scalar::Null, |ttl_ms| Scalar::Int(ttl_ms.into())),
            Field::FirstAcquirer => Scalar::Bool(self.is_first_acquirer),
            Field::DeliveryCount => Scalar::Int(self.delivery_count.into()),
            Field::To => text(envelope.to.as_ref()),
            Field::Subject => text(envelope.subject.as_ref()),
            Field::GroupId => text(envelope.group_id.as_ref()),
            Field::AbsoluteExpiryTime => envelope.expires_at_ms.map_or(Scalar::Null, int),
            Field::UserId => match self.properties_item(field) {
                Scalar::Bytes(bytes) => {
                    std::str::from_utf8(bytes).map_or(Scalar::Bytes(bytes), Scalar::Text)
                }
                other => other,
            },
            _ => self.properties_item(field),
        }
    }

    fn property(&self, name: &str) -> Scalar<'_> {
        match self.message.format {
            Format::Amqp(_) => self.entry(self.places().application_properties, name),
            Format::Binary => record::find_header(self.payload(), name),
        }
    }

    fn annotation(&self, name: &str) -> Scalar<'_> {
        match self.message.format {
            Format::Amqp(_) => self.entry(self.places().annotations, name),
            Format::Binary if name == "x-opt-dedup-id" => record::idempotency_key(self.payload()),
            Format::Binary => Scalar::Null,
        }
    }

    fn footer(&self, name: &str) -> Scalar<'_> {
        match self.message.format {
            Format::Amqp(_) => self.entry(find_footer(self.payload(), self.places().body), name),
            Format::Binary => Scalar::Null,
        }
    }

    fn now_ms(&self) -> i64 {
        self.now_ms
    }

    fn is_local(&self) -> bool {
        self.is_local
    }
}

impl Headers for MessageView<'_> {
    fn each(&self, each: &mut dyn FnMut(&str, Scalar<'_>)) {
        if self.message.format == Format::Binary {
            for (name, text) in record::headers(self.payload()) {
                each(name, Scalar::Text(text));
            }
        } else if let Some(at) = self.places().application_properties {
            // A malformed rest is left out; the message was checked when it came.
            let _ = Bytes::new(self.payload(), at).entries(each);
        }
    }
}
