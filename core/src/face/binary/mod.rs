//! The face of the QWER-Q protocol: glues its [`Connection`] to the broker's vocabulary.
//!
//! | file | knows |
//! | --- | --- |
//! | `publish` | PUBLISH and PUBLISH_BATCH, and the verdicts that answer them |
//! | `consume` | CONSUME and UNSUBSCRIBE, permits, deliveries |
//! | `held`, `settle` | deliveries without an answer; ACK, NACK, EXTEND_VISIBILITY and time-outs |
//! | `call` | CALL: a request, and the answer that comes to a queue of its own |
//! | `stream` | SEEK and COMMIT_OFFSET, entries of streams |
//! | `group` | HEARTBEAT, and members of groups that are silent |
//! | `queue` | QUEUE_DECLARE and its relatives |
//! | `schema` | SCHEMA_REGISTER, SCHEMA_GET and SCHEMA_LIST; what queues ask of messages |
//! | `ids` | message ids for those who bring none |
//! | `refusal` | the broker's refusals in the protocol's words |
//! | `ports` | producers and consumers by their number |
//!
//! Requests never wait for each other here: whatever needs the broker keeps its [`ReplyTo`] until the answer is there,
//! and the machine puts the answers into the order that the peer's layout demands.

mod call;
mod consume;
mod group;
mod held;
mod ids;
mod ports;
mod publish;
mod queue;
mod refusal;
mod report;
mod schema;
mod settle;
mod stream;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use qq_proto_binary::connection::{Config, Connection, Event, ReplyTo, Side, Token};
use qq_proto_binary::error::ErrorCode;
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;
use slab::Slab;

use super::{Authenticate, Face, Login, LoginAnswer, PeerInfo};
use crate::broker::{Now, QueueSpec};
use crate::vocab::{AskId, Command, Notice, Port, Refusal};
use call::Calls;
use held::Held;
use ids::Ids;
use ports::{PortState, Ports};
use publish::Batch;
use queue::Asked;
use settle::Settling;
use stream::Sought;

/// How faces of one listener behave.
pub struct BinaryConfig {
    /// The protocol machine's bounds.
    pub connection: Config,
    /// Deliveries that the broker may hand over ahead of the socket, per consumer.
    pub permit_slice: u32,
    /// Publishes without an answer per connection, above which reading stops.
    pub unanswered_max: usize,
    /// Their bytes.
    pub unanswered_bytes_max: usize,
    /// Consumers of one connection.
    pub consumers_max: usize,
    /// Deliveries that one consumer may hold; a prefetch beyond it means as many.
    pub prefetch_max: u32,
    /// After how long without a sign of life a member of a group loses its membership, in milliseconds.
    pub member_timeout_ms: u64,
    /// After how long a delivery without an answer returns, where the consumer says nothing, in milliseconds.
    pub lock_timeout_ms: u64,
    /// What a queue is like where a declaration says nothing.
    pub queue_spec: QueueSpec,
    /// Who may come in, by a token, which comes as the response of the mechanism [`TOKEN`].
    pub authenticate: Authenticate,
    /// A number that no peer can guess, for ids and hash maps.
    pub seed: u64,
}

/// Name under which tokens are handed to [`BinaryConfig::authenticate`].
pub const TOKEN: &str = "QWER-Q-TOKEN";

type Map<K, V> = HashMap<K, V, FixedState>;

/// One QWER-Q peer.
pub struct BinaryFace {
    conn: Connection,
    config: Arc<BinaryConfig>,
    peer: PeerInfo,
    commands: Vec<Command>,
    ports: Ports,
    ids: Ids,
    /// The producer for each queue that was published to.
    producers: Map<String, Port>,
    /// The one that was published to last.
    last_producer: Option<Port>,
    /// The consumer for each queue and group that is consumed; an empty group is none.
    consumers: BTreeMap<(String, String), Port>,
    /// When the peer was heard last.
    heard_at: Duration,
    /// The reader of each stream that is read since a SEEK.
    readers: BTreeMap<String, Port>,
    sought: Sought,
    batches: Slab<Batch>,
    held: Held,
    settling: Slab<Settling>,
    /// Settlements that are not durable, of consumers that are gone: the last of each, with its first and its key.
    departed: BTreeMap<Port, BTreeMap<u64, (u64, usize)>>,
    calls: Calls,
    asked: BTreeMap<AskId, Asked>,
    next_ask: u64,
    /// Consumers whose permit waits for output to drain.
    thirsty: Vec<Port>,
    /// Publishes without an answer, and their bytes.
    unanswered: usize,
    unanswered_bytes: usize,
    /// Some queue may ask something of its messages.
    has_rules: bool,
    is_pressed: bool,
    /// When the peer is to hear that its token was wrong.
    denial_due: Option<Duration>,
    /// The broker was told who this is.
    is_described: bool,
}

