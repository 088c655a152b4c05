//! One queue of the reference: entries in the order of their positions, nothing clever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use qq_core::broker::{Overflow, QueueSpec};
use qq_core::vocab::{ConnId, Message, Port, QueueId};

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
        }
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
        let fits_alone = self
            .spec
            .max_bytes
            .is_none_or(|max| payload_len as u64 <= max);
        let makes_room = self.spec.overflow == Overflow::DropHead && fits_alone;
        (is_long || is_big) && !makes_room
    }

    /// Adds a waiting message at a position.
    pub(in crate::sim) fn insert(&mut self, seq: u64, entry: Entry) {
        self.next = seq + 1;
        self.saw_ttl |= entry.expires_ms.is_some();
        self.waiting_bytes += entry.message.payload.len();
        self.waiting.insert(seq);
        self.entries.insert(seq, entry);
    }

    /// Adds a message at the end; returns the numbers of those that had to make room.
    pub(in crate::sim) fn push(&mut self, entry: Entry) -> Vec<u64> {
        self.insert(self.next, entry);
        let mut dropped = Vec::new();
        if self.spec.overflow == Overflow::DropHead {
            while self.is_over()
                && let Some(seq) = self.waiting.first().copied()
            {
                dropped.extend(self.remove(seq).map(|entry| entry.number));
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

    /// Takes out the waiting messages whose time is over; returns their numbers.
    pub(in crate::sim) fn forget_expired(&mut self, now_ms: u64) -> Vec<u64> {
        if !self.saw_ttl {
            return Vec::new();
        }
        let is_over = |seq: &&u64| {
            let entry = self.entries.get(*seq);
            entry.is_some_and(|entry| entry.expires_ms.is_some_and(|at| at <= now_ms))
        };
        let over: Vec<u64> = self.waiting.iter().filter(is_over).copied().collect();
        let gone = over.into_iter().filter_map(|seq| self.remove(seq));
        gone.map(|entry| entry.number).collect()
    }

    /// The first waiting message for a consumer.
    pub(in crate::sim) fn first_for(&self, peer: Peer) -> Option<(u64, &Entry)> {
        self.waiting
            .iter()
            .filter_map(|seq| Some((*seq, self.entries.get(seq)?)))
            .find(|(_, entry)| !entry.excluded.contains(&peer))
    }
}
