//! A slab whose keys carry a generation, so that a late key of a removed entry finds nothing (no ABA).
//!
//! Generations are drawn from one counter per table: a slot may be reused at once, its old keys stay dead.

use slab::Slab;

/// Where an entry is, and which one of those that have been there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// The table.
#[derive(Debug)]
pub(super) struct Slots<T> {
    entries: Slab<(u32, T)>,
    next_generation: u32,
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Self {
        Self {
            entries: Slab::new(),
            next_generation: 0,
        }
    }

    pub(super) fn insert(&mut self, value: T) -> Key {
        if self.entries.capacity() == 0 {
            // Most connections have one session and one or two links; growing from nothing would make room for four.
            self.entries.reserve_exact(1);
        }
        let generation = self.next_generation;
        self.next_generation = self.next_generation.wrapping_add(1);
        let slot = self.entries.insert((generation, value));
        Key {
            slot: u32::try_from(slot).expect("tables are bounded far below 2^32"),
            generation,
        }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        self.find(key)?;
        Some(self.entries.remove(key.slot as usize).1)
    }

    pub(super) fn find(&self, key: Key) -> Option<&T> {
        let (generation, value) = self.entries.get(key.slot as usize)?;
        (*generation == key.generation).then_some(value)
    }

    pub(super) fn find_mut(&mut self, key: Key) -> Option<&mut T> {
        let (generation, value) = self.entries.get_mut(key.slot as usize)?;
        (*generation == key.generation).then_some(value)
    }

    /// By slot alone, for keys that are kept in step with the table.
    pub(super) fn at_mut(&mut self, slot: u32) -> Option<(Key, &mut T)> {
        let (generation, value) = self.entries.get_mut(slot as usize)?;
        Some((
            Key {
                slot,
                generation: *generation,
            },
            value,
        ))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Keys in slot order.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.entries.iter().map(|(slot, (generation, _))| Key {
            slot: u32::try_from(slot).unwrap_or(u32::MAX),
            generation: *generation,
        })
    }

    /// Entries in slot order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> + '_ {
        self.entries.iter().map(|(_, (_, value))| value)
    }
}
