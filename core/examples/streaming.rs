//! Measures how fast a node hands out a stream: one AMQP sender fills it while ten AMQP receivers read all of it, each from
//! the first message on, over a store that keeps bodies in memory. Deliveries a second of all receivers together.
//!
//! `cargo run --release -p qq-core --example streaming [MESSAGES]`. Prints only; nothing is asserted about time.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measurement reads the clock"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use qq_core::broker::{Broker, BrokerConfig, Now, Paging, QueueSpec};
use qq_core::face::amqp::{AmqpConfig, AmqpFace, TxnLimits};
use qq_core::face::{LoginAnswer, PeerInfo};
use qq_core::node::{Node, Output};
use qq_core::store::{Op, StoreEvent};
use qq_core::vocab::{ConnId, Message, Seq};
use qq_proto_amqp::connection::Config;
use qq_proto_amqp::frame::{PROTOCOL_AMQP, TYPE_AMQP, encode_frame};
use qq_proto_amqp::performative::{
    Attach, Begin, Flow, Open, Performative, Role, SndSettleMode, Source, Target, TargetKind,
    Transfer,
};
use qq_proto_amqp::types::{DeliveryTag, Described, Map, Str, Symbol, Value};

const READERS: u64 = 10;
const WRITER: ConnId = ConnId(0);
/// Messages that the writer sends before everybody else has a turn.
const STEP: u32 = 200;
const WINDOW: u32 = i32::MAX as u32;
const OFFSET_SPEC: Symbol = Symbol::from_static("rabbitmq:stream-offset-spec");

struct Bench {
    node: Node,
    started: Instant,
    input: BytesMut,
    /// What the store keeps, by position.
    kept: BTreeMap<u64, Arc<Message>>,
    transfers: u64,
    fetches: u64,
}

fn put(buf: &mut BytesMut, performative: &Performative, payload: &[u8]) {
    encode_frame(buf, 0, TYPE_AMQP, |body| {
        performative.encode(body);
        body.extend_from_slice(payload);
    });
}

fn attach(role: Role) -> Performative {
    let address = Some(Value::Str(Str::from_static("/streams/s")));
    let first = Described {
        descriptor: Value::Symbol(OFFSET_SPEC),
        value: Value::Str(Str::from_static("first")),
    };
    let filter: Map = vec![(
        Value::Symbol(OFFSET_SPEC),
        Value::Described(Box::new(first)),
    )];
    Performative::Attach(Box::new(Attach {
        name: Str::from_static("link"),
        handle: 0,
        role,
        snd_settle_mode: SndSettleMode::Settled,
        source: Some(Source {
            address: address.clone(),
            filter: Some(filter),
            ..Source::default()
        }),
        target: Some(TargetKind::Target(Target {
            address,
            ..Target::default()
        })),
        ..Attach::default()
    }))
}

impl Bench {
    fn new() -> Self {
        let mut broker = Broker::new(BrokerConfig {
            queues: vec![QueueSpec::stream("s")],
            paging: Some(Paging::default()),
            hash_seed: 7,
            ..BrokerConfig::default()
        });
        broker.recovered(Now::default());
        Self {
            node: Node::new(broker),
            started: Instant::now(),
            input: BytesMut::new(),
            kept: BTreeMap::new(),
            transfers: 0,
            fetches: 0,
        }
    }

    fn now(&self) -> Now {
        let mono = self.started.elapsed();
        let wall_ms = i64::try_from(mono.as_millis()).unwrap_or(i64::MAX);
        Now { mono, wall_ms }
    }

    fn connect(&mut self, conn: ConnId, role: Role) {
        let config = Arc::new(AmqpConfig {
            connection: Config::default(),
            credit_max: 4_096,
            permit_slice: 256,
            unanswered_max: 4_096,
            unanswered_bytes_max: 8 << 20,
            txns: TxnLimits::default(),
            senders_second: false,
            queue_defaults: QueueSpec::default(),
            authenticate: Arc::new(|_| LoginAnswer::Accepted),
        });
        let face = AmqpFace::new(self.now(), PeerInfo::default(), config);
        self.node.connect(self.now(), conn, Box::new(face));
        let open = Open {
            container_id: Str::from(format!("client {}", conn.0).as_str()),
            ..Open::default()
        };
        let begin = Begin {
            incoming_window: WINDOW,
            outgoing_window: WINDOW,
            ..Begin::default()
        };
        self.input.extend_from_slice(&PROTOCOL_AMQP);
        put(&mut self.input, &Performative::Open(Box::new(open)), b"");
        put(&mut self.input, &Performative::Begin(Box::new(begin)), b"");
        put(&mut self.input, &attach(role), b"");
        if role == Role::Receiver {
            let flow = Flow {
                next_incoming_id: Some(0),
                incoming_window: WINDOW,
                outgoing_window: WINDOW,
                handle: Some(0),
                delivery_count: Some(0),
                link_credit: Some(WINDOW),
                ..Flow::default()
            };
            put(&mut self.input, &Performative::Flow(flow), b"");
        }
        self.run(conn);
    }

