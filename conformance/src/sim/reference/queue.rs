//! One queue of the reference: entries in the order of their positions, nothing clever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use qq_core::broker::{Overflow, QueueSpec};
use qq_core::route::Datum;
use qq_core::vocab::{ConnId, Message, Port, QueueId};

use super::topology::is_equal;
use crate::sim::letter;

/// Application properties that a consumer's messages must have, with their values; null stands for any.
pub(in crate::sim) type Wants = Vec<(String, Datum)>;

/// Who speaks: a port of a connection.
pub(in crate::sim) type Peer = (ConnId, Port);

/// At most so many consumers are kept from a message; the oldest are forgotten.
const EXCLUDED_MAX: usize = 64;

/// A message in a queue.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Entry {
    pub(in crate::sim) number: u64,
    pub(in crate::sim) message: Arc<Message>,
    /// The store is told of it.
    pub(in crate::sim) is_durable: bool,
    pub(in crate::sim) count: u32,
    pub(in crate::sim) annotations: Option<Bytes>,
    /// A consumer had it, as far as a restart remembers.
    pub(in crate::sim) had_owner: bool,
    pub(in crate::sim) excluded: Vec<Peer>,
    pub(in crate::sim) owner: Option<Peer>,
    /// Monotonic millisecond at which its time is over.
    pub(in crate::sim) expires_ms: Option<u64>,
    /// Monotonic millisecond before which nobody gets it.
    pub(in crate::sim) due_ms: Option<u64>,
}

impl Entry {
    /// Whether it must be given to whoever may have it: it was due a moment ago.
    pub(in crate::sim) fn is_in_turn(&self, now_ms: u64, may_page: bool) -> bool {
        self.due_ms
            .is_none_or(|due_ms| !may_page && due_ms + 1 < now_ms)
    }
}

/// One queue.
#[derive(Debug)]
pub(in crate::sim) struct Queue {
    pub(in crate::sim) id: QueueId,
    pub(in crate::sim) spec: QueueSpec,
    /// The connection that it belongs to.
    pub(in crate::sim) owner: Option<ConnId>,
    pub(in crate::sim) next: u64,
    pub(in crate::sim) entries: BTreeMap<u64, Entry>,
    pub(in crate::sim) waiting: BTreeSet<u64>,
    waiting_bytes: usize,
    /// Messages with a time to live were in it: when exactly they leave is the broker's affair.
    pub(in crate::sim) saw_ttl: bool,
    /// It takes no consumers until the next start.
    pub(in crate::sim) is_damaged: bool,
    /// When the windows end of the keys that it knows, monotonic milliseconds, with the messages that had them and
    /// whether the store has those.
    pub(in crate::sim) seen: BTreeMap<Bytes, Seen>,
    /// Where named readers go on.
    pub(in crate::sim) offsets: BTreeMap<String, u64>,
    /// The consumer that is served, where that is one alone.
    pub(in crate::sim) active: Option<Peer>,
}

/// A key that a queue knows.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Seen {
    pub(in crate::sim) until_ms: u64,
    pub(in crate::sim) number: u64,
    pub(in crate::sim) is_durable: bool,
}

impl Queue {
    pub(in crate::sim) fn new(id: QueueId, spec: QueueSpec, owner: Option<ConnId>) -> Self {
        Self {
            id,
            spec,
            owner,
            next: 0,
            entries: BTreeMap::new(),
            waiting: BTreeSet::new(),
            waiting_bytes: 0,
            saw_ttl: false,
            is_damaged: false,
            seen: BTreeMap::new(),
            offsets: BTreeMap::new(),
            active: None,
        }
    }

    /// The message that a queue had under the same key, within its window.
    pub(in crate::sim) fn known(&self, message: &Message, now_ms: u64) -> Option<Seen> {
        let key = message.envelope.dedup_id()?;
        let seen = self.seen.get(key)?;
        (seen.until_ms > now_ms).then_some(*seen)
    }

