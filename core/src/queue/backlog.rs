//! The messages of one queue and which of them is next.
//!
//! Invariant: every live entry at or above `cursor` waits, or was picked out of its turn by a consumer with a filter; of
//! those below it, the waiting ones stand in `returned` or `parked`, all others are with a consumer. So a message that
//! comes back is found ahead of everything newer, and the usual case, where nothing came back, is one comparison and one
//! index. Messages that wait out of turn (see `aside`) are on neither side of it.

use std::collections::BTreeSet;

use super::aside::Aside;
use super::cold::{Arrival, Cold};
use super::expiry::Expiry;
use super::window::Window;
use super::{Chunks, Clock, Entry, NEVER_MS, Why};
use crate::planted::{Bug, is_planted};
use crate::store::BatchId;

/// A position that is never reached.
const NOWHERE: u64 = u64::MAX;

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

/// The next message for a browsing consumer.
#[derive(Debug)]
pub(crate) struct Browsed {
    pub(crate) seq: u64,
    /// A copy.
    pub(crate) entry: Entry,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(super) entries: Chunks<Entry, Box<Cold>>,
    pub(super) cursor: u64,
    /// By rank and position.
    pub(super) returned: BTreeSet<(u8, u64)>,
    /// Returned messages that some consumer must not get again.
    parked: BTreeSet<(u8, u64)>,
    /// The highest priority; 0 = they do not count. When they do, every waiting message stands in one of the sets above.
    priority_max: u8,
    pub(super) waiting: usize,
    pub(super) waiting_bytes: usize,
    /// Messages in their turn whose bodies only the store has; all of them wait.
    pub(super) away: usize,
    pub(super) away_bytes: usize,
    pub(super) window: Window,
    pub(super) expiry: Expiry,
    pub(super) aside: Aside,
    /// Arrivals of messages with a time to live that are not packed, during recovery.
    pub(super) arrivals: Vec<Arrival>,
}

impl Backlog {
    /// An empty one that orders by priority, from `priority_max` down; 0 = by position alone.
    pub(crate) fn with_levels(priority_max: u8) -> Self {
        Self {
            priority_max,
            ..Self::default()
        }
    }

    /// Enters a message that waits into the order of priorities, if there is one.
    #[inline]
    pub(super) fn rank(&mut self, seq: u64) {
        if self.priority_max == 0 {
            return;
        }
        let Some(entry) = self.entries.entry_mut(seq) else {
            return;
        };
        let priority = entry
            .message
            .as_ref()
            .map_or(0, |message| message.envelope.priority);
        entry.rank = self.priority_max - priority.min(self.priority_max);
        self.returned.insert((entry.rank, seq));
        self.cursor = self.entries.next();
    }

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

    /// Messages whose bodies only the store has.
    pub(crate) fn away(&self) -> usize {
        self.away + self.aside.away
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.entries.next()
    }

    /// An entry that is not packed; packed ones are far from their turn.
    pub(crate) fn entry(&self, seq: u64) -> Option<&Entry> {
        self.entries.entry(seq)
    }

    /// As [`Backlog::entry`].
    pub(crate) fn entry_mut(&mut self, seq: u64) -> Option<&mut Entry> {
        self.entries.entry_mut(seq)
    }

    /// What all bodies in memory cost (see `Message::cost`). Walks all chunks.
    pub(crate) fn cost(&self) -> usize {
        let unpacked: usize = self.entries.unpacked().map(Entry::cost).sum();
        let packed: usize = self.entries.packed_chunks().map(|cold| cold.cost()).sum();
        unpacked + packed
    }

    /// Messages that came back and do not stand ahead of the cursor.
    #[cfg(test)]
    pub(crate) fn returned_len(&self) -> usize {
        self.returned.len() + self.parked.len()
    }

    /// Room that the index takes, bytes.
    #[cfg(test)]
    pub(crate) fn index_bytes(&self) -> usize {
        let packed: usize = self
            .entries
            .packed_chunks()
            .map(|cold| cold.index_bytes())
            .sum();
        self.entries.room() + packed
    }

