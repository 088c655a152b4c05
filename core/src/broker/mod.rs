//! The broker: one machine per node that owns queues, routing and every decision.
//!
//! Every change goes through three steps. *Decide* looks and makes the operations, *apply* executes them at once, and
//! the *gate* withholds what the outside may see (a confirmation, a delivery of a durable message) until the batch
//! that holds the operation is persisted. What is not durable has no operation and passes the gate at once.
//!
//! Contract: any number of [`Broker::handle_event`], then one [`Broker::flush`], then [`Broker::poll_action`] until it
//! is empty, then [`Broker::poll_timeout`]. Deliveries, confirmations and batches are made in `flush`, so an inbox of
//! many events costs one batch and one notice vector per connection.

mod active;
mod admin;
mod api;
mod ask;
mod close;
mod conn;
mod counters;
mod deadletter;
mod dedup;
mod delay;
mod dispatch;
mod exchange;
mod fanout;
mod filtered;
mod gate;
mod group;
mod keyed;
mod lock;
mod open;
mod paging;
mod ports;
mod pressure;
mod publish;
mod recover;
mod routing;
mod schema;
mod settle;
mod spec;
mod stream;
mod subscription;
mod timers;
mod topology;
mod txn;

#[cfg(test)]
mod tests;

pub use api::{Action, Event, Now};
pub use counters::{Counters, QueueCounters};
pub use spec::{
    Backoff, BrokerConfig, FailurePolicy, GroupSpec, Limits, MANAGEMENT_NODE, Overflow,
    PRIORITY_LEVELS_MAX, Paging, QueueKind, QueueSpec,
};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use slab::Slab;

use crate::planted::{Bug, is_planted};
use crate::queue::{Clock, Queue};
use crate::route::{Exchanges, QueueRef, TableLimits};
use crate::schema::Registry;
use crate::store::StoreEvent;
use crate::vocab::{Command, ConnId, LinkKey, Note, Notice, QueueId, Reason, Refusal};
use admin::{Asked, Asker, Jobs};
use conn::{Conn, Conns};
use counters::Tally;
use gate::Gate;
use ports::{Consumer, LinkOwner, Producer, Role};

type Map<K, V> = HashMap<K, V, FixedState>;

/// See the module.
#[derive(Debug)]
pub struct Broker {
    config: BrokerConfig,
    conns: Conns,
    conn_slots: Map<ConnId, usize>,
    producers: Slab<Producer>,
    consumers: Slab<Consumer>,
    queues: Slab<Queue>,
    queue_names: Map<String, usize>,
    queue_slots: Map<QueueId, usize>,
    /// The queues that belong to one connection alone.
    exclusive: Map<ConnId, Vec<(usize, QueueId)>>,
    exchanges: Exchanges,
    schemas: Registry,
    /// Number of the next rule.
    next_rule: u64,
    /// Where the message at hand goes.
    route: Vec<QueueRef>,
    links: Map<(LinkKey, Role), LinkOwner>,
    gate: Gate,
    /// Queues with something to deliver, perhaps.
    dirty: Vec<usize>,
    /// Transactions that are not discharged.
    txns: txn::Txns,
    /// Whose publish is being executed.
    publisher: Option<ConnId>,
    /// Queues in which consumers with filters have more to look at, in the next turn.
    unfinished: BTreeSet<(usize, QueueId)>,
    /// When that turn is due.
    resume_at: Duration,
    /// Messages that may still be looked at for consumers with filters in this turn of a queue.
    looks_left: usize,
    /// Dynamic queues whose time may have come.
    outlived: Vec<(usize, QueueId)>,
    /// Queues that dead letters filled beyond their limit.
    overflown: Vec<(usize, QueueId)>,
    /// Queues whose time without use begins in this inbox, perhaps.
    idle: Vec<(usize, QueueId)>,
    /// Consumer groups of all queues.
    groups: usize,
    /// Named readers of streams whose positions are to be stored: slot and serial number.
    readers: Vec<(usize, u64)>,
    /// Messages whose ordering keys became free in this inbox.
    freed: Vec<(usize, QueueId, u64)>,
    /// Keys that all queues together know messages by.
    dedup_keys: usize,
    /// Producers with a run of verdicts that is not told yet.
    runs: Vec<usize>,
    /// When to look at which queue for expired messages: one per queue.
    timers: BTreeSet<(u64, usize)>,
    /// When to look at which consumer for deliveries that it holds for too long: one per consumer.
    lock_timers: BTreeSet<(u64, usize)>,
    actions: VecDeque<Action>,
    /// Cost of all queued messages, bytes.
    bytes: usize,
    is_memory_short: bool,
    /// As the store says.
    is_disk_short: bool,
    /// Which queue the next look for bodies to page out begins at, while there are too many.
    sweep_from: usize,
    next_queue: u64,
    /// Serial number of the next consumer.
    next_consumer: u64,
    tally: Tally,
    /// Work on many messages that is not done.
    jobs: Jobs,
    /// Who waits for what a connection tells about itself.
    asked: BTreeMap<u64, Asked>,
    /// Number of the next such question.
    next_report: u64,
    /// Deliveries that consumers hold.
    unsettled: usize,
    is_draining: bool,
    has_failed: bool,
}

