//! Time: messages whose time to live is over leave, whether anybody reads the queue or not, and so do queues that
//! nobody uses; messages whose delay is over may be delivered.

use super::{Broker, Now};
use crate::planted::{Bug, is_planted};
use crate::queue::{Clock, NEVER_MS};
use crate::vocab::Cause;

/// Messages that expire in one go. The rest follows at once, but in batches of their own and after what came meanwhile.
const EXPIRED_MAX: usize = 10_000;

/// Operations in the open batch above which no more expired messages are added, and how long to wait then: the store is
/// slow, and the messages are not delivered any more anyway.
const OPEN_OPS_MAX: usize = 65_536;
const PAUSE_MS: u64 = 10;

/// A time to live beyond this (about a hundred years) is none, a delay beyond it is as long as this: it keeps moments far
/// from the end of every clock.
pub(super) const SPAN_MAX_MS: u64 = 100 * 366 * 24 * 3_600_000;

impl Broker {
    /// The time of [`Broker::poll_timeout`] came: removes expired messages and unused queues. [`Broker::flush`] comes next.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.has_failed {
            return;
        }
        let at = now.clock();
        self.resume_filters();
        self.run_jobs(now);
        self.end_late_reports(now);
        let mut left = EXPIRED_MAX;
        // First, since what comes back may be expired.
        if self.gate.open_len() < OPEN_OPS_MAX {
            left = self.return_overdue(at, left);
        } else {
            self.pause_locks(at.mono_ms.saturating_add(PAUSE_MS));
        }
        while left > 0
            && let Some(&(at_ms, slot)) = self.timers.first()
            && at_ms <= at.mono_ms
        {
            if self.gate.open_len() >= OPEN_OPS_MAX {
                self.arm_at(slot, at.mono_ms.saturating_add(PAUSE_MS));
                continue;
            }
            let expired = self.queues[slot].backlog.take_expired(at, left);
            left = left.saturating_sub(expired.len());
            for seq in expired {
                self.expire(at, slot, seq);
            }
            let due = self.queues[slot].backlog.take_due(at, left);
            left = left.saturating_sub(due.len());
            self.release_due(at, slot, due);
            self.forget_keys(at, slot);
            if self.queues[slot].idle_ms <= at.mono_ms && self.has_group_members(slot) {
                // The last of them begins the time anew.
                self.queues[slot].idle_ms = NEVER_MS;
                self.arm(slot);
            } else if self.queues[slot].idle_ms <= at.mono_ms {
                left = left.saturating_sub(1);
                self.delete_slot(at, slot);
            } else {
                self.arm(slot);
            }
        }
    }

    /// A queue was declared or lost a consumer: its time without use begins anew, when it is without.
    pub(super) fn note_use(&mut self, slot: usize) {
        let queue = &self.queues[slot];
        if queue.spec.expires_ms.is_some() {
            self.idle.push((slot, queue.id));
        }
    }

    /// Sets the timers of the queues that [`Broker::note_use`] named.
    pub(super) fn start_idle(&mut self, now: Now) {
        while let Some((slot, id)) = self.idle.pop() {
            if !self.is_queue(slot, id) {
                continue;
            }
            let is_idle = self.queues[slot].consumers.is_empty() && !self.has_group_members(slot);
            let queue = &mut self.queues[slot];
            queue.idle_ms = match queue.spec.expires_ms {
                Some(expires_ms) if is_idle => now.mono_ms_up().saturating_add(expires_ms),
                _ => NEVER_MS,
            };
            self.arm(slot);
        }
    }

    /// Removes an expired message.
    pub(super) fn expire(&mut self, at: Clock, slot: usize, seq: u64) {
        if is_planted(Bug::ExpiredStaysStored)
            && let Some(entry) = self.queues[slot].backlog.entry_mut(seq)
        {
            entry.is_durable = false;
        }
        if is_planted(Bug::ExpiredNotBuried) {
            self.remove_entry(slot, seq);
            return self.mark_dirty(slot);
        }
        if self.fail_entry(at, slot, seq, Cause::Expired) {
            self.tally.expired += 1;
            self.queues[slot].totals.expired += 1;
            self.queues[slot].marks.forget_below(seq + 1);
            // What stood behind it may be deliverable.
            self.mark_dirty(slot);
        }
    }

    /// Sets the queue's timer to its next expiry.
    pub(super) fn arm(&mut self, slot: usize) {
        let queue = &self.queues[slot];
        let backlog = &queue.backlog;
        let message_ms = backlog.expiry_ms().min(backlog.due_ms());
        let dedup_ms = queue
            .dedup
            .as_ref()
            .map_or(NEVER_MS, |dedup| dedup.next_ms());
        self.arm_at(slot, message_ms.min(queue.idle_ms).min(dedup_ms));
    }

    fn arm_at(&mut self, slot: usize, at_ms: u64) {
        let queue = &mut self.queues[slot];
        self.timers.remove(&(queue.armed_ms, slot));
        queue.armed_ms = at_ms;
        if at_ms != NEVER_MS {
            self.timers.insert((at_ms, slot));
        }
    }
}
