//! All exchanges and bindings of a node, and the way of a message through them.
//!
//! Changes come in two steps as everything durable does: `decide_*` says whether a change is allowed and changes
//! nothing, `apply_*` makes it and cannot fail, so that recovery and followers can repeat it.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::fast::FixedState;
use slab::Slab;

use super::edges::{DirectTable, Edge, Edges, Map, Target};
use super::exchange::PREDECLARED;
use super::headers::HeadersTable;
use super::topic::TopicTable;
use super::{BindingSpec, ExchangeSpec, Headers};
use crate::planted::{Bug, is_planted};
use crate::vocab::QueueId;

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
    pub(super) slot: u32,
    pub(super) serial: u32,
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
pub(super) enum Table {
    Direct(DirectTable),
    Topic(TopicTable),
    Fanout(Edges),
    Headers(HeadersTable),
}

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) spec: Arc<ExchangeSpec>,
    pub(super) serial: u32,
    pub(super) table: Table,
    /// Bindings from here.
    pub(super) outgoing: BTreeSet<u32>,
    /// Bindings to here.
    pub(super) incoming: BTreeSet<u32>,
    /// The last message that came by.
    pub(super) seen: u64,
}

/// A queue with bindings.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) queue: QueueRef,
    pub(super) bindings: BTreeSet<u32>,
    /// The last message that is to go there.
    pub(super) seen: u64,
}

#[derive(Debug)]
pub(super) struct Binding {
    pub(super) spec: Arc<BindingSpec>,
    pub(super) source: u32,
    pub(super) target: Target,
    pub(super) is_durable: bool,
}

/// See the module.
///
/// The exchange without a name is not in here: it routes by the names of queues, which the broker keeps.
#[derive(Debug)]
pub struct Exchanges {
    pub(super) hasher: FixedState,
    pub(super) limits: TableLimits,
    pub(super) exchanges: Slab<Exchange>,
    pub(super) names: Map<String, u32>,
    pub(super) bound: Slab<Bound>,
    pub(super) bound_of: Map<QueueId, u32>,
    pub(super) bindings: Slab<Binding>,
    pub(super) binding_of: Map<Arc<BindingSpec>, u32>,
    pub(super) next_serial: u32,
    /// Counts messages, so that nothing is visited twice for one.
    pub(super) round: u64,
    /// Counts changes.
    pub(super) generation: u64,
    /// Exchanges still to visit.
    pub(super) waiting: Vec<u32>,
    /// The way of the last message led by a headers exchange.
    pub(super) has_read_headers: bool,
    /// Nothing goes along with a last binding: what went is said by itself.
    pub(super) is_replaying: bool,
    /// It stays although its last binding goes.
    pub(super) held: Option<ExchangeId>,
}

pub(super) fn index(at: usize) -> u32 {
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
            generation: 0,
            waiting: Vec::new(),
            has_read_headers: false,
            is_replaying: false,
            held: None,
        };
        for (name, kind) in PREDECLARED {
            table.apply_declare(Arc::new(ExchangeSpec::new(name, kind)));
        }
        table
    }

    /// Another number after every change: a route that was remembered holds for as long as this stays the same.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the last message was routed by its headers as well, so that its key alone does not say where the next one
    /// goes.
    #[must_use]
    pub fn has_read_headers(&self) -> bool {
        self.has_read_headers
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

    /// The bindings of a queue.
    pub fn bindings_to(&self, queue: QueueId) -> impl Iterator<Item = &Arc<BindingSpec>> {
        let bound = self.bound_of.get(&queue);
        bound
            .map(|slot| &self.bound[*slot as usize].bindings)
            .into_iter()
            .flatten()
            .map(|binding| &self.bindings[*binding as usize].spec)
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
        self.has_read_headers = false;
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
                        if bound.seen != round || is_planted(Bug::RoutedTwice) {
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
                Table::Headers(table) => {
                    self.has_read_headers = true;
                    table.each_match(headers, &mut take);
                }
            }
            if !is_taken
                && !is_planted(Bug::AlternateForgotten)
                && let Some(alternate) = &exchange.spec.alternate_exchange
            {
                self.waiting.extend(self.names.get(alternate.as_str()));
            }
        }
        if out.is_empty() {
            Routed::Unroutable
        } else {
            Routed::Queues
        }
    }
}
