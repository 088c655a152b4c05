//! Keys of messages that queues have seen (deduplication). They come one operation at a time, up to as many as the broker
//! keeps, so none may cost a walk through all of them: those whose window is over are found by when it ends, those of a
//! queue that goes by the queue.

use std::collections::{BTreeMap, BTreeSet};

use qq_core::store::SeenKey;
use qq_core::vocab::QueueId;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// By queue and in the order in which they came.
    keys: BTreeMap<(QueueId, u64), SeenKey>,
    /// When windows end, and whose those are.
    ends: BTreeSet<(i64, (QueueId, u64))>,
    next: u64,
}

impl Keys {
    /// These are known from now on. Those whose window is over by the clock of the newest of them go.
    pub(crate) fn add(&mut self, keys: &[SeenKey]) {
        let now_ms = keys.iter().map(|key| key.seen_at_ms).max();
        let now_ms = now_ms.unwrap_or(i64::MIN);
        while let Some((until_ms, name)) = self.ends.first().copied()
            && until_ms <= now_ms
        {
            self.ends.pop_first();
            self.keys.remove(&name);
        }
        for key in keys {
            let name = (key.queue, self.next);
            self.next += 1;
            self.ends.insert((key.until_ms, name));
            self.keys.insert(name, key.clone());
        }
    }

    /// A queue is gone, and what it knew.
    pub(crate) fn forget(&mut self, queue: QueueId) {
        let of_queue = (queue, 0)..=(queue, u64::MAX);
        while let Some((name, key)) = self.keys.range(of_queue.clone()).next() {
            let (name, until_ms) = (*name, key.until_ms);
            self.keys.remove(&name);
            self.ends.remove(&(until_ms, name));
        }
    }

    /// All of them.
    pub(crate) fn list(&self) -> Vec<SeenKey> {
        self.keys.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(queue: u64, seen_at_ms: i64, window_ms: i64) -> SeenKey {
        SeenKey {
            queue: QueueId(queue),
            key: seen_at_ms.to_be_bytes().to_vec().into(),
            seen_at_ms,
            until_ms: seen_at_ms + window_ms,
        }
    }

    #[test]
    fn a_key_goes_when_its_window_is_over() {
        let mut keys = Keys::default();
        keys.add(&[key(1, 0, 100), key(2, 0, 500)]);
        keys.add(&[key(1, 99, 100)]);
        assert_eq!(
            keys.list(),
            [key(1, 0, 100), key(1, 99, 100), key(2, 0, 500)]
        );
        keys.add(&[key(2, 100, 500)]);
        assert_eq!(
            keys.list(),
            [key(1, 99, 100), key(2, 0, 500), key(2, 100, 500)]
        );
        keys.add(&[key(3, 599, 1)]);
        assert_eq!(keys.list(), [key(2, 100, 500), key(3, 599, 1)]);
        assert_eq!(keys.ends.len(), 2);
    }

    #[test]
    fn a_queue_takes_its_keys_along() {
        let mut keys = Keys::default();
        keys.add(&[key(1, 0, 100), key(2, 0, 100), key(3, 0, 100)]);
        keys.add(&[key(2, 1, 100)]);
        keys.forget(QueueId(2));
        assert_eq!(keys.list(), [key(1, 0, 100), key(3, 0, 100)]);
        assert_eq!(keys.ends.len(), 2);
    }
}