    /// What a peer sent is handled, and what follows from it, up to the last byte out.
    fn run(&mut self, conn: ConnId) {
        let now = self.now();
        let mut input = std::mem::take(&mut self.input);
        self.node.handle_input(now, conn, &mut input);
        assert!(input.is_empty(), "the peer is read");
        self.input = input;
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Persist(batch) => {
                    for op in &batch.ops {
                        self.keep(op);
                    }
                    let event = StoreEvent::Persisted { upto: batch.id };
                    self.node.handle_store(now, event);
                }
                Output::Fetch(fetch) => {
                    self.fetches += 1;
                    let end = fetch.first.0 + u64::from(fetch.count);
                    let range = self.kept.range(fetch.first.0..end);
                    let messages = range.map(|(seq, body)| (Seq(*seq), Arc::clone(body)));
                    let messages = messages.collect();
                    let event = StoreEvent::Fetched { fetch, messages };
                    self.node.handle_store(now, event);
                }
                Output::Transmit { conn, bytes } if conn != WRITER => {
                    self.transfers += transfers_in(&bytes);
                }
                Output::Transmit { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn keep(&mut self, op: &Op) {
        if let Op::Enqueued(stored) = op {
            for (_, seq) in &stored.places {
                self.kept.insert(seq.0, Arc::clone(&stored.message));
            }
        }
    }

    fn write(&mut self, first: u32, payload: &[u8]) {
        for id in first..first + STEP {
            let transfer = Transfer {
                delivery_id: Some(id),
                delivery_tag: DeliveryTag::new(&id.to_be_bytes()),
                message_format: Some(0),
                settled: Some(true),
                ..Transfer::default()
            };
            put(&mut self.input, &Performative::Transfer(transfer), payload);
        }
        self.run(WRITER);
    }
}

/// Transfers among whole frames: the performative's descriptor is the eleventh byte of a frame.
fn transfers_in(bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    let mut count = 0;
    while let Some((size, _)) = rest.split_first_chunk::<4>() {
        let size = u32::from_be_bytes(*size) as usize;
        count += u64::from(rest.get(8..11) == Some(&[0x00, 0x53, 0x14]));
        rest = rest.get(size.max(8)..).unwrap_or_default();
    }
    count
}

fn main() {
    let asked = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let messages: u32 = asked.unwrap_or(200_000);
    let mut payload = vec![0x00, 0x53, 0x75, 0xa0, 100];
    payload.extend_from_slice(&[b'x'; 100]);
    for is_live in [true, false] {
        let mut bench = Bench::new();
        bench.connect(WRITER, Role::Sender);
        if is_live {
            (1..=READERS).for_each(|reader| bench.connect(ConnId(reader), Role::Receiver));
        }
        let mut began = Instant::now();
        for first in (0..messages).step_by(STEP as usize) {
            bench.write(first, &payload);
        }
        let written = began.elapsed();
        if !is_live {
            began = Instant::now();
            (1..=READERS).for_each(|reader| bench.connect(ConnId(reader), Role::Receiver));
        }
        report(&bench, began.elapsed(), written, is_live);
    }
}

fn report(bench: &Bench, took: Duration, written: Duration, is_live: bool) {
    let counters = bench.node.broker().counters();
    let rate = bench.transfers as f64 / took.as_secs_f64();
    println!(
        "{}: {} deliveries to {READERS} readers in {took:.2?} (writing took {written:.2?}): {rate:.0}/s; {} requests to \
         the store, {} bodies in memory",
        if is_live { "live" } else { "from the first" },
        bench.transfers,
        bench.fetches,
        counters.bodies,
    );
}
