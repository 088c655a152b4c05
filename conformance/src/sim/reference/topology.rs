//! Exchanges and bindings in the reference: lists that are walked, and what each type of exchange means, word for word.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qq_core::broker::Broker;
use qq_core::route::{BindingSpec, Datum, ExchangeKind, ExchangeSpec};

use super::Change;
use crate::sim::letter::Properties;

/// Exchanges that always exist.
const GIVEN: [(&str, ExchangeKind); 4] = [
    ("amq.direct", ExchangeKind::Direct),
    ("amq.topic", ExchangeKind::Topic),
    ("amq.fanout", ExchangeKind::Fanout),
    ("amq.headers", ExchangeKind::Headers),
];

/// See the module.
#[derive(Debug)]
pub(super) struct Topology {
    pub(super) exchanges: BTreeMap<String, ExchangeSpec>,
    pub(super) bindings: Vec<BindingSpec>,
    /// An exchange that does not go with its last binding now: another one comes.
    pub(super) held: Option<String>,
}

impl Default for Topology {
    fn default() -> Self {
        let given = GIVEN
            .into_iter()
            .map(|(name, kind)| (name.to_owned(), ExchangeSpec::new(name, kind)));
        Self {
            exchanges: given.collect(),
            bindings: Vec::new(),
            held: None,
        }
    }
}

impl Topology {
    pub(super) fn declare(&mut self, spec: ExchangeSpec) {
        self.exchanges.insert(spec.name.clone(), spec);
    }

    pub(super) fn bind(&mut self, spec: BindingSpec) {
        if !self.bindings.contains(&spec) {
            self.bindings.push(spec);
        }
    }

    /// Changes what it is told; returns the exchanges that are gone.
    pub(super) fn change(&mut self, change: Change) -> Vec<String> {
        match change {
            Change::Declare(spec) => self.declare(spec),
            Change::Bind(spec) => self.bind(spec),
            Change::Delete(name) => return self.delete(&name),
            Change::Unbind(spec) => return self.unbind(&spec),
        }
        Vec::new()
    }

    /// A binding goes; returns the exchanges that go with it.
    fn unbind(&mut self, spec: &BindingSpec) -> Vec<String> {
        self.take_away(|binding| binding == spec)
    }

    /// An exchange goes; returns it and those that go with it.
    fn delete(&mut self, name: &str) -> Vec<String> {
        if self.exchanges.remove(name).is_none() {
            return Vec::new();
        }
        let mut gone = vec![name.to_owned()];
        gone.extend(self.take_away(|binding| {
            binding.exchange == name || binding.to_exchange.as_deref() == Some(name)
        }));
        gone
    }

    /// A queue goes; returns the exchanges that go with it.
    pub(super) fn forget_queue(&mut self, name: &str) -> Vec<String> {
        self.take_away(|binding| binding.queue.as_deref() == Some(name))
    }

    /// Bindings go, with the exchanges that were to go with their last one.
    fn take_away(&mut self, is_gone: impl Fn(&BindingSpec) -> bool) -> Vec<String> {
        let (gone, kept): (Vec<_>, Vec<_>) = self.bindings.drain(..).partition(is_gone);
        self.bindings = kept;
        let mut followers = Vec::new();
        for binding in gone {
            let goes_along = self
                .exchanges
                .get(&binding.exchange)
                .is_some_and(|exchange| exchange.auto_delete)
                && self.held.as_ref() != Some(&binding.exchange);
            let has_more = self
                .bindings
                .iter()
                .any(|other| other.exchange == binding.exchange);
            if goes_along && !has_more {
                followers.extend(self.delete(&binding.exchange));
            }
        }
        followers
    }

