//! Messages that wait out of turn: those that are not due yet, and those whose ordering key is in use.
//!
//! They count as waiting, for limits as for people, but the cursor and the sets of what came back pass them over. When
//! they are released they stand where they stood: at the place of their arrival, ahead of everything newer.
//!
//! Beyond a share that each queue has, their bodies are left to the store one by one; such a message is released when
//! its body came back, and the broker asks for those only as fast as its consumers take. So a million messages that
//! wait for tomorrow cost their entries in the index and two places in the sets below, some hundred bytes each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::{Backlog, Clock, Missing, NEVER_MS, Share, Span};
use crate::store::BatchId;
use crate::vocab::{Delay, Message, Seq};

/// Positions without interest that a request for bodies may span, between two of interest.
const GAP_MAX: u64 = 8;

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
    /// Its body is away; it stands in its turn when that came.
    Body,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// All of them, and when those that are early are due, monotonic milliseconds; 0 for the others.
    seqs: BTreeMap<u64, u64>,
    /// Payload bytes of all of them.
    pub(super) bytes: usize,
    /// How many of them have their bodies only in the store.
    pub(super) away: usize,
    /// The same moments in their order. Some may have left.
    due: BTreeSet<(u64, u64)>,
    /// Those that have bodies which the store keeps, with their lengths, in the order in which they came. Some may have left.
    bodies: VecDeque<(u64, u32)>,
    bodies_bytes: usize,
    /// Those that are to be released when their bodies came.
    wanted: BTreeSet<u64>,
    /// The request that is on its way.
    asked: Option<Span>,
    /// During recovery: what is to come later, with the moments of the wall clock at which it arrived.
    noted: Vec<(u64, Delay, i64)>,
}

impl Aside {
    fn note_due(&mut self, seq: u64, due_ms: u64) {
        self.seqs.insert(seq, due_ms);
        self.due.insert((due_ms, seq));
    }
}

impl Backlog {
    /// Why messages wait out of turn, as far as the first `limit` of them tell.
    pub(crate) fn reasons_aside(&self, limit: usize) -> Vec<Why> {
        let mut found = Vec::new();
        for seq in self.aside.seqs.keys().take(limit) {
            let why = self.entries.entry(*seq).map(|entry| entry.why);
            found.extend(why.filter(|why| !found.contains(why)));
        }
        found
    }

    /// How many messages wait out of turn.
    pub(crate) fn aside_len(&self) -> usize {
        self.aside.seqs.len()
    }

    pub(super) fn first_aside(&self) -> Option<u64> {
        self.aside.seqs.keys().next().copied()
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
        self.aside.seqs.insert(seq, 0);
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
            self.aside.note_due(seq, due_ms);
        }
    }

    /// When an early message is due.
    pub(crate) fn due_of(&self, seq: u64) -> Option<u64> {
        let due_ms = self.aside.seqs.get(&seq).copied();
        due_ms.filter(|due_ms| *due_ms > 0)
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
            self.aside.seqs.insert(seq, 0);
            self.aside.wanted.insert(seq);
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
    pub(super) fn forget_aside(&mut self, seq: u64, payload_len: u32, is_away: bool) {
        self.aside.seqs.remove(&seq);
        self.aside.wanted.remove(&seq);
        self.aside.bytes -= payload_len as usize;
        self.aside.away -= usize::from(is_away);
        if self.aside.due.len() > 2 * self.aside.seqs.len() + STALE_MAX {
            let seqs = &self.aside.seqs;
            self.aside.due.retain(|(_, seq)| seqs.contains_key(seq));
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

    /// The next request for bodies of messages that are to be released. It stays asked until its answer came. What came
    /// back and is kept from some consumer holds up nothing: nobody may be there who takes it.
    pub(crate) fn ask_aside(&mut self, share: Share) -> Option<Span> {
        if self.aside.asked.is_some() || self.returned.len() >= share.len.max(1) {
            return None;
        }
        let first = *self.aside.wanted.first()?;
        let mut last = first;
        for (count, seq) in (1..).zip(self.aside.wanted.range(first..)) {
            if seq - last > GAP_MAX || count > WANTED_MAX {
                break;
            }
            last = *seq;
        }
        let span = Span::new(first, last);
        self.aside.asked = Some(span);
        Some(span)
    }

    /// Whether a body is asked for, or about to be, of a message that stands in its turn when it came.
    pub(super) fn is_aside_coming(&self) -> bool {
        let is_next = !self.aside.wanted.is_empty() && self.returned.is_empty();
        self.aside.asked.is_some() || is_next
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
            if !self.aside.wanted.remove(&seq) {
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
                let due_ms = mono_ms_up.saturating_add(left_ms);
                self.aside.note_due(seq, due_ms);
                continue;
            }
            if !entry.is_away() {
                self.release(seq);
                continue;
            }
            // As if it never had been out of turn: nothing was handed out yet, and all bodies are away.
            self.cursor = self.cursor.min(seq);
            entry.why = Why::InTurn;
            let len = entry.payload_len;
            self.forget_aside(seq, len, true);
            self.away += 1;
            self.away_bytes += len as usize;
        }
    }
}
