//! The bed of the broker in process: virtual time, no sockets, equal runs for equal scripts.

use super::{Bed, Got};
use bytes::{Bytes, BytesMut};
use qq_core::broker::{Broker, BrokerConfig, Now, QueueSpec};
use qq_core::face::amqp::{AmqpConfig, AmqpFace, TxnLimits};
use qq_core::face::{Login, LoginAnswer, PeerInfo};
use qq_core::node::{Node, Output};
use qq_core::route::{BindingSpec, ExchangeSpec};
use qq_core::store::StoreEvent;
use qq_core::vocab::ConnId;
use qq_proto_amqp::connection::{Config, SaslConfig};
use qq_proto_amqp::types::{Str, Symbol};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The wall clock when a bed's time begins: 2026-01-01.
const WALL_START_MS: i64 = 1_767_225_600_000;

/// How the bytes of a script reach the node: sockets may join and cut writes as they like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Each write by itself.
    #[default]
    AsSent,
    /// All writes up to the script's next read or wait at once.
    Together,
    /// In pieces of this many octets.
    Pieces(usize),
}

/// What kind of node a bed holds.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// SASL PLAIN with `guest` and `guest` is the only way in.
    pub needs_login: bool,
    /// First transfer and delivery id of every session.
    pub first_outgoing_id: u32,
    /// Queues that exist from the start.
    pub queues: Vec<QueueSpec>,
    /// Exchanges that exist from the start, beside those that always do.
    pub exchanges: Vec<ExchangeSpec>,
    /// Bindings that exist from the start.
    pub bindings: Vec<BindingSpec>,
    /// Senders get the receiver settle mode second when they ask for it.
    pub senders_second: bool,
    /// How bytes reach the node.
    pub delivery: Delivery,
}

#[derive(Default)]
struct Stream {
    /// What the node has not taken yet.
    input: BytesMut,
    /// What was sent but has not reached the node.
    held: Vec<u8>,
    /// What the script has not read yet.
    output: Vec<u8>,
    is_closed: bool,
}

/// A broker with its faces, and time that moves only when a script waits.
pub struct NodeBed {
    node: Node,
    config: Arc<AmqpConfig>,
    streams: Vec<Stream>,
    now_ms: u64,
    delivery: Delivery,
}

impl NodeBed {
    /// A fresh node that creates queues on attach; `nope` alone is never created.
    pub fn new(options: NodeOptions) -> Self {
        let mut broker = Broker::new(BrokerConfig {
            auto_create_queues: true,
            auto_create_except: vec!["nope".into()],
            queues: options.queues,
            exchanges: options.exchanges,
            bindings: options.bindings,
            ..BrokerConfig::default()
        });
        broker.recovered(Now {
            mono: Duration::ZERO,
            wall_ms: WALL_START_MS,
        });
        let mechanisms: &[&'static str] = if options.needs_login {
            &["PLAIN"]
        } else {
            &["ANONYMOUS", "PLAIN"]
        };
        let sasl = SaslConfig {
            required: options.needs_login,
            mechanisms: mechanisms.iter().map(|m| Symbol::from_static(m)).collect(),
            credentials: None,
        };
        let connection = Config {
            container_id: Str::from("quark-queue"),
            first_outgoing_id: options.first_outgoing_id,
            sasl,
            ..Config::default()
        };
        let needs_login = options.needs_login;
        let config = AmqpConfig {
            connection,
            credit_max: 256,
            permit_slice: 256,
            unanswered_max: 4_096,
            unanswered_bytes_max: 8 << 20,
            txns: TxnLimits::default(),
            senders_second: options.senders_second,
            queue_defaults: QueueSpec::default(),
            authenticate: Arc::new(move |login: &Login<'_>| {
                let is_accepted = match login.mechanism {
                    "ANONYMOUS" => !needs_login,
                    "PLAIN" => plain(login.response),
                    _ => false,
                };
                if is_accepted {
                    LoginAnswer::Accepted
                } else {
                    LoginAnswer::Denied {
                        delay: Duration::ZERO,
                    }
                }
            }),
        };
        Self {
            node: Node::new(broker),
            config: Arc::new(config),
            streams: vec![],
            now_ms: 0,
            delivery: options.delivery,
        }
    }

    /// Does something to the broker that no peer can, such as deleting a queue.
    pub fn administer<T>(&mut self, action: impl FnOnce(&mut Broker, Now) -> T) -> T {
        let now = self.now();
        let result = self.node.administer(now, |broker| action(broker, now));
        self.settle();
        result
    }

    fn now(&self) -> Now {
        Now {
            mono: Duration::from_millis(self.now_ms),
            wall_ms: WALL_START_MS + self.now_ms as i64,
        }
    }

    fn settle(&mut self) {
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Transmit { conn, bytes } => self.deliver(conn, &bytes),
                Output::Persist(batch) => {
                    let event = StoreEvent::Persisted { upto: batch.id };
                    self.node.handle_store(self.now(), event);
                }
                Output::Reply { .. } => panic!("nothing was asked"),
                Output::Fetch(fetch) => panic!("a node without a disk asked for {fetch:?}"),
                Output::Close { conn } => self.streams[conn.0 as usize].is_closed = true,
                Output::Fail { text } => panic!("the node failed: {text}"),
            }
        }
    }

    fn deliver(&mut self, conn: ConnId, bytes: &Bytes) {
        self.streams[conn.0 as usize]
            .output
            .extend_from_slice(bytes);
    }

    fn arrive(&mut self, conn: usize, bytes: &[u8]) {
        self.streams[conn].input.extend_from_slice(bytes);
        self.offer();
    }

    /// Lets what was held back arrive.
    fn release(&mut self) {
        for conn in 0..self.streams.len() {
            let held = std::mem::take(&mut self.streams[conn].held);
            if !held.is_empty() {
                self.arrive(conn, &held);
            }
        }
    }

    /// Offers every stream's waiting input again; a face may have made room.
    fn offer(&mut self) {
        for at in 0..self.streams.len() {
            if self.streams[at].input.is_empty() || self.streams[at].is_closed {
                continue;
            }
            let mut input = std::mem::take(&mut self.streams[at].input);
            self.node
                .handle_input(self.now(), ConnId(at as u64), &mut input);
            self.streams[at].input = input;
            self.settle();
        }
    }

    /// Moves time to the next moment at which the node wants to act, at most to `until_ms`.
    /// False when there is none before.
    fn step(&mut self, until_ms: u64) -> bool {
        let due = self
            .node
            .poll_timeout()
            .map(|d| (d.as_nanos().div_ceil(1_000_000)) as u64);
        match due.filter(|due| *due <= until_ms) {
            Some(due) => {
                self.now_ms = self.now_ms.max(due);
                self.node.handle_timeout(self.now());
                self.settle();
                self.offer();
                true
            }
            None => {
                self.now_ms = self.now_ms.max(until_ms);
                false
            }
        }
    }
}

