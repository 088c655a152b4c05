//! A message as the broker holds it: an envelope read once by the face, and the payload as it came.

use std::sync::Arc;

use bytes::Bytes;

use super::Deaths;

/// The encoding in which a payload came. A consumer of another protocol pays the conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// AMQP 1.0 sections without header and delivery annotations; the number is the transfer's message-format.
    Amqp(u32),
    /// The binary protocol's proto3 body.
    Binary,
}

/// What routing and queueing need to know, read once on the IO task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Envelope {
    /// Survives a restart (AMQP header.durable).
    pub durable: bool,
    /// AMQP header.priority; absent is 4.
    pub priority: u8,
    /// Whether the sender wrote the priority (a header absent on the way in stays absent on the way out).
    pub has_priority: bool,
    /// Time to live in milliseconds from arrival; none = forever.
    pub ttl_ms: Option<u64>,
    /// properties.absolute-expiry-time, milliseconds since the Unix epoch.
    pub expires_at_ms: Option<i64>,
    /// Earlier attempts that the sender reported (AMQP header.delivery-count).
    pub delivery_count: u32,
    /// properties.to, for the anonymous terminus.
    pub to: Option<Bytes>,
    /// properties.subject: the routing key.
    pub subject: Option<Bytes>,
    /// properties.group-id: the ordering key.
    pub group_id: Option<Bytes>,
    /// Only of dead letters: how it became one.
    pub deaths: Option<Arc<Deaths>>,
    /// What few messages ask for.
    pub wishes: Option<Box<Wishes>>,
}

/// When a message may be delivered at the earliest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// So many milliseconds after its arrival.
    For(u64),
    /// At this moment, milliseconds since the Unix epoch.
    Until(i64),
}

/// What few messages ask for: beside the envelope, so that it costs the others nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes {
    /// To be held back.
    pub delay: Option<Delay>,
    /// Not to be taken twice: the key by which a queue knows it, [`DEDUP_ID_LEN_MAX`] bytes at most, not empty.
    pub dedup_id: Option<Bytes>,
}

/// Bytes that a [`Wishes::dedup_id`] may have.
pub const DEDUP_ID_LEN_MAX: usize = 255;

impl Wishes {
    /// Itself, unless it asks for nothing.
    #[must_use]
    pub fn some(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

impl Delay {
    /// What is left of it, milliseconds, by a wall clock that showed `arrived_at_ms` when the message came and `now_ms`
    /// now. One that was set back meanwhile must not make a delay longer than it was.
    #[must_use]
    pub fn left_ms(self, arrived_at_ms: i64, now_ms: i64) -> u64 {
        match self {
            Self::For(delay_ms) => {
                let spent_ms = u64::try_from(now_ms.saturating_sub(arrived_at_ms)).unwrap_or(0);
                delay_ms.saturating_sub(spent_ms)
            }
            Self::Until(at_ms) => u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or(0),
        }
    }
}

impl Envelope {
    /// When it may be delivered at the earliest, if that matters.
    #[inline]
    #[must_use]
    pub fn delay(&self) -> Option<Delay> {
        self.wishes.as_ref()?.delay
    }

    /// The key by which a queue knows that it has the message already.
    #[inline]
    #[must_use]
    pub fn dedup_id(&self) -> Option<&Bytes> {
        self.wishes.as_ref()?.dedup_id.as_ref()
    }
}

/// A message: shared by every queue that holds it, never changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// What routing needs.
    pub envelope: Envelope,
    /// How `payload` is encoded.
    pub format: Format,
    /// Everything that must reach the consumer bit for bit.
    pub payload: Bytes,
}

impl Message {
    /// Bytes that this message costs a queue: payload and a fixed share for its envelope and index entry.
    #[must_use]
    pub fn cost(&self) -> usize {
        self.payload.len() + 160
    }

    /// Puts the message into the shared form that commands and notices carry.
    #[must_use]
    pub fn share(self) -> Arc<Self> {
        Arc::new(self)
    }
}
