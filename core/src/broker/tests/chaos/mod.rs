//! Everything at once, at random: many queues, all commands, a store that answers late, connections that come and go,
//! and a restart from what was persisted. Nothing confirmed may be lost, nothing settled and confirmed may come back,
//! and when everybody is gone nothing of them is left. Once with all bodies in memory, once with hardly any: then the
//! store answers requests late and in any order, in some walks not at all, and its disk is full now and then.
//! Publishes and settlements in transactions are confirmed by the discharge, all of them or none.

mod txns;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::harness::*;
use super::random::Random;
use crate::broker::{BrokerConfig, Event, Limits, Overflow, Paging, QueueSpec};
use crate::store::StoreEvent;
use crate::vocab::{
    Address, Command, ConnId, ConsumerSpec, DeliveryId, Envelope, LifetimePolicy, Notice, Outcome,
    Port, ProducerSpec, RuleId, SubscriptionSpec, Ticket, TxnId, Verdict,
};
use txns::Staged;

const PAGING: Paging = Paging {
    window_len: 3,
    window_bytes: 100,
    cache_bytes: 20_000,
};

fn chaos_config(seed: u64, paging: Option<Paging>) -> BrokerConfig {
    let noise = |name: &str| lossy(name);
    BrokerConfig {
        limits: Limits {
            queues_max: 24,
            memory_high_bytes: 60_000,
            memory_max_bytes: 90_000,
            ..Limits::default()
        },
        auto_create_queues: true,
        paging,
        ..BrokerConfig {
            hash_seed: seed,
            ..config([
                noise("q"),
                QueueSpec {
                    durable: false,
                    ..noise("volatile")
                },
                QueueSpec {
                    auto_delete: true,
                    ..noise("auto")
                },
                QueueSpec {
                    message_ttl_ms: Some(40),
                    ..noise("ttl")
                },
                QueueSpec {
                    max_length: Some(5),
                    overflow: Overflow::DropHead,
                    ..noise("head")
                },
                QueueSpec {
                    max_bytes: Some(20),
                    ..noise("bytes")
                },
            ])
        }
    }
}

/// A settlement: port, first and last delivery.
type Asked = (ConnId, Port, u64, u64);

/// What the world outside knows about the messages of `q`.
#[derive(Default)]
struct Known {
    /// Text by (connection, port, ticket), for durable publishes to `q`.
    sent: BTreeMap<(ConnId, Port, u64), String>,
    confirmed: BTreeSet<String>,
    /// Somebody said `accepted` or `rejected` for it.
    settled: BTreeSet<String>,
    /// ... and was told that this is safe.
    gone: BTreeSet<String>,
    /// Unsettled deliveries, by (connection, port, delivery).
    held: BTreeMap<(ConnId, Port, u64), String>,
    /// Settlements that wait for `Settled`, in order: by port, first and last delivery, and what they ended.
    asked: Vec<(Asked, Vec<String>)>,
    /// Transactions that may get more work, and those that were discharged.
    staged: BTreeMap<(ConnId, TxnId), Staged>,
    discharged: BTreeMap<(ConnId, TxnId), Staged>,
    /// Texts that were published in a transaction.
    late: BTreeSet<String>,
    /// Transactions that were done, and those that could not be.
    done: usize,
    undone: usize,
}

struct Chaos {
    paging: Option<Paging>,
    /// Once in so many answers the store fails; zero is never.
    fails_once_in: u64,
    fetched: usize,
    rig: Rig,
    random: Random,
    known: Known,
    conns: Vec<ConnId>,
    next_conn: u64,
    next_text: u64,
    next_port: BTreeMap<ConnId, u32>,
    next_ticket: BTreeMap<(ConnId, Port), u64>,
    next_txn: u64,
    /// Producers on `q`.
    q_producers: BTreeSet<(ConnId, Port)>,
    q_consumers: BTreeSet<(ConnId, Port)>,
    /// Ports that are closed: what they were told before counts no more.
    closed: BTreeSet<(ConnId, Port)>,
    /// Deliveries that a port was told of.
    told: BTreeMap<(ConnId, Port), u64>,
}

