//! Deliveries that the peer has not answered, by their number and by the id of their message.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::RangeInclusive;

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
}

impl Held {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            by_id: BTreeMap::new(),
            by_message: None,
            hashes: FixedState::with_seed(seed),
            // 0 means "none" on the wire.
            next_id: 1,
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

    pub(super) fn delivery(&self, id: u64) -> Option<&Delivery> {
        self.by_id.get(&id)
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

    /// Forgets what a consumer held.
    pub(super) fn forget(&mut self, port: Port) {
        for id in self.ids_where(|delivery| delivery.port == port) {
            self.take(id);
        }
    }

    /// The deliveries of a consumer with these numbers of the broker.
    pub(super) fn of_broker(&self, port: Port, tokens: RangeInclusive<u64>) -> Vec<u64> {
        self.ids_where(|delivery| delivery.port == port && tokens.contains(&delivery.token))
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

    fn delivery(port: u32, token: u64, id: &'static str) -> Delivery {
        Delivery {
            port: Port(port),
            token,
            message_id: Bytes::from_static(id.as_bytes()),
        }
    }

    #[test]
    fn the_latest_of_equal_ids_is_found_and_then_the_one_before() {
        let mut held = Held::new(1);
        held.push(delivery(0, 0, "a"));
        held.push(delivery(0, 1, "b"));
        assert_eq!(held.latest_of("a"), Some(1));
        for token in 2..100 {
            held.push(delivery(0, token, "a"));
        }
        assert_eq!(held.latest_of("a"), Some(100));
        assert!(held.take(100).is_some() && held.take(100).is_none());
        assert_eq!(held.latest_of("a"), Some(99));
        assert_eq!((held.latest_of("b"), held.latest_of("c")), (Some(2), None));
    }

    #[test]
    fn the_brokers_numbers_are_those_of_one_consumer() {
        let mut held = Held::new(1);
        held.push(delivery(0, 0, "a"));
        held.push(delivery(1, 0, "b"));
        held.push(delivery(0, 1, "c"));
        held.push(delivery(0, 2, "d"));
        assert_eq!(held.of_broker(Port(0), 0..=1), [1, 3]);
        held.forget(Port(0));
        assert!(held.of_broker(Port(0), 0..=9).is_empty());
        assert_eq!(held.of_broker(Port(1), 0..=9), [2]);
    }
}
