//! All exchanges and bindings of a node, and the way of a message through them.
//!
//! Changes come in two steps as everything durable does: `decide_*` says whether a change is allowed and changes
//! nothing, `apply_*` makes it and cannot fail, so that recovery and followers can repeat it.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::fast::FixedState;
use slab::Slab;

use super::edges::{DirectTable, Edge, Edges, Map, Target, remove_edge};
use super::exchange::{PREDECLARED, is_predeclared};
use super::headers::HeadersTable;
use super::spec::invalid;
use super::topic::TopicTable;
use super::{BindingSpec, Criteria, ExchangeKind, ExchangeSpec, Headers};
use crate::broker::quoted;
use crate::vocab::{QueueId, Reason, Refusal};

/// A queue as the table knows it: its id, and where the broker keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueRef {
    /// Its id, never reused.
    pub id: QueueId,
    /// The broker's own index; handed back as it came.
    pub slot: usize,
}

/// An exchange that exists or did: stays unequal to one that is made later under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExchangeId {
    slot: u32,
    serial: u32,
}

/// What became of a message at an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Routed {
    /// Some queues are to have it.
    Queues,
    /// No queue is.
    Unroutable,
    /// The exchange was deleted.
    Gone,
}

/// Bounds of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLimits {
    /// Exchanges, those that always exist included.
    pub exchanges_max: usize,
    /// Bindings of all exchanges together.
    pub bindings_max: usize,
}

impl Default for TableLimits {
    fn default() -> Self {
        Self {
            exchanges_max: 10_000,
            bindings_max: 1_000_000,
        }
    }
}

/// What a change took away beyond what it was asked to: bindings, and exchanges that go with their last binding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Bindings, and whether each was durable.
    pub bindings: Vec<(Arc<BindingSpec>, bool)>,
    /// Exchanges.
    pub exchanges: Vec<Arc<ExchangeSpec>>,
}

#[derive(Debug)]
enum Table {
    Direct(DirectTable),
    Topic(TopicTable),
    Fanout(Edges),
    Headers(HeadersTable),
}

#[derive(Debug)]
struct Exchange {
    spec: Arc<ExchangeSpec>,
    serial: u32,
    table: Table,
    /// Bindings from here.
    outgoing: BTreeSet<u32>,
    /// Bindings to here.
    incoming: BTreeSet<u32>,
    /// The last message that came by.
    seen: u64,
}

/// A queue with bindings.
#[derive(Debug)]
struct Bound {
    queue: QueueRef,
    bindings: BTreeSet<u32>,
    /// The last message that is to go there.
    seen: u64,
}

#[derive(Debug)]
struct Binding {
    spec: Arc<BindingSpec>,
    source: u32,
    target: Target,
    is_durable: bool,
}

/// See the module.
///
/// The exchange without a name is not in here: it routes by the names of queues, which the broker keeps.
#[derive(Debug)]
pub struct Exchanges {
    hasher: FixedState,
    limits: TableLimits,
    exchanges: Slab<Exchange>,
    names: Map<String, u32>,
    bound: Slab<Bound>,
    bound_of: Map<QueueId, u32>,
    bindings: Slab<Binding>,
    binding_of: Map<Arc<BindingSpec>, u32>,
    next_serial: u32,
    /// Counts messages, so that nothing is visited twice for one.
    round: u64,
    /// Exchanges still to visit.
    waiting: Vec<u32>,
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("exchanges and bindings are bounded")
}

impl Exchanges {
    /// A table of the exchanges that always exist. `seed` is that of the broker's other maps.
    #[must_use]
    pub fn new(seed: u64, limits: TableLimits) -> Self {
        let hasher = FixedState::with_seed(seed);
        let mut table = Self {
            hasher: hasher.clone(),
            limits,
            exchanges: Slab::new(),
            names: Map::with_hasher(hasher.clone()),
            bound: Slab::new(),
            bound_of: Map::with_hasher(hasher.clone()),
            bindings: Slab::new(),
            binding_of: Map::with_hasher(hasher.clone()),
            next_serial: 0,
            round: 0,
            waiting: Vec::new(),
        };
        for (name, kind) in PREDECLARED {
            table.apply_declare(Arc::new(ExchangeSpec::new(name, kind)));
        }
        table
    }

