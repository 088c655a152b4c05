//! Messages that wait out of turn: those that are not due yet, and those whose ordering key is in use.
//!
//! They count as waiting, for limits as for people, but the cursor and the sets of what came back pass them over. When
//! they are released they stand where they stood: at the place of their arrival, ahead of everything newer.
//!
//! Beyond a share that each queue has, their bodies are left to the store one by one; such a message is released when
//! its body came back, and the broker asks for those only as fast as its consumers take. So a million messages that
//! wait for tomorrow cost their entries in the index and two places in the sets below, some hundred bytes each.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::{Backlog, Clock, Missing, NEVER_MS, Share, Span};
use crate::store::BatchId;
use crate::vocab::{Delay, Message, Seq};

/// Positions without interest that a request for bodies may span, between two of interest.
const GAP_MAX: u64 = 16;

/// Messages that one request asks for.
const WANTED_MAX: u32 = 256;

/// Stale entries are thrown out when there are more of them than this and than entries that count.
const STALE_MAX: usize = 64;

/// Why a waiting message is passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is not.
    #[default]
    InTurn,
    /// Its moment has not come.
    Early,
    /// Another message of its ordering key is out.
    Key,
    /// Its body is away, or may go since the queue has priorities and better messages; it stands in its turn when that
    /// is near and the body is here.
    Body,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// All of them.
    seqs: BTreeSet<u64>,
    /// Payload bytes of all of them.
    pub(super) bytes: usize,
    /// How many of them have their bodies only in the store.
    pub(super) away: usize,
    /// When those that are early are due, monotonic milliseconds. Some may have left.
    due: BTreeSet<(u64, u64)>,
    /// Those that have bodies which the store keeps, with their lengths, in the order in which they came. Some may have left.
    bodies: VecDeque<(u64, u32)>,
    bodies_bytes: usize,
    /// Those that are to be released when their bodies came, or when it is their turn, by rank and position.
    wanted: BTreeSet<(u8, u64)>,
    /// The request that is on its way.
    asked: Option<Span>,
    /// During recovery: what is to come later, with the moments of the wall clock at which it arrived.
    noted: Vec<(u64, Delay, i64)>,
}

impl Backlog {
    /// How many messages wait out of turn.
    pub(super) fn aside_len(&self) -> usize {
        self.aside.seqs.len()
    }

    /// Whether nothing waits for a body or for being near its turn.
    pub(crate) fn all_here(&self) -> bool {
        self.away() == 0 && self.aside.wanted.is_empty()
    }

    pub(super) fn first_aside(&self) -> Option<u64> {
        self.aside.seqs.first().copied()
    }

    /// Takes a waiting message out of turn.
    pub(crate) fn set_aside(&mut self, seq: u64, why: Why) {
        let Some(entry) = self.entries.entry_mut(seq).filter(|entry| entry.is_free()) else {
            return;
        };
        entry.why = why;
        let (rank, len, is_away) = (entry.rank, entry.payload_len, entry.is_away());
        let can_leave = entry.is_durable && !is_away;
        self.leave_waiting(seq, rank);
        self.aside.seqs.insert(seq);
        self.aside.bytes += len as usize;
        if is_away {
            self.away -= 1;
            self.away_bytes -= len as usize;
            self.aside.away += 1;
        } else if can_leave {
            self.note_body(seq, len);
        }
    }

    fn note_body(&mut self, seq: u64, len: u32) {
        if self.aside.bodies.len() > 2 * self.aside.seqs.len() + STALE_MAX {
            let entries = &self.entries;
            self.aside.bodies.retain(|(seq, _)| {
                entries
                    .entry(*seq)
                    .is_some_and(|entry| entry.is_aside() && !entry.is_away())
            });
            let kept = self.aside.bodies.iter();
            self.aside.bodies_bytes = kept.map(|(_, len)| *len as usize).sum();
        }
        self.aside.bodies.push_back((seq, len));
        self.aside.bodies_bytes += len as usize;
    }

    /// Holds a waiting message back until a moment.
    pub(crate) fn hold_back(&mut self, seq: u64, due_ms: u64) {
        self.set_aside(seq, Why::Early);
        if self
            .entries
            .entry(seq)
            .is_some_and(|entry| entry.why == Why::Early)
        {
            self.aside.due.insert((due_ms, seq));
        }
    }

    /// When the first of the early messages is due, perhaps.
    #[inline]
    pub(crate) fn due_ms(&self) -> u64 {
        self.aside
            .due
            .first()
            .map_or(NEVER_MS, |(due_ms, _)| *due_ms)
    }

    /// Early messages whose moment has come, `limit` at most. The caller releases them.
    pub(crate) fn take_due(&mut self, at: Clock, limit: usize) -> Vec<u64> {
        let mut due = Vec::new();
        while due.len() < limit
            && let Some(&(due_ms, seq)) = self.aside.due.first()
            && due_ms <= at.mono_ms
        {
            self.aside.due.pop_first();
            let entry = self.entries.entry(seq);
            if entry.is_some_and(|entry| entry.why == Why::Early) {
                due.push(seq);
            }
        }
        due
    }

