//! Drives a broker by commands, with a store that answers at once or when told, and a clock that is set by hand.
//!
//! The store keeps copies of its own, so that a body which the broker let go is gone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::admin::{Reply, Request};
use crate::broker::{Action, Broker, BrokerConfig, Event, FailurePolicy, Now, QueueSpec};
use crate::store::{Batch, BatchId, Fetch, Op, StoreEvent};
use crate::vocab::{
    Address, Command, ConnId, ConsumerSpec, Delivered, DeliveryId, Envelope, Format, LinkKey,
    Message, Notice, Outcome, Port, ProducerSpec, QueueId, RuleId, Seq, Ticket, Verdict,
};

pub(super) struct Rig {
    pub(super) broker: Broker,
    pub(super) now: Now,
    /// Batches that the store holds and has not answered; answered at once while `is_instant`.
    pub(super) batches: VecDeque<Batch>,
    /// Every batch since the start, in order.
    pub(super) log: Vec<Batch>,
    pub(super) is_instant: bool,
    pub(super) failures: Vec<String>,
    /// Requests for bodies that the store has not answered; answered at once while `is_prompt`.
    pub(super) fetches: Vec<Fetch>,
    pub(super) is_prompt: bool,
    /// What the store keeps: everything persisted and not removed.
    pub(super) kept: BTreeMap<(QueueId, Seq), Arc<Message>>,
    /// What was persisted before the last restart, in order.
    history: Vec<Batch>,
    notices: BTreeMap<ConnId, Vec<Notice>>,
    tickets: BTreeMap<(ConnId, Port), u64>,
    answers: Vec<(u64, Reply)>,
}

pub(super) const A: ConnId = ConnId(1);
pub(super) const B: ConnId = ConnId(2);
pub(super) const P: Port = Port(0);
pub(super) const C: Port = Port(1);
pub(super) const D: Port = Port(2);

pub(super) fn config(queues: impl IntoIterator<Item = QueueSpec>) -> BrokerConfig {
    BrokerConfig {
        queues: queues.into_iter().collect(),
        hash_seed: 7,
        ..BrokerConfig::default()
    }
}

/// A queue that drops what it cannot keep and never gives up on a consumer.
pub(super) fn lossy(name: &str) -> QueueSpec {
    QueueSpec {
        failure_policy: FailurePolicy::Drop,
        max_deliveries: 0,
        ..QueueSpec::new(name)
    }
}

/// A message whose payload is `text`.
pub(super) fn message(text: &str, envelope: Envelope) -> Arc<Message> {
    Message {
        envelope,
        format: Format::Amqp(0),
        payload: Bytes::copy_from_slice(text.as_bytes()),
    }
    .share()
}

pub(super) fn durable() -> Envelope {
    Envelope {
        durable: true,
        ..Envelope::default()
    }
}

pub(super) fn named(name: &str) -> Address {
    Address::Name(name.to_owned())
}

pub(super) fn consumer(address: Address) -> ConsumerSpec {
    ConsumerSpec {
        key: None,
        address,
        browse: false,
        settled: false,
        default_outcome: Outcome::Released,
        subscription: Default::default(),
        filter: None,
        lock: Default::default(),
        stream: crate::vocab::StreamRead::default(),
    }
}

pub(super) fn key(name: &str) -> Option<LinkKey> {
    Some(LinkKey {
        container: Bytes::from_static(b"box"),
        name: Bytes::copy_from_slice(name.as_bytes()),
    })
}

pub(super) fn failed() -> Outcome {
    Outcome::Modified {
        failed: true,
        undeliverable_here: false,
        annotations: None,
    }
}

pub(super) fn not_here() -> Outcome {
    Outcome::Modified {
        failed: false,
        undeliverable_here: true,
        annotations: None,
    }
}

