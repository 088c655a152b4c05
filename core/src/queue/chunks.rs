//! A list numbered from a growing counter, in chunks that are given back one by one.
//!
//! Both a queue's index and a consumer's unsettled deliveries are such lists: numbers only grow, look-up is by number,
//! and most elements leave near the front, but one may stay for hours. A ring would then keep the room of everything
//! that followed; here an emptied chunk costs 32 bytes per 128 numbers.

use std::collections::VecDeque;

const CHUNK_LEN: u64 = 128;

#[derive(Debug)]
struct Chunk<T> {
    /// Shorter than [`CHUNK_LEN`] while it is the last one, empty once nothing in it is left.
    slots: Vec<Option<T>>,
    live: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Chunks<T> {
    chunks: VecDeque<Chunk<T>>,
    /// The number of the first slot of the first chunk.
    base: u64,
    /// The number that the next element gets.
    next: u64,
    live: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            base: 0,
            next: 0,
            live: 0,
        }
    }
}

impl<T> Chunks<T> {
    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The number that the next element gets.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// A number that no element is below.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Appends and returns the number.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> u64 {
        let number = self.next;
        let index = ((number - self.base) / CHUNK_LEN) as usize;
        if index == self.chunks.len() {
            self.add_chunk();
        }
        // The next number is always in the last chunk; adding one may have let the front go.
        let chunk = self.chunks.back_mut().expect("one was just made");
        chunk.slots.push(Some(value));
        chunk.live += 1;
        self.live += 1;
        self.next += 1;
        number
    }

    fn add_chunk(&mut self) {
        // The first chunk grows as needed, since most queues are short; a list that needs a second one is long.
        let slots = if self.chunks.is_empty() {
            Vec::new()
        } else {
            Vec::with_capacity(CHUNK_LEN as usize)
        };
        if let Some(last) = self.chunks.back_mut()
            && last.live == 0
        {
            last.slots = Vec::new();
        }
        self.chunks.push_back(Chunk { slots, live: 0 });
        self.drop_front();
    }

    /// Leaves out all numbers below `number`, which then is the next; for recovery, where gaps are known from the store.
    pub(crate) fn skip_to(&mut self, number: u64) {
        if number <= self.next {
            return;
        }
        if self.live == 0 {
            self.chunks.clear();
            self.base = number;
            self.next = number;
            return;
        }
        while self.next < number {
            let offset = self.next - self.base;
            if (offset / CHUNK_LEN) as usize == self.chunks.len() {
                self.add_chunk();
            }
            // A new chunk may have let the front go; only the distance to the end of this chunk matters.
            let room = CHUNK_LEN - (self.next - self.base) % CHUNK_LEN;
            let step = room.min(number - self.next);
            let chunk = self.chunks.back_mut().expect("one was just made");
            let filled = chunk.slots.len() + step as usize;
            chunk.slots.resize_with(filled, || None);
            self.next += step;
        }
    }

    #[inline]
    fn position(&self, number: u64) -> Option<(usize, usize)> {
        let offset = number.checked_sub(self.base)?;
        Some(((offset / CHUNK_LEN) as usize, (offset % CHUNK_LEN) as usize))
    }

    #[inline]
    pub(crate) fn entry(&self, number: u64) -> Option<&T> {
        let (index, slot) = self.position(number)?;
        self.chunks.get(index)?.slots.get(slot)?.as_ref()
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, number: u64) -> Option<&mut T> {
        let (index, slot) = self.position(number)?;
        self.chunks.get_mut(index)?.slots.get_mut(slot)?.as_mut()
    }

    /// Takes an element out; its number is never given again.
    #[inline]
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        let (index, slot) = self.position(number)?;
        let is_last = index + 1 == self.chunks.len();
        let chunk = self.chunks.get_mut(index)?;
        let value = chunk.slots.get_mut(slot)?.take()?;
        chunk.live -= 1;
        self.live -= 1;
        if self.live == 0 {
            self.restart();
        } else if chunk.live == 0 && !is_last {
            chunk.slots = Vec::new();
            self.drop_front();
        }
        Some(value)
    }

    /// Nothing is left: the last chunk's memory serves the numbers to come, still warm in the cache.
    fn restart(&mut self) {
        self.chunks.truncate(1);
        if let Some(chunk) = self.chunks.front_mut() {
            chunk.slots.clear();
        }
        self.base = self.next;
    }

    fn drop_front(&mut self) {
        while self.chunks.len() > 1 && self.chunks[0].live == 0 {
            self.chunks.pop_front();
            self.base += CHUNK_LEN;
        }
    }

    /// The first element at or after `number`.
    #[inline]
    pub(crate) fn live_from(&self, number: u64) -> Option<u64> {
        let mut number = number.max(self.base);
        while number < self.next {
            let (index, slot) = self.position(number)?;
            let chunk = self.chunks.get(index)?;
            if chunk.live == 0 {
                number = self.base + (index as u64 + 1) * CHUNK_LEN;
                continue;
            }
            match chunk.slots.get(slot..)?.iter().position(Option::is_some) {
                Some(ahead) => return Some(number + ahead as u64),
                None => number = self.base + (index as u64 + 1) * CHUNK_LEN,
            }
        }
        None
    }

    /// The last element at or before `number`.
    pub(crate) fn live_up_to(&self, number: u64) -> Option<u64> {
        let mut number = number.min(self.next.checked_sub(1)?);
        loop {
            let (index, slot) = self.position(number)?;
            let chunk = self.chunks.get(index)?;
            let end = (slot + 1).min(chunk.slots.len());
            if chunk.live > 0
                && let Some(found) = chunk.slots[..end].iter().rposition(Option::is_some)
            {
                return Some(self.base + index as u64 * CHUNK_LEN + found as u64);
            }
            number = (self.base + index as u64 * CHUNK_LEN).checked_sub(1)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_old_element_keeps_only_its_own_chunk() {
        let mut list = Chunks::default();
        for number in 0..100_000u64 {
            assert_eq!(list.push(number), number);
        }
        for number in 1..100_000 {
            assert_eq!(list.take(number), Some(number));
        }
        assert_eq!(list.len(), 1);
        let room: usize = list.chunks.iter().map(|chunk| chunk.slots.capacity()).sum();
        assert!(
            room <= 2 * CHUNK_LEN as usize,
            "{room} slots are still allocated"
        );
        assert_eq!(list.entry(0), Some(&0));
        assert_eq!(list.live_from(1), None);
        assert_eq!(list.live_up_to(u64::MAX), Some(0));
        assert_eq!(list.take(0), Some(0));
        assert_eq!(list.base(), 100_000);
        assert_eq!(list.push(7), 100_000);
    }

    #[test]
    fn numbers_taken_twice_or_never_given_are_nothing() {
        let mut list = Chunks::default();
        list.push('a');
        list.push('b');
        assert_eq!(list.take(0), Some('a'));
        assert_eq!(list.take(0), None);
        assert_eq!(list.take(2), None);
        assert_eq!(list.take(u64::MAX), None);
        assert_eq!(list.entry(1), Some(&'b'));
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn skipping_leaves_gaps_without_elements() {
        let mut list = Chunks::default();
        list.skip_to(5);
        assert_eq!(list.push('a'), 5);
        list.skip_to(1_000);
        assert_eq!(list.push('b'), 1_000);
        assert_eq!(list.live_from(0), Some(5));
        assert_eq!(list.live_from(6), Some(1_000));
        assert_eq!(list.live_up_to(999), Some(5));
        assert_eq!(list.take(5), Some('a'));
        assert_eq!(list.entry(1_000), Some(&'b'));
        list.skip_to(3);
        assert_eq!(list.push('c'), 1_001);
    }

    proptest::proptest! {
        #[test]
        fn behaves_like_a_map(steps in proptest::collection::vec((0u8..8, 0u64..600), 1..600)) {
            let mut list = Chunks::default();
            let mut model = std::collections::BTreeMap::new();
            let mut next = 0u64;
            for (kind, argument) in steps {
                match kind {
                    0..=3 => {
                        for _ in 0..argument % 40 {
                            assert_eq!(list.push(next), next);
                            model.insert(next, next);
                            next += 1;
                        }
                    }
                    4..=5 => {
                        let number = next.saturating_sub(argument);
                        assert_eq!(list.take(number), model.remove(&number));
                    }
                    6 => {
                        while let Some((&number, _)) = model.first_key_value() {
                            if number + argument >= next { break }
                            model.remove(&number);
                            assert_eq!(list.take(number), Some(number));
                        }
                    }
                    _ => {
                        let number = next + argument % 5;
                        list.skip_to(number);
                        next = number;
                    }
                }
                assert_eq!(list.len(), model.len());
                assert_eq!(list.next(), next);
                let from = next.saturating_sub(argument);
                assert_eq!(list.live_from(from), model.range(from..).next().map(|(&number, _)| number));
                assert_eq!(list.live_up_to(from), model.range(..=from).next_back().map(|(&number, _)| number));
            }
        }
    }
}