impl Chaos {
    fn new(seed: u64, paging: Option<Paging>) -> Self {
        let mut rig = Rig::new(chaos_config(seed, paging));
        rig.is_instant = false;
        rig.is_prompt = false;
        Self {
            paging,
            fails_once_in: if seed % 4 == 3 { 40 } else { 0 },
            fetched: 0,
            rig,
            random: Random(seed),
            known: Known::default(),
            conns: vec![A, B],
            next_conn: 3,
            next_text: 0,
            next_port: BTreeMap::new(),
            next_ticket: BTreeMap::new(),
            next_txn: 0,
            q_producers: BTreeSet::new(),
            q_consumers: BTreeSet::new(),
            closed: BTreeSet::new(),
            told: BTreeMap::new(),
        }
    }

    fn address(&mut self, is_producer: bool) -> Address {
        let lifetimes = [
            LifetimePolicy::DeleteOnClose,
            LifetimePolicy::DeleteOnNoLinks,
            LifetimePolicy::DeleteOnNoMessages,
            LifetimePolicy::DeleteOnNoLinksOrMessages,
        ];
        match self.random.below(16) {
            0..=5 => named("q"),
            6 => named("volatile"),
            7 => named("auto"),
            8 => named("ttl"),
            9 => named("head"),
            10 => named("bytes"),
            11 => named(["new-a", "new-b", "amq.direct", "amq.none"][self.random.index(4)]),
            12 => Address::Exchange {
                name: String::new(),
                key: None,
            },
            13 if is_producer => Address::Anonymous,
            _ => Address::Dynamic {
                lifetime: lifetimes[self.random.index(4)],
            },
        }
    }

    fn open(&mut self, conn: ConnId) -> Command {
        let counter = self.next_port.entry(conn).or_default();
        let port = Port(*counter);
        *counter += 1;
        let is_producer = self.random.below(2) == 0;
        let address = self.address(is_producer);
        let is_q = address == named("q");
        let link = (self.random.below(3) == 0).then(|| self.random.index(5).to_string());
        let key = link.and_then(|link| key(&link));
        if is_producer {
            if is_q {
                self.q_producers.insert((conn, port));
            }
            return Command::OpenProducer {
                port,
                spec: Box::new(ProducerSpec { key, address }),
            };
        }
        let spec = ConsumerSpec {
            key,
            address,
            browse: self.random.below(6) == 0,
            settled: !is_q && self.random.below(4) == 0,
            filter: None,
            lock: Default::default(),
            stream: crate::vocab::StreamRead::default(),
            default_outcome: if self.random.below(2) == 0 {
                Outcome::Released
            } else {
                failed()
            },
            subscription: SubscriptionSpec::default(),
        };
        if is_q && !spec.browse {
            self.q_consumers.insert((conn, port));
        }
        Command::OpenConsumer {
            port,
            spec: Box::new(spec),
        }
    }

    /// A port that was opened at some time.
    fn some_port(&mut self, conn: ConnId) -> Port {
        let ports = u64::from(self.next_port.get(&conn).copied().unwrap_or(0));
        Port(u32::try_from(self.random.below(ports.max(1))).expect("few ports"))
    }

    fn publish(&mut self, conn: ConnId) -> Command {
        let port = self.some_port(conn);
        self.publish_by(conn, port)
    }