/// Deliveries `first` to `last` of a consumer are to be held for longer.
pub(super) fn extend(port: Port, first: u64, last: u64, lock_ms: Option<u64>) -> Command {
    Command::Extend {
        port,
        first: DeliveryId(first),
        last: DeliveryId(last),
        lock_ms,
        ask: None,
    }
}

impl Rig {
    /// A broker with these queues and two connections, [`A`] and [`B`].
    pub(super) fn new(config: BrokerConfig) -> Self {
        let mut rig = Self {
            broker: Broker::new(config),
            now: Now {
                mono: Duration::from_secs(10),
                wall_ms: 1_000_000,
            },
            batches: VecDeque::new(),
            log: Vec::new(),
            is_instant: true,
            failures: Vec::new(),
            fetches: Vec::new(),
            is_prompt: true,
            kept: BTreeMap::new(),
            history: Vec::new(),
            notices: BTreeMap::new(),
            tickets: BTreeMap::new(),
            answers: Vec::new(),
        };
        rig.broker.recovered(rig.now);
        rig.connect(A);
        rig.connect(B);
        rig
    }

    /// One durable queue `q` without limits, as [`lossy`].
    pub(super) fn with_q() -> Self {
        Self::new(config([lossy("q")]))
    }

    pub(super) fn connect(&mut self, conn: ConnId) {
        self.event(Event::Connected { conn });
    }

    pub(super) fn event(&mut self, event: Event) {
        self.broker.handle_event(self.now, event);
        self.flush();
    }

    pub(super) fn flush(&mut self) {
        loop {
            self.broker.flush(self.now);
            let mut was_answered = false;
            while let Some(action) = self.broker.poll_action() {
                match action {
                    Action::Persist(batch) => {
                        assert!(!batch.ops.is_empty(), "an empty batch was made");
                        self.log.push(copied(&batch));
                        self.batches.push_back(batch);
                    }
                    Action::Notify { conn, notices } => {
                        self.notices.entry(conn).or_default().extend(notices)
                    }
                    Action::Reply { ticket, reply } => self.answers.push((ticket, *reply)),
                    Action::Fail { text } => self.failures.push(text),
                    Action::Fetch(fetch) => self.fetches.push(fetch),
                    other => panic!("unexpected {other:?}"),
                }
            }
            while self.is_instant && !self.batches.is_empty() {
                was_answered |= self.answer_one();
            }
            while self.is_prompt && !self.fetches.is_empty() {
                self.answer_fetch(0);
                was_answered = true;
            }
            if !was_answered {
                return;
            }
        }
    }

    fn answer_one(&mut self) -> bool {
        let Some(batch) = self.batches.pop_front() else {
            return false;
        };
        keep(&mut self.kept, &batch);
        self.broker.handle_event(
            self.now,
            Event::Store(StoreEvent::Persisted { upto: batch.id }),
        );
        true
    }

    /// The store answers the oldest batch.
    pub(super) fn persist_one(&mut self) {
        assert!(self.answer_one(), "the store has no batch");
        self.flush();
    }

    fn answer_fetch(&mut self, index: usize) {
        let fetch = self.fetches.remove(index);
        let first = (fetch.queue, fetch.first);
        let end = (fetch.queue, Seq(fetch.first.0 + u64::from(fetch.count)));
        let messages = self
            .kept
            .range(first..end)
            .map(|((_, seq), message)| (*seq, Arc::new(Message::clone(message))))
            .collect();
        let answer = StoreEvent::Fetched { fetch, messages };
        self.broker.handle_event(self.now, Event::Store(answer));
    }

    /// The store answers the request for bodies of this index.
    pub(super) fn fetch_one(&mut self, index: usize) {
        self.answer_fetch(index);
        self.flush();
    }

    /// The store cannot answer it.
    pub(super) fn fail_fetch(&mut self, index: usize) {
        let fetch = self.fetches.remove(index);
        let text = "a bad checksum".to_owned();
        self.event(Event::Store(StoreEvent::FetchFailed { fetch, text }));
    }

