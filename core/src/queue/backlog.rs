//! The messages of one queue and which of them is next.
//!
//! Invariant: every live entry at or above `cursor` waits; of those below it, the waiting ones stand in `returned` or
//! `parked`, all others are with a consumer. So a message that comes back is found ahead of everything newer, and the
//! usual case, where nothing came back, is one comparison and one index.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::Chunks;
use crate::store::BatchId;
use crate::vocab::Message;

/// A deadline that never comes.
pub(crate) const NEVER_MS: u64 = u64::MAX;

/// A position that is never reached.
const NOWHERE: u64 = u64::MAX;

/// How long to sleep at least when a wall clock deadline must be looked at again after the clock was set back.
const RECHECK_MS: u64 = 1_000;

/// What few messages have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    /// Annotations that consumers added.
    pub(crate) annotations: Option<Bytes>,
    /// Consumers (by serial number) that must not get it again.
    pub(crate) excluded: SmallVec<[u64; 2]>,
}

/// A message in a queue.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) message: Arc<Message>,
    /// End of its time to live, monotonic milliseconds.
    pub(crate) expires_ms: u64,
    /// The batch that makes it safe; zero when nothing has to. Until that is persisted, it waits behind the gate.
    pub(crate) batch: BatchId,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) delivery_count: u32,
    /// A consumer has it.
    pub(crate) is_acquired: bool,
    /// A consumer had it before.
    pub(crate) was_acquired: bool,
    /// The store knows it.
    pub(crate) is_durable: bool,
}

impl Entry {
    pub(crate) fn new(
        message: Arc<Message>,
        expires_ms: u64,
        batch: BatchId,
        is_durable: bool,
    ) -> Self {
        let delivery_count = message.envelope.delivery_count;
        Self {
            message,
            expires_ms,
            batch,
            extra: None,
            delivery_count,
            is_acquired: false,
            was_acquired: false,
            is_durable,
        }
    }

    /// Past its time to live, or past its absolute expiry time by the wall clock.
    #[inline]
    pub(crate) fn is_expired(&self, at: Clock) -> bool {
        self.expires_ms <= at.mono_ms
            || self
                .message
                .envelope
                .expires_at_ms
                .is_some_and(|limit_ms| limit_ms <= at.wall_ms)
    }

    /// When to look whether it is expired, on the monotonic clock.
    fn check_ms(&self, at: Clock) -> u64 {
        let absolute = self
            .message
            .envelope
            .expires_at_ms
            .map_or(NEVER_MS, |limit_ms| {
                let ahead_ms = u64::try_from(limit_ms.saturating_sub(at.wall_ms)).unwrap_or(0);
                at.mono_ms.saturating_add(ahead_ms)
            });
        self.expires_ms.min(absolute)
    }
}

/// A moment in whole milliseconds, rounded down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) mono_ms: u64,
    pub(crate) wall_ms: i64,
}

