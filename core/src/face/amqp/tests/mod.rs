//! Face tests: a node with real peers, which are client machines of the protocol crate, and a journal for a store.

mod annotations;
mod drain;
mod locks;
mod login;
mod manage;
mod report;
mod wishes;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::connection::{
    Config, Connection, Event, IncomingId, LinkId, NewLink, OutgoingDelivery, SaslConfig,
    SessionId, Side,
};
use qq_proto_amqp::performative::{
    DeliveryState, RcvSettleMode, SndSettleMode, Source, Target, TargetKind,
};
use qq_proto_amqp::types::{DeliveryTag, Str, Symbol, Value};

use super::{AmqpConfig, AmqpFace, TxnLimits};
use crate::admin::Reply;
use crate::broker::{Broker, BrokerConfig, Now, QueueSpec};
use crate::face::{Authenticate, LoginAnswer, PeerInfo};
use crate::node::{Node, Output};
use crate::store::{Op, StoreEvent};
use crate::vocab::ConnId;

/// A wall clock that is not zero, so that a mix-up with the monotonic one shows.
const WALL_START_MS: i64 = 1_700_000_000_000;
/// Bytes asked of a client machine at a time.
const BUDGET: usize = 64 * 1024;

/// One peer: a client machine, and what it heard.
struct Client {
    conn: ConnId,
    machine: Connection,
    events: Vec<Event>,
    /// What the node has not taken yet.
    sent: BytesMut,
}

/// A node with its peers and its store.
struct Bench {
    node: Node,
    now: Now,
    config: Arc<AmqpConfig>,
    clients: Vec<Client>,
    /// Everything that was persisted, in order.
    journal: Vec<Op>,
    /// What operators were answered.
    replies: Vec<Reply>,
}

fn broker_config() -> BrokerConfig {
    BrokerConfig {
        queues: vec![QueueSpec::new("q1")],
        ..BrokerConfig::default()
    }
}

fn face_config(authenticate: Authenticate) -> AmqpConfig {
    AmqpConfig {
        connection: Config {
            container_id: Str::from_static("broker"),
            sasl: SaslConfig {
                required: false,
                mechanisms: vec![
                    Symbol::from_static("PLAIN"),
                    Symbol::from_static("ANONYMOUS"),
                ],
                credentials: None,
            },
            ..Config::default()
        },
        credit_max: 16,
        permit_slice: 16,
        unanswered_max: 64,
        unanswered_bytes_max: 1 << 20,
        txns: TxnLimits::default(),
        senders_second: false,
        queue_defaults: QueueSpec::default(),
        authenticate,
    }
}

/// A peer that only the test's own deadlines cut off.
fn client_config() -> Config {
    Config {
        container_id: Str::from_static("client"),
        idle_timeout_ms: 0,
        open_deadline_ms: 0,
        first_bytes_deadline_ms: 0,
        ..Config::default()
    }
}

impl Bench {
    fn new() -> Self {
        Self::with(face_config(Arc::new(|_| LoginAnswer::Accepted)))
    }

    fn with(config: AmqpConfig) -> Self {
        Self::recovered(config, broker_config(), Vec::new(), Duration::ZERO)
    }

    /// A node whose `q1` is this queue.
    fn with_q1(spec: QueueSpec) -> Self {
        let broker = BrokerConfig {
            queues: vec![spec],
            ..BrokerConfig::default()
        };
        let face = face_config(Arc::new(|_| LoginAnswer::Accepted));
        Self::recovered(face, broker, Vec::new(), Duration::ZERO)
    }

    /// A node whose store holds a journal already.
    fn recovered(
        config: AmqpConfig,
        broker: BrokerConfig,
        journal: Vec<Op>,
        mono: Duration,
    ) -> Self {
        let mut broker = Broker::new(broker);
        for op in &journal {
            broker.recover(op.clone());
        }
        let now = Now {
            mono,
            wall_ms: WALL_START_MS,
        };
        broker.recovered(now);
        let mut bench = Self {
            node: Node::new(broker),
            now,
            config: Arc::new(config),
            clients: Vec::new(),
            journal,
            replies: Vec::new(),
        };
        bench.settle();
        bench
    }

    /// Connects a peer and lets both sides say what they have to say.
    fn connect(&mut self, config: Config) -> usize {
        let at = self.clients.len();
        let conn = ConnId(at as u64);
        let peer = PeerInfo {
            address: format!("192.0.2.{at}:1"),
            ip: Some(core::net::Ipv4Addr::new(192, 0, 2, at as u8).into()),
        };
        let face = AmqpFace::new(self.now, peer, Arc::clone(&self.config));
        self.node.connect(self.now, conn, Box::new(face));
        let mut machine = Connection::new(Side::Client, config, self.now.mono);
        machine.open();
        self.clients.push(Client {
            conn,
            machine,
            events: Vec::new(),
            sent: BytesMut::new(),
        });
        self.settle();
        at
    }

    /// Carries bytes and batches until nothing moves.
    fn settle(&mut self) {
        loop {
            let mut has_moved = false;
            for client in &mut self.clients {
                let mut out: VecDeque<Bytes> = VecDeque::new();
                while client
                    .machine
                    .poll_transmit(self.now.mono, &mut out, BUDGET)
                    > 0
                {}
                has_moved |= !out.is_empty();
                out.iter()
                    .for_each(|bytes| client.sent.extend_from_slice(bytes));
                self.node
                    .handle_input(self.now, client.conn, &mut client.sent);
            }
            while let Some(output) = self.node.poll_output() {
                has_moved = true;
                self.handle_output(output);
            }
            for client in &mut self.clients {
                let machine = &mut client.machine;
                client
                    .events
                    .extend(core::iter::from_fn(|| machine.poll_event()));
            }
            if !has_moved {
                return;
            }
        }
    }

