//! Deliveries that the peer has not answered, by their number, by the id of their message, and by when they return.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::vocab::Port;

/// One delivery.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    /// Its consumer.
    pub(super) port: Port,
    /// The broker's number for it.
    pub(super) token: u64,
    /// When it returns.
    pub(super) due: Duration,
    /// Of its message.
    pub(super) message_id: Bytes,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Held {
    by_id: BTreeMap<u64, Delivery>,
    /// Numbers of deliveries by the id of their message; several may have the same. Made when the peer first asks by
    /// such an id: peers that go by numbers need none.
    by_message: Option<HashTable<u64>>,
    hashes: FixedState,
    next_id: u64,
    /// No delivery returns before this. It may have been answered: then the next look finds the next one.
    look_at: Option<Duration>,
}

impl Held {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            by_id: BTreeMap::new(),
            by_message: None,
            hashes: FixedState::with_seed(seed),
            // 0 means "none" on the wire.
            next_id: 1,
            look_at: None,
        }
    }

    /// The number that the next delivery has.
    pub(super) const fn next_id(&self) -> u64 {
        self.next_id
    }

    /// A delivery that nobody will answer took its number.
    pub(super) const fn skip(&mut self) {
        self.next_id += 1;
    }

    pub(super) fn push(&mut self, delivery: Delivery) {
        let id = self.next_id;
        self.next_id += 1;
        self.look_not_after(delivery.due);
        if let Some(table) = &mut self.by_message {
            let hash = self.hashes.hash_one(&delivery.message_id);
            index(table, &self.by_id, &self.hashes, hash, id);
        }
        self.by_id.insert(id, delivery);
    }

    /// The latest delivery of a message.
    pub(super) fn latest_of(&mut self, message_id: &str) -> Option<u64> {
        let (by_id, hashes) = (&self.by_id, &self.hashes);
        let table = self.by_message.get_or_insert_with(|| {
            let mut table = HashTable::with_capacity(by_id.len());
            for (id, delivery) in by_id {
                let hash = hashes.hash_one(&delivery.message_id);
                index(&mut table, by_id, hashes, hash, *id);
            }
            table
        });
        let hash = hashes.hash_one(message_id.as_bytes());
        table
            .iter_hash(hash)
            .copied()
            .filter(|id| {
                by_id
                    .get(id)
                    .is_some_and(|delivery| delivery.message_id == message_id.as_bytes())
            })
            .max()
    }

    /// The deliveries with these numbers.
    pub(super) fn ids_in(&self, range: RangeInclusive<u64>) -> Vec<u64> {
        self.by_id.range(range).map(|(id, _)| *id).collect()
    }

    /// Takes a delivery out.
    pub(super) fn take(&mut self, id: u64) -> Option<Delivery> {
        if let (Some(table), Some(delivery)) = (&mut self.by_message, self.by_id.get(&id)) {
            let hash = self.hashes.hash_one(&delivery.message_id);
            if let Ok(entry) = table.find_entry(hash, |found| *found == id) {
                entry.remove();
            }
        }
        self.by_id.remove(&id)
    }

    /// Lets a delivery return at another time.
    pub(super) fn extend(&mut self, id: u64, due: Duration) {
        if let Some(delivery) = self.by_id.get_mut(&id) {
            delivery.due = due;
            self.look_not_after(due);
        }
    }

    /// Forgets what a consumer held.
    pub(super) fn forget(&mut self, port: Port) {
        for id in self.ids_where(|delivery| delivery.port == port) {
            self.take(id);
        }
    }

    /// When the next delivery returns, or earlier.
    pub(super) const fn due_at(&self) -> Option<Duration> {
        self.look_at
    }

    /// The deliveries whose time is over; they stay until they are taken.
    pub(super) fn expired(&mut self, now: Duration) -> Vec<u64> {
        if self.look_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.look_at = self
            .by_id
            .values()
            .map(|delivery| delivery.due)
            .filter(|due| *due > now)
            .min();
        self.ids_where(|delivery| delivery.due <= now)
    }

    fn look_not_after(&mut self, due: Duration) {
        self.look_at = Some(self.look_at.map_or(due, |at| at.min(due)));
    }

    fn ids_where(&self, is_wanted: impl Fn(&Delivery) -> bool) -> Vec<u64> {
        self.by_id
            .iter()
            .filter(|(_, delivery)| is_wanted(delivery))
            .map(|(id, _)| *id)
            .collect()
    }
}

fn index(
    table: &mut HashTable<u64>,
    by_id: &BTreeMap<u64, Delivery>,
    hashes: &FixedState,
    hash: u64,
    id: u64,
) {
    table.insert_unique(hash, id, |id| {
        by_id
            .get(id)
            .map_or(0, |delivery| hashes.hash_one(&delivery.message_id))
    });
}

#[cfg(test)]
mod tests {
    use super::{Delivery, Held};
    use crate::vocab::Port;
    use bytes::Bytes;
    use std::time::Duration;

    fn delivery(port: u32, token: u64, due_s: u64, id: &'static str) -> Delivery {
        Delivery {
            port: Port(port),
            token,
            due: Duration::from_secs(due_s),
            message_id: Bytes::from_static(id.as_bytes()),
        }
    }

    #[test]
    fn the_latest_of_equal_ids_is_found_and_then_the_one_before() {
        let mut held = Held::new(1);
        held.push(delivery(0, 0, 9, "a"));
        held.push(delivery(0, 1, 9, "b"));
        assert_eq!(held.latest_of("a"), Some(1));
        for token in 2..100 {
            held.push(delivery(0, token, 9, "a"));
        }
        assert_eq!(held.latest_of("a"), Some(100));
        assert!(held.take(100).is_some() && held.take(100).is_none());
        assert_eq!(held.latest_of("a"), Some(99));
        assert_eq!((held.latest_of("b"), held.latest_of("c")), (Some(2), None));
    }

    #[test]
    fn what_is_over_returns_and_what_was_extended_does_not() {
        let at = Duration::from_secs;
        let mut held = Held::new(1);
        held.push(delivery(0, 0, 10, "a"));
        held.push(delivery(1, 0, 10, "b"));
        held.push(delivery(0, 1, 20, "c"));
        held.extend(1, at(30));
        assert_eq!(held.due_at(), Some(at(10)));
        assert!(held.expired(at(9)).is_empty());
        assert_eq!(held.expired(at(10)), [2]);
        held.take(2);
        assert_eq!(held.due_at(), Some(at(20)));
        held.forget(Port(0));
        assert!(held.expired(at(99)).is_empty());
        assert_eq!(held.due_at(), None);
    }
}