impl BinaryFace {
    /// A face for a peer that just connected. `serial` is a number that no other face of the process has.
    #[must_use]
    pub fn new(now: Now, peer: PeerInfo, serial: u64, config: Arc<BinaryConfig>) -> Self {
        let hashes = FixedState::with_seed(config.seed);
        Self {
            conn: Connection::new(Side::Server, config.connection.clone(), now.mono),
            peer,
            commands: Vec::new(),
            ports: Ports::default(),
            ids: Ids::new(config.seed, serial),
            producers: Map::with_hasher(hashes),
            last_producer: None,
            consumers: BTreeMap::new(),
            heard_at: now.mono,
            readers: BTreeMap::new(),
            sought: Sought::default(),
            batches: Slab::new(),
            held: Held::new(config.seed),
            settling: Slab::new(),
            departed: BTreeMap::new(),
            calls: Calls::default(),
            asked: BTreeMap::new(),
            next_ask: 0,
            thirsty: Vec::new(),
            unanswered: 0,
            unanswered_bytes: 0,
            has_rules: false,
            is_pressed: false,
            denial_due: None,
            is_described: false,
            config,
        }
    }

    fn drain_events(&mut self, now: Now) {
        while let Some(event) = self.conn.poll_event() {
            match event {
                Event::Publish { reply_to, publish } => self.on_publish(now, reply_to, &publish),
                Event::PublishBatch { reply_to, batch } => {
                    self.on_publish_batch(now, reply_to, &batch);
                }
                Event::Request { reply_to, request } => self.on_request(now, reply_to, request),
                Event::Authenticate { token } => self.on_token(now, &token),
                Event::Closed { reason } => {
                    self.denial_due = None;
                    log::debug!("{}: closed: {reason:?}", self.peer.address);
                }
                // Those of a client's machine.
                _ => {}
            }
        }
    }

    fn on_request(&mut self, now: Now, reply_to: ReplyTo, request: Request) {
        match request {
            Request::Consume(consume) => self.on_consume(reply_to, consume),
            Request::Unsubscribe(request) => self.on_unsubscribe(reply_to, &request),
            Request::Ack(ack) => self.on_ack(reply_to, &ack),
            Request::Nack(nack) => self.on_nack(reply_to, &nack),
            Request::ExtendVisibility(extend) => self.on_extend(reply_to, &extend),
            Request::Call(call) => self.on_call(now, reply_to, *call),
            Request::QueueDeclare(declare) => self.on_declare(reply_to, *declare),
            Request::QueueDelete(delete) => self.on_delete(reply_to, delete),
            Request::QueuePurge(purge) => self.on_purge(reply_to, purge),
            Request::QueueList => self.on_list(reply_to),
            Request::QueueStats(stats) => self.on_stats(reply_to, stats),
            Request::Heartbeat(heartbeat) => self.on_heartbeat(reply_to, heartbeat),
            Request::SchemaList => self.on_schema_list(reply_to),
            Request::SchemaGet(get) => self.on_schema_get(reply_to, *get),
            Request::SchemaRegister(register) => self.on_schema_register(reply_to, *register),
            Request::CommitOffset(commit) => self.on_commit(reply_to, commit),
            Request::Seek(seek) => self.on_seek(reply_to, seek),
            // The machine answers the one, and has events of their own for the others.
            Request::Ping(_) | Request::Publish(_) | Request::PublishBatch(_) => {}
        }
    }

    fn on_token(&mut self, now: Now, token: &Token) {
        let login = Login {
            now,
            peer: &self.peer,
            mechanism: TOKEN,
            response: token.0.as_bytes(),
        };
        match (self.config.authenticate)(&login) {
            LoginAnswer::Accepted | LoginAnswer::AcceptedWith { .. } => self.judge(true),
            LoginAnswer::Denied { delay } if !delay.is_zero() => {
                self.denial_due = Some(now.mono.saturating_add(delay));
            }
            // A token is one step.
            LoginAnswer::Denied { .. } | LoginAnswer::Challenge { .. } => self.judge(false),
        }
    }

    fn judge(&mut self, is_accepted: bool) {
        self.denial_due = None;
        if !is_accepted {
            log::debug!("{}: wrong token", self.peer.address);
        }
        // Fails only when the peer is gone.
        let _ = self.conn.auth_outcome(is_accepted);
    }

    fn reply(&mut self, reply_to: ReplyTo, reply: &Reply) {
        // Fails only when the connection is closing: nobody waits for the answer.
        let _ = self.conn.reply(reply_to, reply);
    }

    fn refuse(&mut self, reply_to: ReplyTo, code: ErrorCode, text: &str) {
        log::debug!("{}: request refused: {text}", self.peer.address);
        // As above.
        let _ = self.conn.refuse(reply_to, code, text);
    }

    fn refuse_with(&mut self, reply_to: ReplyTo, refusal: &Refusal) {
        self.refuse(reply_to, refusal::code_of(refusal.reason), &refusal.text);
    }