    /// In what the broker's exchanges and bindings differ.
    pub(super) fn difference(&self, broker: &Broker) -> Vec<String> {
        let mut wrong = Vec::new();
        let exchanges: Vec<_> = broker.exchanges().collect();
        let bindings: Vec<_> = broker.bindings().collect();
        let is_known =
            |spec: &&&Arc<ExchangeSpec>| self.exchanges.get(&spec.name) == Some(&***spec);
        let others = exchanges.iter().filter(|spec| !is_known(spec));
        wrong.extend(others.map(|spec| format!("there should be no {spec:?}")));
        let others = bindings.iter().filter(|spec| !self.bindings.contains(spec));
        wrong.extend(others.map(|spec| format!("there should be no {spec:?}")));
        let is_there = |spec: &&ExchangeSpec| exchanges.iter().any(|other| other.name == spec.name);
        let missing = self.exchanges.values().filter(|spec| !is_there(spec));
        wrong.extend(missing.map(|spec| format!("there is no {spec:?}")));
        let is_there = |spec: &&BindingSpec| bindings.iter().any(|other| ***other == **spec);
        let missing = self.bindings.iter().filter(|spec| !is_there(spec));
        wrong.extend(missing.map(|spec| format!("there is no {spec:?}")));
        if (exchanges.len(), bindings.len()) != (self.exchanges.len(), self.bindings.len()) {
            wrong.push(format!(
                "there are {} exchanges and {} bindings, not {} and {}",
                exchanges.len(),
                bindings.len(),
                self.exchanges.len(),
                self.bindings.len()
            ));
        }
        wrong
    }

    /// Whether the broker should do what it was asked.
    pub(super) fn allows(&self, change: &Change, has_queue: impl Fn(&str) -> bool) -> bool {
        match change {
            Change::Declare(_) => true,
            Change::Delete(name) => self.exchanges.contains_key(name),
            Change::Unbind(spec) => self.bindings.contains(spec),
            Change::Bind(spec) => {
                self.exchanges.contains_key(&spec.exchange)
                    && spec.queue.as_deref().is_none_or(has_queue)
                    && (spec.to_exchange.iter()).all(|name| self.exchanges.contains_key(name))
            }
        }
    }

    /// The queues that a message goes to.
    pub(super) fn route(
        &self,
        exchange: &str,
        key: &str,
        properties: &Properties,
    ) -> BTreeSet<String> {
        let mut queues = BTreeSet::new();
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![exchange.to_owned()]);
        while let Some(name) = waiting.pop() {
            let Some(spec) = self.exchanges.get(&name) else {
                continue;
            };
            if !seen.insert(name.clone()) {
                continue;
            }
            let is_taken = |binding: &&BindingSpec| {
                binding.exchange == name && takes(spec.kind, binding, key, properties)
            };
            let mut has_taken = false;
            for binding in self.bindings.iter().filter(is_taken) {
                has_taken = true;
                queues.extend(binding.queue.clone());
                waiting.extend(binding.to_exchange.clone());
            }
            if !has_taken {
                waiting.extend(spec.alternate_exchange.clone());
            }
        }
        queues
    }
}

fn takes(kind: ExchangeKind, binding: &BindingSpec, key: &str, properties: &Properties) -> bool {
    match kind {
        ExchangeKind::Fanout => true,
        ExchangeKind::Direct => binding.routing_key == key,
        ExchangeKind::Topic => {
            // Empty words are words, but an empty key has none.
            let words = |text: &str| -> Vec<String> {
                let words = text.split('.').filter(|_| !text.is_empty());
                words.map(str::to_owned).collect()
            };
            fits(&words(&binding.routing_key), &words(key))
        }
        ExchangeKind::Headers => has_headers(binding, properties),
    }
}

/// Whether a pattern of words fits a key of words.
fn fits(pattern: &[String], words: &[String]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return words.is_empty();
    };
    match (first.as_str(), words.split_first()) {
        ("#", _) => (0..=words.len()).any(|many| fits(rest, &words[many..])),
        ("*", Some((_, others))) => fits(rest, others),
        (word, Some((next, others))) => word == next && fits(rest, others),
        (_, None) => false,
    }
}

fn has_headers(binding: &BindingSpec, properties: &Properties) -> bool {
    let mode = match binding.arguments.get("x-match") {
        Some(Datum::Text(mode)) => mode.as_str(),
        _ => "all",
    };
    let mut wanted = binding
        .arguments
        .iter()
        .filter(|(name, _)| *name != "x-match" && (mode.ends_with("x") || !name.starts_with("x-")));
    let holds = |(name, value): (&String, &Datum)| match (properties.get(name), value) {
        (Some(found), Datum::Null) => *found != Datum::Null,
        (Some(found), value) => is_equal(found, value),
        (None, _) => false,
    };
    if mode.starts_with("any") {
        wanted.any(holds)
    } else {
        wanted.all(holds)
    }
}

/// Whether two values are the same: whole numbers of all widths by value.
pub(super) fn is_equal(one: &Datum, other: &Datum) -> bool {
    let number = |value: &Datum| match value {
        Datum::Int(value) => Some(i128::from(*value)),
        Datum::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one == other,
        _ => false,
    }
}