    fn publish_by(&mut self, conn: ConnId, port: Port) -> Command {
        let ticket = self.next_ticket.entry((conn, port)).or_default();
        *ticket += 1;
        let ticket = *ticket - 1;
        let text = self.next_text.to_string();
        self.next_text += 1;
        let to = ["q", "volatile", "/queues/ttl", "nowhere", ""][self.random.index(5)];
        let envelope = Envelope {
            durable: self.random.below(3) > 0,
            to: Some(Bytes::copy_from_slice(to.as_bytes())),
            subject: (self.random.below(2) == 0).then(|| Bytes::from_static(b"volatile")),
            ..Envelope::default()
        };
        if envelope.durable && self.q_producers.contains(&(conn, port)) {
            self.known.sent.insert((conn, port, ticket), text.clone());
        }
        Command::Publish {
            port,
            ticket: Ticket(ticket),
            message: message(&text, envelope),
            vetted: RuleId::NONE,
        }
    }

    /// Settles what a port holds, what it held once, or what it never had.
    fn settle(&mut self, conn: ConnId) -> Command {
        let held: Vec<_> = self
            .known
            .held
            .keys()
            .filter(|key| key.0 == conn)
            .copied()
            .collect();
        let (port, first) = if held.is_empty() || self.random.below(4) == 0 {
            (self.some_port(conn), self.random.below(30))
        } else {
            let (_, port, delivery) = held[self.random.index(held.len())];
            (port, delivery)
        };
        let told = self.told.get(&(conn, port)).copied().unwrap_or(0);
        let (first, last) = if first < told {
            (first, (first + self.random.below(4)).min(told - 1))
        } else {
            (first + 1_000_000, first + 1_000_003)
        };
        let outcome = match self.random.below(6) {
            0 | 1 => Outcome::Accepted,
            2 => Outcome::Rejected { reason: None },
            3 => Outcome::Released,
            4 => failed(),
            _ => not_here(),
        };
        let confirm = self.random.below(2) == 0;
        let mut ended = Vec::new();
        for delivery in first..=last {
            ended.extend(self.known.held.remove(&(conn, port, delivery)));
        }
        if !matches!(outcome, Outcome::Accepted | Outcome::Rejected { .. }) {
            ended.clear();
        }
        self.known.settled.extend(ended.iter().cloned());
        if confirm {
            self.known.asked.push(((conn, port, first, last), ended));
        }
        let (first, last) = (DeliveryId(first), DeliveryId(last));
        Command::Settle {
            port,
            first,
            last,
            outcome,
            confirm,
        }
    }

    fn command(&mut self, conn: ConnId) -> Command {
        match self.random.below(26) {
            20 | 21 => self.stage(conn),
            22 | 23 => self.stage_settle(conn),
            24 | 25 => self.discharge(conn),
            0..=9 => self.publish(conn),
            10..=12 => Command::Permit {
                port: self.some_port(conn),
                limit: self.random.below(60),
                drain: self.random.below(5) == 0,
            },
            13..=18 => self.settle(conn),
            _ => {
                let port = self.some_port(conn);
                if self.next_port.contains_key(&conn) {
                    self.on_closed(conn, port);
                }
                Command::Close {
                    port,
                    forget: true,
                    lost: self.random.below(2) == 0,
                }
            }
        }
    }