impl Broker {
    /// A broker without any queue; [`Broker::recover`] and [`Broker::recovered`] come next.
    #[must_use]
    pub fn new(config: BrokerConfig) -> Self {
        let seed = config.hash_seed;
        let limits = TableLimits {
            exchanges_max: config.limits.exchanges_max,
            bindings_max: config.limits.bindings_max,
        };
        Self {
            exchanges: Exchanges::new(seed, limits),
            schemas: Registry::default(),
            next_rule: 1,
            route: Vec::new(),
            config,
            conns: Conns::default(),
            conn_slots: Map::with_hasher(FixedState::with_seed(seed)),
            producers: Slab::new(),
            consumers: Slab::new(),
            queues: Slab::new(),
            queue_names: Map::with_hasher(FixedState::with_seed(seed)),
            queue_slots: Map::with_hasher(FixedState::with_seed(seed)),
            exclusive: Map::with_hasher(FixedState::with_seed(seed)),
            links: Map::with_hasher(FixedState::with_seed(seed)),
            gate: Gate::default(),
            dirty: Vec::new(),
            txns: txn::Txns::new(),
            publisher: None,
            unfinished: BTreeSet::new(),
            resume_at: Duration::ZERO,
            looks_left: 0,
            outlived: Vec::new(),
            overflown: Vec::new(),
            idle: Vec::new(),
            groups: 0,
            readers: Vec::new(),
            freed: Vec::new(),
            dedup_keys: 0,
            runs: Vec::new(),
            timers: BTreeSet::new(),
            lock_timers: BTreeSet::new(),
            actions: VecDeque::new(),
            bytes: 0,
            is_memory_short: false,
            is_disk_short: false,
            sweep_from: 0,
            next_queue: 1,
            next_consumer: 1,
            tally: Tally::default(),
            jobs: Jobs::default(),
            asked: BTreeMap::new(),
            next_report: 0,
            unsettled: 0,
            is_draining: false,
            has_failed: false,
        }
    }

    /// Takes one event in.
    pub fn handle_event(&mut self, now: Now, event: Event) {
        if self.has_failed {
            return;
        }
        match event {
            Event::Connected { conn } => self.on_connected(now, conn),
            Event::Commands { conn, commands } => self.on_commands(now, conn, commands),
            Event::Disconnected { conn } => self.on_disconnected(now, conn),
            Event::Store(event) => self.on_store(now, event),
            Event::Admin { ticket, request } => {
                self.manage(now, Asker::Driver(ticket), *request);
            }
        }
    }

