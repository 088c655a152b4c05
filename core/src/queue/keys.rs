//! Ordering keys: of all messages with one key, one is out at a time.
//!
//! The first message of a key that is handed out makes the key's state: it is the key's *current* message until it has
//! left the queue, wherever it is meanwhile, be it with a consumer, back in its place or waiting for its next attempt.
//! Other messages of the key that are met on the way are set aside, so nothing waits behind them; when the current one
//! has left, the oldest of them is next. A key without a message out has no state: memory follows what consumers hold
//! and what was passed over, not how many keys there are.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::planted::{Bug, is_planted};

/// One key.
#[derive(Debug)]
struct Key {
    text: Bytes,
    /// The message that may be handed out.
    current: u64,
    /// Those that were passed over. Some may have left.
    aside: BTreeSet<u64>,
}

/// See the module. Each message with a key costs two look-ups, one when it goes out and one when it leaves.
#[derive(Debug)]
pub(crate) struct OrderKeys {
    keys: HashTable<Key>,
    hashes: FixedState,
    /// Current messages that no consumer has, with their keys: their bodies may be away.
    idle: BTreeMap<u64, Bytes>,
}

impl OrderKeys {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            keys: HashTable::new(),
            hashes: FixedState::with_seed(seed),
            idle: BTreeMap::new(),
        }
    }

    /// Whether a message may go out; then its key is in use by it. Otherwise it is noted as waiting for its key.
    pub(crate) fn claim(&mut self, key: &Bytes, seq: u64) -> bool {
        let hashes = &self.hashes;
        let hash = hashes.hash_one(&key[..]);
        let is_same = |found: &Key| found.text == *key;
        match self
            .keys
            .entry(hash, is_same, |found| hashes.hash_one(&found.text[..]))
        {
            Entry::Occupied(found) => {
                let found = found.into_mut();
                if found.current != seq {
                    found.aside.insert(seq);
                    return false;
                }
                self.idle.remove(&seq);
            }
            Entry::Vacant(place) => {
                place.insert(Key {
                    text: key.clone(),
                    current: seq,
                    aside: BTreeSet::new(),
                });
            }
        }
        true
    }

    /// The message of a key that may be handed out.
    pub(crate) fn current(&self, key: &Bytes) -> Option<u64> {
        let hash = self.hashes.hash_one(&key[..]);
        let found = self.keys.find(hash, |found| found.text == *key);
        found.map(|found| found.current)
    }

    /// The current message of a key came back.
    pub(crate) fn give_back(&mut self, key: &Bytes, seq: u64) {
        self.idle.insert(seq, key.clone());
    }

    /// The key of a current message that no consumer has.
    pub(crate) fn idle_key(&self, seq: u64) -> Option<&Bytes> {
        self.idle.get(&seq)
    }

    /// A message left its queue. If it was the current one of its key, the next one is returned, which may be handed
    /// out from now on: the oldest that still waits for the key.
    pub(crate) fn leave(
        &mut self,
        key: &Bytes,
        seq: u64,
        is_waiting: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let hash = self.hashes.hash_one(&key[..]);
        let mut entry = self
            .keys
            .find_entry(hash, |found| found.text == *key)
            .ok()?;
        let found = entry.get_mut();
        if found.current != seq {
            found.aside.remove(&seq);
            return None;
        }
        self.idle.remove(&seq);
        let pop = match is_planted(Bug::KeyOrderLost) {
            true => BTreeSet::pop_last,
            false => BTreeSet::pop_first,
        };
        while let Some(next) = pop(&mut found.aside) {
            if is_waiting(next) {
                found.current = next;
                self.idle.insert(next, key.clone());
                return Some(next);
            }
        }
        entry.remove();
        None
    }

    /// Keys that have a message out.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::OrderKeys;
    use bytes::Bytes;

    #[test]
    fn one_message_of_a_key_is_out_and_the_oldest_is_next() {
        let (a, b) = (Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        let mut keys = OrderKeys::new(1);
        assert!(keys.claim(&a, 0));
        assert!(!keys.claim(&a, 5) && !keys.claim(&a, 3) && !keys.claim(&a, 4));
        assert!(keys.claim(&b, 1));
        // It comes back and goes out again: still the current one.
        keys.give_back(&a, 0);
        assert_eq!(keys.idle_key(0), Some(&a));
        assert!(!keys.claim(&a, 6) && keys.claim(&a, 0));
        assert_eq!(keys.idle_key(0), None);
        // The third message left meanwhile.
        assert_eq!(keys.leave(&a, 0, |seq| seq != 3), Some(4));
        assert_eq!(keys.idle_key(4), Some(&a));
        assert_eq!(keys.leave(&a, 5, |_| true), None);
        assert_eq!(keys.leave(&a, 4, |_| true), Some(6));
        assert!(keys.claim(&a, 6));
        assert_eq!(keys.leave(&a, 6, |_| true), None);
        assert_eq!(keys.leave(&b, 1, |_| true), None);
        assert_eq!((keys.len(), keys.idle.len()), (0, 0));
    }
}
