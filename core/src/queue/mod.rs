//! Queues: an index of messages, the consumers that compete for them, and nothing of any protocol.

mod ages;
mod aside;
mod backlog;
mod chunks;
mod cold;
mod column;
mod dedup;
mod entry;
mod expiry;
mod keys;
mod latency;
mod log;
mod pick;
mod window;

#[cfg(test)]
mod tests;

use ages::Ages;
pub(crate) use aside::Why;
pub(crate) use backlog::{Backlog, Browsed, View};
pub(crate) use chunks::Chunks;
pub(crate) use cold::Arrival;
pub(crate) use dedup::Dedup;
pub(crate) use entry::{Clock, Entry, Extra, NEVER_MS};
pub(crate) use keys::OrderKeys;
use latency::Latency;
use log::Marks;
pub(crate) use window::{Missing, Share, Span};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::admin::Totals;
use crate::broker::{Overflow, QueueSpec};
use crate::planted::{Bug, is_planted};
use crate::route::QueueRef;
use crate::schema::Rule;
use crate::store::BatchId;
use crate::vocab::{Cause, ConnId, Envelope, LifetimePolicy, Message, Port, QueueId};

/// Why a queue goes away by itself.
#[derive(Clone, Debug)]
pub(crate) struct Lifetime {
    pub(crate) policy: LifetimePolicy,
    /// The link that made it, while it is there.
    pub(crate) maker: Option<(ConnId, Port)>,
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: QueueId,
    pub(crate) spec: Arc<QueueSpec>,
    /// It is no stream, and has neither limits nor a time to live of its own: what most messages meet costs one look.
    is_plain: bool,
    /// The store knows it. What belongs to one connection alone cannot survive the process that has it.
    pub(crate) is_durable: bool,
    pub(crate) backlog: Backlog,
    /// What it asks of messages.
    pub(crate) rule: Option<Arc<Rule>>,
    /// The connection that holds it exclusively.
    pub(crate) owner: Option<ConnId>,
    /// It had a consumer at some time.
    pub(crate) had_consumer: bool,
    /// Only of dynamic nodes.
    pub(crate) lifetime: Option<Lifetime>,
    /// All producers, by slot.
    pub(crate) producers: BTreeSet<usize>,
    /// All consumers, by slot.
    pub(crate) consumers: BTreeSet<usize>,
    /// Taking consumers with permit, next first.
    pub(crate) ring: VecDeque<usize>,
    /// Browsing consumers with permit.
    pub(crate) browse_ring: VecDeque<usize>,
    /// Consumers that wait for `Drained`.
    pub(crate) draining: Vec<usize>,
    /// Consumers that excluded themselves from some message.
    pub(crate) excluders: Vec<usize>,
    /// Consumers with a filter that take what they read.
    pub(crate) filtered: Vec<usize>,
    /// How many consumers ask who published a message.
    pub(crate) publisher_askers: usize,
    /// Stands in the broker's list of queues to dispatch.
    pub(crate) is_dirty: bool,
    /// The last batch that is to wake it for one of many copies of a message.
    pub(crate) woken_by: BatchId,
    /// For which moment the broker has a timer.
    pub(crate) armed_ms: u64,
    /// How many of the consumers take what they read.
    pub(crate) takers: usize,
    /// Bodies that browsing consumers asked for.
    pub(crate) reads: Vec<Read>,
    /// The store could not give its messages back: no consumer may read on.
    pub(crate) is_damaged: bool,
    /// When it is deleted for want of use, monotonic milliseconds; never while it has consumers.
    pub(crate) idle_ms: u64,
    /// The consumer that is served where only one may be.
    pub(crate) active: Option<usize>,
    /// Which messages it knows; none when it knows none.
    pub(crate) dedup: Option<Box<Dedup>>,
    /// Ordering keys of which a message is out; none when there never was one.
    pub(crate) order_keys: Option<Box<OrderKeys>>,
    /// Messages that are to become dead letters as soon as their bodies are here.
    pub(crate) doomed: BTreeMap<u64, Cause>,
    /// The bodies of such messages that were asked for.
    pub(crate) doomed_span: Option<Span>,
    /// Since the start.
    pub(crate) totals: Totals,
    pub(crate) latency: Latency,
    pub(crate) ages: Ages,
    /// The queues of its consumer groups.
    pub(crate) groups: Vec<QueueRef>,
    /// Only of streams: when what arrived.
    pub(crate) marks: Marks,
    /// Only of streams: the positions that named readers go on at.
    pub(crate) offsets: BTreeMap<String, u64>,
}

/// What is fetched at a time for readers beside the cursor.
pub(crate) const READ_SHARE: Share = Share {
    len: 256,
    bytes: 512 << 10,
};

/// The same for readers of a stream, each of which has up to twice as much ahead.
pub(crate) const STREAM_SHARE: Share = Share {
    len: 1_024,
    bytes: 1 << 20,
};

/// Bodies that browsing consumers asked for.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) span: Span,
    /// Slots and serial numbers of the consumers: those that come to the same place share a request.
    pub(crate) consumers: SmallVec<[(usize, u64); 1]>,
}

