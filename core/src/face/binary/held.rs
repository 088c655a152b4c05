//! Deliveries that the peer has not answered, by their number and by the id of their message.
//!
//! Numbers are given in order and deliveries mostly end in order, so the latest stand in a ring. One that is held for
//! long moves out of it, into a sorted map: the ring never grows beyond a multiple of what it holds.

use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::ops::RangeInclusive;

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::vocab::Port;

/// Places that the ring may have for each delivery in it, and some beside them.
const PLACES_PER_DELIVERY: usize = 4;
const PLACES_SPARE: usize = 64;

/// Ids of up to so many bytes are kept in place, as all of those that are made here.
const SHORT_MAX: usize = 30;

/// The id of a message.
#[derive(Clone, Debug)]
pub(super) enum MessageId {
    Short([u8; SHORT_MAX], u8),
    Long(Bytes),
}

impl MessageId {
    pub(super) fn new(id: &str) -> Self {
        let mut short = [0; SHORT_MAX];
        match short.get_mut(..id.len()) {
            Some(place) => {
                place.copy_from_slice(id.as_bytes());
                Self::Short(short, id.len() as u8)
            }
            None => Self::Long(Bytes::copy_from_slice(id.as_bytes())),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short(id, len) => &id[..usize::from(*len)],
            Self::Long(id) => id,
        }
    }
}

/// One delivery.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    /// Its consumer.
    pub(super) port: Port,
    /// The broker's number for it.
    pub(super) token: u64,
    /// Of its message.
    pub(super) message_id: MessageId,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Held {
    deliveries: Deliveries,
    /// Numbers of deliveries by the id of their message; several may have the same. Made when the peer first asks by
    /// such an id: peers that go by numbers need none.
    by_message: Option<HashTable<u64>>,
    hashes: FixedState,
}

impl Held {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            deliveries: Deliveries {
                recent: VecDeque::new(),
                // 0 means "none" on the wire.
                first: 1,
                live: 0,
                older: BTreeMap::new(),
            },
            by_message: None,
            hashes: FixedState::with_seed(seed),
        }
    }

    /// The number that the next delivery has.
    pub(super) fn next_id(&self) -> u64 {
        self.deliveries.next_id()
    }

    /// A delivery that nobody will answer took its number.
    pub(super) fn skip(&mut self) {
        self.deliveries.push(None);
    }

    pub(super) fn push(&mut self, delivery: Delivery) {
        let id = self.next_id();
        if let Some(table) = &mut self.by_message {
            let hash = self.hashes.hash_one(delivery.message_id.as_bytes());
            index(table, &self.deliveries, &self.hashes, hash, id);
        }
        self.deliveries.push(Some(delivery));
    }

    /// The latest delivery of a message.
    pub(super) fn latest_of(&mut self, message_id: &str) -> Option<u64> {
        let (deliveries, hashes) = (&self.deliveries, &self.hashes);
        let table = self.by_message.get_or_insert_with(|| {
            let mut table = HashTable::with_capacity(deliveries.len());
            for (id, delivery) in deliveries.range(0..=u64::MAX) {
                let hash = hashes.hash_one(delivery.message_id.as_bytes());
                index(&mut table, deliveries, hashes, hash, id);
            }
            table
        });
        let hash = hashes.hash_one(message_id.as_bytes());
        table
            .iter_hash(hash)
            .copied()
            .filter(|id| {
                deliveries
                    .get(*id)
                    .is_some_and(|delivery| delivery.message_id.as_bytes() == message_id.as_bytes())
            })
            .max()
    }

    /// The first of the deliveries with these numbers.
    pub(super) fn first_in(&self, numbers: RangeInclusive<u64>) -> Option<&Delivery> {
        let mut found = self.deliveries.range(numbers);
        found.next().map(|(_, delivery)| delivery)
    }

    /// Takes out the deliveries with these numbers, in their order.
    pub(super) fn take(&mut self, numbers: RangeInclusive<u64>, mut each: impl FnMut(&Delivery)) {
        let (by_message, hashes) = (&mut self.by_message, &self.hashes);
        self.deliveries.take(numbers, |id, delivery| {
            if let Some(table) = by_message {
                let hash = hashes.hash_one(delivery.message_id.as_bytes());
                if let Ok(entry) = table.find_entry(hash, |found| *found == id) {
                    entry.remove();
                }
            }
            each(&delivery);
        });
    }

    /// Forgets what a consumer held.
    pub(super) fn forget(&mut self, port: Port) {
        for id in self.ids_where(|delivery| delivery.port == port) {
            self.take(id..=id, |_| {});
        }
    }

    /// The deliveries of a consumer with these numbers of the broker.
    pub(super) fn of_broker(&self, port: Port, tokens: RangeInclusive<u64>) -> Vec<u64> {
        self.ids_where(|delivery| delivery.port == port && tokens.contains(&delivery.token))
    }

    fn ids_where(&self, is_wanted: impl Fn(&Delivery) -> bool) -> Vec<u64> {
        self.deliveries
            .range(0..=u64::MAX)
            .filter(|(_, delivery)| is_wanted(delivery))
            .map(|(id, _)| id)
            .collect()
    }
}

/// Deliveries by their number.
#[derive(Debug)]
struct Deliveries {
    /// Of number `first` and those after it; none for those that have ended.
    recent: VecDeque<Option<Delivery>>,
    first: u64,
    /// How many there are in `recent`.
    live: usize,
    /// With numbers below `first`.
    older: BTreeMap<u64, Delivery>,
}

impl Deliveries {
    fn next_id(&self) -> u64 {
        self.first + self.recent.len() as u64
    }

    fn len(&self) -> usize {
        self.live + self.older.len()
    }