    /// The exchange of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ExchangeId> {
        let slot = *self.names.get(name)?;
        Some(ExchangeId {
            slot,
            serial: self.exchanges[slot as usize].serial,
        })
    }

    /// The definition of an exchange; none when it was deleted.
    #[must_use]
    pub fn spec(&self, id: ExchangeId) -> Option<&Arc<ExchangeSpec>> {
        self.exchanges
            .get(id.slot as usize)
            .filter(|exchange| exchange.serial == id.serial)
            .map(|exchange| &exchange.spec)
    }

    /// Definitions of all exchanges with a name, in no order that means anything.
    pub fn exchanges(&self) -> impl Iterator<Item = &Arc<ExchangeSpec>> {
        self.exchanges.iter().map(|(_, exchange)| &exchange.spec)
    }

    /// All bindings, in no order that means anything.
    pub fn bindings(&self) -> impl Iterator<Item = &Arc<BindingSpec>> {
        self.bindings.iter().map(|(_, binding)| &binding.spec)
    }

    /// Number of bindings.
    #[must_use]
    pub fn bindings_len(&self) -> usize {
        self.bindings.len()
    }

    /// The bindings from an exchange.
    pub fn bindings_from(&self, name: &str) -> impl Iterator<Item = &Arc<BindingSpec>> {
        let exchange = self.names.get(name);
        exchange
            .map(|slot| &self.exchanges[*slot as usize].outgoing)
            .into_iter()
            .flatten()
            .map(|binding| &self.bindings[*binding as usize].spec)
    }

    /// The bindings of a queue.
    pub fn bindings_to(&self, queue: QueueId) -> impl Iterator<Item = &Arc<BindingSpec>> {
        let bound = self.bound_of.get(&queue);
        bound
            .map(|slot| &self.bound[*slot as usize].bindings)
            .into_iter()
            .flatten()
            .map(|binding| &self.bindings[*binding as usize].spec)
    }

    /// Whether an exchange may be declared; true when it is new, false when it exists just so.
    ///
    /// # Errors
    /// `Invalid` for a bad name or other fields than the existing exchange has (the text names the field); `NotAllowed`
    /// for reserved names; `LimitExceeded` when there are too many.
    pub fn decide_declare(&self, spec: &ExchangeSpec) -> Result<bool, Refusal> {
        if spec.name.is_empty() {
            return Err(reserved(&spec.name));
        }
        spec.check()?;
        if let Some(slot) = self.names.get(spec.name.as_str()) {
            let known = &self.exchanges[*slot as usize].spec;
            return match known.difference(spec) {
                None => Ok(false),
                Some(field) => Err(invalid(format!(
                    "the exchange {} exists with another {field}",
                    quoted(&spec.name)
                ))),
            };
        }
        if spec.name.starts_with("amq.") || spec.name.starts_with('_') {
            return Err(reserved(&spec.name));
        }
        if self.exchanges.len() >= self.limits.exchanges_max {
            return Err(Refusal {
                reason: Reason::LimitExceeded,
                text: format!(
                    "there are {} exchanges, as many as limits allow; delete some or raise exchanges_max",
                    self.exchanges.len()
                ),
            });
        }
        Ok(true)
    }

    /// Makes an exchange; one of that name stays what it is.
    pub fn apply_declare(&mut self, spec: Arc<ExchangeSpec>) -> ExchangeId {
        if let Some(id) = self.find(&spec.name) {
            return id;
        }
        let table = match spec.kind {
            ExchangeKind::Direct => Table::Direct(DirectTable::new(&self.hasher)),
            ExchangeKind::Topic => Table::Topic(TopicTable::new(&self.hasher)),
            ExchangeKind::Fanout => Table::Fanout(Edges::new()),
            ExchangeKind::Headers => Table::Headers(HeadersTable::new(&self.hasher)),
        };
        let serial = self.next_serial;
        self.next_serial = self.next_serial.wrapping_add(1);
        let name = spec.name.clone();
        let slot = index(self.exchanges.insert(Exchange {
            spec,
            serial,
            table,
            outgoing: BTreeSet::new(),
            incoming: BTreeSet::new(),
            seen: 0,
        }));
        self.names.insert(name, slot);
        ExchangeId { slot, serial }
    }

    /// Whether an exchange may be deleted.
    ///
    /// # Errors
    /// `NotFound`; `NotAllowed` for one that always exists; `Invalid` when only an unused one is to go and it has
    /// bindings.
    pub fn decide_delete(&self, name: &str, if_unused: bool) -> Result<(), Refusal> {
        if is_predeclared(name) {
            return Err(Refusal {
                reason: Reason::NotAllowed,
                text: format!(
                    "the exchange {} always exists and cannot be deleted",
                    quoted(name)
                ),
            });
        }
        let Some(slot) = self.names.get(name) else {
            return Err(not_found("exchange", name));
        };
        let bindings = self.exchanges[*slot as usize].outgoing.len();
        if if_unused && bindings > 0 {
            return Err(invalid(format!(
                "the exchange {} is in use: it has {bindings} bindings",
                quoted(name)
            )));
        }
        Ok(())
    }

    /// Deletes an exchange with its bindings from it and to it. Nothing happens when there is none.
    pub fn apply_delete(&mut self, name: &str) -> Removed {
        let mut removed = Removed::default();
        if let Some(slot) = self.names.get(name).copied() {
            self.remove_exchanges(vec![slot], &mut removed);
        }
        removed
    }

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

    /// Finds the queues that a message goes to and puts them into `out`, each once, in place of what was there.
    ///
    /// `headers` is read only when a headers exchange is on the way. Bindings between exchanges are followed with the
    /// same key; no exchange is visited twice. An exchange that finds no binding for the message hands it to its
    /// alternate exchange, if that exists.
    pub fn route(
        &mut self,
        exchange: ExchangeId,
        key: &[u8],
        headers: &dyn Headers,
        out: &mut Vec<QueueRef>,
    ) -> Routed {
        out.clear();
        if self.spec(exchange).is_none() {
            return Routed::Gone;
        }
        self.round += 1;
        let round = self.round;
        self.waiting.clear();
        self.waiting.push(exchange.slot);
        while let Some(slot) = self.waiting.pop() {
            let exchange = &mut self.exchanges[slot as usize];
            if exchange.seen == round {
                continue;
            }
            exchange.seen = round;
            let mut is_taken = false;
            let (bound, waiting) = (&mut self.bound, &mut self.waiting);
            let mut take = |edge: Edge| {
                is_taken = true;
                match edge.target {
                    Target::Exchange(to) => waiting.push(to),
                    Target::Queue(at) => {
                        let bound = &mut bound[at as usize];
                        if bound.seen != round {
                            bound.seen = round;
                            out.push(bound.queue);
                        }
                    }
                }
            };
            match &mut exchange.table {
                Table::Direct(table) => table.find(key).iter().copied().for_each(&mut take),
                Table::Topic(table) => table.each_match(key, &mut take),
                Table::Fanout(edges) => edges.iter().copied().for_each(&mut take),
                Table::Headers(table) => table.each_match(headers, &mut take),
            }
            if !is_taken && let Some(alternate) = &exchange.spec.alternate_exchange {
                self.waiting.extend(self.names.get(alternate.as_str()));
            }
        }
        if out.is_empty() {
            Routed::Unroutable
        } else {
            Routed::Queues
        }
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
    fn take_binding(&mut self, binding: u32, removed: &mut Removed) -> Option<u32> {
        let Binding {
            spec,
            source,
            target,
            is_durable,
        } = self.bindings.try_remove(binding as usize)?;
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
        let is_last = exchange.spec.auto_delete && exchange.outgoing.is_empty();
        removed.bindings.push((spec, is_durable));
        is_last.then_some(source)
    }

    /// Deletes exchanges with their bindings. Those that are bound to them may go with their last binding, and so on:
    /// a list of what is to go instead of a recursion as deep as a peer wants it.
    fn remove_exchanges(&mut self, mut doomed: Vec<u32>, removed: &mut Removed) {
        while let Some(slot) = doomed.pop() {
            let exchange = &mut self.exchanges[slot as usize];
            // The table goes as a whole: no need to take it apart.
            exchange.table = Table::Fanout(Edges::new());
            let bindings: Vec<u32> = exchange
                .outgoing
                .union(&exchange.incoming)
                .copied()
                .collect();
            for binding in bindings {
                let source = self.take_binding(binding, removed);
                doomed.extend(source.filter(|source| *source != slot));
            }
            let exchange = self.exchanges.remove(slot as usize);
            self.names.remove(exchange.spec.name.as_str());
            removed.exchanges.push(exchange.spec);
        }
    }
}

fn reserved(name: &str) -> Refusal {
    let text = format!(
        "{}: exchanges with no name or one that begins with 'amq.' or '_' are reserved",
        quoted(name)
    );
    Refusal {
        reason: Reason::NotAllowed,
        text,
    }
}

fn not_found(what: &str, name: &str) -> Refusal {
    Refusal {
        reason: Reason::NotFound,
        text: format!("there is no {what} {}", quoted(name)),
    }
}