    fn on_connected(&mut self, now: Now, conn: ConnId) {
        if self.conn_slots.contains_key(&conn) {
            log::error!("connection {} was announced twice", conn.0);
            return;
        }
        let slot = self.conns.insert(Conn::new(conn, now.wall_ms));
        self.conn_slots.insert(conn, slot);
    }

    fn on_commands(&mut self, now: Now, conn: ConnId, commands: Vec<Command>) {
        let Some(&slot) = self.conn_slots.get(&conn) else {
            log::debug!(
                "commands of connection {}, which is gone, are dropped",
                conn.0
            );
            return;
        };
        let at = now.clock();
        for command in commands {
            match command {
                Command::Publish {
                    port,
                    ticket,
                    message,
                    vetted,
                } => {
                    self.publish(now, at, slot, port, ticket, message, vetted);
                }
                Command::Settle {
                    port,
                    first,
                    last,
                    outcome,
                    confirm,
                } => {
                    self.settle(at, slot, port, first..=last, &outcome, confirm);
                }
                Command::Permit { port, limit, drain } => {
                    self.permit(now, at, slot, port, limit, drain)
                }
                Command::Stage {
                    port,
                    ticket,
                    txn,
                    message,
                } => self.stage(now, slot, port, ticket, txn, message),
                Command::StageSettle {
                    port,
                    first,
                    last,
                    txn,
                    outcome,
                } => self.stage_settle(slot, port, (first, last), txn, outcome),
                Command::Discharge { txn, fail } => self.discharge(now, slot, txn, fail),
                Command::OpenProducer { port, spec } => self.open_producer(at, slot, port, *spec),
                Command::OpenConsumer { port, spec } => self.open_consumer(at, slot, port, *spec),
                Command::Extend {
                    port,
                    first,
                    last,
                    lock_ms,
                    ask,
                } => self.extend(now, slot, port, first..=last, lock_ms, ask),
                Command::Relock { port, lock } => self.relock(slot, port, lock),
                Command::Ask { id, ask } => self.ask(now, slot, id, *ask),
                Command::Describe { about } => self.conns.conn_mut(slot).about = Some(about),
                Command::Note(note) => self.on_note(slot, note),
                Command::Reported { ticket, report } => self.on_report(conn, ticket, *report),
                Command::Manage { ticket, request } => {
                    self.manage(now, Asker::Conn(slot, conn, ticket), *request);
                }
                Command::Close { port, forget, lost } => {
                    self.close_port(at, slot, port, forget, lost);
                }
            }
        }
    }

    fn on_note(&mut self, conn: usize, note: Note) {
        let (queue, is_late) = match note {
            Note::Sessions(open) => {
                self.conns.conn_mut(conn).sessions = open;
                return;
            }
            Note::Called(queue) => (queue, false),
            Note::CallLate(queue) => (queue, true),
        };
        if let Some(slot) = self.queue_names.get(queue.as_str()) {
            let totals = &mut self.queues[*slot].totals;
            totals.calls += u64::from(!is_late);
            totals.call_timeouts += u64::from(is_late);
        }
    }

    fn on_store(&mut self, now: Now, event: StoreEvent) {
        match event {
            StoreEvent::Persisted { upto } => {
                for (slot, queue) in self.gate.open_upto(upto, &mut self.conns) {
                    if self.is_queue(slot, queue) {
                        self.queues[slot].latency.end(upto, now.mono);
                        self.mark_dirty(slot);
                    }
                }
            }
            StoreEvent::Fetched { fetch, messages } => self.on_fetched(now, &fetch, messages),
            StoreEvent::FetchFailed { fetch, text } => self.on_fetch_failed(now, &fetch, &text),
            StoreEvent::Room { is_short } => self.on_room(is_short),
            StoreEvent::Failed { text } => {
                self.has_failed = true;
                if is_planted(Bug::ConfirmAfterFailure) {
                    let all = crate::store::BatchId(u64::MAX);
                    self.gate.open_upto(all, &mut self.conns);
                    self.conns.hand_out(&mut self.actions);
                }
                self.gate.fail();
                self.actions.push_back(Action::Fail { text });
            }
        }
    }