    /// Puts a message back into its turn, which it is in at once when its body is here; says whether it is.
    pub(crate) fn release(&mut self, seq: u64) -> bool {
        let Some(entry) = self.entries.entry_mut(seq).filter(|entry| entry.is_aside()) else {
            return false;
        };
        if entry.is_away() {
            entry.why = Why::Body;
            let place = (entry.rank, seq);
            self.aside.wanted.insert(place);
            return false;
        }
        entry.why = Why::InTurn;
        let len = entry.payload_len as usize;
        self.aside.seqs.remove(&seq);
        self.aside.bytes -= len;
        self.put_in_turn(seq);
        true
    }

    /// A message that was out of turn left for good.
    pub(super) fn forget_aside(&mut self, seq: u64, rank: u8, payload_len: u32, is_away: bool) {
        self.aside.seqs.remove(&seq);
        self.aside.wanted.remove(&(rank, seq));
        self.aside.bytes -= payload_len as usize;
        self.aside.away -= usize::from(is_away);
        if self.aside.due.len() > 2 * self.aside.seqs.len() + STALE_MAX {
            let seqs = &self.aside.seqs;
            self.aside.due.retain(|(_, seq)| seqs.contains(seq));
        }
    }

    /// Leaves bodies to the store beyond the share, oldest first; returns what they cost.
    pub(crate) fn send_aside_away(&mut self, share: Share, persisted: BatchId) -> usize {
        let mut freed = 0;
        while let Some(&(seq, len)) = self.aside.bodies.front()
            && (self.aside.bodies.len() > share.len || self.aside.bodies_bytes > share.bytes)
        {
            let entry = self.entries.entry_mut(seq);
            if let Some(entry) = entry.filter(|entry| entry.is_aside() && !entry.is_away()) {
                if entry.batch > persisted {
                    break;
                }
                freed += entry.send_away();
                self.aside.away += 1;
            }
            self.aside.bodies.pop_front();
            self.aside.bodies_bytes -= len as usize;
        }
        freed
    }

    /// What stands in its turn with its body, in a queue with priorities: how many messages and payload bytes.
    fn near(&self) -> (usize, usize) {
        let bytes = self.waiting_bytes - self.away_bytes - self.aside.bytes;
        (self.returned.len(), bytes)
    }

    /// Whether enough is near without the next one of so many bytes. In a queue with priorities it stays away when
    /// [`Self::spill`] would send it off at once: the two would move it to and fro for ever.
    fn is_near_enough(&self, share: Share, next_len: u32) -> bool {
        let (len, bytes) = self.near();
        let is_too_much =
            || len > 0 && bytes + next_len as usize > share.bytes.saturating_mul(2).max(1);
        len >= share.len.max(1) || self.priority_max > 0 && is_too_much()
    }

    /// Takes messages out of turn that are far from it, in a queue with priorities: the worst ones beyond twice the
    /// share. Their bodies may leave then.
    pub(crate) fn spill(&mut self, share: Share) {
        let (len, bytes) = self.near();
        let twice = (share.len.saturating_mul(2), share.bytes.saturating_mul(2));
        if self.priority_max == 0 || len <= twice.0 && bytes <= twice.1 {
            return;
        }
        while let Some(&(_, seq)) = self.returned.last() {
            let (len, bytes) = self.near();
            if len <= 1 || len <= share.len && bytes <= share.bytes {
                break;
            }
            self.set_far(seq);
        }
    }

    fn set_far(&mut self, seq: u64) {
        self.set_aside(seq, Why::Body);
        if let Some(entry) = self.entries.entry(seq) {
            self.aside.wanted.insert((entry.rank, seq));
        }
    }

    /// In a queue with priorities nothing overtakes what is far: a message that belongs behind that is far as well.
    pub(super) fn keep_behind_far(&mut self, rank: u8, seq: u64) {
        let is_behind = |first: &(u8, u64)| *first < (rank, seq);
        if self.priority_max > 0 && self.aside.wanted.first().is_some_and(is_behind) {
            self.set_far(seq);
        }
    }

    /// The best of the messages that are far, in a queue with priorities.
    pub(super) fn first_far(&self) -> Option<(u8, u64)> {
        let first = self.aside.wanted.first().copied();
        first.filter(|_| self.priority_max > 0)
    }

    /// The worst and newest of them.
    pub(super) fn last_far(&self) -> Option<(u8, u64)> {
        let last = self.aside.wanted.last().copied();
        last.filter(|_| self.priority_max > 0)
    }

