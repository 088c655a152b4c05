//! Transactions and crashes: the broker on stores that lose power, or whose files are copied in the middle of the work.
//!
//! Each numbered message waits in `in`. A transaction takes one and publishes its number to an exchange with two queues;
//! some reject it as well, so that a dead letter is part of the commit. Whatever the moment of the crash, a number is
//! afterwards either where it was, or in every place where its transaction puts it; and what was confirmed is done.
#![allow(clippy::disallowed_methods, reason = "the SQLite store owns files")]

use qq_conformance::seed::Seed;
use qq_core::broker::{Action, Broker, BrokerConfig, Event, Now, QueueSpec};
use qq_core::route::BindingSpec;
use qq_core::store::{Store, StoreEvent};
use qq_core::vocab::{
    Address, Command, ConnId, ConsumerSpec, DeliveryId, Envelope, Format, Message, Notice, Outcome,
    Port, ProducerSpec, RuleId, SubscriptionSpec, Ticket, TxnId,
};
use qq_store_mem::Ledger;
use qq_store_sqlite::{SqliteStore, StoreConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const CONN: ConnId = ConnId(1);
const TO_IN: Port = Port(0);
const TO_OUT: Port = Port(1);
const FROM: Port = Port(2);
const MESSAGES: u64 = 24;
const NOW: Now = Now {
    mono: Duration::from_secs(1),
    wall_ms: 1_000_000,
};

fn config() -> BrokerConfig {
    BrokerConfig {
        queues: ["in", "out1", "out2", "in.dlq"]
            .map(QueueSpec::new)
            .to_vec(),
        bindings: ["out1", "out2"]
            .map(|queue| BindingSpec::to_queue("amq.fanout", queue, ""))
            .to_vec(),
        ..BrokerConfig::default()
    }
}

/// A broker and its store, driven by hand: what was submitted is flushed when the test says so.
struct Run<S> {
    broker: Broker,
    store: S,
    told: Vec<Notice>,
    tickets: BTreeMap<Port, u64>,
}

impl<S: Store> Run<S> {
    fn new(mut store: S) -> Self {
        let mut broker = Broker::new(config());
        store
            .recover(&mut |op| broker.recover(op))
            .expect("the store is sound");
        broker.recovered(NOW);
        let mut run = Self {
            broker,
            store,
            told: Vec::new(),
            tickets: BTreeMap::new(),
        };
        run.event(Event::Connected { conn: CONN });
        run.safe();
        run
    }

    fn event(&mut self, event: Event) {
        self.broker.handle_event(NOW, event);
        self.broker.flush(NOW);
        while let Some(action) = self.broker.poll_action() {
            match action {
                Action::Persist(batch) => self.store.submit(batch),
                Action::Notify { notices, .. } => self.told.extend(notices),
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn commands(&mut self, commands: Vec<Command>) {
        let conn = CONN;
        self.event(Event::Commands { conn, commands });
    }

    /// Makes everything safe, and lets the broker know.
    fn safe(&mut self) {
        while let Some(upto) = self.store.flush().expect("the store works") {
            let before = self.told.len();
            self.event(Event::Store(StoreEvent::Persisted { upto }));
            if self.told.len() == before {
                break;
            }
        }
    }

    fn produce(&mut self, port: Port, address: Address) {
        let spec = Box::new(ProducerSpec { key: None, address });
        self.commands(vec![Command::OpenProducer { port, spec }]);
    }

    fn consume(&mut self, port: Port, queue: &str, settled: bool) {
        let spec = Box::new(ConsumerSpec {
            key: None,
            address: Address::Queue(queue.to_owned()),
            browse: false,
            settled,
            default_outcome: Outcome::Released,
            subscription: SubscriptionSpec::default(),
            filter: None,
            lock: Default::default(),
            stream: Default::default(),
        });
        let limit = u64::MAX;
        let drain = false;
        let permit = Command::Permit { port, limit, drain };
        self.commands(vec![Command::OpenConsumer { port, spec }, permit]);
    }

    fn next_ticket(&mut self, port: Port) -> Ticket {
        let ticket = self.tickets.entry(port).or_default();
        *ticket += 1;
        Ticket(*ticket - 1)
    }

    /// What waits in a queue, taken out.
    fn numbers(&mut self, queue: &str, port: Port) -> BTreeSet<u64> {
        self.told.clear();
        self.consume(port, queue, true);
        self.safe();
        let mut numbers = BTreeSet::new();
        for notice in self.told.drain(..) {
            if let Notice::Deliver { delivered, .. } = notice {
                assert!(
                    numbers.insert(number_of(&delivered.message)),
                    "twice in {queue}"
                );
            }
        }
        numbers
    }
}

fn message(number: u64) -> Arc<Message> {
    Message {
        envelope: Envelope {
            durable: true,
            ..Envelope::default()
        },
        format: Format::Amqp(0),
        payload: number.to_be_bytes().repeat(20).into(),
    }
    .share()
}

fn number_of(message: &Message) -> u64 {
    u64::from_be_bytes(message.payload[..8].try_into().expect("eight bytes"))
}

/// Which numbers are rejected by their transactions, for their dead letters.
fn is_rejected(number: u64) -> bool {
    number.is_multiple_of(3)
}

/// Moves messages in transactions until the seed says stop; returns the numbers whose discharge was confirmed.
fn work<S: Store>(run: &mut Run<S>, seed: &mut Seed) -> BTreeSet<u64> {
    run.produce(TO_IN, Address::Queue("in".to_owned()));
    let fanout = Address::Exchange {
        name: "amq.fanout".to_owned(),
        key: None,
    };
    run.produce(TO_OUT, fanout);
    let publishes = (0..MESSAGES)
        .map(|number| Command::Publish {
            port: TO_IN,
            ticket: run.next_ticket(TO_IN),
            message: message(number),
            vetted: RuleId::NONE,
        })
        .collect();
    run.commands(publishes);
    run.safe();
    run.told.clear();
    run.consume(FROM, "in", false);
    let deliveries: Vec<(DeliveryId, u64)> = run
        .told
        .drain(..)
        .filter_map(|notice| match notice {
            Notice::Deliver { delivered, .. } => {
                Some((delivered.delivery, number_of(&delivered.message)))
            }
            _ => None,
        })
        .collect();
    assert_eq!(deliveries.len() as u64, MESSAGES);
    let stop = seed.below(MESSAGES);
    for (delivery, number) in &deliveries[..stop as usize] {
        let txn = TxnId(*number);
        let outcome = if is_rejected(*number) {
            Outcome::Rejected { reason: None }
        } else {
            Outcome::Accepted
        };
        let ticket = run.next_ticket(TO_OUT);
        let mut commands = vec![
            Command::StageSettle {
                port: FROM,
                first: *delivery,
                last: *delivery,
                txn,
                outcome,
            },
            Command::Stage {
                port: TO_OUT,
                ticket,
                txn,
                message: message(*number),
            },
        ];
        if !seed.one_in(5) {
            let fail = seed.one_in(7);
            commands.push(Command::Discharge { txn, fail });
        }
        run.commands(commands);
        if seed.one_in(4) {
            run.safe();
        }
    }
    let done = run.told.iter().filter_map(|notice| match notice {
        Notice::Discharged { txn, fault: None } => Some(txn.0),
        _ => None,
    });
    done.collect()
}

/// What must be after a crash. Rolled-back transactions are confirmed as well; `committed` has none of them.
fn judge<S: Store>(run: &mut Run<S>, confirmed: &BTreeSet<u64>, seed: u64) -> usize {
    let of_in = run.numbers("in", Port(10));
    let places = [
        run.numbers("out1", Port(11)),
        run.numbers("out2", Port(12)),
        run.numbers("in.dlq", Port(13)),
    ];
    let mut moved = 0;
    for number in 0..MESSAGES {
        let is_in = of_in.contains(&number);
        let expected = [!is_in, !is_in, !is_in && is_rejected(number)];
        let found = [0, 1, 2].map(|place| places[place].contains(&number));
        assert_eq!(
            found, expected,
            "seed {seed}, message {number}, in its queue: {is_in}"
        );
        moved += usize::from(!is_in);
        if confirmed.contains(&number) {
            assert!(
                !is_in,
                "seed {seed}: message {number} was confirmed and is undone"
            );
        }
    }
    moved
}

/// Discharges that were confirmed and not asked to fail.
fn committed<S: Store>(run: &mut Run<S>, seed: &mut Seed) -> BTreeSet<u64> {
    // A twin of the seed tells which discharges were roll-backs.
    let mut twin = *seed;
    let confirmed = work(run, seed);
    let stop = twin.below(MESSAGES);
    let mut failed = BTreeSet::new();
    for number in 0..stop {
        if !twin.one_in(5) && twin.one_in(7) {
            failed.insert(number);
        }
        twin.one_in(4);
    }
    confirmed.difference(&failed).copied().collect()
}

#[test]
fn a_power_cut_keeps_each_transaction_or_nothing_of_it() {
    let (mut moved, mut confirmed, mut undone) = (0, 0, 0);
    for number in 0..300 {
        let mut seed = Seed::new(number);
        let mut run = Run::new(Ledger::new(number));
        let committed = committed(&mut run, &mut seed);
        let mut store = run.store;
        store.crash();
        let mut after = Run::new(store);
        let now = judge(&mut after, &committed, number);
        moved += now;
        confirmed += committed.len();
        undone += usize::from(now == committed.len());
    }
    // The runs are worth something: there are transactions that were confirmed, that arrived without being confirmed,
    // and runs in which nothing else arrived.
    assert!(
        confirmed > 300 && moved > confirmed && undone > 30,
        "{confirmed} {moved} {undone}"
    );
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("qq-txn-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(StoreConfig {
            sync_writes: false,
            ballast_bytes: 0,
            ..StoreConfig::new(self.0.join("data"))
        })
        .expect("the store opens")
    }

    /// The files as they are now, as the death of the process would leave them.
    fn copy_to(&self, other: &Path) {
        let data = other.join("data");
        std::fs::create_dir_all(&data).expect("a folder");
        for name in ["store.db", "store.db-wal", "lock"] {
            let from = self.0.join("data").join(name);
            if from.exists() {
                std::fs::copy(from, data.join(name)).expect("a copy");
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_of_sqlite_hold_whole_transactions_at_any_moment() {
    let mut moved = 0;
    for number in 0..20 {
        let folder = Folder::new(&format!("a{number}"));
        let mut seed = Seed::new(1_000 + number);
        let mut run = Run::new(folder.open());
        let committed = committed(&mut run, &mut seed);
        let copy = Folder::new(&format!("b{number}"));
        folder.copy_to(&copy.0);
        let mut after = Run::new(copy.open());
        moved += judge(&mut after, &committed, number);
    }
    assert!(moved > 20, "{moved} messages were moved");
}