    fn step(&mut self) {
        match self
            .random
            .below(if self.paging.is_some() { 36 } else { 24 })
        {
            24 if self.random.below(4) == 0 => {
                let is_short = self.random.below(5) == 0;
                self.rig.event(Event::Store(StoreEvent::Room { is_short }));
            }
            24.. => self.fetch(),
            0 => {
                let conn = ConnId(self.next_conn);
                self.next_conn += 1;
                self.conns.push(conn);
                self.rig.connect(conn);
            }
            1 if self.conns.len() > 1 => {
                let index = self.random.index(self.conns.len());
                let conn = self.conns.remove(index);
                self.rig.event(Event::Disconnected { conn });
                let told = self.rig.told(conn);
                self.listen(conn, told);
                self.known.held.retain(|key, _| key.0 != conn);
                self.known.staged.retain(|key, _| key.0 != conn);
            }
            2..=8 if !self.rig.batches.is_empty() => self.rig.persist_one(),
            9 => {
                let ms = self.random.below(30);
                self.rig.sleep_ms(ms);
                self.rig.tick();
            }
            10 => {
                let name = ["volatile", "auto", "ttl", "new-a", "head"][self.random.index(5)];
                if self.random.below(2) == 0 {
                    let _ = self.rig.broker.delete_queue(self.rig.now, name);
                } else {
                    let _ = self.rig.broker.purge_queue(name);
                }
                self.rig.flush();
            }
            // Alone, since it may steal a port that other commands of the batch are about.
            11..=13 => {
                let conn = self.conns[self.random.index(self.conns.len())];
                let command = self.open(conn);
                self.rig.command(conn, command);
            }
            _ => self.batch(),
        }
        // A message may be with its next consumer before its last one hears that it lost it: that is heard first.
        let told: Vec<_> = self
            .conns
            .iter()
            .map(|conn| (*conn, self.rig.told(*conn)))
            .collect();
        for (conn, notice) in told
            .iter()
            .flat_map(|(conn, told)| told.iter().map(|one| (*conn, one)))
        {
            match notice {
                Notice::Closed { port, .. } => self.on_closed(conn, *port),
                Notice::Discharged { txn, fault } => {
                    self.on_discharged(conn, *txn, fault.is_none());
                }
                _ => {}
            }
        }
        for (conn, told) in told {
            self.listen(conn, told);
        }
    }

    /// Some commands of a connection at once.
    fn batch(&mut self) {
        let conn = self.conns[self.random.index(self.conns.len())];
        let count = 1 + self.random.below(8);
        let mut commands: Vec<Command> = Vec::new();
        // What follows a discharge depends on how that went.
        while commands.len() < count as usize
            && !matches!(commands.last(), Some(Command::Discharge { .. }))
        {
            commands.push(self.command(conn));
        }
        self.rig.commands(conn, commands);
    }

    /// The store answers a request, or cannot.
    fn fetch(&mut self) {
        if self.rig.fetches.is_empty() {
            return;
        }
        let index = self.random.index(self.rig.fetches.len());
        if self.fails_once_in > 0 && self.random.below(self.fails_once_in) == 0 {
            self.rig.fail_fetch(index);
        } else {
            self.rig.fetch_one(index);
            self.fetched += 1;
        }
    }

    fn on_closed(&mut self, conn: ConnId, port: Port) {
        self.closed.insert((conn, port));
        self.known
            .held
            .retain(|key, _| (key.0, key.1) != (conn, port));
    }

    fn listen(&mut self, conn: ConnId, told: Vec<Notice>) {
        for notice in told {
            if let Notice::Deliver { port, .. } = &notice {
                *self.told.entry((conn, *port)).or_default() += 1;
            }
            match notice {
                Notice::Confirm {
                    port,
                    first,
                    last,
                    verdict: Verdict::Accepted,
                } => {
                    for ticket in first.0..=last.0 {
                        if let Some(text) = self.known.sent.get(&(conn, port, ticket)) {
                            assert!(
                                self.known.confirmed.insert(text.clone()),
                                "{text} was confirmed twice"
                            );
                        }
                    }
                }
                Notice::Deliver { port, delivered }
                    if self.q_consumers.contains(&(conn, port))
                        && !self.closed.contains(&(conn, port)) =>
                {
                    let text = text(&delivered);
                    assert!(
                        !self.known.settled.contains(&text),
                        "{text} was settled and came again"
                    );
                    let is_held = self.known.held.values().any(|held| *held == text);
                    assert!(!is_held, "{text} has two holders");
                    self.known
                        .held
                        .insert((conn, port, delivered.delivery.0), text);
                }
                Notice::Settled { port, first, last } => {
                    let key = (conn, port, first.0, last.0);
                    let asked = self.known.asked.iter().position(|asked| asked.0 == key);
                    let (_, ended) = self.known.asked.remove(asked.expect("somebody asked"));
                    self.known.gone.extend(ended);
                }
                _ => {}
            }
        }
    }