/// What a consumer may see of a backlog.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// The consumer's serial number.
    pub(crate) consumer: u64,
    /// No parked message below this position is for the consumer. Look-ups raise it, returns lower it.
    pub(crate) parked_from: u64,
    /// It excluded itself from some message.
    pub(crate) has_excluded: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    entries: Chunks<Entry>,
    cursor: u64,
    returned: BTreeSet<u64>,
    /// Returned messages that some consumer must not get again.
    parked: BTreeSet<u64>,
    waiting: usize,
    waiting_bytes: usize,
    /// When to look at which position, lazily kept: positions that are gone or acquired are skipped.
    expiry: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Backlog {
    /// Messages, those with consumers included.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Messages that no consumer has.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Payload bytes of the waiting messages.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.entries.next()
    }

    pub(crate) fn entry(&self, seq: u64) -> Option<&Entry> {
        self.entries.entry(seq)
    }

    pub(crate) fn entry_mut(&mut self, seq: u64) -> Option<&mut Entry> {
        self.entries.entry_mut(seq)
    }

    /// Appends a message.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry, at: Clock) -> u64 {
        self.waiting += 1;
        self.waiting_bytes += entry.message.payload.len();
        let check_ms =
            if entry.expires_ms == NEVER_MS && entry.message.envelope.expires_at_ms.is_none() {
                NEVER_MS
            } else {
                entry.check_ms(at)
            };
        let seq = self.entries.push(entry);
        if check_ms != NEVER_MS {
            self.watch(check_ms, seq);
        }
        seq
    }

    /// Appends at a position that the store kept; returns whether that was possible.
    pub(crate) fn push_at(&mut self, seq: u64, entry: Entry) -> bool {
        if seq < self.entries.next() {
            return false;
        }
        self.entries.skip_to(seq);
        self.waiting += 1;
        self.waiting_bytes += entry.message.payload.len();
        self.entries.push(entry) == seq
    }

    /// Sees to it that no position below `seq` is given again.
    pub(crate) fn reserve_below(&mut self, seq: u64) {
        self.entries.skip_to(seq);
    }

    fn watch(&mut self, check_ms: u64, seq: u64) {
        // Settled messages stay in the heap until their time; when they are the majority, they are thrown out.
        if self.expiry.len() > 2 * self.entries.len() + 64 {
            let mut watched: Vec<_> = self.expiry.drain().map(|Reverse(pair)| pair).collect();
            watched.sort_unstable();
            let mut seen = BTreeSet::new();
            watched.retain(|(_, seq)| {
                self.entries
                    .entry(*seq)
                    .is_some_and(|entry| !entry.is_acquired)
                    && seen.insert(*seq)
            });
            self.expiry = watched.into_iter().map(Reverse).collect();
        }
        self.expiry.push(Reverse((check_ms, seq)));
    }

    /// The oldest waiting message that `view` may get, if it is not behind the gate.
    #[inline]
    pub(crate) fn next_for(&mut self, view: &mut View, persisted: BatchId) -> Option<u64> {
        let mut best = self.advance();
        if let Some(&seq) = self.returned.first() {
            best = best.min(seq);
        }
        if !self.parked.is_empty()
            && let Some(seq) = self.parked_for(view)
        {
            best = best.min(seq);
        }
        let entry = self.entries.entry(best)?;
        (entry.batch <= persisted).then_some(best)
    }

    /// Moves the cursor to the next live entry and returns it. Ahead of the cursor, messages leave by expiry, overflow
    /// and purge only; each such gap is crossed once.
    #[inline]
    fn advance(&mut self) -> u64 {
        if self.entries.entry(self.cursor).is_some() {
            return self.cursor;
        }
        let found = self.entries.live_from(self.cursor);
        self.cursor = found.unwrap_or(self.entries.next());
        found.unwrap_or(NOWHERE)
    }

    fn parked_for(&self, view: &mut View) -> Option<u64> {
        if !view.has_excluded {
            return self.parked.first().copied();
        }
        let found = self
            .parked
            .range(view.parked_from..)
            .copied()
            .find(|seq| !self.is_excluded(*seq, view.consumer));
        view.parked_from = found.unwrap_or(u64::MAX);
        found
    }

    /// Whether a message must not go to that consumer.
    pub(crate) fn is_excluded(&self, seq: u64, consumer: u64) -> bool {
        self.entries
            .entry(seq)
            .and_then(|entry| entry.extra.as_ref())
            .is_some_and(|extra| extra.excluded.contains(&consumer))
    }

    /// The oldest waiting message at or after `from` that is not behind the gate: what a browsing consumer sees next.
    pub(crate) fn next_to_browse(&self, from: u64, persisted: BatchId) -> Option<u64> {
        let mut from = from;
        loop {
            let seq = self.entries.live_from(from)?;
            let entry = self.entries.entry(seq)?;
            if entry.is_acquired {
                from = seq + 1;
            } else if entry.batch > persisted {
                return None;
            } else {
                return Some(seq);
            }
        }
    }

    /// Marks a waiting message as handed to a consumer.
    #[inline]
    pub(crate) fn acquire(&mut self, seq: u64) -> &mut Entry {
        self.leave_waiting(seq);
        let entry = self
            .entries
            .entry_mut(seq)
            .expect("only waiting messages are acquired");
        self.waiting -= 1;
        self.waiting_bytes -= entry.message.payload.len();
        entry.is_acquired = true;
        entry
    }

    #[inline]
    fn leave_waiting(&mut self, seq: u64) {
        if seq == self.cursor {
            self.cursor += 1;
        } else if seq < self.cursor && !self.returned.remove(&seq) {
            self.parked.remove(&seq);
        }
    }

    /// Takes a message out for good, wherever it stands.
    #[inline]
    pub(crate) fn remove(&mut self, seq: u64) -> Option<Entry> {
        let entry = self.entries.take(seq)?;
        if !entry.is_acquired {
            self.leave_waiting(seq);
            self.waiting -= 1;
            self.waiting_bytes -= entry.message.payload.len();
        }
        Some(entry)
    }

    /// Puts an acquired message back at its position.
    pub(crate) fn give_back(&mut self, seq: u64, at: Clock) {
        let Some(entry) = self
            .entries
            .entry_mut(seq)
            .filter(|entry| entry.is_acquired)
        else {
            return;
        };
        entry.is_acquired = false;
        entry.was_acquired = true;
        self.waiting += 1;
        self.waiting_bytes += entry.message.payload.len();
        let is_parked = entry
            .extra
            .as_ref()
            .is_some_and(|extra| !extra.excluded.is_empty());
        let check_ms = entry.check_ms(at);
        if is_parked {
            self.parked.insert(seq);
        } else if seq + 1 == self.cursor {
            // The newest one that was handed out: as if it never had been.
            self.cursor = seq;
        } else {
            self.returned.insert(seq);
        }
        if check_ms != NEVER_MS {
            self.watch(check_ms, seq);
        }
    }

    /// The oldest waiting message, gate or not.
    pub(crate) fn head(&mut self) -> Option<u64> {
        let ahead = self.advance();
        let behind = self
            .returned
            .first()
            .into_iter()
            .chain(self.parked.first())
            .min();
        let head = behind.map_or(ahead, |seq| ahead.min(*seq));
        (head != NOWHERE).then_some(head)
    }

    /// Entries of the expiry heap.
    #[cfg(test)]
    pub(crate) fn watched(&self) -> usize {
        self.expiry.len()
    }

    /// When a message may expire next.
    #[inline]
    pub(crate) fn expiry_ms(&self) -> u64 {
        self.expiry
            .peek()
            .map_or(NEVER_MS, |Reverse((check_ms, _))| *check_ms)
    }

    /// A waiting message whose time is over.
    pub(crate) fn pop_expired(&mut self, at: Clock) -> Option<u64> {
        while self.expiry_ms() <= at.mono_ms {
            let Reverse((_, seq)) = self.expiry.pop()?;
            let Some(entry) = self.entries.entry(seq).filter(|entry| !entry.is_acquired) else {
                continue;
            };
            if entry.is_expired(at) {
                return Some(seq);
            }
            // The wall clock was set back, or the heap held the position twice.
            let check_ms = entry.check_ms(at);
            if check_ms != NEVER_MS {
                self.expiry.push(Reverse((
                    check_ms.max(at.mono_ms.saturating_add(RECHECK_MS)),
                    seq,
                )));
            }
        }
        None
    }

    /// After recovery: gives a time to live measured from an arrival in an earlier process.
    pub(crate) fn set_expiry(&mut self, seq: u64, expires_ms: u64, at: Clock) {
        let Some(entry) = self.entries.entry_mut(seq) else {
            return;
        };
        entry.expires_ms = expires_ms;
        let check_ms = entry.check_ms(at);
        if check_ms != NEVER_MS {
            self.watch(check_ms, seq);
        }
    }

    /// Every position, oldest first.
    pub(crate) fn positions(&self) -> impl Iterator<Item = u64> + '_ {
        let mut from = self.entries.base();
        std::iter::from_fn(move || {
            let seq = self.entries.live_from(from)?;
            from = seq + 1;
            Some(seq)
        })
    }
}