    /// Ends an inbox: delivers what can be delivered, closes the open batch, and makes the actions of it all.
    pub fn flush(&mut self, now: Now) {
        if self.has_failed {
            return;
        }
        let at = now.clock();
        loop {
            self.drop_overflown(at);
            self.show_freed(at);
            if let Some(slot) = self.dirty.pop() {
                self.dispatch(now, at, slot);
                self.page(at, slot);
                continue;
            }
            self.delete_outlived(at);
            if self.dirty.is_empty() && self.overflown.is_empty() {
                break;
            }
        }
        self.sweep(at);
        self.start_idle(now);
        self.store_all_progress();
        self.tell_runs();
        self.tell_pressure();
        for (ticket, reply) in self.gate.take_replies() {
            let reply = Box::new(reply);
            self.actions.push_back(Action::Reply { ticket, reply });
        }
        let linger = if self.is_draining {
            Duration::ZERO
        } else {
            self.config.linger
        };
        if let Some(batch) = self.gate.seal(now.mono, linger) {
            self.actions.push_back(Action::Persist(batch));
        }
        self.conns.hand_out(&mut self.actions);
    }

    /// The next thing for the driver to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The moment at which [`Broker::handle_timeout`] wants to be called, since the driver's epoch.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.has_failed {
            return None;
        }
        let timers = [self.timers.first(), self.lock_timers.first()];
        let first_ms = timers.into_iter().flatten().map(|(at_ms, _)| *at_ms).min();
        let expiry = first_ms.map(Duration::from_millis);
        let resume = (!self.unfinished.is_empty()).then_some(self.resume_at);
        let jobs = self.jobs.poll_timeout();
        let reports = self.report_due();
        [expiry, resume, self.gate.poll_timeout(), jobs, reports]
            .into_iter()
            .flatten()
            .min()
    }

    /// From now on nothing is delivered any more; everything else goes on, so that consumers can settle what they have
    /// before the node goes down.
    pub fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Whether no delivery is unsettled and nothing waits for the store.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.unsettled == 0 && self.gate.is_idle()
    }

    /// Gives an emptied vector of [`Action::Notify`] back, which saves its next allocation.
    pub fn recycle_notices(&mut self, notices: Vec<Notice>) {
        self.conns.recycle(notices);
    }

    #[inline]
    fn mark_dirty(&mut self, slot: usize) {
        let queue = &mut self.queues[slot];
        if !queue.is_dirty {
            queue.is_dirty = true;
            self.dirty.push(slot);
        }
    }
}

impl Now {
    /// The moment in whole milliseconds, rounded down.
    pub(crate) fn clock(self) -> Clock {
        Clock {
            mono_ms: if is_planted(Bug::WallClockLife) {
                self.wall_ms.unsigned_abs()
            } else {
                u64::try_from(self.mono.as_millis()).unwrap_or(u64::MAX)
            },
            wall_ms: self.wall_ms,
        }
    }

    /// Monotonic milliseconds, rounded up: a deadline counted from here is never early.
    pub(crate) fn mono_ms_up(self) -> u64 {
        if is_planted(Bug::WallClockLife) {
            return self.wall_ms.unsigned_abs();
        }
        u64::try_from(self.mono.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// That there is nothing of that name.
fn missing(what: &str, name: &str) -> Refusal {
    Refusal {
        reason: Reason::NotFound,
        text: format!("no {what} {} exists", quoted(name)),
    }
}

/// A name in an error text: escaped, and cut when it is long.
pub(crate) fn quoted(name: &str) -> String {
    let mut text = String::from("'");
    let mut chars = name.chars();
    text.extend(chars.by_ref().take(255).flat_map(char::escape_debug));
    text.push_str(if chars.next().is_some() { "...'" } else { "'" });
    text
}
