//! Messages that are held back: by their sender until a moment, or by their queue after a failed attempt.
//!
//! Both are kept in the index alone. What the sender asked for is part of the message, so a restart finds it again; a
//! wait between attempts ends with the process, which costs an attempt that comes early and never one too many.

use std::sync::Arc;

use super::paging::fetch;
use super::timers::SPAN_MAX_MS;
use super::{Backoff, Broker};
use crate::planted::{Bug, is_planted};
use crate::queue::{Clock, Missing, Span};
use crate::vocab::{Delay, Message, Seq};

impl Backoff {
    /// The wait after so many failed attempts, milliseconds.
    fn wait_ms(self, attempts: u32) -> u64 {
        let factor = u64::from(self.factor).saturating_pow(attempts.saturating_sub(1));
        self.min_ms.saturating_mul(factor).min(self.max_ms)
    }
}

impl Broker {
    /// A message that just came is to wait.
    #[cold]
    pub(super) fn delay_new(&mut self, at: Clock, slot: usize, seq: u64, delay: Delay) {
        if is_planted(Bug::DelayIgnored) {
            return;
        }
        let left_ms = match delay {
            Delay::For(delay_ms) => delay_ms,
            Delay::Until(at_ms) => u64::try_from(at_ms.saturating_sub(at.wall_ms)).unwrap_or(0),
        };
        self.hold_back(at, slot, seq, left_ms);
    }

    /// Holds a waiting message back for a while, which is never shorter than asked.
    fn hold_back(&mut self, at: Clock, slot: usize, seq: u64, left_ms: u64) {
        if left_ms == 0 {
            return;
        }
        // The moment is rounded down.
        let due_ms = at.mono_ms.saturating_add(1 + left_ms.min(SPAN_MAX_MS));
        let queue = &mut self.queues[slot];
        queue.backlog.hold_back(seq, due_ms);
        if due_ms < queue.armed_ms {
            self.arm(slot);
        }
    }

    /// An attempt failed and the message is back: it may have to wait for the next one.
    pub(super) fn back_off(&mut self, at: Clock, slot: usize, seq: u64) {
        let queue = &self.queues[slot];
        let Some(backoff) = queue
            .spec
            .retry_backoff
            .filter(|_| !is_planted(Bug::BackoffIgnored))
        else {
            return;
        };
        let Some(entry) = queue.backlog.entry(seq) else {
            return;
        };
        let wait_ms = backoff.wait_ms(entry.attempts());
        self.hold_back(at, slot, seq, wait_ms);
    }

    /// Messages are due.
    pub(super) fn release_due(&mut self, at: Clock, slot: usize, due: Vec<u64>) {
        if due.is_empty() {
            return;
        }
        for seq in due {
            if self.queues[slot].backlog.release(seq) {
                self.on_in_turn(at, slot, seq);
            }
        }
        self.mark_dirty(slot);
    }

    /// Asks for the bodies of messages that are due, as fast as consumers take them.
    pub(super) fn fetch_due(&mut self, slot: usize, share: crate::queue::Share) {
        let queue = &mut self.queues[slot];
        if let Some(span) = queue.backlog.ask_aside(share) {
            self.actions.push_back(fetch(queue.id, span));
        }
    }

    /// The bodies of messages that are due came.
    pub(super) fn install_due(
        &mut self,
        at: Clock,
        slot: usize,
        span: Span,
        messages: Vec<(Seq, Arc<Message>)>,
    ) -> Option<Missing> {
        let backlog = &mut self.queues[slot].backlog;
        let (cost, released, missing) = backlog.install_aside(span, messages);
        self.bytes += cost;
        for seq in released {
            self.on_in_turn(at, slot, seq);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;

    #[test]
    fn the_wait_grows_by_its_factor_up_to_its_end() {
        let backoff = Backoff {
            min_ms: 100,
            max_ms: 1_000,
            factor: 3,
        };
        let waits = [1, 2, 3, 4, 1_000_000].map(|attempts| backoff.wait_ms(attempts));
        assert_eq!(waits, [100, 300, 900, 1_000, 1_000]);
    }
}