    /// Appends a message.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry, at: Clock) -> u64 {
        self.waiting += 1;
        self.waiting_bytes += entry.payload_len as usize;
        let check_ms = if entry.expires_ms == NEVER_MS && entry.extra.is_none() {
            NEVER_MS
        } else {
            entry.check_ms(at)
        };
        let seq = self.entries.push(entry);
        self.rank(seq);
        if check_ms != NEVER_MS {
            self.watch(check_ms, seq);
        }
        seq
    }

    /// Sees to it that no position below `seq` is given again.
    pub(crate) fn reserve_below(&mut self, seq: u64) {
        self.entries.skip_to(seq);
    }

    /// The oldest waiting message that `view` may get, if it is not behind the gate.
    #[inline]
    pub(crate) fn next_for(&mut self, view: &mut View, persisted: BatchId) -> Option<u64> {
        // Nearly always priorities do not count, nothing came back, and the entry at the cursor waits.
        if self.priority_max == 0
            && self.returned.is_empty()
            && self.parked.is_empty()
            && let Some(entry) = self.entries.entry(self.cursor)
            && entry.is_free()
        {
            return (entry.batch <= persisted).then_some(self.cursor);
        }
        self.next_of_all(view, persisted)
    }

    fn next_of_all(&mut self, view: &mut View, persisted: BatchId) -> Option<u64> {
        let ahead = self.advance();
        let mut best = (if ahead == NOWHERE { u8::MAX } else { 0 }, ahead);
        if let Some(&found) = self.returned.first()
            && (ahead == NOWHERE || !is_planted(Bug::OrderOfReturnLost))
        {
            best = best.min(found);
        }
        if !self.parked.is_empty()
            && let Some(found) = self.parked_for(view)
        {
            best = best.min(found);
        }
        let entry = self.entries.entry(best.1)?;
        (entry.batch <= persisted).then_some(best.1)
    }

    /// Moves the cursor to the next waiting entry and returns it. Ahead of the cursor, messages leave by expiry, overflow,
    /// purge and consumers with filters; each such gap is crossed once.
    #[inline]
    pub(super) fn advance(&mut self) -> u64 {
        if let Some(entry) = self.entries.entry(self.cursor)
            && entry.is_free()
        {
            return self.cursor;
        }
        self.advance_far()
    }

    fn advance_far(&mut self) -> u64 {
        let mut from = self.cursor;
        while let Some(seq) = self.entries.live_from(from) {
            if self.entries.entry(seq).is_none_or(Entry::is_free) {
                self.cursor = seq;
                return seq;
            }
            from = seq + 1;
        }
        self.cursor = self.entries.next();
        NOWHERE
    }

    fn parked_for(&self, view: &mut View) -> Option<(u8, u64)> {
        if !view.has_excluded {
            return self.parked.first().copied();
        }
        // Positions of different ranks say nothing about each other.
        let from = if self.priority_max == 0 {
            view.parked_from
        } else {
            0
        };
        let found = self
            .parked
            .range((0, from)..)
            .copied()
            .find(|(_, seq)| !self.is_excluded(*seq, view.consumer));
        view.parked_from = found.map_or(u64::MAX, |(_, seq)| seq);
        found
    }

    /// Whether a message must not go to that consumer.
    pub(crate) fn is_excluded(&self, seq: u64, consumer: u64) -> bool {
        self.entries
            .entry(seq)
            .is_some_and(|entry| entry.is_excluded(consumer))
            && !is_planted(Bug::ExclusionForgotten)
    }

    /// The oldest waiting message at or after `from` that is not behind the gate, with or without its body: what a
    /// browsing consumer sees next.
    pub(crate) fn next_to_browse(&self, from: u64, persisted: BatchId) -> Option<Browsed> {
        let mut from = from;
        loop {
            let seq = self.entries.live_from(from)?;
            if let Some(entry) = self.entries.entry(seq) {
                if entry.is_acquired || entry.why == Why::Early {
                    from = seq + 1;
                    continue;
                }
                if !entry.is_away() && entry.batch > persisted {
                    return None;
                }
            }
            let entry = self.copy(seq)?;
            return Some(Browsed { seq, entry });
        }
    }

    /// The first waiting message at or after `from`, whether it may be delivered yet or not.
    pub(crate) fn waiting_from(&self, from: u64) -> Option<u64> {
        let mut from = from;
        loop {
            let seq = self.entries.live_from(from)?;
            if self
                .entries
                .entry(seq)
                .is_none_or(|entry| !entry.is_acquired)
            {
                return Some(seq);
            }
            from = seq + 1;
        }
    }

    /// A copy of an entry, packed or not.
    pub(crate) fn copy(&self, seq: u64) -> Option<Entry> {
        match self.entries.entry(seq) {
            Some(entry) => Some(entry.clone()),
            None => {
                let (cold, slot) = self.entries.packed(seq)?;
                cold.entry(slot)
            }
        }
    }

    /// Marks a waiting message as handed to a consumer.
    #[inline]
    pub(crate) fn acquire(&mut self, seq: u64) -> &mut Entry {
        if seq == self.cursor {
            self.cursor += 1;
        } else {
            let rank = self.entries.entry(seq).map_or(0, |entry| entry.rank);
            self.leave_waiting(seq, rank);
        }
        let entry = self
            .entries
            .entry_mut(seq)
            .expect("only waiting messages are acquired");
        self.waiting -= 1;
        self.waiting_bytes -= entry.payload_len as usize;
        entry.is_acquired = true;
        entry
    }

    #[inline]
    pub(super) fn leave_waiting(&mut self, seq: u64, rank: u8) {
        if seq == self.cursor {
            self.cursor += 1;
        } else if seq < self.cursor && !self.returned.remove(&(rank, seq)) {
            self.parked.remove(&(rank, seq));
        }
    }

    /// Takes a message out for good, wherever it stands. Inlined, since most callers only drop it and an entry is large to
    /// move.
    #[inline(always)]
    pub(crate) fn remove(&mut self, seq: u64) -> Option<Entry> {
        let Some(entry) = self.entries.take(seq) else {
            return self.remove_packed(seq);
        };
        if !entry.is_acquired {
            self.on_removed(seq, &entry);
        }
        Some(entry)
    }

    #[cold]
    fn remove_packed(&mut self, seq: u64) -> Option<Entry> {
        let entry = self
            .entries
            .take_packed(seq, |cold, slot| cold.take(slot))?;
        self.on_removed(seq, &entry);
        Some(entry)
    }

    /// A waiting message is gone.
    fn on_removed(&mut self, seq: u64, entry: &Entry) {
        self.waiting -= 1;
        self.waiting_bytes -= entry.payload_len as usize;
        if entry.is_aside() {
            return self.forget_aside(seq, entry.payload_len, entry.is_away());
        }
        self.leave_waiting(seq, entry.rank);
        if entry.is_away() {
            self.away -= 1;
            self.away_bytes -= entry.payload_len as usize;
        }
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
        if is_planted(Bug::PriorityForgotten) {
            entry.rank = self.priority_max;
        }
        self.waiting += 1;
        self.waiting_bytes += entry.payload_len as usize;
        let check_ms = entry.check_ms(at);
        self.put_in_turn(seq);
        if check_ms != NEVER_MS {
            self.watch(check_ms, seq);
        }
    }

    /// Enters a waiting message, which stands nowhere, where the next one is looked for.
    pub(super) fn put_in_turn(&mut self, seq: u64) {
        let Some(entry) = self.entries.entry(seq) else {
            return;
        };
        let is_parked = entry
            .extra
            .as_ref()
            .is_some_and(|extra| !extra.excluded.is_empty());
        let rank = entry.rank;
        if seq >= self.cursor {
            // It was picked out of its turn, which is still to come.
        } else if is_parked {
            self.parked.insert((rank, seq));
        } else if seq + 1 == self.cursor && self.priority_max == 0 {
            // The newest one that was handed out: as if it never had been.
            self.cursor = seq;
        } else {
            self.returned.insert((rank, seq));
        }
    }

    /// The waiting message to drop first, gate or not: the oldest of the lowest priority.
    pub(crate) fn head(&mut self) -> Option<u64> {
        let aside = self.first_aside();
        if self.priority_max > 0 {
            let Some((lowest, _)) = self.returned.last().max(self.parked.last()).copied() else {
                return aside;
            };
            let first_of = |set: &BTreeSet<(u8, u64)>| set.range((lowest, 0)..).next().copied();
            let heads = [first_of(&self.returned), first_of(&self.parked)];
            return heads.into_iter().flatten().min().map(|(_, seq)| seq);
        }
        let ahead = self.advance();
        let behind = self
            .returned
            .first()
            .into_iter()
            .chain(self.parked.first())
            .min();
        let head = behind.map_or(ahead, |(_, seq)| ahead.min(*seq));
        let head = aside.map_or(head, |seq| head.min(seq));
        (head != NOWHERE).then_some(head)
    }

    /// Whether the next message waits for its body, be it that of the cursor or one that was out of turn.
    pub(crate) fn is_starved(&mut self) -> bool {
        if self.is_aside_coming() {
            return true;
        }
        let next = self.advance();
        self.away > 0 && next != NOWHERE && self.entries.entry(next).is_none_or(Entry::is_away)
    }
}