    /// An operator asks.
    pub(super) fn ask(&mut self, ticket: u64, request: Request) {
        let request = Box::new(request);
        self.event(Event::Admin { ticket, request });
    }

    /// Takes what operators were answered.
    pub(super) fn answers(&mut self) -> Vec<(u64, Reply)> {
        std::mem::take(&mut self.answers)
    }

    /// Asks and waits for the answer.
    pub(super) fn manage(&mut self, request: Request) -> Reply {
        self.ask(0, request);
        self.run_timers();
        match self.answers().pop() {
            Some((0, reply)) => reply,
            other => panic!("no answer but {other:?}"),
        }
    }

    pub(super) fn command(&mut self, conn: ConnId, command: Command) {
        self.commands(conn, vec![command]);
    }

    pub(super) fn commands(&mut self, conn: ConnId, commands: Vec<Command>) {
        self.event(Event::Commands { conn, commands });
    }

    pub(super) fn produce(&mut self, conn: ConnId, port: Port, address: Address) {
        self.produce_as(conn, port, address, None);
    }

    pub(super) fn produce_as(
        &mut self,
        conn: ConnId,
        port: Port,
        address: Address,
        key: Option<LinkKey>,
    ) {
        self.command(
            conn,
            Command::OpenProducer {
                port,
                spec: Box::new(ProducerSpec { key, address }),
            },
        );
    }

    pub(super) fn consume(&mut self, conn: ConnId, port: Port, spec: ConsumerSpec) {
        self.command(
            conn,
            Command::OpenConsumer {
                port,
                spec: Box::new(spec),
            },
        );
    }

    /// The next publish of a port.
    pub(super) fn next_publish(
        &mut self,
        conn: ConnId,
        port: Port,
        message: Arc<Message>,
    ) -> Command {
        let ticket = self.tickets.entry((conn, port)).or_default();
        *ticket += 1;
        Command::Publish {
            port,
            ticket: Ticket(*ticket - 1),
            message,
            vetted: RuleId::NONE,
        }
    }

    pub(super) fn publish(&mut self, conn: ConnId, port: Port, message: Arc<Message>) {
        let command = self.next_publish(conn, port, message);
        self.command(conn, command);
    }

