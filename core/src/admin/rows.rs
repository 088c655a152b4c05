//! The things of a broker as lists and details show them.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Serialize, Serializer};

use super::{ConnAbout, Histogram, SessionReport};
use crate::broker::QueueSpec;
use crate::route::ExchangeSpec;
use crate::vocab::{ConnId, Message, NodeKind, Port};

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The part.
    pub items: Vec<T>,
    /// Where the next part begins; none when this was the last.
    pub next: Option<u64>,
}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Messages that producers brought.
    pub published: u64,
    /// Deliveries to consumers.
    pub delivered: u64,
    /// Deliveries that ended well, those included that were settled when sent.
    pub acked: u64,
    /// Attempts that failed: rejected, returned as failed, or lost with their consumer.
    pub nacked: u64,
    /// Deliveries of messages that a consumer had had before.
    pub redelivered: u64,
    /// Messages that became dead letters.
    pub dead_lettered: u64,
    /// Messages whose time was over.
    pub expired: u64,
    /// Messages dropped from the head of a full queue, or since they went round between queues.
    pub dropped: u64,
    /// Publishes that the queue had no room for.
    pub refused: u64,
    /// Publishes that were recognised as duplicates.
    pub duplicates: u64,
    /// Calls that came to the queue.
    #[serde(skip)]
    pub calls: u64,
    /// Calls that had no answer in time.
    #[serde(skip)]
    pub call_timeouts: u64,
}

impl Totals {
    /// Counts a delivery that was settled when sent.
    pub(crate) fn end_at_once(&mut self, is_again: bool) {
        self.acked += 1;
        self.redelivered += u64::from(is_again);
    }

    /// Adds what another one counted.
    pub fn add(&mut self, other: &Self) {
        self.published += other.published;
        self.delivered += other.delivered;
        self.acked += other.acked;
        self.nacked += other.nacked;
        self.redelivered += other.redelivered;
        self.dead_lettered += other.dead_lettered;
        self.expired += other.expired;
        self.dropped += other.dropped;
        self.refused += other.refused;
        self.duplicates += other.duplicates;
        self.calls += other.calls;
        self.call_timeouts += other.call_timeouts;
    }
}

/// A queue in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueRow {
    /// What it is.
    pub spec: Arc<QueueSpec>,
    /// Messages that no consumer has.
    pub depth: u64,
    /// Messages that consumers hold.
    pub in_flight: u64,
    /// Bytes of payload of the messages that wait.
    pub bytes: u64,
    /// Messages whose bodies only the store has.
    pub paged: u64,
    /// Open consumers.
    pub consumers: u64,
    /// Open producers.
    pub producers: u64,
    /// It could not be read.
    pub is_damaged: bool,
    /// It belongs to a link or connection and goes with it.
    pub is_temporary: bool,
    /// When its oldest message came, at the earliest: wall clock, milliseconds since the Unix epoch. None: it is empty, or
    /// that is not known.
    pub oldest_at_ms: Option<i64>,
    /// How long its publishers waited until their messages were safe.
    pub latency: Histogram,
    /// Since the start.
    pub totals: Totals,
}

#[derive(Serialize)]
struct QueueView<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    depth: u64,
    in_flight: u64,
    messages: u64,
    bytes: u64,
    paged: u64,
    consumer_count: u64,
    producer_count: u64,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    state: &'static str,
    totals: &'a Totals,
}

impl Serialize for QueueRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        QueueView {
            name: &self.spec.name,
            kind: if self.spec.is_stream() {
                "stream"
            } else {
                "queue"
            },
            depth: self.depth,
            in_flight: self.in_flight,
            messages: self.depth + self.in_flight,
            bytes: self.bytes,
            paged: self.paged,
            consumer_count: self.consumers,
            producer_count: self.producers,
            durable: self.spec.durable,
            exclusive: self.spec.exclusive,
            auto_delete: self.spec.auto_delete,
            state: if self.is_damaged {
                "damaged"
            } else {
                "running"
            },
            totals: &self.totals,
        }
        .serialize(serializer)
    }
}

/// A queue by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueDetail {
    /// As in a list.
    pub row: QueueRow,
    /// Where its dead letters wait, when that is a queue of its own that exists.
    pub dead_letter_queue: Option<String>,
    /// The position of the oldest message; that of the next one when there is none.
    pub first_position: u64,
    /// The position that the next message gets.
    pub next_position: u64,
    /// Its messages have a schema.
    pub has_schema: bool,
}

impl QueueDetail {
    /// A stream as interfaces show it: as a queue, with the offsets of its first and next message.
    #[must_use]
    pub fn stream_view(&self) -> serde_json::Value {
        let mut view = serde_json::json!(self);
        view["first_offset"] = self.first_position.into();
        view["next_offset"] = self.next_position.into();
        view
    }
}

#[derive(Serialize)]
struct DetailView<'a> {
    #[serde(flatten)]
    row: &'a QueueRow,
    max_size: Option<u64>,
    max_retries: u32,
    failure_policy: crate::broker::FailurePolicy,
    has_schema: bool,
    dead_letter_queue: &'a Option<String>,
    first_position: u64,
    next_position: u64,
    settings: &'a QueueSpec,
}

impl Serialize for QueueDetail {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let spec = &self.row.spec;
        DetailView {
            row: &self.row,
            max_size: spec.max_length,
            max_retries: spec.max_deliveries,
            failure_policy: spec.failure_policy,
            has_schema: self.has_schema,
            dead_letter_queue: &self.dead_letter_queue,
            first_position: self.first_position,
            next_position: self.next_position,
            settings: spec,
        }
        .serialize(serializer)
    }
}

