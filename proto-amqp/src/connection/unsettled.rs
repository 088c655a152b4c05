//! Deliveries that are not settled, by delivery-id.
//!
//! Ids rise on the circle of 2^32, so a queue in order of arrival is sorted; without gaps an id's place is its
//! distance from the front, with gaps it is found by bisection. Settled entries leave holes that are dropped from the
//! front and, when they are the majority, compacted: one delivery held for ever costs one entry, not a queue of holes.

use alloc::collections::VecDeque;

use super::ids::ahead_of;

/// Holes are not worth a compaction below this length.
const COMPACTION_MIN: usize = 64;

#[derive(Debug)]
struct Entry<T> {
    id: u32,
    value: Option<T>,
}

/// The unsettled map of one direction of a session.
#[derive(Debug)]
pub(super) struct Unsettled<T> {
    entries: VecDeque<Entry<T>>,
    live: usize,
}

impl<T> Unsettled<T> {
    pub(super) const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            live: 0,
        }
    }

    /// Whether `id` comes after all that are here, seen from each of them (serial numbers more than 2^31 apart have
    /// no order).
    pub(super) fn accepts(&self, id: u32) -> bool {
        let is_ahead = |entry: &Entry<T>| ahead_of(id, entry.id).is_some_and(|ahead| ahead > 0);
        self.entries.front().is_none_or(is_ahead) && self.entries.back().is_none_or(is_ahead)
    }

    /// Adds a delivery that [`accepts`](Self::accepts) let pass.
    pub(super) fn push(&mut self, id: u32, value: T) {
        debug_assert!(self.accepts(id), "ids rise");
        if self.entries.len() >= COMPACTION_MIN && self.live < self.entries.len() / 2 {
            self.entries.retain(|entry| entry.value.is_some());
        }
        self.entries.push_back(Entry {
            id,
            value: Some(value),
        });
        self.live += 1;
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.live
    }

    /// Place of the first entry whose id is not before `id`.
    fn lower_bound(&self, id: u32) -> usize {
        let Some(front) = self.entries.front() else {
            return 0;
        };
        let Some(distance) = ahead_of(id, front.id) else {
            return 0;
        };
        let guess = distance as usize;
        if self.entries.get(guess).is_some_and(|entry| entry.id == id) {
            return guess;
        }
        let base = front.id;
        self.entries
            .partition_point(|entry| entry.id.wrapping_sub(base) < distance)
    }

    pub(super) fn find_mut(&mut self, id: u32) -> Option<&mut T> {
        let place = self.lower_bound(id);
        let entry = self.entries.get_mut(place)?;
        if entry.id == id {
            entry.value.as_mut()
        } else {
            None
        }
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let place = self.lower_bound(id);
        let entry = self.entries.get_mut(place).filter(|entry| entry.id == id)?;
        let value = entry.value.take()?;
        self.live -= 1;
        self.trim();
        Some(value)
    }

    /// Calls `visit` for each unsettled delivery from `first` to `last`; those for which it says so are removed.
    /// A range that runs backwards is empty. Returns how many places were looked at: the work is bounded by what is
    /// here, not by the numbers of the range (a peer chooses them).
    pub(super) fn visit_range(
        &mut self,
        first: u32,
        last: u32,
        mut visit: impl FnMut(u32, &mut T) -> bool,
    ) -> usize {
        if ahead_of(last, first).is_none() || self.live == 0 {
            return 0;
        }
        let from = self.lower_bound(first);
        let mut looked_at = 0;
        let mut removed = 0;
        for entry in self.entries.range_mut(from..) {
            if ahead_of(last, entry.id).is_none() {
                break;
            }
            looked_at += 1;
            if let Some(value) = &mut entry.value
                && visit(entry.id, value)
            {
                entry.value = None;
                removed += 1;
            }
        }
        self.live -= removed;
        if removed > 0 {
            self.trim();
        }
        looked_at
    }

    /// Removes all for which `is_gone` says so, oldest first.
    pub(super) fn remove_where(&mut self, mut is_gone: impl FnMut(u32, &T) -> bool) {
        for entry in &mut self.entries {
            if let Some(value) = &entry.value
                && is_gone(entry.id, value)
            {
                entry.value = None;
                self.live -= 1;
            }
        }
        self.trim();
    }

    /// The unsettled deliveries that do not come before `from`, oldest first; without it all of them.
    pub(super) fn iter_from(&self, from: Option<u32>) -> impl Iterator<Item = (u32, &T)> {
        let place = from.map_or(0, |id| self.lower_bound(id));
        self.entries
            .range(place..)
            .filter_map(|entry| entry.value.as_ref().map(|value| (entry.id, value)))
    }

    fn trim(&mut self) {
        if self.live == 0 {
            self.entries.clear();
            if self.entries.capacity() > COMPACTION_MIN {
                // A burst is over; an idle session should not pay for it.
                self.entries.shrink_to(COMPACTION_MIN);
            }
            return;
        }
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.value.is_none())
        {
            self.entries.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Unsettled;
    use alloc::vec::Vec;

    fn ids(map: &Unsettled<()>) -> Vec<u32> {
        map.iter_from(None).map(|(id, ())| id).collect()
    }

    fn of(list: &[u32]) -> Unsettled<()> {
        let mut map = Unsettled::new();
        list.iter().for_each(|id| map.push(*id, ()));
        map
    }

    /// SE-01: first 2^32 - 2, last 1 is four deliveries.
    #[test]
    fn range_across_the_wrap() {
        let mut map = of(&[u32::MAX - 2, u32::MAX - 1, u32::MAX, 0, 1, 2]);
        map.visit_range(u32::MAX - 1, 1, |_, ()| true);
        assert_eq!(ids(&map), [u32::MAX - 2, 2]);
    }

    /// SE-02: the work is bounded by what is there.
    #[test]
    fn huge_and_reversed_ranges() {
        let mut map = of(&[0, 1]);
        assert_eq!(map.visit_range(5, 4, |_, ()| true), 0);
        assert_eq!(map.visit_range(0, u32::MAX, |_, ()| true), 0);
        assert_eq!(map.visit_range(0, 0x7fff_fffe, |_, ()| true), 2);
        assert_eq!(map.len(), 0);
    }

    #[test]
    fn gaps_are_found_by_bisection() {
        let mut map = of(&[10, 12, 13, 40]);
        assert!(map.remove(11).is_none());
        assert!(map.remove(13).is_some());
        assert!(map.remove(13).is_none());
        assert!(map.find_mut(40).is_some());
        assert_eq!(ids(&map), [10, 12, 40]);
        map.visit_range(11, 39, |_, ()| true);
        assert_eq!(ids(&map), [10, 40]);
    }

    /// One delivery held for ever must not keep the holes of all later ones.
    #[test]
    fn holes_are_compacted() {
        let mut map = of(&[0]);
        for id in 1..100_000 {
            map.push(id, ());
            assert!(map.remove(id).is_some());
        }
        assert!(
            map.entries.len() <= super::COMPACTION_MIN + 1,
            "{}",
            map.entries.len()
        );
        assert_eq!(ids(&map), [0]);
    }
}
