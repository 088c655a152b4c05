//! Time: messages whose time to live is over leave, whether anybody reads the queue or not.

use super::{Broker, Now};
use crate::queue::NEVER_MS;

impl Broker {
    /// The time of [`Broker::poll_timeout`] came: removes expired messages. [`Broker::flush`] comes next.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.has_failed {
            return;
        }
        let at = now.clock();
        while let Some(&(at_ms, slot)) = self.timers.first()
            && at_ms <= at.mono_ms
        {
            self.timers.pop_first();
            self.queues[slot].armed_ms = NEVER_MS;
            while let Some(seq) = self.queues[slot].backlog.pop_expired(at) {
                self.expire(slot, seq);
            }
            if self.queues[slot].backlog.expiry_ms() != NEVER_MS {
                self.arm(slot);
            }
        }
    }

    /// Removes an expired message.
    pub(super) fn expire(&mut self, slot: usize, seq: u64) {
        if self.remove_entry(slot, seq).is_some() {
            self.tally.expired += 1;
            // What stood behind it may be deliverable.
            self.mark_dirty(slot);
        }
    }

    /// Sets the queue's timer to its next expiry.
    pub(super) fn arm(&mut self, slot: usize) {
        let queue = &mut self.queues[slot];
        self.timers.remove(&(queue.armed_ms, slot));
        queue.armed_ms = queue.backlog.expiry_ms();
        self.timers.insert((queue.armed_ms, slot));
    }
}