impl Queue {
    pub(crate) fn new(id: QueueId, spec: Arc<QueueSpec>) -> Self {
        Self {
            id,
            is_durable: spec.durable && !spec.exclusive,
            backlog: Backlog::with_levels(spec.max_priority),
            is_plain: !spec.is_stream()
                && spec.overflow != Overflow::DropHead
                && spec.max_length.is_none()
                && spec.max_bytes.is_none()
                && spec.message_ttl_ms.is_none(),
            spec,
            rule: None,
            owner: None,
            had_consumer: false,
            lifetime: None,
            producers: BTreeSet::new(),
            consumers: BTreeSet::new(),
            ring: VecDeque::new(),
            browse_ring: VecDeque::new(),
            draining: Vec::new(),
            excluders: Vec::new(),
            filtered: Vec::new(),
            publisher_askers: 0,
            is_dirty: false,
            woken_by: BatchId(0),
            armed_ms: NEVER_MS,
            takers: 0,
            reads: Vec::new(),
            is_damaged: false,
            idle_ms: NEVER_MS,
            active: None,
            dedup: None,
            order_keys: None,
            doomed: BTreeMap::new(),
            doomed_span: None,
            totals: Totals::default(),
            latency: Latency::default(),
            ages: Ages::default(),
            groups: Vec::new(),
            marks: Marks::default(),
            offsets: BTreeMap::new(),
        }
    }

    #[inline]
    pub(crate) fn is_stream(&self) -> bool {
        !self.is_plain && self.spec.is_stream()
    }

    /// Whether the store keeps a message of the queue. A stream keeps all of them, so that its offsets have no gaps.
    #[inline]
    pub(crate) fn keeps(&self, envelope: &Envelope) -> bool {
        self.is_durable && (envelope.durable || self.is_stream())
    }

    /// How long a message may stay that arrives now. In a stream its own time to live does not count.
    #[inline]
    pub(crate) fn ttl_ms(&self, envelope: &Envelope) -> Option<u64> {
        if self.is_plain {
            return envelope.ttl_ms;
        }
        if self.is_stream() {
            return self.spec.max_age_ms;
        }
        [envelope.ttl_ms, self.spec.message_ttl_ms]
            .into_iter()
            .flatten()
            .min()
    }

    /// An entry for a message that goes into this queue.
    #[inline]
    pub(crate) fn entry(&self, message: Arc<Message>, expires_ms: u64, is_durable: bool) -> Entry {
        let mut entry = Entry::new(message, expires_ms, BatchId(0), is_durable);
        if self.is_stream() {
            entry.extra = None;
            entry.delivery_count = 0;
        }
        entry
    }

    /// Whether it makes room for new messages by dropping old ones.
    #[inline]
    pub(crate) fn drops_head(&self) -> bool {
        !self.is_plain && (self.spec.overflow == Overflow::DropHead || self.is_stream())
    }

    /// Whether bodies may be left to the store. Those of a queue with priorities stay: which comes next is not known
    /// ahead of its turn.
    pub(crate) fn can_page(&self) -> bool {
        self.is_durable && self.spec.max_priority == 0
    }

    /// Whether one more message of `payload_len` bytes would exceed the queue's limits.
    #[inline]
    pub(crate) fn is_full_for(&self, payload_len: usize) -> bool {
        let length = self.backlog.waiting() as u64;
        let bytes = self.backlog.waiting_bytes() as u64;
        let more = u64::from(is_planted(Bug::LengthOffByOne));
        self.spec.max_length.is_some_and(|max| length >= max + more)
            || self
                .spec
                .max_bytes
                .is_some_and(|max| bytes.saturating_add(payload_len as u64) > max)
    }

    /// Whether `len` more messages with so many bytes of payload keep within the queue's limits.
    pub(crate) fn has_room_for(&self, len: u64, bytes: u64) -> bool {
        let fits = |max: Option<u64>, now: usize, more: u64| {
            max.is_none_or(|max| (now as u64).saturating_add(more) <= max)
        };
        fits(self.spec.max_length, self.backlog.waiting(), len)
            && fits(self.spec.max_bytes, self.backlog.waiting_bytes(), bytes)
    }

    /// Whether the queue takes one more message of `payload_len` bytes, be it that older ones are dropped for it.
    #[inline]
    pub(crate) fn takes(&self, payload_len: usize) -> bool {
        if self.is_plain || !self.is_full_for(payload_len) {
            return true;
        }
        self.drops_head() && self.fits_alone(payload_len)
    }

    /// Whether a message of `payload_len` bytes could be in the queue if nothing else was.
    pub(crate) fn fits_alone(&self, payload_len: usize) -> bool {
        let max_bytes = self.spec.max_bytes;
        max_bytes.is_none_or(|max| payload_len as u64 <= max)
    }

    /// Whether the queue holds more than its limits allow.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.spec
            .max_length
            .is_some_and(|max| self.backlog.waiting() as u64 > max)
            || self
                .spec
                .max_bytes
                .is_some_and(|max| self.backlog.waiting_bytes() as u64 > max)
    }

    /// Whether the time of an auto-delete or dynamic queue (AMQP 1.0 part 3, 3.5.10 to 3.5.13) has come.
    pub(crate) fn is_outlived(&self) -> bool {
        if self.spec.auto_delete && self.had_consumer && self.consumers.is_empty() {
            return true;
        }
        let Some(lifetime) = &self.lifetime else {
            return false;
        };
        let has_links = !self.producers.is_empty() || !self.consumers.is_empty();
        let has_messages = self.backlog.len() > 0;
        lifetime.maker.is_none()
            && match lifetime.policy {
                LifetimePolicy::DeleteOnClose => true,
                LifetimePolicy::DeleteOnNoLinks => !has_links,
                LifetimePolicy::DeleteOnNoMessages => !has_messages,
                LifetimePolicy::DeleteOnNoLinksOrMessages => !has_links && !has_messages,
            }
    }
}