/// An exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeRow {
    /// What it is.
    pub spec: Arc<ExchangeSpec>,
    /// It always exists and cannot be changed.
    pub is_predeclared: bool,
    /// Bindings from it.
    pub binding_count: u64,
}

#[derive(Serialize)]
struct ExchangeView<'a> {
    #[serde(flatten)]
    spec: &'a ExchangeSpec,
    predeclared: bool,
    binding_count: u64,
}

impl Serialize for ExchangeRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ExchangeView {
            spec: &self.spec,
            predeclared: self.is_predeclared,
            binding_count: self.binding_count,
        }
        .serialize(serializer)
    }
}

/// A message in a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Peeked {
    /// Its queue.
    pub queue: Arc<QueueSpec>,
    /// Its position there.
    pub position: u64,
    /// It.
    pub message: Arc<Message>,
    /// Failed attempts.
    pub delivery_count: u32,
    /// A consumer has it.
    pub is_held: bool,
    /// Its moment has not come.
    pub is_delayed: bool,
    /// Time to live that is left, milliseconds.
    pub ttl_ms: Option<u64>,
    /// Annotations that consumers added, as an AMQP map.
    pub annotations: Option<Bytes>,
}

/// One cause for something to wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Why {
    /// For programs.
    pub code: &'static str,
    /// For people.
    pub text: String,
}

impl Why {
    /// A cause.
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }
}

/// A connection in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnRow {
    /// Its number.
    pub conn: ConnId,
    /// What it said about itself.
    pub about: ConnAbout,
    /// Wall clock, milliseconds since the Unix epoch.
    pub connected_at_ms: i64,
    /// Open producers.
    pub producers: u64,
    /// Open consumers.
    pub consumers: u64,
    /// Messages that its consumers hold.
    pub in_flight: u64,
    /// Its producers get no credit since memory or disk is short.
    pub is_pressed: bool,
}

/// What the peer does on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkRole {
    /// It sends.
    Producer,
    /// It receives.
    Consumer,
}

/// A link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkRow {
    /// Its connection.
    pub conn: ConnId,
    /// Its number there.
    pub port: Port,
    /// Its name, where the protocol has names.
    pub name: Option<String>,
    /// What the peer does.
    pub role: LinkRole,
    /// The queue or exchange.
    pub address: Option<String>,
    /// What that is.
    pub node: NodeKind,
    /// Its session, when its connection told.
    pub channel: Option<u16>,
    /// Messages that may still be sent by leave of the receiving side, when its connection told.
    pub credit: Option<u64>,
    /// Deliveries since it opened, as far as known.
    pub delivery_count: Option<u64>,
    /// Deliveries without an outcome.
    pub unsettled: u64,
    /// Reads without taking.
    pub is_browsing: bool,
    /// Deliveries count as accepted when they are sent.
    pub is_settled: bool,
    /// It does not want everything.
    pub filter: Option<String>,
    /// Why nothing flows.
    pub waits: Vec<Why>,
}

/// A connection by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnDetail {
    /// As in a list.
    pub row: ConnRow,
    /// The connection itself answered.
    pub is_fresh: bool,
    /// What else it told.
    pub details: Vec<(String, String)>,
    /// Its sessions.
    pub sessions: Vec<SessionReport>,
    /// Its links.
    pub links: Vec<LinkRow>,
}

/// What is wrong right now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alarm {
    /// For programs: `memory`, `disk`, `damaged`.
    pub name: &'static str,
    /// For people.
    pub text: String,
}

/// What was refused since the start, by the limit that was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Publishes to queues that were full.
    pub queue_full: u64,
    /// Publishes for which there was no memory.
    pub memory: u64,
    /// Durable publishes for which there was no room on the disk.
    pub disk: u64,
    /// Publishes whose keys would have been too many to know.
    pub dedup_keys: u64,
    /// Queues that would have been too many.
    pub queues: u64,
}

/// The node in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// Queues.
    pub queues: u64,
    /// Exchanges with a name.
    pub exchanges: u64,
    /// Bindings.
    pub bindings: u64,
    /// Connections that passed their hand-shake.
    pub connections: u64,
    /// Open producers.
    pub producers: u64,
    /// Open consumers.
    pub consumers: u64,
    /// Messages in all queues.
    pub messages: u64,
    /// Messages that consumers hold.
    pub in_flight: u64,
    /// Messages whose bodies only the store has.
    pub paged: u64,
    /// Requests for bodies that the store has not answered.
    pub fetches: u64,
    /// What messages in memory cost, bytes.
    pub queued_bytes: u64,
    /// Above this, publishes are refused.
    pub memory_max_bytes: u64,
    /// What is wrong.
    pub alarms: Vec<Alarm>,
    /// It goes down: nothing is delivered any more.
    pub is_draining: bool,
    /// Since the start, queues that are gone included.
    pub totals: Totals,
    /// Messages that consumers rejected.
    pub rejected: u64,
    /// Publishes that no queue wanted.
    pub unroutable: u64,
    /// Batches that were given to the store.
    pub batches: u64,
    /// Changes in them.
    pub batched_ops: u64,
    /// Open sessions, where the protocol has them.
    pub sessions: u64,
    /// Deliveries that consumers have granted and not had.
    pub permits: u64,
    /// By limit, since the start.
    pub refusals: Refusals,
}