    /// A message of a key is out only as the oldest of its key.
    pub(in crate::sim) fn is_behind(&self, seq: u64, entry: &Entry) -> bool {
        self.is_behind_any(seq, entry, |_| true)
    }

    /// Whether an older message of its key is there, of those at some positions.
    pub(in crate::sim) fn is_behind_any(
        &self,
        seq: u64,
        entry: &Entry,
        counts: impl Fn(u64) -> bool,
    ) -> bool {
        let key = |entry: &Entry| entry.message.envelope.group_id.clone();
        let Some(own) = key(entry) else {
            return false;
        };
        let mut older = self.entries.range(..seq);
        older.any(|(seq, older)| key(older).as_ref() == Some(&own) && counts(*seq))
    }

    /// Whether a consumer that takes may be given something.
    pub(in crate::sim) fn serves(&self, peer: Peer) -> bool {
        !self.spec.single_active_consumer || self.active == Some(peer)
    }

    pub(in crate::sim) fn is_durable(&self) -> bool {
        self.spec.durable && !self.spec.exclusive
    }

    /// Whether a message is to be refused.
    pub(in crate::sim) fn refuses(&self, payload_len: usize) -> bool {
        let is_long = self
            .spec
            .max_length
            .is_some_and(|max| self.waiting.len() as u64 >= max);
        let is_big = self
            .spec
            .max_bytes
            .is_some_and(|max| (self.waiting_bytes + payload_len) as u64 > max);
        let makes_room = self.drops_head() && self.fits_alone(payload_len);
        (is_long || is_big) && !makes_room
    }

    /// Whether a message could be in it if nothing else was.
    pub(in crate::sim) fn fits_alone(&self, payload_len: usize) -> bool {
        let max_bytes = self.spec.max_bytes;
        max_bytes.is_none_or(|max| payload_len as u64 <= max)
    }

    fn drops_head(&self) -> bool {
        self.spec.overflow == Overflow::DropHead || self.spec.is_stream()
    }

    /// Whether the store keeps a message.
    pub(in crate::sim) fn keeps(&self, message: &Message) -> bool {
        self.is_durable() && (message.envelope.durable || self.spec.is_stream())
    }

    /// Whether so many more messages with so many bytes have a place at once.
    pub(in crate::sim) fn has_room_for(&self, len: u64, bytes: u64) -> bool {
        let spec = &self.spec;
        let is_long = |max: u64| self.waiting.len() as u64 + len > max;
        let is_big = |max: u64| self.waiting_bytes as u64 + bytes > max;
        self.drops_head()
            || !spec.max_length.is_some_and(is_long) && !spec.max_bytes.is_some_and(is_big)
    }

    /// Adds a waiting message at a position.
    pub(in crate::sim) fn insert(&mut self, seq: u64, entry: Entry) {
        self.next = self.next.max(seq + 1);
        self.saw_ttl |= entry.expires_ms.is_some();
        self.waiting_bytes += entry.message.payload.len();
        self.waiting.insert(seq);
        self.entries.insert(seq, entry);
    }

    /// Adds a message at the end; returns those that had to make room.
    pub(in crate::sim) fn push(&mut self, entry: Entry) -> Vec<(u64, Entry)> {
        self.insert(self.next, entry);
        let mut dropped = Vec::new();
        if self.drops_head() {
            while self.is_over()
                && let Some(seq) = self.least()
            {
                dropped.extend(self.remove(seq).map(|entry| (seq, entry)));
            }
        }
        dropped
    }

    fn is_over(&self) -> bool {
        let is_long = self
            .spec
            .max_length
            .is_some_and(|max| self.waiting.len() as u64 > max);
        let is_big = self
            .spec
            .max_bytes
            .is_some_and(|max| self.waiting_bytes as u64 > max);
        is_long || is_big
    }

    /// Takes a message out for good.
    pub(in crate::sim) fn remove(&mut self, seq: u64) -> Option<Entry> {
        let entry = self.entries.remove(&seq)?;
        if self.waiting.remove(&seq) {
            self.waiting_bytes -= entry.message.payload.len();
        }
        Some(entry)
    }