    fn refuse_unoffered(&mut self, reply_to: ReplyTo, what: &str) {
        self.refuse(
            reply_to,
            ErrorCode::UnknownOpcode,
            &refusal::unoffered(what),
        );
    }

    fn on_notice(&mut self, now: Now, notice: Notice) {
        match notice {
            Notice::Deliver { port, delivered } => {
                match self.ports.consumer(port) {
                    Some(consumer) if consumer.is_reader => {
                        self.on_stream_deliver(port, &delivered);
                    }
                    Some(_) => self.on_deliver(port, &delivered),
                    // The port of answers to calls stands in no table.
                    None if self.calls.port() == Some(port) => self.on_call_answer(&delivered),
                    None => {}
                }
            }
            Notice::Confirm {
                port,
                first,
                last,
                verdict,
            } => self.on_confirm(port, first, last, &verdict),
            Notice::Settled { port, first, last } => self.on_settled(port, first, last),
            Notice::LockLost { port, first, last } => self.on_lock_lost(port, first, last),
            // Publishes went ahead of it.
            Notice::ProducerOpened { port, opened } => self.on_ruled(port, opened.rule),
            Notice::Ruled { port, rule } => self.on_ruled(port, rule),
            Notice::Drained { .. } => {}
            // The protocol has no transactions.
            Notice::Discharged { .. } => {}
            // The protocol has no word for it.
            Notice::Activity { .. } => {}
            Notice::ConsumerOpened { port, opened } => {
                if self.calls.port() == Some(port) {
                    self.on_calls_opened(now, &opened.name);
                } else {
                    self.on_consumer_opened(port, &opened);
                }
            }
            Notice::Refused { port, refusal } | Notice::Closed { port, refusal } => {
                self.on_port_gone(port, &refusal);
            }
            Notice::Answered { id, answer } => self.on_answered(id, *answer),
            Notice::Managed { .. } => {}
            Notice::Report { ticket } => self.report(ticket),
            Notice::Pressure { on } => self.is_pressed = on,
        }
    }

    /// The broker will not serve a port, or not any more.
    fn on_port_gone(&mut self, port: Port, refusal: &Refusal) {
        if self.calls.port() == Some(port) {
            return self.end_calls(refusal);
        }
        match self.ports.remove(port) {
            Some(PortState::Producer(producer)) => self.end_producer(producer, refusal),
            Some(PortState::Consumer(consumer)) => self.end_consumer(port, consumer, refusal),
            None => {}
        }
    }
}

impl Face for BinaryFace {
    fn handle_input(&mut self, now: Now, input: &mut BytesMut) {
        if !input.is_empty() {
            self.heard_at = now.mono;
        }
        self.conn.handle_input(now.mono, input);
        self.drain_events(now);
    }

    fn handle_notices(&mut self, now: Now, notices: &mut Vec<Notice>) {
        for notice in notices.drain(..) {
            self.on_notice(now, notice);
        }
        self.drain_events(now);
    }

    fn handle_eof(&mut self, now: Now) {
        self.conn.handle_eof(now.mono);
        self.drain_events(now);
    }

    fn handle_timeout(&mut self, now: Now) {
        // First, so that the machine knows the time when the denial starts its lingering.
        self.conn.handle_timeout(now.mono);
        if self.denial_due.is_some_and(|due| due <= now.mono) {
            self.judge(false);
        }
        self.end_silent_members(now);
        self.end_late_calls(now);
        self.drain_events(now);
    }

    fn handle_shutdown(&mut self, now: Now, refusal: &Refusal) {
        log::debug!("{}: sent away: {}", self.peer.address, refusal.text);
        self.conn.close();
        self.drain_events(now);
    }

    fn poll_commands(&mut self, commands: &mut Vec<Command>) {
        if !self.is_described && self.is_authenticated() {
            self.is_described = true;
            commands.push(self.description());
        }
        commands.append(&mut self.commands);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut VecDeque<Bytes>, budget: usize) -> usize {
        let written = self.conn.poll_transmit(now.mono, out, budget);
        if !self.thirsty.is_empty() {
            for port in std::mem::take(&mut self.thirsty) {
                self.update_permit(port);
            }
        }
        written
    }

    fn poll_timeout(&self) -> Option<Duration> {
        [
            self.conn.poll_timeout(),
            self.denial_due,
            self.calls.due_at(),
            self.members_due_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn wants_read(&self) -> bool {
        self.conn.wants_read()
            && self.unanswered < self.config.unanswered_max
            && self.unanswered_bytes < self.config.unanswered_bytes_max
    }

    /// Who has said nothing yet is a stranger, also where no token is needed.
    fn is_authenticated(&self) -> bool {
        self.conn.is_open() && self.conn.layout().is_some()
    }

    fn is_done(&self) -> bool {
        self.conn.is_done()
    }
}
