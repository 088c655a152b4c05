//! Dead letters in the reference: what must arrive where when a message cannot stay in its queue.
//!
//! When exactly an expired message leaves is the broker's affair, and so is the order in which several arrive. What is
//! not: a message leaves one queue and arrives in the right ones in one batch, as what it was, with a true history.
//! So a move is expected here first; the store's operations, or for volatile messages a delivery, then say its place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use qq_core::broker::{FailurePolicy, Now, Overflow, QueueSpec};
use qq_core::store::{Batch, Op};
use qq_core::vocab::{Cause, Death, Deaths, Message, QueueId};

use super::queue::{Entry, Queue};
use super::{News, Reference, up_ms};
use crate::sim::letter;
use crate::sim::setup::first_grave;

/// Deaths that a message remembers, and that it dies in a row without a consumer's doing.
const DEATHS_MAX: usize = 32;

/// How sure a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sureness {
    /// The broker has done it.
    Done,
    /// It must be done before everything is over.
    Due,
    /// It may have been done, or not.
    Perhaps,
}

/// A move that was not seen to arrive yet.
#[derive(Debug)]
pub(super) struct Burial {
    number: u64,
    source: String,
    /// Queue and position that it leaves, when the store knows of it.
    from: Option<(QueueId, u64)>,
    /// Queues in which it was not seen yet, and whether the store must hear of it.
    targets: BTreeMap<String, bool>,
    message: Message,
    annotations: Option<Bytes>,
    sureness: Sureness,
}

impl Burial {
    /// Whether this is what arrived.
    fn is_seen_as(&self, found: &Message) -> bool {
        let mut expected = self.message.clone();
        if self.sureness != Sureness::Done
            && let (Some(deaths), Some(told)) = (&mut expected.envelope.deaths, newest_of(found))
            && let Some(newest) = Arc::make_mut(deaths).list.first_mut()
        {
            newest.at_ms = told.at_ms;
        }
        expected == *found
    }
}

fn newest_of(message: &Message) -> Option<&Death> {
    message.envelope.deaths.as_ref()?.list.first()
}

/// The queue in which a message died first.
pub(super) fn origin_of(message: &Message, queue: &str) -> String {
    let deaths = message.envelope.deaths.as_deref();
    let oldest = deaths.and_then(|deaths| deaths.list.last());
    oldest.map_or(queue, |death| &death.queue).to_owned()
}

/// The name of the queue that takes what no dead-letter exchange does.
fn own_grave(source: &str) -> String {
    format!("{source}.dlq")
}

/// Whether a queue keeps what dies in it of this cause.
fn keeps_dead(spec: &QueueSpec, cause: Cause) -> bool {
    let is_asked = spec.overflow == Overflow::RejectDlx
        || spec.dead_letter_exchange.is_some()
        || spec.dead_letter_routing_key.is_some();
    match spec.failure_policy {
        FailurePolicy::Drop => false,
        FailurePolicy::Dlq | FailurePolicy::Infinite => cause != Cause::Overflow || is_asked,
    }
}

/// Whether one more failure is one too many for a message of a queue.
pub(super) fn is_used_up(spec: &QueueSpec, entry: &Entry) -> bool {
    let here = entry.count - entry.message.envelope.delivery_count;
    spec.failure_policy != FailurePolicy::Infinite
        && spec.max_deliveries > 0
        && here + 1 >= spec.max_deliveries
}

/// The history with one more death.
fn with_death(message: &Message, queue: &str, cause: Cause, at_ms: i64) -> Deaths {
    let envelope = &message.envelope;
    let mut deaths = envelope.deaths.as_deref().cloned().unwrap_or_default();
    deaths.ttl_ms = envelope.ttl_ms.or(deaths.ttl_ms);
    deaths.expires_at_ms = envelope.expires_at_ms.or(deaths.expires_at_ms);
    let is_same = |death: &Death| death.queue == queue && death.cause == cause;
    let earlier: u32 = deaths
        .list
        .iter()
        .filter(|death| is_same(death))
        .map(|death| death.count)
        .sum();
    deaths.list.retain(|death| !is_same(death));
    let newest = Death {
        queue: queue.to_owned(),
        cause,
        count: earlier + 1,
        at_ms,
    };
    deaths.list.insert(0, newest);
    deaths.list.truncate(DEATHS_MAX);
    deaths
}

/// Whether a message comes to a queue where it died already, and no consumer had a hand in it since.
fn goes_round(deaths: &Deaths, queue: &str) -> bool {
    let by_consumer = |death: &Death| matches!(death.cause, Cause::Rejected | Cause::Attempts);
    let idle = deaths.list.iter().position(by_consumer);
    let idle = &deaths.list[..idle.unwrap_or(deaths.list.len())];
    idle.len() >= DEATHS_MAX || idle.iter().any(|death| death.queue == queue)
}

/// The keys that queues know from a batch on.
fn keys_of(batch: &Batch) -> BTreeSet<(QueueId, Bytes)> {
    let keys = batch.ops.iter().filter_map(|op| match op {
        Op::Keyed { keys } => Some(keys),
        _ => None,
    });
    keys.flatten()
        .map(|seen| (seen.queue, seen.key.clone()))
        .collect()
}