    fn handle_output(&mut self, output: Output) {
        match output {
            Output::Transmit { conn, bytes } => {
                let mut input = BytesMut::from(&bytes[..]);
                let client = &mut self.clients[conn.0 as usize];
                client.machine.handle_input(self.now.mono, &mut input);
                assert!(input.is_empty(), "faces write whole frames");
            }
            Output::Persist(batch) => {
                self.journal.extend(batch.ops);
                let event = StoreEvent::Persisted { upto: batch.id };
                self.node.handle_store(self.now, event);
            }
            Output::Close { conn } => {
                let client = &mut self.clients[conn.0 as usize];
                client.machine.handle_eof(self.now.mono);
            }
            Output::Reply { reply, .. } => self.replies.push(*reply),
            Output::Fetch(fetch) => panic!("nothing is paged out here: {fetch:?}"),
            Output::Fail { text } => panic!("the journal does not fail: {text}"),
        }
    }

    /// Lets time pass, deadline by deadline.
    fn pass(&mut self, time: Duration) {
        let end = self.now.mono + time;
        while let Some(due) = self.node.poll_timeout().filter(|due| *due <= end) {
            self.advance(due.max(self.now.mono));
            self.node.handle_timeout(self.now);
            self.settle();
        }
        self.advance(end);
    }

    fn advance(&mut self, to: Duration) {
        let passed = to - self.now.mono;
        self.now.mono = to;
        self.now.wall_ms += i64::try_from(passed.as_millis()).expect("short");
    }

    fn take_events(&mut self, client: usize) -> Vec<Event> {
        core::mem::take(&mut self.clients[client].events)
    }
}

/// A message that a client got.
struct Got {
    delivery: IncomingId,
    payload: Bytes,
}

/// The everyday steps of a client.
impl Bench {
    /// A peer with one session.
    fn session(&mut self) -> (usize, SessionId) {
        let client = self.connect(client_config());
        let session = self.clients[client].machine.begin().expect("open");
        self.settle();
        (client, session)
    }

    /// A link to or from `q1`, attached.
    fn link(&mut self, (client, session): (usize, SessionId), is_sender: bool) -> LinkId {
        let address = Some(Value::Str(Str::from_static("q1")));
        let link = NewLink {
            name: Str::from_static("link"),
            is_sender,
            source: Some(Source {
                address: address.clone(),
                ..Source::default()
            }),
            target: Some(TargetKind::Target(Target {
                address,
                ..Target::default()
            })),
            snd_settle_mode: SndSettleMode::Mixed,
            rcv_settle_mode: RcvSettleMode::First,
            max_message_size: None,
            unsettled: None,
            properties: None,
        };
        let link = self.clients[client]
            .machine
            .attach(session, link)
            .expect("attached");
        self.settle();
        link
    }

    /// Sends a message and waits for its outcome, which must be `accepted`.
    fn publish(&mut self, payload: &Bytes) {
        let peer = self.session();
        let link = self.link(peer, true);
        let machine = &mut self.clients[peer.0].machine;
        let out = OutgoingDelivery {
            tag: DeliveryTag::new(b"1").expect("short"),
            token: 1,
            settled: false,
            message_format: 0,
            head: &[],
            payload,
            batchable: false,
        };
        machine.send(link, out).expect("credit");
        self.settle();
        let events = self.take_events(peer.0);
        let is_accepted = |event: &Event| {
            matches!(
                event,
                Event::Outcome {
                    state: Some(DeliveryState::Accepted),
                    ..
                }
            )
        };
        assert!(events.iter().any(is_accepted), "{events:?}");
        self.clients[peer.0].machine.close(None);
        self.settle();
    }

    /// A new consumer takes one message.
    fn get(&mut self) -> (usize, Got) {
        let peer = self.session();
        let link = self.link(peer, false);
        self.clients[peer.0]
            .machine
            .grant(link, 1)
            .expect("attached");
        self.settle();
        let got = self.got(peer.0);
        (peer.0, got.expect("a message"))
    }

    /// The first message that came since the last look.
    fn got(&mut self, client: usize) -> Option<Got> {
        let mut events = self.take_events(client).into_iter();
        events.find_map(|event| match event {
            Event::Delivery {
                delivery, payload, ..
            } => Some(Got { delivery, payload }),
            _ => None,
        })
    }

    /// Settles a delivery and leaves.
    fn settle_and_leave(&mut self, client: usize, got: &Got, state: DeliveryState) {
        let machine = &mut self.clients[client].machine;
        machine
            .settle(got.delivery, state, true)
            .expect("unsettled");
        self.settle();
        self.clients[client].machine.close(None);
        self.settle();
    }

    /// The process ends and another one starts on the same store.
    fn restart(self) -> Self {
        let config = AmqpConfig {
            connection: self.config.connection.clone(),
            authenticate: Arc::clone(&self.config.authenticate),
            queue_defaults: self.config.queue_defaults.clone(),
            ..*self.config
        };
        Self::recovered(config, broker_config(), self.journal, self.now.mono)
    }
}