fn plain(response: &[u8]) -> bool {
    let parts: Vec<_> = response.split(|b| *b == 0).collect();
    matches!(parts[..], [authzid, b"guest", b"guest"] if authzid.is_empty() || authzid == b"guest")
}

impl Bed for NodeBed {
    fn connect(&mut self) -> Result<usize, String> {
        let at = self.streams.len();
        self.streams.push(Stream::default());
        let peer = PeerInfo {
            address: format!("peer-{at}"),
            ip: None,
        };
        let face = AmqpFace::new(self.now(), peer, Arc::clone(&self.config));
        self.node
            .connect(self.now(), ConnId(at as u64), Box::new(face));
        self.settle();
        Ok(at)
    }

    fn send(&mut self, conn: usize, bytes: &[u8]) -> bool {
        if self.streams[conn].is_closed {
            return false;
        }
        match self.delivery {
            Delivery::AsSent => self.arrive(conn, bytes),
            Delivery::Together => self.streams[conn].held.extend(bytes),
            Delivery::Pieces(size) => bytes
                .chunks(size)
                .for_each(|piece| self.arrive(conn, piece)),
        }
        true
    }

    fn recv(&mut self, conn: usize, wait_ms: u64) -> Got {
        self.release();
        let until = self.now_ms + wait_ms;
        loop {
            let stream = &mut self.streams[conn];
            if !stream.output.is_empty() {
                return Got::Bytes(std::mem::take(&mut stream.output));
            }
            if stream.is_closed {
                return Got::Eof;
            }
            if !self.step(until) {
                return Got::Quiet;
            }
        }
    }

    fn cut(&mut self, conn: usize) {
        self.release();
        self.streams[conn].is_closed = true;
        self.node.disconnect(self.now(), ConnId(conn as u64));
        self.settle();
    }

    fn wait(&mut self, ms: u64) {
        self.release();
        let until = self.now_ms + ms;
        while self.step(until) {}
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn is_virtual(&self) -> bool {
        true
    }
}

/// A node that a test keeps a hand on while scripts use it.
impl Bed for Rc<RefCell<NodeBed>> {
    fn connect(&mut self) -> Result<usize, String> {
        self.borrow_mut().connect()
    }

    fn send(&mut self, conn: usize, bytes: &[u8]) -> bool {
        self.borrow_mut().send(conn, bytes)
    }

    fn recv(&mut self, conn: usize, wait_ms: u64) -> Got {
        self.borrow_mut().recv(conn, wait_ms)
    }

    fn cut(&mut self, conn: usize) {
        self.borrow_mut().cut(conn);
    }

    fn wait(&mut self, ms: u64) {
        self.borrow_mut().wait(ms);
    }

    fn now_ms(&self) -> u64 {
        self.borrow().now_ms()
    }

    fn is_virtual(&self) -> bool {
        true
    }
}
