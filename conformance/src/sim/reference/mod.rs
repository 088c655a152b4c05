//! The reference: an executable statement of what the broker may do, in the words between faces and broker.
//!
//! It is told every command in the order in which the broker gets them, applies them to plain maps, and judges every
//! notice that comes out: is this message the first one for this consumer, does the permit cover it, is what it says
//! about itself true, is it safe, may this be confirmed yet, is nothing left undone? It shares no code with the broker.
//!
//! One *round* is what the broker does between two looks at its inbox: some inputs, one flush, the notices of it.

mod burial;
mod commands;
mod hold;
mod notices;
mod publish;
mod queue;
mod stream;
mod subscription;
mod topology;
mod txn;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use qq_core::broker::{Broker, Now, QueueSpec};
use qq_core::route::{BindingSpec, ExchangeSpec};
use qq_core::store::Op;
use qq_core::vocab::{
    Cause, Command, ConnId, Delay, LinkKey, LockSpec, Message, Notice, Outcome, Port, QueueId,
    Ticket, TxnId, Verdict,
};

use super::mirror::{Mirror, State};
use super::setup::DEAD_EXCHANGE;
use burial::{Burial, Sureness};
use queue::Wants;
pub(super) use queue::{Entry, Peer, Queue};
use stream::unread;
use topology::Topology;
use txn::{Discharged, Txn};

/// What the broker was told.
#[derive(Debug)]
pub(super) enum Input {
    /// By a face.
    Commands(ConnId, Vec<Command>),
    /// That a connection is gone.
    Gone(ConnId),
    /// That a queue is to be there.
    Declared(Box<QueueSpec>, QueueId, Option<ConnId>),
    /// That a queue is to be empty; it said how many messages went.
    Purged(String, usize),
    /// That a queue is to go.
    Deleted(String),
    /// That bodies of a queue cannot be read.
    Damaged(String),
    /// That exchanges and bindings are to change; whether it did so.
    Topology(Change, bool),
}

/// A change of exchanges and bindings.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Declare(ExchangeSpec),
    Delete(String),
    Bind(BindingSpec),
    Unbind(BindingSpec),
}

/// A settlement whose confirmation is awaited.
#[derive(Debug)]
struct Confirming {
    first: u64,
    last: u64,
    /// Queue, position, and the count that must be safe; none when the message must be gone.
    ends: Vec<(QueueId, u64, Option<u32>)>,
    /// Stream, reader, and the place that must be safe.
    place: Option<(QueueId, String, u64)>,
}

#[derive(Debug)]
struct Consumer {
    queue: String,
    key: Option<LinkKey>,
    is_browsing: bool,
    wants: Wants,
    is_settled: bool,
    default_outcome: Outcome,
    sent: u64,
    limit: u64,
    is_draining: bool,
    /// Permits with drains that a newer permit came upon: they are answered first, under their own limits.
    older: VecDeque<u64>,
    /// Positions by delivery.
    held: BTreeMap<u64, u64>,
    /// Browsing: the next position to look at.
    browse_from: u64,
    /// For how long it may hold a delivery, milliseconds.
    lock: LockSpec,
    /// When what it holds returns, monotonic milliseconds by delivery.
    due_ms: BTreeMap<u64, u64>,
    /// How many consumers opened before it.
    serial: u64,
    /// The exchange whose subscription it reads.
    exchange: Option<String>,
    /// Under this name its place in a stream is kept.
    reader: Option<String>,
    /// Its place is to be stored at the end of the round.
    is_noted: bool,
    /// What it was told last: whether it is the one that is served.
    told_active: Option<bool>,
}

/// A publish without an answer.
#[derive(Clone, Copy, Debug)]
struct Published {
    number: u64,
    /// It may be accepted when the store has it.
    needs_store: bool,
    /// It was refused, says the reference.
    is_refused: bool,
    /// No queue was to have it.
    is_unroutable: bool,
    /// All its queues had it.
    is_duplicate: bool,
    /// The message that was there, if the store was told of it.
    repeats: Option<u64>,
}

/// Where a producer's messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
enum To {
    Queue(String),
    /// By this key, or that of each message.
    Exchange(String, Option<String>),
}

#[derive(Debug)]
struct Producer {
    to: To,
    key: Option<LinkKey>,
    unanswered: BTreeMap<u64, Published>,
}

#[derive(Debug)]
enum PortKind {
    Producer(Producer),
    Consumer(Box<Consumer>),
}

