//! Making bindings and taking them away.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::edges::{Edge, Target, remove_edge};
use super::spec::not_found;
use super::table::{Binding, Bound, Exchanges, Removed, Table, index};
use super::{BindingSpec, Criteria, ExchangeId, QueueRef};
use crate::planted::{Bug, is_planted};
use crate::vocab::{QueueId, Reason, Refusal};

impl Exchanges {
    /// Whether a binding may be made; true when it is new, false when it exists. The caller knows whether the queue
    /// exists.
    ///
    /// # Errors
    /// `Invalid` for a bad definition; `NotFound` when an exchange does not exist; `NotAllowed` for the exchange without
    /// a name; `LimitExceeded` when there are too many.
    pub fn decide_bind(&self, spec: &BindingSpec) -> Result<bool, Refusal> {
        if spec.exchange.is_empty() || spec.to_exchange.as_deref() == Some("") {
            return Err(Refusal {
                reason: Reason::NotAllowed,
                text: "the exchange without a name routes to every queue by its name and takes no bindings"
                    .to_owned(),
            });
        }
        let Some(source) = self.names.get(spec.exchange.as_str()) else {
            return Err(not_found("exchange", &spec.exchange));
        };
        spec.check(self.exchanges[*source as usize].spec.kind)?;
        if let Some(to) = &spec.to_exchange
            && !self.names.contains_key(to.as_str())
        {
            return Err(not_found("exchange", to));
        }
        if self.binding_of.contains_key(spec) {
            return Ok(false);
        }
        if self.bindings.len() >= self.limits.bindings_max {
            return Err(Refusal {
                reason: Reason::LimitExceeded,
                text: format!(
                    "there are {} bindings, as many as limits allow; delete some or raise bindings_max",
                    self.bindings.len()
                ),
            });
        }
        Ok(true)
    }

    /// Makes a binding, `queue` being where it leads and whether that is durable, unless it leads to an exchange.
    /// Whether the binding is durable, which it is when both ends are; none when it cannot be made: an end is missing
    /// or the definition is bad, which `decide_bind` would have said.
    pub fn apply_bind(
        &mut self,
        spec: Arc<BindingSpec>,
        queue: Option<(QueueRef, bool)>,
    ) -> Option<bool> {
        if let Some(binding) = self.binding_of.get(&spec) {
            return Some(self.bindings[*binding as usize].is_durable);
        }
        let source = *self.names.get(spec.exchange.as_str())?;
        let kind = self.exchanges[source as usize].spec.kind;
        spec.check(kind).ok()?;
        let (target, is_target_durable) = match (&spec.to_exchange, queue) {
            (Some(to), _) => {
                let to = *self.names.get(to.as_str())?;
                (
                    Target::Exchange(to),
                    self.exchanges[to as usize].spec.durable,
                )
            }
            (None, Some((queue, is_durable))) => {
                (Target::Queue(self.bound_slot(queue)), is_durable)
            }
            (None, None) => return None,
        };
        let is_durable = is_target_durable && self.exchanges[source as usize].spec.durable;
        let binding = index(self.bindings.insert(Binding {
            spec: Arc::clone(&spec),
            source,
            target,
            is_durable,
        }));
        self.generation += 1;
        let edge = Edge { binding, target };
        let exchange = &mut self.exchanges[source as usize];
        exchange.outgoing.insert(binding);
        match &mut exchange.table {
            Table::Direct(table) => table.insert(spec.routing_key.as_bytes(), edge),
            Table::Topic(table) => table.insert(spec.routing_key.as_bytes(), edge),
            Table::Fanout(edges) => edges.push(edge),
            Table::Headers(table) => {
                if let Ok(criteria) = Criteria::of(&spec.arguments) {
                    table.insert(&criteria, edge);
                }
            }
        }
        self.binding_of.insert(spec, binding);
        match target {
            Target::Queue(queue) => self.bound[queue as usize].bindings.insert(binding),
            Target::Exchange(to) => self.exchanges[to as usize].incoming.insert(binding),
        };
        Some(is_durable)
    }