    /// The power goes: what a new broker finds must fit what the world knows.
    fn crash(&self, seed: u64) {
        let mut rig = self.rig.restarted(chaos_config(seed, self.paging));
        rig.consume(
            A,
            C,
            ConsumerSpec {
                settled: true,
                ..consumer(named("q"))
            },
        );
        rig.permit(A, C, u64::MAX);
        let found = rig.texts(A, C);
        // What came with a transaction stands where that was discharged.
        let is_late = |text: &&String| !self.known.late.contains(*text);
        let numbers: Vec<u64> = found
            .iter()
            .filter(is_late)
            .map(|text| text.parse().expect("texts are numbers"))
            .collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
        let count = found.len();
        let found: BTreeSet<String> = found.into_iter().collect();
        assert_eq!(found.len(), count, "a message is there twice");
        let lost: Vec<_> = self
            .known
            .confirmed
            .difference(&self.known.settled)
            .filter(|text| !found.contains(*text))
            .collect();
        assert!(lost.is_empty(), "confirmed and lost: {lost:?}");
        let risen: Vec<_> = self.known.gone.intersection(&found).collect();
        assert!(risen.is_empty(), "settled for good and back: {risen:?}");
    }

    /// Everybody goes; what is left is in queues that outlive their users.
    fn finish(&mut self) -> usize {
        self.rig.is_instant = true;
        self.rig.is_prompt = true;
        let room = StoreEvent::Room { is_short: false };
        self.rig.event(Event::Store(room));
        self.rig.flush();
        for conn in std::mem::take(&mut self.conns) {
            self.rig.event(Event::Disconnected { conn });
        }
        for name in [
            "q", "volatile", "auto", "ttl", "head", "bytes", "new-a", "new-b", "nowhere",
        ] {
            let _ = self.rig.broker.delete_queue(self.rig.now, name);
        }
        self.rig.flush();
        let counters = self.rig.broker.counters();
        assert_eq!(
            (counters.connections, counters.ports(), counters.unsettled),
            (0, 0, 0)
        );
        // Only dynamic nodes that wait for their messages may be left.
        assert_eq!(counters.queues == 0, counters.messages == 0, "{counters:?}");
        assert!(self.rig.broker.is_drained());
        assert_eq!(counters.bytes, self.rig.broker.counted_bytes());
        assert_eq!((counters.fetches, counters.damaged), (0, 0));
        assert!(!counters.is_disk_short && !counters.is_memory_short);
        self.known.confirmed.len()
    }
}

#[test]
fn nothing_confirmed_is_lost_and_nothing_settled_returns() {
    walk(None);
}

#[test]
fn nothing_is_lost_or_returns_when_bodies_leave() {
    let fetched = walk(Some(PAGING));
    assert!(
        fetched > 1_000,
        "{fetched} answers are too few to mean anything"
    );
}

fn walk(paging: Option<Paging>) -> usize {
    let (mut confirmed, mut fetched, mut done, mut undone) = (0, 0, 0, 0);
    for seed in 0..60 {
        println!("seed {seed}");
        let mut chaos = Chaos::new(seed, paging);
        for step in 0..1_500 {
            chaos.step();
            if step % 100 == 99 {
                chaos.crash(seed);
            }
        }
        confirmed += chaos.finish();
        fetched += chaos.fetched;
        done += chaos.known.done;
        undone += chaos.known.undone;
    }
    println!(
        "{confirmed} confirmed messages were looked for; {done} transactions, {undone} that could not be"
    );
    assert!(
        done > 1_000 && undone > 100,
        "{done} transactions, {undone} that could not be"
    );
    assert!(
        confirmed > 2_000,
        "{confirmed} confirmed messages are too few to mean anything"
    );
    fetched
}