/// What the reference wants others to know.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// A rule is broken.
    Broken(String),
    /// A message that was sent to a queue was dropped as rules say.
    Dropped(u64, String),
    /// An exchange gave a message to queues, in some of which it is durable.
    Routed(u64, Vec<(String, bool)>),
    /// The broker no longer serves this link of a connection.
    Cut(ConnId, LinkKey, bool),
    /// The broker took deliveries of a link back, from the first to the last.
    Lost(ConnId, LinkKey, u64, u64),
    /// A queue went that nobody deletes by itself, with what was in it.
    Gone(String),
    /// The broker executed a discharge: whether all of it took effect.
    Discharged(ConnId, TxnId, bool),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Reference {
    queues: BTreeMap<String, Queue>,
    names: BTreeMap<QueueId, String>,
    ports: BTreeMap<Peer, PortKind>,
    /// Holders of links; the flag tells producers from consumers.
    links: BTreeMap<(LinkKey, bool), Peer>,
    confirming: BTreeMap<Peer, VecDeque<Confirming>>,
    /// Ports that the broker closed and must say so.
    closing: BTreeSet<Peer>,
    /// Opens that must be answered in this round, with what the answer must be.
    opening: BTreeMap<Peer, bool>,
    /// Where readers of streams must begin that are opened in this round.
    beginnings: BTreeMap<Peer, u64>,
    /// The broker may refuse more than queues do: memory or disk are short now and then.
    pub(super) may_refuse: bool,
    /// Bodies leave memory: a deliverable message may have to be fetched first.
    pub(super) may_page: bool,
    pub(super) news: Vec<News>,
    /// Queues from which something was delivered in the middle of this round's commands.
    loose: BTreeSet<String>,
    /// Consumers that heard of a drain in this round, with permit left.
    drained: Vec<Peer>,
    /// Ops of this round: what was published as durable, by queue and position.
    issued: BTreeMap<(QueueId, u64), u64>,
    /// Keys that the store must hear of with the messages at these positions.
    keyed: BTreeMap<(QueueId, u64), Bytes>,
    /// Dead letters that were not seen to arrive.
    burials: Vec<Burial>,
    /// Queues for dead letters that the broker may have made for itself.
    made_graves: BTreeSet<String>,
    topology: Topology,
    /// What is staged.
    txns: BTreeMap<(ConnId, TxnId), Txn>,
    /// Discharges without an answer.
    discharged: BTreeMap<(ConnId, TxnId), Discharged>,
    /// Transactions whose end was asked for, and is not told yet.
    rolled_back: BTreeSet<(ConnId, TxnId)>,
    /// Positions that enter or leave queues in one batch.
    together: Vec<BTreeSet<(QueueId, u64, bool)>>,
    /// Queues that the broker made for links, of whose ids nothing was heard.
    unnamed: u64,
    /// All queues that the broker made for links at any time.
    pub(super) made: BTreeSet<String>,
    /// Consumers that were opened.
    serials: u64,
    /// Ordering keys of messages that left queues as they were delivered in this round.
    freed: BTreeSet<(String, Bytes)>,
    /// Queues and positions of messages that leave in this round as they are delivered.
    leaving: BTreeSet<(String, u64)>,
    /// Ports that were closed in this round.
    closed: BTreeSet<Peer>,
    /// Exchanges or bindings may have changed since the broker's were looked at.
    is_rerouted: bool,
}

impl Reference {
    fn broken(&mut self, text: String) {
        self.news.push(News::Broken(text));
    }

    /// Begins anew after a restart: durable queues with what the store kept. Queues that the configuration adds are
    /// declared with [`Input::Declared`].
    pub(super) fn restart(&mut self, kept: &State, now: Now) {
        self.queues.clear();
        self.names.clear();
        self.ports.clear();
        self.links.clear();
        self.confirming.clear();
        self.closing.clear();
        self.opening.clear();
        self.beginnings.clear();
        self.issued.clear();
        self.keyed.clear();
        self.burials.clear();
        self.made_graves.clear();
        self.txns.clear();
        self.discharged.clear();
        self.rolled_back.clear();
        self.together.clear();
        self.topology = Topology::default();
        self.is_rerouted = true;
        for op in kept.topology() {
            match op {
                Op::ExchangeDeclared { spec } => self.topology.declare(ExchangeSpec::clone(spec)),
                Op::Bound { spec } => self.topology.bind(BindingSpec::clone(spec)),
                _ => {}
            }
        }
        let keys = &kept.keys;
        for (id, kept) in &kept.queues {
            let mut queue = Queue::new(*id, QueueSpec::clone(&kept.spec), None);
            for (seq, kept) in &kept.messages {
                let spent_ms = u64::try_from(now.wall_ms - kept.arrived_at_ms).unwrap_or(0);
                let ttl_ms = ttl_of(kept.message.envelope.ttl_ms, queue.spec.message_ttl_ms);
                let entry = Entry {
                    number: super::letter::number_of(&kept.message.payload).unwrap_or(u64::MAX),
                    message: kept.message.clone(),
                    is_durable: true,
                    count: kept.delivery_count,
                    annotations: kept.annotations.clone(),
                    had_owner: kept.is_returned,
                    excluded: Vec::new(),
                    owner: None,
                    expires_ms: ttl_ms.map(|ttl| up_ms(now) + ttl.saturating_sub(spent_ms)),
                    // A wait between attempts ends with the process.
                    due_ms: due_ms_of(&kept.message, kept.arrived_at_ms, now),
                };
                let entry = Entry {
                    expires_ms: entry.expires_ms.filter(|_| !queue.spec.is_stream()),
                    due_ms: entry.due_ms.filter(|_| !queue.spec.is_stream()),
                    ..entry
                };
                // What exceeds a limit after a restart stays until something is added.
                queue.insert(*seq, entry);
            }
            queue.next = kept.next;
            queue.offsets.clone_from(&kept.offsets);
            queue.remember(*id, &keys.0, now);
            self.names.insert(*id, queue.spec.name.clone());
            self.queues.insert(queue.spec.name.clone(), queue);
        }
    }