/// Queues that come and go in a batch.
fn passing(batch: &Batch) -> BTreeSet<QueueId> {
    let declared = batch.ops.iter().filter_map(|op| match op {
        Op::QueueDeclared { queue, .. } => Some(*queue),
        _ => None,
    });
    let is_deleted = |id: &QueueId| {
        let is_it = |op: &Op| matches!(op, Op::QueueDeleted { queue } if queue == id);
        batch.ops.iter().any(is_it)
    };
    declared.filter(is_deleted).collect()
}

impl Reference {
    /// A message that is in its queue no more goes to where its dead letters go, or is dropped. Says whether the store
    /// must hear of it.
    pub(super) fn bury(
        &mut self,
        now: Now,
        source: &str,
        (seq, entry): (Option<u64>, Entry),
        cause: Cause,
        sureness: Sureness,
    ) -> bool {
        let Some(queue) = self.queues.get(source) else {
            return false;
        };
        let from = seq.filter(|_| entry.is_durable).map(|seq| (queue.id, seq));
        let (spec, is_source_durable) = (queue.spec.clone(), queue.is_durable());
        let deaths = with_death(&entry.message, source, cause, now.wall_ms);
        let mut names = BTreeSet::new();
        if keeps_dead(&spec, cause) {
            names = self.graves_of(&spec, &entry.message);
            names.retain(|name| !goes_round(&deaths, name));
        }
        if names.is_empty() {
            let origin = origin_of(&entry.message, source);
            self.news.push(News::Dropped(entry.number, origin));
            return false;
        }
        let is_first = entry.message.envelope.deaths.is_none() && names.len() == 1;
        if !is_first || names.first() != first_grave(&spec).as_ref() {
            // The history looks for it in its first dead-letter queue, if there is one.
            let origin = origin_of(&entry.message, source);
            self.news.push(News::Dropped(entry.number, origin));
        }
        let mut message = Message::clone(&entry.message);
        message.envelope.ttl_ms = None;
        message.envelope.expires_at_ms = None;
        message.envelope.delivery_count = 0;
        message.envelope.wishes = None;
        message.envelope.deaths = Some(Arc::new(deaths));
        let is_kept = |name: &String| {
            let found = self.queues.get(name);
            message.envelope.durable && found.map_or(is_source_durable, Queue::is_durable)
        };
        let targets: BTreeMap<String, bool> = names
            .iter()
            .map(|name| (name.clone(), is_kept(name)))
            .collect();
        let is_stored = targets.values().any(|is_kept| *is_kept);
        self.made_graves.extend(
            names
                .into_iter()
                .filter(|name| !self.queues.contains_key(name)),
        );
        self.burials.push(Burial {
            number: entry.number,
            source: source.to_owned(),
            from,
            targets,
            message,
            annotations: entry.annotations,
            sureness,
        });
        is_stored
    }

