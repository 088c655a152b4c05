//! Queues that the broker makes for links: subscriptions to exchanges, and groups of queues.
//!
//! What their ids are, the reference learns when the store or a consumer hears of them; until then they have ids that no
//! queue has.

use std::collections::BTreeSet;

use qq_core::broker::{GroupSpec, Now, QueueSpec};
use qq_core::route::{BindingSpec, ExchangeKind};
use qq_core::vocab::{Address, ConsumerSpec, ExpiryPolicy, QueueId, TerminusDurability};

use super::queue::{Peer, Queue};
use super::stream::kept_name;
use super::{News, PortKind, Reference, To};
use crate::sim::setup::{TEAM, lossy};

/// Ids from here on stand for some that are not known.
const UNNAMED: u64 = u64::MAX / 2;

/// The name of the queue that a group is. No simulated name needs to be escaped.
fn group_name(queue: &str, group: &str) -> String {
    format!("amq.group-{queue}.{group}")
}

/// What has an id.
fn rename<T>(pair: (QueueId, T), old: QueueId, new: QueueId) -> (QueueId, T) {
    (if pair.0 == old { new } else { pair.0 }, pair.1)
}

impl Reference {
    fn make(&mut self, spec: QueueSpec) -> String {
        let name = spec.name.clone();
        let id = QueueId(UNNAMED + self.unnamed);
        self.unnamed += 1;
        self.made.insert(name.clone());
        self.names.insert(id, name.clone());
        self.queues.insert(name.clone(), Queue::new(id, spec, None));
        name
    }

    /// A queue is gone whose id may not be known: what the store hears of it says nothing.
    pub(super) fn forget_unnamed(&mut self, id: QueueId) {
        if id.0 >= UNNAMED {
            self.issued.retain(|(queue, _), _| *queue != id);
            self.keyed.retain(|(queue, _), _| *queue != id);
            self.together
                .iter_mut()
                .for_each(|marks| marks.retain(|(queue, _, _)| *queue != id));
        }
    }

    /// The id of a queue is known from now on.
    pub(super) fn learn(&mut self, name: &str, id: QueueId) {
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        let old = queue.id;
        if old.0 < UNNAMED {
            return;
        }
        queue.id = id;
        self.names.remove(&old);
        self.names.insert(id, name.to_owned());
        let all = std::mem::take(&mut self.issued).into_iter();
        self.issued = all.map(|(at, n)| (rename(at, old, id), n)).collect();
        let all = std::mem::take(&mut self.keyed).into_iter();
        self.keyed = all.map(|(at, key)| (rename(at, old, id), key)).collect();
        for marks in &mut self.together {
            let all = std::mem::take(marks).into_iter();
            *marks = all
                .map(|(queue, seq, is_there)| {
                    let (queue, seq) = rename((queue, seq), old, id);
                    (queue, seq, is_there)
                })
                .collect();
        }
        self.rename_staged(old, id);
        for confirming in self.confirming.values_mut().flatten() {
            for end in &mut confirming.ends {
                if end.0 == old {
                    end.0 = id;
                }
            }
        }
    }

    /// The queue of a consumer; none when it is refused.
    pub(super) fn find_source(
        &mut self,
        now: Now,
        peer: Peer,
        spec: &ConsumerSpec,
    ) -> Option<String> {
        match &spec.address {
            Address::Exchange { name, key } => self.subscribe(now, spec, name, key.as_deref()),
            Address::Group { queue, name, .. } => self.join(queue, name),
            address => self.find(peer.0, address),
        }
    }

    fn join(&mut self, source: &str, group: &str) -> Option<String> {
        let spec = self.queues.get(source)?.spec.clone();
        let name = group_name(source, group);
        if self.queues.contains_key(&name) {
            return Some(name);
        }
        let of = GroupSpec {
            queue: source.to_owned(),
            name: group.to_owned(),
        };
        Some(self.make(QueueSpec {
            name,
            groups_only: false,
            group_of: Some(Box::new(of)),
            ..spec
        }))
    }

    /// Adds the groups of queues, and takes those away that leave their messages to groups.
    pub(super) fn with_groups(&self, names: BTreeSet<String>) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for name in names {
            let is_its_group = |queue: &&Queue| {
                let of = queue.spec.group_of.as_ref();
                of.is_some_and(|of| of.queue == name)
            };
            let groups = self.queues.values().filter(is_its_group);
            let groups: Vec<String> = groups.map(|queue| queue.spec.name.clone()).collect();
            let queue = self.queues.get(&name);
            if groups.is_empty() || queue.is_none_or(|queue| !queue.spec.groups_only) {
                all.insert(name);
            }
            all.extend(groups);
        }
        all
    }

    fn has_consumers(&self, name: &str) -> bool {
        self.ports.values().any(|port| match port {
            PortKind::Consumer(consumer) => consumer.queue == name,
            PortKind::Producer(_) => false,
        })
    }

    fn subscribe(
        &mut self,
        now: Now,
        spec: &ConsumerSpec,
        exchange: &str,
        key: Option<&str>,
    ) -> Option<String> {
        let kind = self.topology.exchanges.get(exchange)?.kind;
        let key = match (key, kind) {
            (Some(key), _) => key,
            (None, ExchangeKind::Topic) => "#",
            (None, ExchangeKind::Direct) => return None,
            (None, _) => "",
        };
        assert_eq!(
            spec.subscription.expiry,
            ExpiryPolicy::Never,
            "all simulated subscriptions are kept"
        );
        let name = kept_name(spec.key.as_ref()?);
        let is_durable = spec.subscription.durability != TerminusDurability::None;
        let binding = BindingSpec::to_queue(exchange, &name, key);
        if self.has_consumers(&name) {
            return None;
        }
        if let Some(queue) = self.queues.get(&name) {
            let mut bindings = self.topology.bindings.iter();
            let is_other = |known: &BindingSpec| *known != binding;
            let to_it = |known: &&BindingSpec| known.queue.as_ref() == Some(&name);
            let own: Vec<_> = bindings.by_ref().filter(to_it).collect();
            let is_bound_else = !own.is_empty() && own.iter().all(|known| is_other(known));
            if is_bound_else || queue.is_durable() != is_durable {
                self.topology.held = Some(exchange.to_owned());
                self.delete(now, &name, None);
                self.topology.held = None;
            }
        }
        if !self.queues.contains_key(&name) {
            self.make(QueueSpec {
                durable: is_durable,
                ..lossy(&name)
            });
        }
        self.topology.bind(binding);
        self.is_rerouted = true;
        Some(name)
    }

    /// A link is closed for good: what was kept for it goes.
    pub(super) fn end_subscription(&mut self, now: Now, name: &str) {
        if !self.has_consumers(name) {
            self.delete(now, name, None);
        }
    }

    /// A queue of a link went.
    pub(super) fn tell_gone(&mut self, name: &str) {
        if self.made.contains(name) {
            self.news.push(News::Gone(name.to_owned()));
        }
    }

    /// Queues that the broker made for links and that are there.
    pub(in crate::sim) fn made_now(&self) -> Vec<QueueSpec> {
        let made = self.made.iter().filter_map(|name| self.queues.get(name));
        made.map(|queue| queue.spec.clone()).collect()
    }

    /// Whether a message of a producer may become several.
    pub(super) fn is_shared_out(to: &To) -> bool {
        match to {
            To::Exchange(..) => true,
            To::Queue(name) => name == TEAM,
        }
    }
}
