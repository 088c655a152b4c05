//! Exchanges and bindings as state of the broker.
//!
//! The table itself is in [`crate::route`]; here is what the broker adds: durable ones become operations, a binding
//! needs a queue that exists and that the asking connection may use, and links of an exchange go with it.

use std::sync::Arc;

use super::ports::Target;
use super::{Broker, Now, quoted};
use crate::queue::Clock;
use crate::route::{BindingSpec, ExchangeSpec, QueueRef, Removed};
use crate::store::Op;
use crate::vocab::{ConnId, Port, Reason, Refusal};

impl Broker {
    /// Makes an exchange, or finds it when it exists with the same fields; says whether it is new.
    ///
    /// # Errors
    /// `Invalid` for a bad name or other fields than the existing exchange has (the text names the field); `NotAllowed`
    /// for reserved names; `LimitExceeded` when there are too many exchanges.
    pub fn declare_exchange(&mut self, spec: ExchangeSpec) -> Result<bool, Refusal> {
        let is_new = self.exchanges.decide_declare(&spec)?;
        if is_new {
            let spec = Arc::new(spec);
            log::debug!("exchange {} is made", quoted(&spec.name));
            if spec.durable {
                let spec = Arc::clone(&spec);
                self.gate.add(Op::ExchangeDeclared { spec });
            }
            self.exchanges.apply_declare(spec);
        }
        Ok(is_new)
    }

    /// Deletes an exchange with its bindings from it and to it, and closes its links. Exchanges that go with their last
    /// binding may follow.
    ///
    /// # Errors
    /// `NotFound`; `NotAllowed` for one that always exists; `Invalid` when only an unused one is to go and it has
    /// bindings.
    pub fn delete_exchange(
        &mut self,
        now: Now,
        name: &str,
        if_unused: bool,
    ) -> Result<(), Refusal> {
        self.exchanges.decide_delete(name, if_unused)?;
        let removed = self.exchanges.apply_delete(name);
        self.note_removed(now.clock(), &removed);
        Ok(())
    }

    /// Makes a binding, or finds it; says whether it is new. `by` is the connection that asks, none for the node itself.
    ///
    /// # Errors
    /// `Invalid` for a bad definition; `NotFound` when an exchange or the queue does not exist; `NotAllowed` for the
    /// exchange without a name; `Locked` when the queue belongs to another connection alone; `LimitExceeded` when there
    /// are too many bindings.
    pub fn bind(&mut self, spec: BindingSpec, by: Option<ConnId>) -> Result<bool, Refusal> {
        let is_new = self.exchanges.decide_bind(&spec)?;
        let slot = self.bound_slot(&spec, by)?;
        if is_new {
            self.bind_slot(spec, slot);
        }
        Ok(is_new)
    }

    /// Takes a binding away. `by` as for [`Broker::bind`].
    ///
    /// # Errors
    /// `NotFound` when there is no such binding; `Locked` when its queue belongs to another connection alone.
    pub fn unbind(
        &mut self,
        now: Now,
        spec: &BindingSpec,
        by: Option<ConnId>,
    ) -> Result<(), Refusal> {
        if self.exchanges.find_binding(spec).is_none() {
            let to = spec.queue.as_ref().or(spec.to_exchange.as_ref());
            let text = format!(
                "the exchange {} has no such binding to {}",
                quoted(&spec.exchange),
                quoted(to.map_or("", String::as_str))
            );
            return Err(Refusal {
                reason: Reason::NotFound,
                text,
            });
        }
        self.bound_slot(spec, by)?;
        let removed = self.exchanges.apply_unbind(spec);
        self.note_removed(now.clock(), &removed);
        Ok(())
    }

    /// Definitions of all exchanges with a name, in no order that means anything.
    pub fn exchanges(&self) -> impl Iterator<Item = &Arc<ExchangeSpec>> {
        self.exchanges.exchanges()
    }

    /// All bindings, in no order that means anything.
    pub fn bindings(&self) -> impl Iterator<Item = &Arc<BindingSpec>> {
        self.exchanges.bindings()
    }

    /// The slot of the queue that a binding leads to, if it leads to one.
    fn bound_slot(&self, spec: &BindingSpec, by: Option<ConnId>) -> Result<Option<usize>, Refusal> {
        let Some(name) = &spec.queue else {
            return Ok(None);
        };
        let slot = self.slot_of(name)?;
        self.check_owner(slot, by)?;
        Ok(Some(slot))
    }

    /// Makes a binding that `decide_bind` allows.
    pub(super) fn bind_slot(&mut self, spec: BindingSpec, slot: Option<usize>) {
        let spec = Arc::new(spec);
        let queue = slot.map(|slot| self.queue_ref(slot));
        if self.exchanges.apply_bind(Arc::clone(&spec), queue) == Some(true) {
            self.gate.add(Op::Bound { spec });
        }
    }

    /// A queue as the table of exchanges knows it, and whether it is durable.
    fn queue_ref(&self, slot: usize) -> (QueueRef, bool) {
        let queue = &self.queues[slot];
        (QueueRef { id: queue.id, slot }, queue.is_durable)
    }

    /// Tells the store what a change took away, and closes the links of exchanges that are gone.
    pub(super) fn note_removed(&mut self, at: Clock, removed: &Removed) {
        for (spec, is_durable) in &removed.bindings {
            if *is_durable {
                let spec = Arc::clone(spec);
                self.gate.add(Op::Unbound { spec });
            }
        }
        for spec in &removed.exchanges {
            log::debug!("exchange {} is deleted", quoted(&spec.name));
            if spec.durable {
                let name = spec.name.clone();
                self.gate.add(Op::ExchangeDeleted { name });
            }
            self.close_links_of(at, &spec.name);
        }
    }

    /// Closes the links of an exchange that is gone. Walks all links: exchanges seldom go.
    fn close_links_of(&mut self, at: Clock, name: &str) {
        let of_producers = self.producers.iter().filter_map(|(_, producer)| {
            let Target::Exchange { id, .. } = &producer.target else {
                return None;
            };
            let is_gone = self.exchanges.spec(*id).is_none();
            is_gone.then_some((producer.conn, producer.port))
        });
        let of_consumers = self.consumers.iter().filter_map(|(_, consumer)| {
            let id = consumer.subscription?.exchange?;
            let is_gone = self.exchanges.spec(id).is_none();
            is_gone.then_some((consumer.conn, consumer.port))
        });
        let ports: Vec<(usize, Port)> = of_producers.chain(of_consumers).collect();
        for (conn, port) in ports {
            let refusal = Refusal {
                reason: Reason::Deleted,
                text: format!("the exchange {} was deleted", quoted(name)),
            };
            self.evict(at, conn, port, refusal);
        }
    }

    /// Applies what the store knows of a binding.
    pub(super) fn recover_binding(&mut self, spec: Arc<BindingSpec>) {
        let slot = match &spec.queue {
            Some(name) => self.queue_names.get(name.as_str()).copied(),
            None => None,
        };
        let queue = slot.map(|slot| self.queue_ref(slot));
        if self
            .exchanges
            .apply_bind(Arc::clone(&spec), queue)
            .is_none()
        {
            log::error!(
                "the store binds {} to what does not exist",
                quoted(&spec.exchange)
            );
        }
    }
}
