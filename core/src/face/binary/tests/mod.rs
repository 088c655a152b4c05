//! Face tests: a node with real peers, which are client machines of the protocol crate, and a store that answers at
//! once or when told.

mod calls;
mod consume;
mod groups;
mod hostile;
mod locks;
mod publish;
mod queues;
mod schemas;
mod streams;
mod token;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use qq_proto_binary::connection::{Config, Connection, Event, RequestId, Side};
use qq_proto_binary::message::{
    AckRequest, ConsumeRequest, ErrorResponse, Message, PublishRequest,
};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;

use super::{BinaryConfig, BinaryFace};
use crate::broker::{Broker, BrokerConfig, Now, QueueSpec};
use crate::face::{LoginAnswer, PeerInfo};
use crate::node::{Node, Output};
use crate::store::{BatchId, StoreEvent};
use crate::vocab::ConnId;

/// A wall clock that is not zero, so that a mix-up with the monotonic one shows.
const WALL_START_MS: i64 = 1_700_000_000_000;
const BUDGET: usize = 64 * 1024;

struct Client {
    conn: ConnId,
    machine: Connection,
    events: Vec<Event>,
    sent: BytesMut,
    is_closed: bool,
}

struct Bench {
    node: Node,
    now: Now,
    config: Arc<BinaryConfig>,
    clients: Vec<Client>,
    /// Batches are safe as soon as they are written.
    is_instant: bool,
    unsafe_batch: Option<BatchId>,
}

fn face_config() -> BinaryConfig {
    BinaryConfig {
        connection: Config::default(),
        permit_slice: 16,
        unanswered_max: 64,
        unanswered_bytes_max: 1 << 20,
        consumers_max: 4,
        prefetch_max: 1_000,
        member_timeout_ms: 10_000,
        lock_timeout_ms: 30_000,
        queue_spec: QueueSpec::new(""),
        authenticate: Arc::new(|_| LoginAnswer::Accepted),
        seed: 7,
    }
}

impl Bench {
    fn new() -> Self {
        Self::with(face_config())
    }

    fn with(config: BinaryConfig) -> Self {
        let mut broker = Broker::new(BrokerConfig::default());
        let now = Now {
            mono: Duration::ZERO,
            wall_ms: WALL_START_MS,
        };
        broker.recovered(now);
        Self {
            node: Node::new(broker),
            now,
            config: Arc::new(config),
            clients: Vec::new(),
            is_instant: true,
            unsafe_batch: None,
        }
    }

    fn connect(&mut self) -> usize {
        self.connect_with(Config::default())
    }

    fn connect_with(&mut self, config: Config) -> usize {
        let at = self.clients.len();
        let conn = ConnId(at as u64);
        let peer = PeerInfo {
            address: format!("192.0.2.{at}:1"),
            ip: None,
        };
        let face = BinaryFace::new(self.now, peer, at as u64, Arc::clone(&self.config));
        self.node.connect(self.now, conn, Box::new(face));
        self.clients.push(Client {
            conn,
            machine: Connection::new(Side::Client, config, self.now.mono),
            events: Vec::new(),
            sent: BytesMut::new(),
            is_closed: false,
        });
        self.settle();
        at
    }

