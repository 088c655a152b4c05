//! Reads the topology: the tables `[[queue]]`, `[[stream]]`, `[[exchange]]` and `[[binding]]`.

use std::sync::Arc;

use qq_core::admin::{field_of, word_of};
use qq_core::broker::QueueSpec;
use qq_core::route::{Exchanges, TableLimits};
use toml::de::{DeTable, DeValue};

use super::Origin;
use super::key::Key;
use super::load::{Loader, Source};
use super::raw::Raw;
use super::stream::Stream;
use super::topology::{Binding, Exchange, Queue};

/// The names of the tables.
pub(super) const TOPOLOGY: [&str; 4] = ["queue", "stream", "exchange", "binding"];

/// Why a queue or a stream cannot have a name.
const RESERVED: &str =
    "names that begin with \"amq.\" or \"_\" are reserved, and so is \"$management\"";

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
                    "queue" if is_stream(entries) => {
                        self.read_stream(name, source, origin, entries)
                    }
                    "queue" => self.read_queue(source, origin, entries),
                    "stream" => self.read_stream(name, source, origin, entries),
                    "exchange" => self.read_exchange(source, origin, entries, &mut routes),
                    _ => self.read_binding(source, origin, entries, &routes),
                }
            }
        }
    }

    /// Reads the entries of one table of the topology.
    fn read_entries(
        &mut self,
        source: &Source,
        name: &str,
        mut keys: Vec<Key<'_>>,
        entries: &DeTable<'_>,
    ) {
        for (key, value) in entries {
            let origin = source.origin(&key.span());
            let written: &str = key.get_ref();
            let (entry, text) = match field_of(written) {
                Some(field) => translated(field, value.get_ref()),
                None => (written, None),
            };
            if entry != written && entries.contains_key(entry) {
                let text =
                    format!("{name}.{written}: means the same as {entry}; one of them must go");
                self.problem(origin, text);
                continue;
            }
            let raw = match &text {
                Some(text) => Raw::Text(text),
                None => Raw::Toml(value.get_ref()),
            };
            self.read_key(name, &mut keys, entry, raw, origin);
        }
    }

    fn read_queue(&mut self, source: &Source, origin: Origin, entries: &DeTable<'_>) {
        let mut queue = Queue::new(&self.config.defaults);
        self.read_entries(source, "queue", queue.keys(), entries);
        let name = queue.name.0.clone();
        if name.is_empty() {
            if !entries.contains_key("name") {
                self.problem(origin, "queue: a queue needs a name = \"...\"");
            }
            return;
        }
        if QueueSpec::is_reserved(&name) {
            self.problem(origin, format!("queue.name = {name:?}: {RESERVED}"));
            return;
        }
        if (self.config.streams.iter()).any(|stream| stream.name.0 == name) {
            let text = format!("queue.name = {name:?}: there is a stream of this name");
            return self.problem(origin, text);
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
        self.config.queues.push(queue);
    }

    /// A `[[stream]]`, or a `[[queue]]` whose type says that it is one.
    fn read_stream(&mut self, table: &str, source: &Source, origin: Origin, entries: &DeTable<'_>) {
        let mut stream = Stream::default();
        for (key, value) in entries {
            let entry: &str = key.get_ref();
            if table == "queue" && TYPE_KEYS.contains(&entry) {
                continue;
            }
            let origin = source.origin(&key.span());
            self.read_key(
                table,
                &mut stream.keys(),
                stream_key(entry),
                Raw::Toml(value.get_ref()),
                origin,
            );
        }
        let name = stream.name.0.clone();
        if name.is_empty() {
            if !entries.contains_key("name") {
                let text = format!("{table}: a stream needs a name = \"...\"");
                self.problem(origin, text);
            }
            return;
        }
        if QueueSpec::is_reserved(&name) {
            let text = format!("{table}.name = {name:?}: {RESERVED}");
            return self.problem(origin, text);
        }
        let older = self.config.streams.iter_mut();
        if let Some(older) = older.into_iter().find(|older| older.name.0 == name) {
            if let Some(key) = differing_key(older.clone().keys(), stream.keys()) {
                let text = format!(
                    "{table}.{key}: the stream {name:?} was declared before with another {key}"
                );
                self.problem(origin, text);
            }
            return;
        }
        if self.config.queues.iter().any(|queue| queue.name.0 == name) {
            let text = format!("{table}.name = {name:?}: there is a queue of this name");
            return self.problem(origin, text);
        }
        self.config.streams.push(stream);
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
                .map(|known| &known.name.0)
                .chain(self.config.streams.iter().map(|known| &known.name.0))
                .any(|known| known == queue)
        {
            self.problem(
                origin,
                format!("binding: no [[queue]] or [[stream]] named {queue:?} is declared"),
            );
            return;
        }
        self.config.bindings.push(binding);
    }
}

/// Keys that say what a `[[queue]]` is; the second is RabbitMQ's.
const TYPE_KEYS: [&str; 2] = ["type", "x-queue-type"];

fn is_stream(entries: &DeTable<'_>) -> bool {
    TYPE_KEYS.iter().any(|key| {
        let value = entries.get(*key).map(toml::Spanned::get_ref);
        matches!(value, Some(DeValue::String(text)) if text.eq_ignore_ascii_case("stream"))
    })
}

/// A key of a stream by the names that queues and RabbitMQ have for it.
fn stream_key(name: &str) -> &str {
    match name {
        "max_length" | "x-max-length" => "max_messages",
        "x-max-length-bytes" => "max_bytes",
        "x-max-age" => "max_age",
        other => other,
    }
}

/// A setting under a name of RabbitMQ's: our name, and the value in our words where it has others. Its times are
/// milliseconds.
fn translated(field: &'static str, value: &DeValue<'_>) -> (&'static str, Option<String>) {
    let time = field.strip_suffix("_ms");
    let text = match value {
        DeValue::Integer(number) if time.is_some() => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            number.ok().map(|ms| format!("{ms}ms"))
        }
        DeValue::String(text) if field == "overflow" => Some(word_of(text).to_owned()),
        _ => None,
    };
    (time.unwrap_or(field), text)
}

/// The first key whose value differs between two tables of the same keys.
fn differing_key(left: Vec<Key<'_>>, right: Vec<Key<'_>>) -> Option<&'static str> {
    left.iter()
        .zip(&right)
        .find(|(left, right)| left.slot.show() != right.slot.show())
        .map(|(key, _)| key.name)
}
