//! Reads the topology: the tables `[[queue]]`, `[[exchange]]` and `[[binding]]`.

use std::sync::Arc;

use qq_core::broker::QueueSpec;
use qq_core::route::{Exchanges, TableLimits};
use toml::de::{DeTable, DeValue};

use super::Origin;
use super::key::Key;
use super::load::{Loader, Source};
use super::topology::{Binding, Exchange, Queue};

/// The names of the tables.
pub(super) const TOPOLOGY: [&str; 3] = ["queue", "exchange", "binding"];

impl Loader {
    pub(super) fn read_topology(&mut self, source: &Source, root: &DeTable<'_>) {
        // Says what can be declared as the broker would say it.
        let mut routes = Exchanges::new(0, TableLimits::default());
        for name in TOPOLOGY {
            let Some(value) = root.get(name) else {
                continue;
            };
            let DeValue::Array(tables) = value.get_ref() else {
                self.problem(
                    source.origin(&value.span()),
                    format!("{name}: must be a list of tables, each written [[{name}]]"),
                );
                continue;
            };
            for table in tables.iter() {
                let origin = source.origin(&table.span());
                let DeValue::Table(entries) = table.get_ref() else {
                    self.problem(
                        origin,
                        format!("{name}: must be a list of tables, each written [[{name}]]"),
                    );
                    continue;
                };
                match name {
                    "queue" => self.read_queue(source, origin, entries),
                    "exchange" => self.read_exchange(source, origin, entries, &mut routes),
                    _ => self.read_binding(source, origin, entries, &routes),
                }
            }
        }
    }

    /// Reads the entries of one table of the topology; returns the names of those that have no effect yet.
    fn read_entries(
        &mut self,
        source: &Source,
        name: &str,
        mut keys: Vec<Key<'_>>,
        entries: &DeTable<'_>,
    ) -> Vec<String> {
        let mut later = Vec::new();
        for (key, value) in entries {
            let origin = source.origin(&key.span());
            let entry: &str = key.get_ref();
            self.read_key(name, &mut keys, entry, value, origin);
            if keys
                .iter()
                .any(|known| known.name == entry && known.is_later)
            {
                later.push(entry.to_owned());
            }
        }
        later
    }

    fn read_queue(&mut self, source: &Source, origin: Origin, entries: &DeTable<'_>) {
        let mut queue = Queue::new(&self.config.defaults);
        let later = self.read_entries(source, "queue", queue.keys(), entries);
        let name = queue.name.0.clone();
        if name.is_empty() {
            if !entries.contains_key("name") {
                self.problem(origin, "queue: a queue needs a name = \"...\"");
            }
            return;
        }
        if QueueSpec::is_reserved(&name) {
            self.problem(
                origin,
                format!(
                    "queue.name = {name:?}: names that begin with \"amq.\" or \"_\" are reserved"
                ),
            );
            return;
        }
        if let Some(older) = self
            .config
            .queues
            .iter_mut()
            .find(|older| older.name.0 == name)
        {
            let differing = differing_key(older.clone().keys(), queue.keys());
            if let Some(key) = differing {
                self.problem(
                    origin,
                    format!(
                        "queue.{key}: the queue {name:?} was declared before with another {key}"
                    ),
                );
            }
            return;
        }
        if !later.is_empty() {
            self.config.remarks.push(format!(
                "{origin}: not available in this build, without effect: {} of queue {name:?}",
                later.join(", ")
            ));
        }
        self.config.queues.push(queue);
    }

    fn read_exchange(
        &mut self,
        source: &Source,
        origin: Origin,
        entries: &DeTable<'_>,
        routes: &mut Exchanges,
    ) {
        let mut exchange = Exchange::default();
        self.read_entries(source, "exchange", exchange.keys(), entries);
        let name = exchange.name.0.clone();
        if name.is_empty() && !entries.contains_key("name") {
            self.problem(origin, "exchange: an exchange needs a name = \"...\"");
            return;
        }
        if name.is_empty() {
            return;
        }
        let spec = exchange.spec();
        match routes.decide_declare(&spec) {
            Ok(true) => {
                routes.apply_declare(Arc::new(spec));
                self.config.exchanges.push(exchange);
            }
            Ok(false) => {}
            Err(refusal) => self.problem(origin, format!("exchange: {}", refusal.text)),
        }
    }

    fn read_binding(
        &mut self,
        source: &Source,
        origin: Origin,
        entries: &DeTable<'_>,
        routes: &Exchanges,
    ) {
        let mut binding = Binding::default();
        self.read_entries(source, "binding", binding.keys(), entries);
        if !entries.contains_key("exchange") || !binding.has_one_destination() {
            self.problem(origin, "binding: a binding needs an exchange = \"...\" and either a queue = \"...\" or a to_exchange = \"...\"");
            return;
        }
        let spec = binding.spec();
        if let Err(refusal) = routes.decide_bind(&spec) {
            self.problem(origin, format!("binding: {}", refusal.text));
            return;
        }
        if let Some(queue) = &spec.queue
            && !self
                .config
                .queues
                .iter()
                .any(|known| known.name.0 == *queue)
        {
            self.problem(
                origin,
                format!("binding: no [[queue]] named {queue:?} is declared"),
            );
            return;
        }
        self.config.bindings.push(binding);
    }
}

/// The first key whose value differs between two tables of the same keys.
fn differing_key(left: Vec<Key<'_>>, right: Vec<Key<'_>>) -> Option<&'static str> {
    left.iter()
        .zip(&right)
        .find(|(left, right)| left.slot.show() != right.slot.show())
        .map(|(key, _)| key.name)
}
