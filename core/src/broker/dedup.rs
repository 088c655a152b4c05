//! Duplicates: a message whose key a queue has seen within its window is confirmed and goes nowhere.
//!
//! The key is recorded in the batch that holds the message, so after a crash both are there or neither. A duplicate is
//! confirmed when all that was decided before it is safe, which covers the message that it repeats.

use bytes::Bytes;

use super::{Broker, Now};
use crate::planted::{Bug, is_planted};
use crate::queue::{Clock, Dedup};
use crate::store::{Op, SeenKey};
use crate::vocab::{DEDUP_ID_LEN_MAX, Envelope, Reason, Verdict};

impl Broker {
    /// Looks for a message among those that a queue took. `ahead` counts the keys that become known with it: none, or
    /// those of other queues and messages that are decided together; this one's is added.
    ///
    /// # Errors
    /// The verdict when its publisher need not look further: a duplicate, or a key that cannot be kept.
    #[inline]
    pub(super) fn check_duplicate(
        &mut self,
        at: Clock,
        slot: usize,
        envelope: &Envelope,
        ahead: &mut usize,
    ) -> Result<(), Verdict> {
        match envelope.dedup_id() {
            Some(key) => self.check_key(at, slot, key, ahead),
            None => Ok(()),
        }
    }

    #[cold]
    fn check_key(
        &mut self,
        at: Clock,
        slot: usize,
        key: &[u8],
        ahead: &mut usize,
    ) -> Result<(), Verdict> {
        let queue = &mut self.queues[slot];
        if queue.spec.dedup_window_ms == 0 {
            return Ok(());
        }
        if key.len() > DEDUP_ID_LEN_MAX {
            return Err(Verdict::Rejected(Reason::Invalid));
        }
        if let Some(dedup) = &mut queue.dedup {
            self.dedup_keys -= dedup.forget_over(at);
            if dedup.is_known(key) && !is_planted(Bug::DuplicateTaken) {
                return Err(Verdict::Duplicate);
            }
        }
        if self.dedup_keys + *ahead >= self.config.limits.dedup_keys_max {
            self.tally.refusals.dedup_keys += 1;
            return Err(Verdict::Rejected(Reason::LimitExceeded));
        }
        *ahead += 1;
        Ok(())
    }

    /// A queue takes a message: it knows its key from now on.
    #[cold]
    pub(super) fn record_key(&mut self, now: Now, slot: usize, key: Bytes, is_stored: bool) {
        let queue = &mut self.queues[slot];
        let window_ms = queue.spec.dedup_window_ms;
        if window_ms == 0 {
            return;
        }
        let seed = self.config.hash_seed;
        let dedup = queue
            .dedup
            .get_or_insert_with(|| Box::new(Dedup::new(seed)));
        let before = dedup.len();
        dedup.add(&key, now.mono_ms_up().saturating_add(window_ms));
        self.dedup_keys += dedup.len() - before;
        if is_stored && !is_planted(Bug::KeyNotStored) {
            let window_ms = i64::try_from(window_ms).unwrap_or(i64::MAX);
            let key = SeenKey {
                queue: queue.id,
                key,
                seen_at_ms: now.wall_ms,
                until_ms: now.wall_ms.saturating_add(window_ms),
            };
            self.gate.add(Op::Keyed { keys: vec![key] });
        }
        if before == 0 {
            self.arm(slot);
        }
    }

    /// Keys that all queues know.
    #[cfg(test)]
    pub(super) fn dedup_keys(&self) -> usize {
        self.dedup_keys
    }

    /// Recovery: queues know these keys.
    pub(super) fn recover_keys(&mut self, keys: &[SeenKey]) {
        let seed = self.config.hash_seed;
        for key in keys {
            if let Some(&slot) = self.queue_slots.get(&key.queue) {
                let queue = &mut self.queues[slot];
                let dedup = queue
                    .dedup
                    .get_or_insert_with(|| Box::new(Dedup::new(seed)));
                dedup.note(&key.key, key.until_ms);
            }
        }
    }

    /// Forgets the keys of a queue whose window is over.
    pub(super) fn forget_keys(&mut self, at: Clock, slot: usize) {
        let queue = &mut self.queues[slot];
        if let Some(dedup) = &mut queue.dedup {
            self.dedup_keys -= dedup.forget_over(at);
            if dedup.len() == 0 {
                queue.dedup = None;
            }
        }
    }
}