    fn push(&mut self, delivery: Option<Delivery>) {
        self.live += usize::from(delivery.is_some());
        self.recent.push_back(delivery);
        while self.recent.len() > PLACES_PER_DELIVERY * self.live + PLACES_SPARE
            && let Some(front) = self.recent.pop_front()
        {
            if let Some(delivery) = front {
                self.live -= 1;
                self.older.insert(self.first, delivery);
            }
            self.first += 1;
        }
    }

    fn get(&self, id: u64) -> Option<&Delivery> {
        match id.checked_sub(self.first) {
            Some(at) => self.recent.get(usize::try_from(at).ok()?)?.as_ref(),
            None => self.older.get(&id),
        }
    }

    /// The places in the ring that numbers have.
    fn places(&self, numbers: &RangeInclusive<u64>) -> std::ops::Range<usize> {
        let place = |id: u64| id.clamp(self.first, self.next_id()) - self.first;
        let end = place(numbers.end().saturating_add(1));
        place(*numbers.start()).min(end) as usize..end as usize
    }

    fn range(&self, numbers: RangeInclusive<u64>) -> impl Iterator<Item = (u64, &Delivery)> {
        let places = self.places(&numbers);
        let begin = self.first + places.start as u64;
        let recent = (begin..).zip(self.recent.range(places));
        let older = match numbers.is_empty() {
            // A sorted map does not take such a range.
            true => self.older.range(0..0),
            false => self.older.range(numbers),
        };
        older.map(|(id, delivery)| (*id, delivery)).chain(
            recent.filter_map(|(id, delivery)| delivery.as_ref().map(|delivery| (id, delivery))),
        )
    }

    fn take(&mut self, numbers: RangeInclusive<u64>, mut each: impl FnMut(u64, Delivery)) {
        if !self.older.is_empty() && !numbers.is_empty() {
            let ids: Vec<u64> = self
                .older
                .range(numbers.clone())
                .map(|(id, _)| *id)
                .collect();
            for id in ids {
                if let Some(delivery) = self.older.remove(&id) {
                    each(id, delivery);
                }
            }
        }
        let places = self.places(&numbers);
        for (id, place) in (self.first + places.start as u64..).zip(self.recent.range_mut(places)) {
            if let Some(delivery) = place.take() {
                self.live -= 1;
                each(id, delivery);
            }
        }
        while let Some(None) = self.recent.front() {
            self.recent.pop_front();
            self.first += 1;
        }
    }
}

fn index(
    table: &mut HashTable<u64>,
    deliveries: &Deliveries,
    hashes: &FixedState,
    hash: u64,
    id: u64,
) {
    table.insert_unique(hash, id, |id| {
        deliveries.get(*id).map_or(0, |delivery| {
            hashes.hash_one(delivery.message_id.as_bytes())
        })
    });
}

#[cfg(test)]
mod tests {
    use super::{Delivery, Held, MessageId, PLACES_PER_DELIVERY, PLACES_SPARE};
    use crate::vocab::Port;
    use std::ops::RangeInclusive;

    fn delivery(port: u32, token: u64, id: &'static str) -> Delivery {
        Delivery {
            port: Port(port),
            token,
            message_id: MessageId::new(id),
        }
    }

    fn tokens(held: &mut Held, numbers: RangeInclusive<u64>) -> Vec<u64> {
        let mut tokens = Vec::new();
        held.take(numbers, |delivery| tokens.push(delivery.token));
        tokens
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
        assert_eq!(tokens(&mut held, 100..=100), [99]);
        assert!(tokens(&mut held, 100..=100).is_empty());
        assert_eq!(held.latest_of("a"), Some(99));
        assert_eq!((held.latest_of("b"), held.latest_of("c")), (Some(2), None));
    }

    #[test]
    fn ids_of_all_lengths_are_told_apart() {
        let mut held = Held::new(1);
        let long: &'static str = "0123456789012345678901234567890123456789";
        for len in 0..=long.len() {
            held.push(delivery(0, len as u64, &long[..len]));
        }
        for len in 0..=long.len() {
            assert_eq!(held.latest_of(&long[..len]), Some(1 + len as u64));
        }
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

    #[test]
    fn what_is_held_for_long_does_not_hold_up_the_ring() {
        let mut held = Held::new(1);
        // Every thousandth of 100,000 deliveries stays, and every hundredth has no number of the peer's to give.
        for id in 1..=100_000 {
            assert_eq!(held.next_id(), id);
            if id % 100 == 50 {
                held.skip();
            } else {
                held.push(delivery(0, id, "a"));
            }
            if id % 1_000 != 0 {
                assert_eq!(
                    tokens(&mut held, id..=id).len(),
                    usize::from(id % 100 != 50)
                );
            }
            let places = PLACES_PER_DELIVERY * 101 + PLACES_SPARE;
            assert!(held.deliveries.recent.len() <= places, "{id}");
        }
        let thousands = |range: RangeInclusive<u64>| range.map(|n| n * 1_000).collect::<Vec<_>>();
        assert_eq!(held.deliveries.len(), 100);
        assert_eq!(
            held.first_in(1..=u64::MAX).map(|one| one.token),
            Some(1_000)
        );
        assert_eq!(held.first_in(1..=999).map(|one| one.token), None);
        assert_eq!(held.latest_of("a"), Some(100_000));
        assert_eq!(tokens(&mut held, 2_000..=4_999), thousands(2..=4));
        assert_eq!(tokens(&mut held, 0..=1_999), thousands(1..=1));
        let backwards = RangeInclusive::new(9, 3);
        assert!(tokens(&mut held, backwards).is_empty());
        assert_eq!(tokens(&mut held, 0..=u64::MAX), thousands(5..=100));
        assert_eq!((held.deliveries.len(), held.next_id()), (0, 100_001));
    }
}