    /// Where a dead letter of a queue goes.
    fn graves_of(&self, spec: &QueueSpec, message: &Message) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let exchange = spec.dead_letter_exchange.as_deref().unwrap_or_default();
        if !exchange.is_empty() {
            let own = letter::subject_of(message);
            let key = spec.dead_letter_routing_key.as_ref().unwrap_or(&own);
            let properties = letter::properties_of(&message.payload);
            names = self.topology.route(exchange, key, &properties);
        } else if let Some(key) = &spec.dead_letter_routing_key
            && self.queues.contains_key(key)
        {
            names.insert(key.clone());
        }
        if names.is_empty() {
            names.insert(own_grave(&spec.name));
        }
        names
    }

    /// A dead letter was seen in a queue: now its place is known.
    pub(super) fn arrive(
        &mut self,
        now: Now,
        name: &str,
        seq: u64,
        message: &Arc<Message>,
    ) -> bool {
        let number = letter::number_of(&message.payload).unwrap_or(u64::MAX);
        let is_it = |burial: &Burial| {
            burial.number == number
                && burial.targets.contains_key(name)
                && burial.is_seen_as(message)
        };
        let Some(at) = self.burials.iter().position(is_it) else {
            return false;
        };
        let burial = &mut self.burials[at];
        let is_durable = burial.targets.remove(name).unwrap_or(false);
        let annotations = burial.annotations.clone();
        if burial.targets.is_empty() {
            self.burials.swap_remove(at);
        }
        if let Some(queue) = self.queues.get_mut(name) {
            let expires_ms = queue.spec.message_ttl_ms.map(|ttl| up_ms(now) + ttl);
            let entry = Entry {
                number,
                count: 0,
                message: Arc::clone(message),
                is_durable,
                annotations,
                had_owner: false,
                excluded: Vec::new(),
                owner: None,
                expires_ms,
                due_ms: None,
            };
            queue.insert(seq, entry);
        }
        true
    }

    /// The store is told of a batch: dead letters leave and arrive in it, not in two.
    pub(in crate::sim) fn on_batch(&mut self, now: Now, batch: &Batch) {
        let mut removed: BTreeSet<(QueueId, u64)> = BTreeSet::new();
        let keys = keys_of(batch);
        for op in &batch.ops {
            if let Op::Removed { queue, seq, count } = op {
                removed.extend((seq.0..seq.0 + count).map(|seq| (*queue, seq)));
            }
        }
        let gone = passing(batch);
        for op in &batch.ops {
            match op {
                Op::Unbound { .. } | Op::ExchangeDeleted { .. } => self.is_rerouted = true,
                Op::QueueDeclared { queue, spec }
                    if self.made_graves.remove(&spec.name)
                        && !self.queues.contains_key(&spec.name) =>
                {
                    self.names.insert(*queue, spec.name.clone());
                    let fresh = Queue::new(*queue, QueueSpec::clone(spec), None);
                    self.queues.insert(spec.name.clone(), fresh);
                }
                Op::QueueDeclared { queue, spec } if !gone.contains(queue) => {
                    self.learn(&spec.name, *queue);
                }
                Op::Enqueued(stored) => {
                    let places = stored.places.iter();
                    for (queue, seq) in places.filter(|(queue, _)| !gone.contains(queue)) {
                        let key = self.keyed.remove(&(*queue, seq.0));
                        if let Some(key) = key.filter(|key| !keys.contains(&(*queue, key.clone())))
                        {
                            let text = format!("{key:?} is not stored with its message");
                            self.broken(text);
                        }
                        self.on_enqueued(now, *queue, seq.0, &stored.message, &removed);
                    }
                    self.check_whole(&stored.message);
                }
                _ => {}
            }
        }
        self.check_together(batch);
        let is_half = |burial: &&Burial| {
            burial.sureness != Sureness::Perhaps
                && burial.from.is_some_and(|from| removed.contains(&from))
                && burial.targets.values().any(|is_kept| *is_kept)
        };
        let half: Vec<String> = self
            .burials
            .iter()
            .filter(is_half)
            .map(|burial| {
                let (number, source) = (burial.number, &burial.source);
                format!("message {number} leaves {source} in a batch in which it does not arrive")
            })
            .collect();
        half.into_iter().for_each(|text| self.broken(text));
    }

    /// A message is stored for all its queues at once.
    fn check_whole(&mut self, message: &Message) {
        let number = letter::number_of(&message.payload).unwrap_or(u64::MAX);
        let is_part = |(_, other): (&(QueueId, u64), &u64)| *other == number;
        if message.envelope.deaths.is_none() && self.issued.iter().any(is_part) {
            let text = format!("message {number} is stored for some of its queues only");
            self.broken(text);
        }
    }

    fn on_enqueued(
        &mut self,
        now: Now,
        queue: QueueId,
        seq: u64,
        message: &Arc<Message>,
        removed: &BTreeSet<(QueueId, u64)>,
    ) {
        let number = letter::number_of(&message.payload).unwrap_or(u64::MAX);
        if message.envelope.deaths.is_none() {
            return self.check_issued(queue, seq, number);
        }
        let Some(name) = self.names.get(&queue).cloned() else {
            return self.broken(format!(
                "message {number} comes to queue {}, which is not there",
                queue.0
            ));
        };
        let is_it =
            |burial: &&Burial| burial.number == number && burial.targets.contains_key(&name);
        let from = self
            .burials
            .iter()
            .find(is_it)
            .and_then(|burial| burial.from);
        if let Some((source, before)) = from.filter(|from| !removed.contains(from)) {
            let source = self.names.get(&source).cloned().unwrap_or_default();
            self.broken(format!(
                "message {number} comes to {name} and stays at position {before} of {source}"
            ));
        }
        if !self.arrive(now, &name, seq, message) {
            let deaths = message.envelope.deaths.as_deref();
            self.broken(format!(
                "message {number} comes to {name} at position {seq} with {deaths:?}, where it does not belong"
            ));
        }
    }

    /// What was to leave a queue by and by may be gone with it.
    pub(super) fn unsettle_burials(&mut self, source: &str) {
        for burial in &mut self.burials {
            if burial.source == source && burial.sureness == Sureness::Due {
                burial.sureness = Sureness::Perhaps;
            }
        }
    }

    /// Moves into a queue that were not seen yet: those that are done, and all.
    pub(super) fn unseen(&self, name: &str) -> (usize, usize) {
        let all = self
            .burials
            .iter()
            .filter(|burial| burial.targets.contains_key(name));
        let done = all
            .clone()
            .filter(|burial| burial.sureness == Sureness::Done);
        (done.count(), all.count())
    }

    /// Dead letters that never arrived.
    pub(in crate::sim) fn lost_burials(&self) -> Vec<String> {
        let due = self
            .burials
            .iter()
            .filter(|burial| burial.sureness != Sureness::Perhaps);
        due.map(|burial| {
            let targets: Vec<_> = burial.targets.keys().collect();
            format!(
                "message {} left {} and never came to {targets:?}",
                burial.number, burial.source
            )
        })
        .collect()
    }
}
