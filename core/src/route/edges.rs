//! Where a binding leads, and the tables of the exchanges that need no search: direct and fanout.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

pub(super) type Map<K, V> = HashMap<K, V, FixedState>;

/// Where a binding leads: index of a bound queue or of an exchange in the table of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Queue(u32),
    Exchange(u32),
}

/// A binding as its exchange knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) binding: u32,
    pub(super) target: Target,
}

/// The bindings of one key or pattern, oldest first.
pub(super) type Edges = SmallVec<[Edge; 1]>;

/// Takes a binding out; whether it was there.
pub(super) fn remove_edge(edges: &mut Edges, binding: u32) -> bool {
    let at = edges.iter().position(|edge| edge.binding == binding);
    if let Some(at) = at {
        edges.remove(at);
    }
    at.is_some()
}

/// Bindings by their whole key: the cost of a message does not depend on how many there are.
#[derive(Debug)]
pub(super) struct DirectTable {
    keys: Map<Box<[u8]>, Edges>,
}

impl DirectTable {
    pub(super) fn new(hasher: &FixedState) -> Self {
        Self {
            keys: Map::with_hasher(hasher.clone()),
        }
    }

    pub(super) fn insert(&mut self, key: &[u8], edge: Edge) {
        match self.keys.get_mut(key) {
            Some(edges) => edges.push(edge),
            None => {
                self.keys.insert(key.into(), Edges::from_elem(edge, 1));
            }
        }
    }

    pub(super) fn remove(&mut self, key: &[u8], binding: u32) {
        if let Some(edges) = self.keys.get_mut(key) {
            remove_edge(edges, binding);
            if edges.is_empty() {
                self.keys.remove(key);
            }
        }
    }

    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> &[Edge] {
        self.keys.get(key).map_or(&[], SmallVec::as_slice)
    }

    /// Whether nothing is left.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}