    /// Publishes volatile messages with these payloads in one batch of commands.
    pub(super) fn publish_all<'a>(
        &mut self,
        conn: ConnId,
        port: Port,
        texts: impl IntoIterator<Item = &'a str>,
    ) {
        let commands = texts
            .into_iter()
            .map(|text| self.next_publish(conn, port, message(text, Envelope::default())))
            .collect();
        self.commands(conn, commands);
    }

    pub(super) fn permit(&mut self, conn: ConnId, port: Port, limit: u64) {
        self.command(
            conn,
            Command::Permit {
                port,
                limit,
                drain: false,
            },
        );
    }

    pub(super) fn drain(&mut self, conn: ConnId, port: Port, limit: u64) {
        self.command(
            conn,
            Command::Permit {
                port,
                limit,
                drain: true,
            },
        );
    }

    pub(super) fn settle(
        &mut self,
        conn: ConnId,
        port: Port,
        first: u64,
        last: u64,
        outcome: Outcome,
    ) {
        let (first, last) = (DeliveryId(first), DeliveryId(last));
        self.command(
            conn,
            Command::Settle {
                port,
                first,
                last,
                outcome,
                confirm: false,
            },
        );
    }

    pub(super) fn close(&mut self, conn: ConnId, port: Port, lost: bool) {
        self.command(
            conn,
            Command::Close {
                port,
                forget: true,
                lost,
            },
        );
    }

    /// Takes what a connection was told.
    pub(super) fn told(&mut self, conn: ConnId) -> Vec<Notice> {
        self.notices.remove(&conn).unwrap_or_default()
    }

    /// Takes what a connection was told and keeps the deliveries to one port; other notices are dropped.
    pub(super) fn delivered(&mut self, conn: ConnId, port: Port) -> Vec<Delivered> {
        self.told(conn)
            .into_iter()
            .filter_map(|notice| match notice {
                Notice::Deliver {
                    port: to,
                    delivered,
                } if to == port => Some(delivered),
                _ => None,
            })
            .collect()
    }

    /// The payloads of [`Rig::delivered`].
    pub(super) fn texts(&mut self, conn: ConnId, port: Port) -> Vec<String> {
        self.delivered(conn, port).iter().map(text).collect()
    }

    /// Takes what a connection was told and keeps the verdicts.
    pub(super) fn verdicts(&mut self, conn: ConnId) -> Vec<(u64, u64, Verdict)> {
        self.told(conn)
            .into_iter()
            .filter_map(|notice| match notice {
                Notice::Confirm {
                    first,
                    last,
                    verdict,
                    ..
                } => Some((first.0, last.0, verdict)),
                _ => None,
            })
            .collect()
    }

    /// Lets both clocks run.
    pub(super) fn sleep_ms(&mut self, ms: u64) {
        self.now.mono += Duration::from_millis(ms);
        self.now.wall_ms += i64::try_from(ms).expect("a short time");
    }

    /// Calls the broker's timer if it is due.
    pub(super) fn tick(&mut self) {
        if self
            .broker
            .poll_timeout()
            .is_some_and(|at| at <= self.now.mono)
        {
            self.broker.handle_timeout(self.now);
            self.flush();
        }
    }

    /// Calls the broker's timer until it is not due any more.
    pub(super) fn run_timers(&mut self) {
        while self
            .broker
            .poll_timeout()
            .is_some_and(|at| at <= self.now.mono)
        {
            self.tick();
        }
    }

    /// A new broker from what this one's store was given and answered.
    pub(super) fn restarted(&self, config: BrokerConfig) -> Self {
        let unanswered = self
            .batches
            .front()
            .map_or(BatchId(u64::MAX), |batch| batch.id);
        let mut rig = Self {
            broker: Broker::new(config),
            now: self.now,
            batches: VecDeque::new(),
            log: Vec::new(),
            is_instant: true,
            failures: Vec::new(),
            fetches: Vec::new(),
            is_prompt: true,
            kept: BTreeMap::new(),
            history: Vec::new(),
            notices: BTreeMap::new(),
            tickets: BTreeMap::new(),
            answers: Vec::new(),
        };
        let persisted = self.log.iter().filter(|batch| batch.id < unanswered);
        rig.history = self.history.iter().chain(persisted).map(copied).collect();
        for batch in &rig.history {
            keep(&mut rig.kept, batch);
            for op in copied(batch).ops {
                rig.broker.recover(op);
            }
        }
        rig.broker.recovered(rig.now);
        rig.connect(A);
        rig.connect(B);
        rig
    }
}

/// A batch whose bodies nobody else has.
fn copied(batch: &Batch) -> Batch {
    let mut batch = batch.clone();
    for op in &mut batch.ops {
        if let Op::Enqueued(stored) = op {
            stored.message = Arc::new(Message::clone(&stored.message));
        }
    }
    batch
}

/// What a batch does to a store.
fn keep(kept: &mut BTreeMap<(QueueId, Seq), Arc<Message>>, batch: &Batch) {
    for op in copied(batch).ops {
        match op {
            Op::Enqueued(stored) => {
                for place in stored.places {
                    kept.insert(place, Arc::clone(&stored.message));
                }
            }
            Op::Removed { queue, seq, count } => {
                for seq in seq.0..seq.0 + count {
                    kept.remove(&(queue, Seq(seq)));
                }
            }
            Op::QueueDeleted { queue: deleted } => {
                kept.retain(|(queue, _), _| *queue != deleted);
            }
            _ => {}
        }
    }
}

pub(super) fn text(delivered: &Delivered) -> String {
    String::from_utf8_lossy(&delivered.message.payload).into_owned()
}
