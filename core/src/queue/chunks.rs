//! A list numbered from a growing counter, in chunks that are given back one by one.
//!
//! Both a queue's index and a consumer's unsettled deliveries are such lists: numbers only grow, look-up is by number,
//! and most elements leave near the front, but one may stay for hours. A ring would then keep the room of everything
//! that followed; here an emptied chunk costs some 40 bytes per 128 numbers.
//!
//! A chunk can be packed into another form that takes less room. Packed elements are found by [`Chunks::live_from`] but
//! not by [`Chunks::entry`], so the usual look-up does not pay for it.

use std::collections::VecDeque;
use std::ops::Range;

pub(crate) const CHUNK_LEN: u64 = 128;

/// The small form of a chunk.
pub(crate) trait Packed {
    /// The first slot at or after `slot` that has an element.
    fn live_from(&self, slot: usize) -> Option<usize>;
    /// The last slot at or before `slot` that has an element.
    fn live_up_to(&self, slot: usize) -> Option<usize>;
}

/// The small form of lists that are never packed: no value of it exists, and it takes no room.
#[derive(Debug)]
pub(crate) enum Never {}

impl Packed for Never {
    fn live_from(&self, _: usize) -> Option<usize> {
        match *self {}
    }

    fn live_up_to(&self, _: usize) -> Option<usize> {
        match *self {}
    }
}

#[derive(Debug)]
struct Chunk<T, P> {
    /// Shorter than [`CHUNK_LEN`] while it is the last one, empty while it is packed and once nothing in it is left.
    slots: Vec<Option<T>>,
    packed: Option<P>,
    live: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Chunks<T, P = Never> {
    chunks: VecDeque<Chunk<T, P>>,
    /// The number of the first slot of the first chunk.
    base: u64,
    /// The number that the next element gets.
    next: u64,
    live: usize,
    /// How many of those are packed.
    packed: usize,
}

impl<T, P> Default for Chunks<T, P> {
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            base: 0,
            next: 0,
            live: 0,
            packed: 0,
        }
    }
}

