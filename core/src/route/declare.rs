//! Declaring and deleting exchanges.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::edges::{DirectTable, Edges};
use super::exchange::is_predeclared;
use super::headers::HeadersTable;
use super::spec::{invalid, not_found};
use super::table::{Exchange, Exchanges, Removed, Table, index};
use super::topic::TopicTable;
use super::{ExchangeId, ExchangeKind, ExchangeSpec};
use crate::broker::quoted;
use crate::vocab::{Reason, Refusal};

impl Exchanges {
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
        self.generation += 1;
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

    /// Deletes exchanges with their bindings. Those that are bound to them may go with their last binding, and so on:
    /// a list of what is to go instead of a recursion as deep as a peer wants it.
    pub(super) fn remove_exchanges(&mut self, mut doomed: Vec<u32>, removed: &mut Removed) {
        while let Some(slot) = doomed.pop() {
            self.generation += 1;
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