    /// Time passed: what is over is gone, wherever the broker still keeps it.
    pub(super) fn pass(&mut self, now: Now) {
        let mut over = Vec::new();
        for (name, queue) in &mut self.queues {
            let of_queue = queue.forget_expired(down_ms(now)).into_iter();
            over.extend(of_queue.map(|(seq, entry)| (name.clone(), seq, entry)));
        }
        for (name, seq, entry) in over {
            self.bury(
                now,
                &name,
                (Some(seq), entry),
                Cause::Expired,
                Sureness::Due,
            );
        }
    }

    /// Judges one round.
    pub(super) fn round(
        &mut self,
        now: Now,
        mirror: &Mirror,
        inputs: Vec<Input>,
        notices: Vec<(ConnId, Notice)>,
    ) {
        self.pass(now);
        self.loose.clear();
        self.closed.clear();
        self.freed.clear();
        // Before anything that was said of it in the meantime.
        self.take_back(now, &notices);
        let refused = Refused::new(&notices);
        for input in inputs {
            self.apply(now, input, &refused);
        }
        // What came back too late is over as well.
        self.pass(now);
        self.judge(now, mirror, notices);
        self.keep_places();
        self.check_activity();
        if !self.opening.is_empty() {
            let text = format!("opens without an answer: {:?}", self.opening.keys());
            self.broken(text);
            self.opening.clear();
        }
        if !self.closing.is_empty() {
            let text = format!("ports were closed without a word: {:?}", self.closing);
            self.broken(text);
            self.closing.clear();
        }
    }

    /// The broker is at rest: is anything left undone, and does it count as the reference does?
    pub(super) fn check_rest(&mut self, now: Now, mirror: &Mirror, broker: &Broker) {
        let mut broken = Vec::new();
        let (now_ms, may_page) = (down_ms(now), self.may_page);
        let is_in_turn = |entry: &Entry| entry.is_in_turn(now_ms, may_page);
        for (peer, port) in &self.ports {
            let PortKind::Consumer(consumer) = port else {
                continue;
            };
            let Some(queue) = self.queues.get(&consumer.queue) else {
                continue;
            };
            // While the store is busy, a message behind the gate may hold up others that are behind it in the queue.
            let may_wait = self.may_page || !mirror.is_idle() || !queue.serves(*peer);
            if let Some((delivery, due_ms)) = consumer.overdue(now_ms) {
                broken.push(format!(
                    "{peer:?} still holds delivery {delivery}, which was due at {due_ms} ms"
                ));
            }
            if consumer.sent >= consumer.limit || may_wait {
                continue;
            }
            if let Some(seq) = unread(consumer, queue)
                && let Some(entry) = queue.entries.get(&seq)
                && is_safe(mirror, queue.id, seq, entry)
            {
                broken.push(format!("{peer:?} could read position {seq} and does not"));
            }
            if consumer.is_browsing {
                continue;
            }
            if let Some((seq, entry)) = queue.first_for(*peer, &consumer.wants, is_in_turn)
                && is_safe(mirror, queue.id, seq, entry)
            {
                broken.push(format!(
                    "message {} at position {seq} of {} could be delivered to {peer:?} and is not",
                    entry.number, consumer.queue
                ));
            }
        }
        for (name, queue) in &self.queues {
            let Some(found) = broker.queue_counters(name) else {
                broken.push(format!("the broker does not know the queue {name}"));
                continue;
            };
            if found.is_damaged != queue.is_damaged {
                broken.push(format!("{name}: damaged = {}", found.is_damaged));
            }
            let (messages, waiting) = (queue.entries.len(), queue.waiting.len());
            let (done, all) = self.unseen(name);
            let is_counted = (messages + done..=messages + all).contains(&found.messages)
                && found.messages - messages == found.waiting.wrapping_sub(waiting);
            if !queue.saw_ttl && !is_counted {
                broken.push(format!(
                    "{name} holds {} messages, {} waiting; it should be {messages} and {waiting}, and {done} to {all} more",
                    found.messages, found.waiting
                ));
            }
        }
        broken.extend(self.miscounted_queues(broker));
        if std::mem::take(&mut self.is_rerouted) {
            broken.extend(self.topology.difference(broker));
        }
        self.news.extend(broken.into_iter().map(News::Broken));
    }

