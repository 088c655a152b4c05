//! Instruction counts of a whole node: bytes of an AMQP peer in, bytes out, with the face, the broker and the gate
//! between them, and a store that answers at once. 64 messages each; divide by 64 for the cost of a message.
//!
//! `docs/performance.md` says how to run this.

#![allow(
    missing_docs,
    reason = "the macros make public items that nobody reads"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark is a program, and ends as one"
)]

use std::hint::black_box;
use std::sync::Arc;

use bytes::BytesMut;
use gungraun::{library_benchmark, library_benchmark_group, main};
use qq_core::broker::{Broker, BrokerConfig, Now, QueueSpec};
use qq_core::face::amqp::{AmqpConfig, AmqpFace, TxnLimits};
use qq_core::face::{LoginAnswer, PeerInfo};
use qq_core::node::{Node, Output};
use qq_core::store::StoreEvent;
use qq_core::vocab::ConnId;
use qq_proto_amqp::connection::Config;
use qq_proto_amqp::frame::{PROTOCOL_AMQP, TYPE_AMQP, encode_frame};
use qq_proto_amqp::performative::{
    Attach, Begin, DeliveryState, Disposition, Flow, Open, Performative, Role, Source, Target,
    TargetKind, Transfer,
};
use qq_proto_amqp::section::Header;
use qq_proto_amqp::types::{DeliveryTag, Str, Value};

const MESSAGES: u32 = 64;
const CONN: ConnId = ConnId(1);

struct Bench {
    node: Node,
    input: BytesMut,
    /// Frames and batches that came out.
    outputs: usize,
}

fn put(buf: &mut BytesMut, performative: &Performative, payload: &[u8]) {
    encode_frame(buf, 0, TYPE_AMQP, |body| {
        performative.encode(body);
        body.extend_from_slice(payload);
    });
}

fn attach(handle: u32, role: Role) -> Performative {
    let address = Some(Value::Str(Str::from_static("q1")));
    Performative::Attach(Box::new(Attach {
        name: Str::from_static("link"),
        handle,
        role,
        source: Some(Source {
            address: address.clone(),
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
    /// A node with one peer that has a sender on handle 0 and a receiver on handle 1.
    fn new() -> Self {
        let mut broker = Broker::new(BrokerConfig {
            queues: vec![QueueSpec::new("q1")],
            hash_seed: 7,
            ..BrokerConfig::default()
        });
        broker.recovered(Now::default());
        let config = Arc::new(AmqpConfig {
            connection: Config::default(),
            credit_max: 256,
            permit_slice: 256,
            unanswered_max: 4_096,
            unanswered_bytes_max: 8 << 20,
            txns: TxnLimits::default(),
            senders_second: false,
            queue_defaults: QueueSpec::default(),
            authenticate: Arc::new(|_| LoginAnswer::Accepted),
        });
        let mut node = Node::new(broker);
        let face = AmqpFace::new(Now::default(), PeerInfo::default(), config);
        node.connect(Now::default(), CONN, Box::new(face));
        let mut bench = Self {
            node,
            input: BytesMut::with_capacity(64 * 1_024),
            outputs: 0,
        };
        let open = Open {
            container_id: Str::from_static("client"),
            ..Open::default()
        };
        let begin = Begin {
            incoming_window: 2_048,
            outgoing_window: 2_048,
            ..Begin::default()
        };
        bench.input.extend_from_slice(&PROTOCOL_AMQP);
        put(&mut bench.input, &Performative::Open(Box::new(open)), b"");
        put(&mut bench.input, &Performative::Begin(Box::new(begin)), b"");
        put(&mut bench.input, &attach(0, Role::Sender), b"");
        put(&mut bench.input, &attach(1, Role::Receiver), b"");
        bench.run();
        bench
    }

    /// What the peer sent is handled, and what follows from it, up to the last byte out.
    fn run(&mut self) {
        self.node
            .handle_input(Now::default(), CONN, black_box(&mut self.input));
        while let Some(output) = self.node.poll_output() {
            self.outputs += 1;
            if let Output::Persist(batch) = output {
                let event = StoreEvent::Persisted { upto: batch.id };
                self.node.handle_store(Now::default(), event);
            }
        }
    }

    /// Messages of 100 bytes wait in the buffer.
    fn put_messages(&mut self, durable: bool) {
        let mut payload = BytesMut::new();
        if durable {
            let header = Header {
                durable,
                ..Header::default()
            };
            header.encode(&mut payload);
        }
        payload.extend_from_slice(&[0x00, 0x53, 0x75, 0xa0, 100]);
        payload.extend_from_slice(&[b'x'; 100]);
        for id in 0..MESSAGES {
            let transfer = Transfer {
                delivery_id: Some(id),
                delivery_tag: DeliveryTag::new(&id.to_be_bytes()),
                message_format: Some(0),
                settled: Some(false),
                ..Transfer::default()
            };
            put(&mut self.input, &Performative::Transfer(transfer), &payload);
        }
    }

    fn put_credit(&mut self) {
        let flow = Flow {
            next_incoming_id: Some(0),
            incoming_window: 2_048,
            next_outgoing_id: MESSAGES,
            outgoing_window: 2_048,
            handle: Some(1),
            delivery_count: Some(0),
            link_credit: Some(MESSAGES),
            ..Flow::default()
        };
        put(&mut self.input, &Performative::Flow(flow), b"");
    }

    fn put_settlement(&mut self) {
        let disposition = Disposition {
            role: Role::Receiver,
            first: 0,
            last: Some(MESSAGES - 1),
            settled: true,
            state: Some(DeliveryState::Accepted),
            batchable: false,
        };
        put(
            &mut self.input,
            &Performative::Disposition(disposition),
            b"",
        );
    }
}

fn with_messages(durable: bool) -> Bench {
    let mut bench = Bench::new();
    assert_eq!(bench.node.broker().counters().consumers, 1);
    bench.put_messages(durable);
    bench
}

/// All messages are in the queue, the consumer's credit waits in the buffer.
fn with_credit() -> Bench {
    let mut bench = with_messages(false);
    bench.run();
    let waiting = bench.node.broker().counters().messages;
    assert_eq!(waiting, MESSAGES as usize);
    bench.put_credit();
    bench
}

/// All messages are with the consumer, which accepts them.
fn with_settlement() -> Bench {
    let mut bench = with_credit();
    bench.run();
    let unsettled = bench.node.broker().counters().unsettled;
    assert_eq!(unsettled, MESSAGES as usize);
    bench.put_settlement();
    bench
}

#[library_benchmark]
#[bench::publish(with_messages(false))]
#[bench::publish_durable(with_messages(true))]
#[bench::deliver(with_credit())]
#[bench::accept(with_settlement())]
fn run(mut bench: Bench) -> Bench {
    bench.run();
    bench
}

library_benchmark_group!(name = node, benchmarks = [run]);

main!(library_benchmark_groups = node);