    /// Whether a binding exists and is durable; none when it does not exist, and taking it away would do nothing.
    #[must_use]
    pub fn find_binding(&self, spec: &BindingSpec) -> Option<bool> {
        let binding = self.binding_of.get(spec)?;
        Some(self.bindings[*binding as usize].is_durable)
    }

    /// Whether changes come from a log. The log names each exchange that went with its last binding; one whose last
    /// *stored* binding went may have stayed for others that were never stored, and stays.
    pub(crate) fn set_replaying(&mut self, is_replaying: bool) {
        self.is_replaying = is_replaying;
    }

    /// Lets an exchange stay although its last binding goes, until [`Exchanges::release`]: another one is to follow.
    pub(crate) fn hold(&mut self, exchange: Option<ExchangeId>) {
        self.held = exchange;
    }

    /// The exchange that was held goes after all, if it goes with its last binding and has none.
    pub(crate) fn release(&mut self) -> Removed {
        let mut removed = Removed::default();
        if let Some(id) = self.held.take()
            && self.spec(id).is_some_and(|spec| spec.auto_delete)
            && self.exchanges[id.slot as usize].outgoing.is_empty()
        {
            self.remove_exchanges(vec![id.slot], &mut removed);
        }
        removed
    }

    /// Takes a binding away, and its exchange if that goes with its last one. Nothing happens when there is none.
    pub fn apply_unbind(&mut self, spec: &BindingSpec) -> Removed {
        let mut removed = Removed::default();
        if let Some(binding) = self.binding_of.get(spec).copied() {
            let last = self.take_binding(binding, &mut removed);
            self.remove_exchanges(last.into_iter().collect(), &mut removed);
        }
        removed
    }

    /// Takes all bindings of a queue away, for its deletion.
    pub fn apply_queue_deleted(&mut self, queue: QueueId) -> Removed {
        let mut removed = Removed::default();
        let Some(bound) = self.bound_of.get(&queue) else {
            return removed;
        };
        let bindings: Vec<u32> = (self.bound[*bound as usize].bindings.iter())
            .copied()
            .collect();
        for binding in bindings {
            let last = self.take_binding(binding, &mut removed);
            self.remove_exchanges(last.into_iter().collect(), &mut removed);
        }
        removed
    }

    fn bound_slot(&mut self, queue: QueueRef) -> u32 {
        if let Some(slot) = self.bound_of.get(&queue.id) {
            return *slot;
        }
        let slot = index(self.bound.insert(Bound {
            queue,
            bindings: BTreeSet::new(),
            seen: 0,
        }));
        self.bound_of.insert(queue.id, slot);
        slot
    }

    /// Takes a binding out of everything that knows it. Its exchange, when that was the last one of an exchange that
    /// goes with it.
    pub(super) fn take_binding(&mut self, binding: u32, removed: &mut Removed) -> Option<u32> {
        let Binding {
            spec,
            source,
            target,
            is_durable,
        } = self.bindings.try_remove(binding as usize)?;
        self.generation += 1;
        self.binding_of.remove(&spec);
        match target {
            Target::Exchange(to) => {
                self.exchanges[to as usize].incoming.remove(&binding);
            }
            Target::Queue(at) => {
                let bound = &mut self.bound[at as usize];
                bound.bindings.remove(&binding);
                if bound.bindings.is_empty() {
                    let bound = self.bound.remove(at as usize);
                    self.bound_of.remove(&bound.queue.id);
                }
            }
        }
        let exchange = &mut self.exchanges[source as usize];
        match &mut exchange.table {
            Table::Direct(table) => table.remove(spec.routing_key.as_bytes(), binding),
            Table::Topic(table) => table.remove(spec.routing_key.as_bytes(), binding),
            Table::Fanout(edges) => {
                remove_edge(edges, binding);
            }
            Table::Headers(table) => {
                if let Ok(criteria) = Criteria::of(&spec.arguments) {
                    table.remove(&criteria, binding);
                }
            }
        }
        exchange.outgoing.remove(&binding);
        let is_last = exchange.spec.auto_delete
            && exchange.outgoing.is_empty()
            && !self.is_replaying
            && self.held.is_none_or(|held| held.slot != source)
            && !is_planted(Bug::AutoDeleteStays);
        removed.bindings.push((spec, is_durable));
        is_last.then_some(source)
    }
}
