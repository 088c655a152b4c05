//! The target for a whole node: three hostile AMQP peers, time, broken connections and a store that answers late.
//!
//! An input is a row of steps. A step is one byte: the low two bits choose the peer, the rest what happens (see
//! `Step`). What must hold: nothing panics, every turn ends, and when all peers are gone nobody holds a message.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use qq_core::broker::{Broker, BrokerConfig, Limits, Now, QueueSpec};
use qq_core::face::amqp::{AmqpConfig, AmqpFace, TxnLimits};
use qq_core::face::{LoginAnswer, PeerInfo};
use qq_core::node::{Node, Output};
use qq_core::store::{BatchId, StoreEvent};
use qq_core::vocab::ConnId;
use qq_proto_amqp::connection::{Config, SaslConfig};

const PEERS: u64 = 3;
/// Frames that a random input would hardly hit: they bring a peer deep into the protocol.
const FRAMES: [&[u8]; 12] = [
    // protocol header, open "c1", begin
    b"AMQP\x00\x01\x00\x00\x00\x00\x00\x12\x02\x00\x00\x00\x00\x53\x10\xc0\x05\x01\xa1\x02c1\
      \x00\x00\x00\x1a\x02\x00\x00\x00\x00\x53\x11\xc0\x0d\x04\x40\x43\x70\x00\x00\x08\x00\x70\x00\x00\x08\x00",
    // attach sender "s1" to q1, handle 0
    b"\x00\x00\x00\x27\x02\x00\x00\x00\x00\x53\x12\xc0\x1a\x0a\xa1\x02s1\x43\x42\x40\x40\x00\x53\x28\x45\x00\x53\x29\
      \xc0\x05\x01\xa1\x02q1\x40\x40\x43",
    // attach receiver "r1" from q1, handle 1
    b"\x00\x00\x00\x25\x02\x00\x00\x00\x00\x53\x12\xc0\x18\x07\xa1\x02r1\x52\x01\x41\x40\x40\x00\x53\x28\xc0\x05\x01\
      \xa1\x02q1\x00\x53\x29\x45",
    // flow: credit 10 on handle 1
    b"\x00\x00\x00\x1f\x02\x00\x00\x00\x00\x53\x13\xc0\x12\x07\x43\x70\x00\x00\x08\x00\x43\x70\x00\x00\x08\x00\x52\x01\
      \x43\x52\x0a",
    // flow: credit 10 and drain on handle 1
    b"\x00\x00\x00\x21\x02\x00\x00\x00\x00\x53\x13\xc0\x14\x09\x43\x70\x00\x00\x08\x00\x43\x70\x00\x00\x08\x00\x52\x01\
      \x43\x52\x0a\x40\x41",
    // transfer, delivery 0 on handle 0, "hello"
    b"\x00\x00\x00\x1e\x02\x00\x00\x00\x00\x53\x14\xc0\x07\x04\x43\x43\xa0\x01\x00\x43\x00\x53\x75\xa0\x05hello",
    // transfer, delivery 1 on handle 0, the first half of a message
    b"\x00\x00\x00\x1d\x02\x00\x00\x00\x00\x53\x14\xc0\x0a\x06\x43\x52\x01\xa0\x01\x01\x43\x41\x41\x00\x53\x75\xa0\x02",
    // disposition: delivery 0 accepted and settled
    b"\x00\x00\x00\x16\x02\x00\x00\x00\x00\x53\x15\xc0\x09\x05\x41\x43\x40\x41\x00\x53\x24\x45",
    // disposition: delivery 0 released and settled
    b"\x00\x00\x00\x16\x02\x00\x00\x00\x00\x53\x15\xc0\x09\x05\x41\x43\x40\x41\x00\x53\x26\x45",
    // closing detach of handle 0
    b"\x00\x00\x00\x10\x02\x00\x00\x00\x00\x53\x16\xc0\x03\x02\x43\x41",
    // end
    b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x17\x45",
    // close
    b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x18\x45",
];

/// What the upper six bits of a step's byte mean.
enum Step {
    /// 0..=11: the peer sends one of [`FRAMES`].
    Frame(usize),
    /// 12..=47: the peer sends so many of the bytes that follow (1 to 36).
    Raw(usize),
    /// 48..=55: time passes, 0.1 to 25 s.
    Wait(u32),
    /// 56, 57: the peer sends no more.
    Eof,
    /// 58..=60: the peer is cut off and connects anew.
    Cut,
    /// 61..=63: the store answers.
    Persist,
}