    /// The oldest of them that is of this rank or worse.
    pub(super) fn far_from(&self, rank: u8) -> Option<(u8, u64)> {
        self.aside.wanted.range((rank, 0)..).next().copied()
    }

    /// Puts messages into their turn that are near it and have their bodies; returns them.
    pub(crate) fn refill(&mut self, share: Share) -> Vec<u64> {
        let mut released = Vec::new();
        while let Some(&(rank, seq)) = self.aside.wanted.first()
            && let Some(entry) = self.entries.entry(seq)
            && !entry.is_away()
            && !self.is_near_enough(share, entry.payload_len)
        {
            self.aside.wanted.remove(&(rank, seq));
            if self.release(seq) {
                released.push(seq);
            }
        }
        released
    }

    /// Recovery: the message just appended leaves its body to the store, in a queue with priorities.
    pub(super) fn recover_far(&mut self, seq: u64) {
        // It is far already where one before it is.
        self.set_far(seq);
        if let Some(entry) = self.entries.entry_mut(seq).filter(|entry| !entry.is_away()) {
            entry.send_away();
            self.aside.away += 1;
        }
    }

    /// The next request for bodies of messages that are to be released. It stays asked until its answer came.
    pub(crate) fn ask_aside(&mut self, share: Share) -> Option<Span> {
        if self.aside.asked.is_some() || self.is_near_enough(share, 0) {
            return None;
        }
        let (rank, first) = *self.aside.wanted.first()?;
        let mut last = first;
        for (count, &(other, seq)) in (1..).zip(self.aside.wanted.range((rank, first)..)) {
            if other != rank || seq - last > GAP_MAX || count > WANTED_MAX {
                break;
            }
            last = seq;
        }
        let span = Span::new(first, last);
        self.aside.asked = Some(span);
        Some(span)
    }

    /// Whether this request is on its way.
    pub(crate) fn is_asked_aside(&self, span: Span) -> bool {
        self.aside.asked == Some(span)
    }

    /// Requests that are not answered.
    pub(super) fn asked_aside(&self) -> usize {
        usize::from(self.aside.asked.is_some())
    }

    /// The request of [`Backlog::ask_aside`] was answered, or will not be.
    pub(crate) fn forget_asked_aside(&mut self) {
        self.aside.asked = None;
    }

    /// Takes bodies for messages that are to be released; returns what they cost, who is released, and the first
    /// message of the span that should have come and did not.
    pub(crate) fn install_aside(
        &mut self,
        span: Span,
        messages: Vec<(Seq, Arc<Message>)>,
    ) -> (usize, Vec<u64>, Option<Missing>) {
        self.aside.asked = None;
        let missing = self.first_unread(span, &messages);
        let (mut cost, mut released) = (0, Vec::new());
        for (Seq(seq), message) in messages {
            let rank = self.entries.entry(seq).map_or(0, |entry| entry.rank);
            if !self.aside.wanted.remove(&(rank, seq)) {
                continue;
            }
            let entry = self.entries.entry_mut(seq);
            if let Some(entry) = entry.filter(|entry| entry.is_aside() && entry.is_away()) {
                cost += message.cost();
                entry.bring_back(message);
                self.aside.away -= 1;
            }
            if self.release(seq) {
                released.push(seq);
            }
        }
        (cost, released, missing)
    }

    /// Recovery: the message just appended, which arrived at a moment of the wall clock, is to come later.
    pub(crate) fn note_due(&mut self, seq: u64, delay: Delay, arrived_at_ms: i64) {
        self.set_aside(seq, Why::Early);
        if let Some(entry) = self.entries.entry_mut(seq) {
            // It is out of turn already in a queue with priorities.
            entry.why = Why::Early;
            self.aside.wanted.remove(&(entry.rank, seq));
        }
        self.aside.noted.push((seq, delay, arrived_at_ms));
    }

    /// After recovery: what is due by now stands in its turn, the rest waits for what is left of its time.
    pub(crate) fn start_delays(&mut self, at: Clock, mono_ms_up: u64) {
        for (seq, delay, arrived_at_ms) in std::mem::take(&mut self.aside.noted) {
            let Some(entry) = self.entries.entry_mut(seq).filter(|entry| entry.is_aside()) else {
                continue;
            };
            let left_ms = delay.left_ms(arrived_at_ms, at.wall_ms);
            if left_ms > 0 {
                self.aside
                    .due
                    .insert((mono_ms_up.saturating_add(left_ms), seq));
                continue;
            }
            if !entry.is_away() || self.priority_max > 0 {
                self.release(seq);
                continue;
            }
            // As if it never had been out of turn: nothing was handed out yet, and all bodies are away.
            self.cursor = self.cursor.min(seq);
            entry.why = Why::InTurn;
            let (rank, len) = (entry.rank, entry.payload_len);
            self.forget_aside(seq, rank, len, true);
            self.away += 1;
            self.away_bytes += len as usize;
        }
    }
}