impl<T, P: Packed> Chunks<T, P> {
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
        self.chunks.push_back(Chunk {
            slots,
            packed: None,
            live: 0,
        });
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
            chunk.packed = None;
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
            let found = match &chunk.packed {
                Some(packed) => packed.live_from(slot).map(|found| found - slot),
                None => chunk.slots.get(slot..)?.iter().position(Option::is_some),
            };
            match found {
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
            let found = match &chunk.packed {
                _ if chunk.live == 0 => None,
                Some(packed) => packed.live_up_to(slot),
                None => {
                    let end = (slot + 1).min(chunk.slots.len());
                    chunk.slots[..end].iter().rposition(Option::is_some)
                }
            };
            if let Some(found) = found {
                return Some(self.base + index as u64 * CHUNK_LEN + found as u64);
            }
            number = (self.base + index as u64 * CHUNK_LEN).checked_sub(1)?;
        }
    }

    /// How many chunks there are.
    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// The elements that are not packed, in order.
    pub(crate) fn unpacked(&self) -> impl Iterator<Item = &T> {
        self.chunks
            .iter()
            .filter(|chunk| chunk.live > 0)
            .flat_map(|chunk| chunk.slots.iter().flatten())
    }

    /// Room that the chunks take without what packed ones point at, bytes.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        let slots: usize = self.chunks.iter().map(|chunk| chunk.slots.capacity()).sum();
        self.chunks.capacity() * size_of::<Chunk<T, P>>() + slots * size_of::<Option<T>>()
    }

    /// All packed chunks, in order.
    pub(crate) fn packed_chunks(&self) -> impl Iterator<Item = &P> {
        self.chunks.iter().filter_map(|chunk| chunk.packed.as_ref())
    }

    /// How many elements are packed.
    pub(crate) fn packed_len(&self) -> usize {
        self.packed
    }

    /// The numbers of the chunk that holds `number`, whether all of them are given yet or not.
    pub(crate) fn chunk_of(&self, number: u64) -> Range<u64> {
        let first = number - (number - self.base) % CHUNK_LEN;
        first..first + CHUNK_LEN
    }

    /// The packed chunk that holds `number`, and its slot there.
    pub(crate) fn packed(&self, number: u64) -> Option<(&P, usize)> {
        let (index, slot) = self.position(number)?;
        Some((self.chunks.get(index)?.packed.as_ref()?, slot))
    }

    /// As [`Chunks::packed`]; elements are taken out by [`Chunks::take_packed`] alone.
    pub(crate) fn packed_mut(&mut self, number: u64) -> Option<(&mut P, usize)> {
        let (index, slot) = self.position(number)?;
        Some((self.chunks.get_mut(index)?.packed.as_mut()?, slot))
    }

    /// Packs the chunk that holds `number` by `pack`, which may decline and leave the slots as they are. The chunk must be
    /// complete and not the last one; returns whether it is packed now.
    pub(crate) fn pack(
        &mut self,
        number: u64,
        pack: impl FnOnce(&mut [Option<T>]) -> Option<P>,
    ) -> bool {
        let Some((index, _)) = self.position(number) else {
            return false;
        };
        if index + 1 >= self.chunks.len() {
            return false;
        }
        let chunk = &mut self.chunks[index];
        if chunk.packed.is_some() || chunk.live == 0 {
            return false;
        }
        let Some(packed) = pack(&mut chunk.slots) else {
            return false;
        };
        chunk.packed = Some(packed);
        chunk.slots = Vec::new();
        self.packed += chunk.live as usize;
        true
    }

    /// Brings a packed chunk back into the usual form; returns whether it was packed.
    pub(crate) fn unpack(&mut self, number: u64, unpack: impl FnOnce(P) -> Vec<Option<T>>) -> bool {
        let Some((index, _)) = self.position(number) else {
            return false;
        };
        let Some(chunk) = self.chunks.get_mut(index) else {
            return false;
        };
        let Some(packed) = chunk.packed.take() else {
            return false;
        };
        chunk.slots = unpack(packed);
        self.packed -= chunk.live as usize;
        true
    }

    /// Takes an element out of a packed chunk by `take`; its number is never given again.
    pub(crate) fn take_packed(
        &mut self,
        number: u64,
        take: impl FnOnce(&mut P, usize) -> Option<T>,
    ) -> Option<T> {
        let (index, slot) = self.position(number)?;
        let chunk = self.chunks.get_mut(index)?;
        let value = take(chunk.packed.as_mut()?, slot)?;
        chunk.live -= 1;
        self.live -= 1;
        self.packed -= 1;
        if self.live == 0 {
            self.restart();
        } else if chunk.live == 0 {
            chunk.packed = None;
            self.drop_front();
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_old_element_keeps_only_its_own_chunk() {
        let mut list = Chunks::<_>::default();
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
        let mut list = Chunks::<_>::default();
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
        let mut list = Chunks::<_>::default();
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

    /// A packed chunk that is a plain list.
    #[derive(Debug)]
    struct Flat(Vec<Option<u64>>);

    impl Packed for Flat {
        fn live_from(&self, slot: usize) -> Option<usize> {
            (slot..self.0.len()).find(|slot| self.0[*slot].is_some())
        }

        fn live_up_to(&self, slot: usize) -> Option<usize> {
            (0..=slot).rev().find(|slot| self.0[*slot].is_some())
        }
    }

    fn taken(list: &mut Chunks<u64, Flat>, number: u64) -> Option<u64> {
        let found = list.take(number);
        found.or_else(|| list.take_packed(number, |flat, slot| flat.0[slot].take()))
    }

    proptest::proptest! {
        #[test]
        fn behaves_like_a_map(steps in proptest::collection::vec((0u8..11, 0u64..600), 1..600)) {
            let mut list = Chunks::<u64, Flat>::default();
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
                        assert_eq!(taken(&mut list, number), model.remove(&number));
                    }
                    6 => {
                        while let Some((&number, _)) = model.first_key_value() {
                            if number + argument >= next { break }
                            model.remove(&number);
                            assert_eq!(taken(&mut list, number), Some(number));
                        }
                    }
                    7..=8 => {
                        let number = next.saturating_sub(argument);
                        list.pack(number, |slots| {
                            assert_eq!(slots.len() as u64, CHUNK_LEN);
                            Some(Flat(slots.iter_mut().map(Option::take).collect()))
                        });
                        assert_eq!(list.packed(number).is_some(), list.packed_mut(number).is_some());
                    }
                    9 => {
                        let number = next.saturating_sub(argument);
                        let was_packed = list.packed(number).is_some();
                        assert_eq!(list.unpack(number, |flat| flat.0), was_packed);
                        assert_eq!(list.entry(number), model.get(&number));
                    }
                    _ => {
                        let number = next + argument % 5;
                        list.skip_to(number);
                        next = number;
                    }
                }
                assert_eq!(list.len(), model.len());
                assert_eq!(list.next(), next);
                assert_eq!(list.packed_len() + list.unpacked().count(), model.len());
                let from = next.saturating_sub(argument);
                assert_eq!(list.live_from(from), model.range(from..).next().map(|(&number, _)| number));
                assert_eq!(list.live_up_to(from), model.range(..=from).next_back().map(|(&number, _)| number));
            }
        }
    }
}
