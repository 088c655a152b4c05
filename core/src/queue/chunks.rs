//! A list numbered from a growing counter, in chunks that are given back one by one.
//!
//! Both a queue's index and a consumer's unsettled deliveries are such lists: numbers only grow, look-up is by number,
//! and most elements leave near the front, but one may stay for hours. A ring would then keep the room of everything
//! that followed; here an emptied chunk costs some 40 bytes per 128 numbers, and when most chunks are empty those at the
//! front that are not move into a map, so that a few old elements cost no more than themselves.
//!
//! A chunk can be packed into another form that takes less room. Packed elements are found by [`Chunks::live_from`] but
//! not by [`Chunks::entry`], so the usual look-up does not pay for it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

pub(crate) const CHUNK_LEN: u64 = 128;

/// From so many chunks on it matters that most of them are empty.
const SPARSE_MIN: usize = 64;

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
    /// Chunks of long ago, by their first number; all below `base`, none empty.
    old: BTreeMap<u64, Chunk<T, P>>,
    /// How many of `chunks` are empty, the last one aside.
    empty: usize,
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
            old: BTreeMap::new(),
            empty: 0,
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
        let oldest = self.old.first_key_value();
        oldest.map_or(self.base, |(first, _)| *first)
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
            self.empty += 1;
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
        if number - self.next > CHUNK_LEN * SPARSE_MIN as u64 {
            self.retire_all(number);
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
        let Some((index, slot)) = self.position(number) else {
            return self.old_entry(number);
        };
        self.chunks.get(index)?.slots.get(slot)?.as_ref()
    }

    #[cold]
    fn old_entry(&self, number: u64) -> Option<&T> {
        let (first, chunk) = self.old.range(..=number).next_back()?;
        chunk.slots.get((number - first) as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, number: u64) -> Option<&mut T> {
        let Some((index, slot)) = self.position(number) else {
            return self.old_entry_mut(number);
        };
        self.chunks.get_mut(index)?.slots.get_mut(slot)?.as_mut()
    }

    #[cold]
    fn old_entry_mut(&mut self, number: u64) -> Option<&mut T> {
        let (first, chunk) = self.old.range_mut(..=number).next_back()?;
        chunk.slots.get_mut((number - first) as usize)?.as_mut()
    }

    /// Takes an element out; its number is never given again.
    #[inline]
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        let Some((index, slot)) = self.position(number) else {
            return self.take_old(number, |chunk, slot| chunk.slots.get_mut(slot)?.take());
        };
        let is_last = index + 1 == self.chunks.len();
        let chunk = self.chunks.get_mut(index)?;
        let value = chunk.slots.get_mut(slot)?.take()?;
        chunk.live -= 1;
        self.live -= 1;
        if self.live == 0 {
            self.restart();
        } else if chunk.live == 0 && !is_last {
            chunk.slots = Vec::new();
            self.on_emptied();
        }
        Some(value)
    }

    #[cold]
    fn take_old(
        &mut self,
        number: u64,
        take: impl FnOnce(&mut Chunk<T, P>, usize) -> Option<T>,
    ) -> Option<T> {
        let (&first, chunk) = self.old.range_mut(..=number).next_back()?;
        let slot = usize::try_from(number - first).ok()?;
        let was_packed = chunk.packed.is_some();
        let value = take(chunk, slot)?;
        chunk.live -= 1;
        self.live -= 1;
        self.packed -= usize::from(was_packed);
        if chunk.live == 0 {
            self.old.remove(&first);
        }
        if self.live == 0 {
            self.restart();
        }
        Some(value)
    }

    /// A chunk that is not the last one became empty.
    fn on_emptied(&mut self) {
        self.empty += 1;
        self.drop_front();
        while self.chunks.len() >= SPARSE_MIN && self.empty > self.chunks.len() / 4 * 3 {
            self.retire_front();
            self.drop_front();
        }
    }

    /// Moves the first chunk into the map.
    fn retire_front(&mut self) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.old.insert(self.base, chunk);
            self.base += CHUNK_LEN;
        }
    }

    /// Moves all chunks into the map, and goes on at `number`. Chunks keep beginning at the same distances.
    fn retire_all(&mut self, number: u64) {
        for chunk in std::mem::take(&mut self.chunks) {
            if chunk.live > 0 {
                self.old.insert(self.base, chunk);
            }
            self.base += CHUNK_LEN;
        }
        self.empty = 0;
        let chunk = self.chunk_of(number);
        (self.base, self.next) = (chunk.start, chunk.start);
    }

    /// Nothing is left: the last chunk's memory serves the numbers to come, still warm in the cache.
    fn restart(&mut self) {
        self.chunks.truncate(1);
        self.empty = 0;
        if let Some(chunk) = self.chunks.front_mut() {
            chunk.slots.clear();
            chunk.packed = None;
        }
        self.base = self.next;
    }

    fn drop_front(&mut self) {
        while self.chunks.len() > 1 && self.chunks[0].live == 0 {
            self.chunks.pop_front();
            self.empty -= 1;
            self.base += CHUNK_LEN;
        }
    }

    /// The first element at or after `number`.
    #[inline]
    pub(crate) fn live_from(&self, number: u64) -> Option<u64> {
        if number < self.base
            && let Some(found) = self.old_live_from(number)
        {
            return Some(found);
        }
        let mut number = number.max(self.base);
        while number < self.next {
            let (index, slot) = self.position(number)?;
            let chunk = self.chunks.get(index)?;
            if chunk.live == 0 {
                number = self.base + (index as u64 + 1) * CHUNK_LEN;
                continue;
            }
            match chunk.live_from(slot) {
                Some(found) => return Some(number + (found - slot) as u64),
                None => number = self.base + (index as u64 + 1) * CHUNK_LEN,
            }
        }
        None
    }

    fn old_live_from(&self, number: u64) -> Option<u64> {
        let before = self.old.range(..=number).next_back();
        let within = before.and_then(|(first, chunk)| {
            let slot = usize::try_from(number - first).ok()?;
            Some(first + chunk.live_from(slot)? as u64)
        });
        within.or_else(|| {
            let (first, chunk) = self.old.range(number..).next()?;
            Some(first + chunk.live_from(0)? as u64)
        })
    }

    /// The last element at or before `number`.
    pub(crate) fn live_up_to(&self, number: u64) -> Option<u64> {
        let mut number = number.min(self.next.checked_sub(1)?);
        loop {
            let Some((index, slot)) = self.position(number) else {
                return self.old_live_up_to(number);
            };
            let chunk = self.chunks.get(index)?;
            if let Some(found) = chunk.live_up_to(slot) {
                return Some(self.base + index as u64 * CHUNK_LEN + found as u64);
            }
            number = (self.base + index as u64 * CHUNK_LEN).checked_sub(1)?;
        }
    }

    fn old_live_up_to(&self, number: u64) -> Option<u64> {
        self.old.range(..=number).rev().find_map(|(first, chunk)| {
            let slot = (number - first).min(CHUNK_LEN - 1) as usize;
            Some(first + chunk.live_up_to(slot)? as u64)
        })
    }

    /// How many chunks there are.
    pub(crate) fn chunk_count(&self) -> usize {
        self.old.len() + self.chunks.len()
    }

    fn all(&self) -> impl Iterator<Item = &Chunk<T, P>> {
        self.old.values().chain(&self.chunks)
    }

    fn chunk(&self, number: u64) -> Option<(&Chunk<T, P>, usize)> {
        match self.position(number) {
            Some((index, slot)) => Some((self.chunks.get(index)?, slot)),
            None => {
                let (first, chunk) = self.old.range(..=number).next_back()?;
                let slot = usize::try_from(number - first).ok()?;
                (slot < CHUNK_LEN as usize).then_some((chunk, slot))
            }
        }
    }

    fn chunk_mut(&mut self, number: u64) -> Option<(&mut Chunk<T, P>, usize)> {
        match self.position(number) {
            Some((index, slot)) => Some((self.chunks.get_mut(index)?, slot)),
            None => {
                let (first, chunk) = self.old.range_mut(..=number).next_back()?;
                let slot = usize::try_from(number - first).ok()?;
                (slot < CHUNK_LEN as usize).then_some((chunk, slot))
            }
        }
    }

    /// The elements that are not packed, in order.
    pub(crate) fn unpacked(&self) -> impl Iterator<Item = &T> {
        self.all()
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
        // `base` may be above the number; what counts is the distance modulo the length of a chunk.
        let slot = (number % CHUNK_LEN + CHUNK_LEN - self.base % CHUNK_LEN) % CHUNK_LEN;
        let first = number - slot;
        first..first + CHUNK_LEN
    }

    /// The packed chunk that holds `number`, and its slot there.
    pub(crate) fn packed(&self, number: u64) -> Option<(&P, usize)> {
        let (chunk, slot) = self.chunk(number)?;
        Some((chunk.packed.as_ref()?, slot))
    }

    /// As [`Chunks::packed`]; elements are taken out by [`Chunks::take_packed`] alone.
    pub(crate) fn packed_mut(&mut self, number: u64) -> Option<(&mut P, usize)> {
        let (chunk, slot) = self.chunk_mut(number)?;
        Some((chunk.packed.as_mut()?, slot))
    }

    /// Packs the chunk that holds `number` by `pack`, which may decline and leave the slots as they are. The chunk must be
    /// complete and not the last one; returns whether it is packed now.
    pub(crate) fn pack(
        &mut self,
        number: u64,
        pack: impl FnOnce(&mut [Option<T>]) -> Option<P>,
    ) -> bool {
        let is_last = self
            .position(number)
            .is_some_and(|(index, _)| index + 1 >= self.chunks.len());
        let Some((chunk, _)) = self.chunk_mut(number).filter(|_| !is_last) else {
            return false;
        };
        if chunk.packed.is_some() || chunk.live == 0 || chunk.slots.len() < CHUNK_LEN as usize {
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
        let Some((chunk, _)) = self.chunk_mut(number) else {
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
        let Some((index, slot)) = self.position(number) else {
            return self.take_old(number, |chunk, slot| {
                let packed = chunk.packed.as_mut().filter(|_| slot < CHUNK_LEN as usize);
                take(packed?, slot)
            });
        };
        let chunk = self.chunks.get_mut(index)?;
        let value = take(chunk.packed.as_mut()?, slot)?;
        chunk.live -= 1;
        self.live -= 1;
        self.packed -= 1;
        if self.live == 0 {
            self.restart();
        } else if chunk.live == 0 {
            chunk.packed = None;
            self.on_emptied();
        }
        Some(value)
    }
}

impl<T, P: Packed> Chunk<T, P> {
    fn live_from(&self, slot: usize) -> Option<usize> {
        match &self.packed {
            Some(packed) if slot < CHUNK_LEN as usize => packed.live_from(slot),
            Some(_) => None,
            None => {
                let ahead = self.slots.get(slot..)?.iter().position(Option::is_some)?;
                Some(slot + ahead)
            }
        }
    }

    fn live_up_to(&self, slot: usize) -> Option<usize> {
        match &self.packed {
            _ if self.live == 0 => None,
            Some(packed) => packed.live_up_to(slot),
            None => {
                let end = (slot + 1).min(self.slots.len());
                self.slots[..end].iter().rposition(Option::is_some)
            }
        }
    }
}