    /// Gives a waiting message to a consumer.
    pub(in crate::sim) fn acquire(&mut self, seq: u64, peer: Peer) {
        if let Some(entry) = self.entries.get_mut(&seq)
            && self.waiting.remove(&seq)
        {
            self.waiting_bytes -= entry.message.payload.len();
            entry.owner = Some(peer);
            entry.had_owner = true;
        }
    }

    /// Puts a message back to its position.
    pub(in crate::sim) fn give_back(&mut self, seq: u64) {
        if let Some(entry) = self.entries.get_mut(&seq) {
            entry.owner = None;
            self.waiting_bytes += entry.message.payload.len();
            self.waiting.insert(seq);
        }
    }

    /// Keeps a message from a consumer.
    pub(in crate::sim) fn exclude(&mut self, seq: u64, peer: Peer) {
        if let Some(entry) = self.entries.get_mut(&seq)
            && !entry.excluded.contains(&peer)
        {
            if entry.excluded.len() == EXCLUDED_MAX {
                entry.excluded.remove(0);
            }
            entry.excluded.push(peer);
        }
    }

    /// Takes out the waiting messages whose time is over.
    pub(in crate::sim) fn forget_expired(&mut self, now_ms: u64) -> Vec<(u64, Entry)> {
        if !self.saw_ttl {
            return Vec::new();
        }
        let is_over = |seq: &&u64| {
            let entry = self.entries.get(*seq);
            entry.is_some_and(|entry| entry.expires_ms.is_some_and(|at| at <= now_ms))
        };
        let over: Vec<u64> = self.waiting.iter().filter(is_over).copied().collect();
        let gone = over.into_iter();
        gone.filter_map(|seq| Some((seq, self.remove(seq)?)))
            .collect()
    }

    /// How far the priority of a message is below the highest of the queue.
    pub(in crate::sim) fn rank(&self, entry: &Entry) -> u8 {
        let highest = self.spec.max_priority;
        highest - entry.message.envelope.priority.min(highest)
    }

    /// The oldest waiting message of the lowest priority.
    fn least(&self) -> Option<u64> {
        if self.spec.max_priority == 0 {
            return self.waiting.first().copied();
        }
        let ranks = self.waiting.iter().filter_map(|seq| {
            let entry = self.entries.get(seq)?;
            Some((u8::MAX - self.rank(entry), *seq))
        });
        ranks.min().map(|(_, seq)| seq)
    }

    /// Where a message stands for a consumer: what is smaller comes first.
    pub(in crate::sim) fn turn_of(&self, wants: &Wants, seq: u64, entry: &Entry) -> (u8, u64) {
        // A consumer with a filter takes what it wants in the order of arrival.
        let rank = if wants.is_empty() {
            self.rank(entry)
        } else {
            0
        };
        (rank, seq)
    }

    /// The first waiting message for a consumer.
    pub(in crate::sim) fn first_for(
        &self,
        peer: Peer,
        wants: &Wants,
        is_in_turn: impl Fn(&Entry) -> bool,
    ) -> Option<(u64, &Entry)> {
        let mut waiting = self
            .waiting
            .iter()
            .filter_map(|seq| Some((*seq, self.entries.get(seq)?)))
            .filter(|(seq, entry)| is_in_turn(entry) && !self.is_behind(*seq, entry))
            .filter(|(_, entry)| !entry.excluded.contains(&peer) && is_wanted(wants, entry));
        if self.spec.max_priority == 0 || !wants.is_empty() {
            waiting.next()
        } else {
            waiting.min_by_key(|(seq, entry)| (self.rank(entry), *seq))
        }
    }
}

/// Whether a message has all the application properties that a consumer asks for.
pub(in crate::sim) fn is_wanted(wants: &Wants, entry: &Entry) -> bool {
    if wants.is_empty() {
        return true;
    }
    let properties = letter::properties_of(&entry.message.payload);
    wants.iter().all(|(name, value)| {
        let found = properties.get(name);
        found.is_some_and(|found| *value == Datum::Null || is_equal(found, value))
    })
}