fn step_of(code: u8) -> Step {
    match code {
        0..=11 => Step::Frame(usize::from(code)),
        12..=47 => Step::Raw(usize::from(code) - 11),
        48..=55 => Step::Wait(100 << (code - 48)),
        56 | 57 => Step::Eof,
        58..=60 => Step::Cut,
        _ => Step::Persist,
    }
}

/// Drives a node as the input says.
pub fn node(data: &[u8]) {
    let mut bench = Bench::new();
    let mut rest = data;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let conn = ConnId(1 + u64::from(byte & 3) % PEERS);
        match step_of(byte >> 2) {
            Step::Frame(index) => bench.send(conn, FRAMES[index]),
            Step::Raw(len) => {
                let (piece, behind) = rest.split_at(len.min(rest.len()));
                rest = behind;
                bench.send(conn, piece);
            }
            Step::Wait(ms) => bench.wait(ms),
            Step::Eof => bench.node.handle_eof(bench.now, conn),
            Step::Cut => bench.reconnect(conn),
            Step::Persist => bench.persist(),
        }
        bench.drain();
    }
    bench.finish();
}

struct Bench {
    node: Node,
    now: Now,
    config: Arc<AmqpConfig>,
    input: [BytesMut; PEERS as usize],
    unanswered: VecDeque<BatchId>,
}

impl Bench {
    fn new() -> Self {
        let mut broker = Broker::new(BrokerConfig {
            limits: Limits {
                queues_max: 8,
                memory_high_bytes: 8 << 10,
                memory_max_bytes: 16 << 10,
                ..Limits::default()
            },
            queues: vec![QueueSpec::new("q1")],
            auto_create_queues: true,
            ..BrokerConfig::default()
        });
        broker.recovered(Now::default());
        let mut bench = Self {
            node: Node::new(broker),
            now: Now::default(),
            config: Arc::new(AmqpConfig {
                connection: Config {
                    sasl: SaslConfig {
                        required: false,
                        ..SaslConfig::default()
                    },
                    message_size_max: 4 << 10,
                    ..Config::default()
                },
                credit_max: 8,
                permit_slice: 4,
                unanswered_max: 16,
                unanswered_bytes_max: 8 << 10,
                txns: TxnLimits::default(),
                senders_second: true,
                queue_defaults: QueueSpec::default(),
                authenticate: Arc::new(|_| LoginAnswer::Accepted),
            }),
            input: Default::default(),
            unanswered: VecDeque::new(),
        };
        for conn in 1..=PEERS {
            bench.reconnect(ConnId(conn));
        }
        bench
    }

    fn reconnect(&mut self, conn: ConnId) {
        let face = AmqpFace::new(self.now, PeerInfo::default(), Arc::clone(&self.config));
        self.input[conn.0 as usize - 1].clear();
        self.node.connect(self.now, conn, Box::new(face));
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        let input = &mut self.input[conn.0 as usize - 1];
        input.extend_from_slice(bytes);
        self.node.handle_input(self.now, conn, input);
        assert!(input.len() <= 1 << 20, "input that nobody takes piles up");
    }

    fn wait(&mut self, ms: u32) {
        self.now.mono += Duration::from_millis(u64::from(ms));
        self.now.wall_ms += i64::from(ms);
        for _ in 0..1_000 {
            let due = self
                .node
                .poll_timeout()
                .is_some_and(|at| at <= self.now.mono);
            if !due {
                return;
            }
            self.node.handle_timeout(self.now);
            self.drain();
        }
        panic!("timers never come to rest");
    }

    fn persist(&mut self) {
        if let Some(upto) = self.unanswered.pop_front() {
            self.node
                .handle_store(self.now, StoreEvent::Persisted { upto });
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.node.poll_output() {
            if let Output::Persist(batch) = output {
                self.unanswered.push_back(batch.id);
            }
        }
    }

    /// Everybody goes; then the store answers all it was asked.
    fn finish(mut self) {
        for conn in 1..=PEERS {
            self.node.disconnect(self.now, ConnId(conn));
            self.drain();
        }
        while !self.unanswered.is_empty() {
            self.persist();
            self.drain();
        }
        let counters = self.node.broker().counters();
        assert_eq!(counters.connections, 0);
        assert_eq!(counters.ports(), 0, "links outlive their connections");
        assert_eq!(counters.unsettled, 0, "a message is held by nobody");
        assert_eq!(
            counters.messages == 0,
            counters.bytes == 0,
            "messages and their bytes disagree"
        );
    }
}