    /// Carries bytes and batches until nothing moves.
    fn settle(&mut self) {
        let mut has_moved = true;
        while has_moved {
            has_moved = false;
            for client in &mut self.clients {
                let mut out: VecDeque<Bytes> = VecDeque::new();
                let now = self.now.mono;
                while client.machine.poll_transmit(now, &mut out, BUDGET) > 0 {}
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
            Output::Persist(batch) if self.is_instant => {
                let event = StoreEvent::Persisted { upto: batch.id };
                self.node.handle_store(self.now, event);
            }
            Output::Persist(batch) => self.unsafe_batch = Some(batch.id),
            Output::Close { conn } => {
                let client = &mut self.clients[conn.0 as usize];
                client.is_closed = true;
                client.machine.handle_eof(self.now.mono);
            }
            Output::Reply { .. } => panic!("nothing was asked"),
            Output::Fetch(fetch) => panic!("nothing is paged out here: {fetch:?}"),
            Output::Fail { text } => panic!("the store does not fail: {text}"),
        }
    }

    /// Makes safe what was written.
    fn persist(&mut self) {
        let upto = self.unsafe_batch.take().expect("something was written");
        self.node
            .handle_store(self.now, StoreEvent::Persisted { upto });
        self.settle();
    }

    /// Lets time pass, deadline by deadline.
    fn pass(&mut self, seconds: u64) {
        let end = self.now.mono + Duration::from_secs(seconds);
        while let Some(due) = self.node.poll_timeout().filter(|due| *due <= end) {
            self.advance(due.max(self.now.mono));
            self.node.handle_timeout(self.now);
            self.settle();
        }
        self.advance(end);
    }

    /// Lets happen what is due.
    fn run_timers(&mut self) {
        while self
            .node
            .poll_timeout()
            .is_some_and(|due| due <= self.now.mono)
        {
            self.node.handle_timeout(self.now);
            self.settle();
        }
    }

    fn advance(&mut self, to: Duration) {
        let passed = to - self.now.mono;
        self.now.mono = to;
        self.now.wall_ms += i64::try_from(passed.as_millis()).expect("short");
    }

    /// Sends a request and lets everybody say what they have to say.
    fn send(&mut self, client: usize, request: &Request) -> RequestId {
        let id = self.clients[client]
            .machine
            .request(request, false)
            .expect("the connection is open");
        self.settle();
        id
    }

    /// The same, with an answer also where none is needed.
    fn send_confirmed(&mut self, client: usize, request: &Request) -> RequestId {
        let id = self.clients[client]
            .machine
            .request(request, true)
            .expect("the connection is open");
        self.settle();
        id
    }

    /// Sends a request and takes its answer.
    fn ask(&mut self, client: usize, request: &Request) -> Result<Reply, ErrorResponse> {
        let id = self.send_confirmed(client, request);
        self.answer(client, id).expect("an answer")
    }

    /// The same for a peer that cannot ask for confirmations.
    fn ask_versioned(&mut self, client: usize, request: &Request) -> Reply {
        let id = self.send(client, request);
        self.answer(client, id)
            .expect("an answer")
            .expect("a success")
    }

    fn answer(&mut self, client: usize, id: RequestId) -> Option<Result<Reply, ErrorResponse>> {
        let events = &mut self.clients[client].events;
        let at = events.iter().position(|event| match event {
            Event::Replied { request, .. } => *request == id,
            Event::Refused { request, .. } => *request == Some(id),
            _ => false,
        })?;
        Some(match events.remove(at) {
            Event::Replied { reply, .. } => Ok(reply),
            Event::Refused { error, .. } => Err(error),
            other => panic!("{other:?}"),
        })
    }

    /// The code and text of a refusal.
    fn refusal(&mut self, client: usize, request: &Request) -> (u32, String) {
        let error = self.ask(client, request).expect_err("a refusal");
        (error.code, error.message)
    }

    /// The messages that came since the last look.
    fn messages(&mut self, client: usize) -> Vec<Message> {
        let events = core::mem::take(&mut self.clients[client].events);
        let (messages, rest): (Vec<_>, Vec<_>) = events
            .into_iter()
            .partition(|event| matches!(event, Event::Delivered(_)));
        self.clients[client].events = rest;
        messages
            .into_iter()
            .map(|event| match event {
                Event::Delivered(message) => *message,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn payloads(&mut self, client: usize) -> Vec<String> {
        self.messages(client)
            .iter()
            .map(|message| String::from_utf8_lossy(&message.payload).into_owned())
            .collect()
    }
}

fn publish(queue: &str, payload: &str) -> Request {
    Request::Publish(Box::new(PublishRequest {
        queue: queue.to_owned(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        ..PublishRequest::default()
    }))
}

fn consume(queue: &str, prefetch: u32) -> Request {
    Request::Consume(ConsumeRequest {
        queue: queue.to_owned(),
        prefetch,
        ..ConsumeRequest::default()
    })
}

fn ack(delivery_id: u64, delivery_id_last: u64) -> Request {
    Request::Ack(AckRequest {
        delivery_id,
        delivery_id_last,
        ..AckRequest::default()
    })
}