    /// Whether the broker has other queues than it should.
    fn miscounted_queues(&self, broker: &Broker) -> Option<String> {
        let queues = broker.counters().queues;
        let is_made = |name: &&String| {
            !self.queues.contains_key(*name) && broker.queue_counters(name).is_some()
        };
        let known = self.queues.len() + self.made_graves.iter().filter(is_made).count();
        (queues != known).then(|| format!("there are {queues} queues, not {known}"))
    }

    /// One of the bindings that are there, by chance.
    pub(super) fn some_binding(&self, chance: u64) -> Option<BindingSpec> {
        let bindings: Vec<_> = self
            .topology
            .bindings
            .iter()
            .filter(|binding| binding.exchange != DEAD_EXCHANGE)
            .collect();
        let at = chance.checked_rem(bindings.len() as u64)?;
        bindings
            .get(at as usize)
            .map(|binding| BindingSpec::clone(binding))
    }

    pub(super) fn name_of(&self, queue: QueueId) -> Option<String> {
        self.names.get(&queue).cloned()
    }

    /// Whether some queue takes no consumers any more.
    pub(super) fn has_damage(&self) -> bool {
        self.queues.values().any(|queue| queue.is_damaged)
    }

    /// The messages that a producer has no answer for; the broker is healthy and had the time.
    pub(super) fn unanswered(&self) -> usize {
        let counts = self.ports.values().map(|port| match port {
            PortKind::Producer(producer) => producer.unanswered.len(),
            PortKind::Consumer(_) => 0,
        });
        counts.sum::<usize>() + self.discharged.len()
    }

    /// Whether an operation of the broker puts the message there that was published there.
    fn check_issued(&mut self, queue: QueueId, seq: u64, number: u64) {
        let expected = self.issued.remove(&(queue, seq));
        if expected != Some(number) {
            let text = format!(
                "the store is told of message {number} at position {seq} of queue {}, where {expected:?} belongs",
                queue.0
            );
            self.broken(text);
        }
    }
}

/// What is refused in a round.
#[derive(Debug, Default)]
struct Refused {
    publishes: BTreeSet<(ConnId, Port, Ticket)>,
    discharges: BTreeSet<(ConnId, TxnId)>,
}

impl Refused {
    fn new(notices: &[(ConnId, Notice)]) -> Self {
        let mut refused = Self::default();
        for (conn, notice) in notices {
            match notice {
                Notice::Confirm {
                    port,
                    first,
                    last,
                    verdict: Verdict::Rejected(_) | Verdict::Full(_),
                } => {
                    let tickets = first.0..=last.0;
                    let all = tickets.map(|ticket| (*conn, *port, Ticket(ticket)));
                    refused.publishes.extend(all);
                }
                Notice::Discharged {
                    txn,
                    fault: Some(_),
                } => {
                    refused.discharges.insert((*conn, *txn));
                }
                _ => {}
            }
        }
        refused
    }
}

/// Whether a message may pass the gate: the store has it, with the count that it will say.
fn is_safe(mirror: &Mirror, queue: QueueId, seq: u64, entry: &Entry) -> bool {
    !entry.is_durable
        || mirror.safe.kept(queue, seq).is_some_and(|kept| {
            kept.message == entry.message
                && kept.delivery_count == entry.count
                && kept.annotations == entry.annotations
        })
}

/// Milliseconds, rounded down: a moment.
fn down_ms(now: Now) -> u64 {
    now.mono.as_millis() as u64
}

/// Milliseconds, rounded up: where a time to live begins, so that nothing is over early.
fn up_ms(now: Now) -> u64 {
    now.mono.as_nanos().div_ceil(1_000_000) as u64
}

/// When a message that arrived at a moment of the wall clock is due.
fn due_ms_of(message: &Message, arrived_at_ms: i64, now: Now) -> Option<u64> {
    let since_ms = |from_ms: i64, to_ms: i64| u64::try_from(to_ms - from_ms).unwrap_or(0);
    let left_ms = match message.envelope.delay()? {
        Delay::For(delay_ms) => delay_ms.saturating_sub(since_ms(arrived_at_ms, now.wall_ms)),
        Delay::Until(at_ms) => since_ms(now.wall_ms, at_ms),
    };
    (left_ms > 0).then(|| down_ms(now) + left_ms)
}

/// The shorter of two times to live.
fn ttl_of(message_ms: Option<u64>, queue_ms: Option<u64>) -> Option<u64> {
    match (message_ms, queue_ms) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
