//! The table as lists show it: by slots, so that a long list can be read in parts while the table changes.

use std::ops::Bound;
use std::sync::Arc;

use super::exchange::is_predeclared;
use super::{BindingSpec, Exchanges};
use crate::admin::ExchangeRow;
use crate::vocab::QueueId;

impl Exchanges {
    /// How many exchanges there are.
    pub(crate) fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// A bound of the slots of exchanges.
    pub(crate) fn slots_end(&self) -> usize {
        self.exchanges.capacity()
    }

    /// The slot of an exchange.
    pub(crate) fn slot_of(&self, name: &str) -> Option<usize> {
        self.names.get(name).map(|slot| *slot as usize)
    }

    /// The exchange in a slot.
    pub(crate) fn row_at(&self, slot: usize) -> Option<ExchangeRow> {
        let exchange = self.exchanges.get(slot)?;
        Some(ExchangeRow {
            spec: Arc::clone(&exchange.spec),
            is_predeclared: is_predeclared(&exchange.spec.name),
            binding_count: exchange.outgoing.len() as u64,
        })
    }

    /// A bound of the slots of bindings.
    pub(crate) fn bindings_end(&self) -> usize {
        self.bindings.capacity()
    }

    /// The binding in a slot.
    pub(crate) fn binding_at(&self, slot: usize) -> Option<&Arc<BindingSpec>> {
        self.bindings.get(slot).map(|binding| &binding.spec)
    }

    /// Slots of the bindings from an exchange, from `from` on.
    pub(crate) fn bindings_out_of(&self, name: &str, from: u64) -> impl Iterator<Item = u32> {
        let slot = self.names.get(name);
        let all = slot.map(|slot| &self.exchanges[*slot as usize].outgoing);
        all.into_iter()
            .flat_map(move |all| all.range(bounds(from)))
            .copied()
    }

    /// Slots of the bindings to a queue, from `from` on.
    pub(crate) fn bindings_after(&self, queue: QueueId, from: u64) -> impl Iterator<Item = u32> {
        let slot = self.bound_of.get(&queue);
        let all = slot.map(|slot| &self.bound[*slot as usize].bindings);
        all.into_iter()
            .flat_map(move |all| all.range(bounds(from)))
            .copied()
    }
}

fn bounds(from: u64) -> (Bound<u32>, Bound<u32>) {
    match u32::try_from(from) {
        Ok(from) => (Bound::Included(from), Bound::Unbounded),
        // Nothing is there.
        Err(_) => (Bound::Excluded(u32::MAX), Bound::Unbounded),
    }
}
