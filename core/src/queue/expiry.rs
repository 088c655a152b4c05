//! When the messages of a queue are to be looked at because their time may be over.
//!
//! A heap of moments, lazily kept: positions that are gone or acquired are skipped. A packed chunk stands in it once,
//! with its first position and the earliest moment of all its messages.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::cold::{Arrival, slots_of};
use super::entry::check_ms;
use super::{Backlog, Clock, NEVER_MS};

/// How long to sleep at least when a wall clock deadline must be looked at again after the clock was set back.
const RECHECK_MS: u64 = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Backlog {
    pub(super) fn watch(&mut self, check_ms: u64, seq: u64) {
        // Settled messages stay in the heap until their time; when they are the majority, they are thrown out.
        let watchable = self.entries.len() - self.entries.packed_len();
        if self.expiry.heap.len() > 2 * (watchable + self.entries.chunk_count()) + 64 {
            self.forget_stale();
        }
        self.expiry.heap.push(Reverse((check_ms, seq)));
    }

    fn forget_stale(&mut self) {
        let heap = std::mem::take(&mut self.expiry.heap);
        let mut watched: Vec<_> = heap.into_iter().map(|Reverse(pair)| pair).collect();
        watched.sort_unstable();
        let mut seen = BTreeSet::new();
        watched.retain(|(_, seq)| {
            let is_meant = match self.entries.entry(*seq) {
                Some(entry) => !entry.is_acquired,
                None => self.is_first_of_packed(*seq),
            };
            is_meant && seen.insert(*seq)
        });
        self.expiry.heap = watched.into_iter().map(Reverse).collect();
    }

    fn is_first_of_packed(&self, seq: u64) -> bool {
        self.entries.packed(seq).is_some_and(|(_, slot)| slot == 0)
    }

    /// Entries of the expiry heap.
    #[cfg(test)]
    pub(crate) fn watched(&self) -> usize {
        self.expiry.heap.len()
    }

    /// When a message may expire next.
    #[inline]
    pub(crate) fn expiry_ms(&self) -> u64 {
        self.expiry
            .heap
            .peek()
            .map_or(NEVER_MS, |Reverse((check_ms, _))| *check_ms)
    }

    /// Waiting messages whose time is over: all of them, or `limit` and perhaps the rest of a chunk. The caller removes
    /// them.
    pub(crate) fn take_expired(&mut self, at: Clock, limit: usize) -> Vec<u64> {
        let mut expired = Vec::new();
        while self.expiry_ms() <= at.mono_ms && expired.len() < limit {
            let Some(Reverse((_, seq))) = self.expiry.heap.pop() else {
                break;
            };
            let check_ms = match self.entries.entry(seq) {
                Some(entry) if entry.is_acquired => NEVER_MS,
                Some(entry) if entry.is_expired(at) => {
                    expired.push(seq);
                    NEVER_MS
                }
                // The wall clock was set back, or the heap held the position twice.
                Some(entry) => {
                    let (expires_ms, expires_at_ms) = (entry.expires_ms, entry.expires_at_ms());
                    check_ms(
                        expires_ms,
                        expires_at_ms,
                        at,
                        at.mono_ms.saturating_add(RECHECK_MS),
                    )
                }
                None if self.is_first_of_packed(seq) => self.take_expired_of(seq, at, &mut expired),
                None => NEVER_MS,
            };
            if check_ms != NEVER_MS {
                self.expiry.heap.push(Reverse((check_ms, seq)));
            }
        }
        expired
    }

    /// The expired messages of a packed chunk; returns when to look at it again.
    fn take_expired_of(&self, first: u64, at: Clock, expired: &mut Vec<u64>) -> u64 {
        let Some((cold, _)) = self.entries.packed(first) else {
            return NEVER_MS;
        };
        let over = cold.expired(at);
        expired.extend(slots_of(over).map(|slot| first + slot as u64));
        cold.check_ms(at, over, at.mono_ms.saturating_add(RECHECK_MS))
    }

    /// Watches a chunk that was just packed.
    pub(super) fn watch_packed(&mut self, first: u64, at: Clock) {
        if let Some((cold, _)) = self.entries.packed(first) {
            let check_ms = cold.check_ms(at, 0, 0);
            if check_ms != NEVER_MS {
                self.watch(check_ms, first);
            }
        }
    }

    /// Watches the messages of a chunk that was just unpacked.
    pub(super) fn watch_unpacked(&mut self, first: u64, end: u64, at: Clock) {
        for seq in first..end {
            let check_ms = self
                .entries
                .entry(seq)
                .map_or(NEVER_MS, |entry| entry.check_ms(at));
            if check_ms != NEVER_MS {
                self.watch(check_ms, seq);
            }
        }
    }

    /// After recovery: times to live run on, and everything with a deadline is watched.
    pub(crate) fn start_expiry(&mut self, at: Clock, mono_ms_up: u64) {
        for arrival in std::mem::take(&mut self.arrivals) {
            if let Some(entry) = self.entries.entry_mut(arrival.seq) {
                entry.expires_ms =
                    Arrival::expires_ms(arrival.at_ms, arrival.ttl_ms, at, mono_ms_up);
            }
        }
        let mut from = self.entries.base();
        while let Some(seq) = self.entries.live_from(from) {
            let chunk = self.entries.chunk_of(seq);
            match self.entries.packed_mut(seq) {
                Some((cold, _)) => {
                    cold.start_expiry(at, mono_ms_up);
                    self.watch_packed(chunk.start, at);
                }
                None => self.watch_unpacked(chunk.start, chunk.end, at),
            }
            from = chunk.end;
        }
    }
}
