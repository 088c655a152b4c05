//! The node: started from what its disk kept, killed, fed, listened to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use qq_core::broker::{Broker, BrokerConfig, Limits, Now, Paging, QueueSpec};
use qq_core::face::amqp::{AmqpConfig, AmqpFace, TxnLimits};
use qq_core::face::binary::{BinaryConfig, BinaryFace};
use qq_core::face::{Face, LoginAnswer, PeerInfo};
use qq_core::node::{Node, Output};
use qq_core::store::{Op, Store, StoreEvent};
use qq_core::vocab::{ConnId, Notice};
use qq_proto_amqp::connection::{Config, SaslConfig};
use qq_proto_amqp::types::{Str, Symbol};

use super::{Wake, World};
use crate::sim::mirror::State;
use crate::sim::pipe::MS;
use crate::sim::plan::{Fault, Plan};
use crate::sim::random::Random;
use crate::sim::reference::Input;
use crate::sim::tap::{Heard, Tap};

/// Timeouts in a row at one moment, above which a timer is broken.
const TURNS_MAX: u32 = 100;

/// Longer than a run.
const TXN_IDLE_TIMEOUT: Duration = Duration::from_secs(100_000);

/// How faces behave in a run.
pub(super) fn face_config(plan: &Plan) -> AmqpConfig {
    let mut random = Random::fork(plan.seed, 6, 0);
    let is_tiny = plan.has(Fault::Tiny);
    let mut connection = Config {
        container_id: Str::from("quark-queue"),
        incoming_window_slack: 0,
        credit_slack: 0,
        sasl: SaslConfig {
            mechanisms: vec![Symbol::from_static("ANONYMOUS")],
            ..SaslConfig::default()
        },
        ..Config::default()
    };
    if is_tiny {
        connection.frame_size_max = random.within(512, 800) as u32;
        connection.incoming_window = random.within(1, 8) as u32;
        connection.first_outgoing_id = u32::MAX - random.below(40) as u32;
    }
    let mut pick = |tiny: u64, usual: u64| {
        if is_tiny {
            1 + random.below(tiny)
        } else {
            usual
        }
    };
    AmqpConfig {
        connection,
        credit_max: pick(16, 256) as u32,
        permit_slice: pick(8, 256) as u32,
        unanswered_max: pick(20, 4_096) as usize,
        unanswered_bytes_max: 8 << 20,
        txns: TxnLimits {
            idle_timeout: TXN_IDLE_TIMEOUT,
            ..TxnLimits::default()
        },
        senders_second: plan.has(Fault::Second),
        queue_defaults: QueueSpec::default(),
        authenticate: Arc::new(|_| LoginAnswer::Accepted),
    }
}

pub(super) fn binary_config(plan: &Plan) -> BinaryConfig {
    let is_tiny = plan.has(Fault::Tiny);
    BinaryConfig {
        connection: qq_proto_binary::connection::Config::default(),
        permit_slice: if is_tiny { 2 } else { 256 },
        unanswered_max: if is_tiny { 5 } else { 4_096 },
        unanswered_bytes_max: 8 << 20,
        consumers_max: 16,
        prefetch_max: 1_000,
        // Longer than a run, both.
        member_timeout_ms: TXN_IDLE_TIMEOUT.as_millis() as u64,
        lock_timeout_ms: TXN_IDLE_TIMEOUT.as_millis() as u64,
        queue_spec: crate::sim::setup::lossy(""),
        authenticate: Arc::new(|_| LoginAnswer::Accepted),
        seed: plan.seed,
    }
}

fn broker_config(plan: &Plan) -> BrokerConfig {
    let limits = if plan.has(Fault::Memory) {
        Limits {
            memory_high_bytes: 10_000,
            memory_max_bytes: 20_000,
            ..Limits::default()
        }
    } else {
        Limits::default()
    };
    let mut random = Random::fork(plan.seed, 8, 0);
    let paging = plan.has(Fault::Paging).then(|| Paging {
        window_len: random.within(1, 60) as usize,
        window_bytes: random.within(500, 10_000) as usize,
        cache_bytes: random.within(1_000, 60_000) as usize,
    });
    let linger_ms = [0, 0, 10, 200][Random::fork(plan.seed, 9, 0).index(4)];
    BrokerConfig {
        paging,
        linger: Duration::from_millis(linger_ms),
        limits,
        queues: plan.declared(),
        auto_create_spec: crate::sim::setup::lossy(""),
        hash_seed: plan.seed,
        ..BrokerConfig::default()
    }
}

impl World {
    /// Starts a process on what the disk kept.
    pub(super) fn start_node(&mut self) {
        if self.node.is_some() {
            return;
        }
        self.epoch = self.now;
        self.process += 1;
        self.node_timer = None;
        let (ops, recovered) = match self.recover_ops() {
            Ok(recovered) => recovered,
            Err(text) => return self.broken.push(text),
        };
        let now = self.broker_now();
        if let Err(text) = self.mirror.on_recovered(recovered, now.wall_ms) {
            return self.broken.push(text);
        }
        let mut broker = Broker::new(broker_config(&self.plan));
        for op in ops {
            broker.recover(op);
        }
        self.reference.restart(&self.mirror.safe, now);
        broker.recovered(now);
        for spec in self.plan.declared() {
            match broker.declare_queue(spec.clone(), None) {
                Ok(id) => self.inputs.push(Input::Declared(Box::new(spec), id, None)),
                Err(refusal) => self
                    .broken
                    .push(format!("after recovery: {}", refusal.text)),
            }
        }
        if self.process > 1 {
            self.recorder.fault(self.now, "kill9", false);
        }
        self.node = Some(Node::new(broker));
        self.after_node();
        self.declare_topology();
    }

    /// What the store has; read twice, since the first reader may have died of it.
    fn recover_ops(&mut self) -> Result<(Vec<Op>, State), String> {
        let mut readings: [(Vec<Op>, State); 2] = Default::default();
        for (ops, state) in &mut readings {
            self.ledger
                .recover(&mut |op| ops.push(op))
                .map_err(|error| format!("the store does not recover: {}", error.text))?;
            for op in ops {
                state
                    .apply(op)
                    .map_err(|text| format!("in recovery: {text}"))?;
            }
        }
        let [(_, first), (ops, state)] = readings;
        if first != state {
            return Err("the store recovers to something else when it is read again".to_owned());
        }
        Ok((ops, state))
    }

    /// The process dies at once. What the disk holds is decided by the seed.
    pub(super) fn crash(&mut self) {
        if self.node.is_none() {
            return;
        }
        self.crashes += 1;
        self.recorder.fault(self.now, "kill9", true);
        self.node = None;
        // What the faces said last was never heard.
        while self.listener.try_recv().is_ok() {}
        self.inputs.clear();
        self.node_timer = None;
        self.disk.lose_all();
        self.ledger.crash();
        for conn in self.streams.keys().copied().collect::<Vec<_>>() {
            self.cut_all(ConnId(conn));
            self.close_at_broker(conn, true);
        }
        let pause = if self.is_healed {
            1
        } else {
            self.random.within(1, 2_000)
        };
        self.wake(self.now + pause * MS, Wake::Restart);
    }

    pub(super) fn connect_node(&mut self, conn: ConnId) {
        let peer = PeerInfo {
            address: format!("peer-{}", conn.0),
            ip: None,
        };
        let now = self.broker_now();
        let face: Box<dyn Face> = if self.is_binary(conn.0) {
            let config = Arc::clone(&self.binary_config);
            Box::new(BinaryFace::new(now, peer, conn.0, config))
        } else {
            Box::new(AmqpFace::new(now, peer, Arc::clone(&self.face_config)))
        };
        let tap = Tap {
            face,
            conn,
            listener: self.speaker.clone(),
        };
        self.with_node(|node, now| node.connect(now, conn, Box::new(tap)));
    }

    /// Whether a connection's client speaks the binary protocol.
    pub(super) fn is_binary(&self, conn: u64) -> bool {
        let stream = self.streams.get(&conn);
        stream.is_some_and(|stream| self.clients[stream.client].is_binary())
    }

    pub(super) fn end_at_node(&mut self, conn: ConnId) {
        self.with_node(|node, now| node.handle_eof(now, conn));
        let is_known = self
            .node
            .as_ref()
            .is_some_and(|node| node.is_connected(conn));
        if !is_known {
            self.close_at_broker(conn.0, false);
        }
    }

    pub(super) fn disconnect_node(&mut self, conn: ConnId) {
        self.with_node(|node, now| node.disconnect(now, conn));
        self.close_at_broker(conn.0, true);
    }

    /// Gives the node what a stream holds for it, if it wants it.
    pub(super) fn offer_input(&mut self, conn: u64) {
        let Some(stream) = self.streams.get_mut(&conn) else {
            return;
        };
        let mut input = std::mem::take(&mut stream.input);
        self.with_node(|node, now| node.handle_input(now, ConnId(conn), &mut input));
        if let Some(stream) = self.streams.get_mut(&conn) {
            // Nothing can have come meanwhile.
            stream.input = input;
        }
    }

    pub(super) fn on_node_timer(&mut self) {
        if self.node_timer.is_none_or(|armed| armed > self.now) {
            return;
        }
        self.node_timer = None;
        self.with_node(|node, now| node.handle_timeout(now));
        let is_due = self.node_timer.is_some_and(|armed| armed <= self.now);
        self.node_timer_turns = if is_due { self.node_timer_turns + 1 } else { 0 };
        if self.node_timer_turns > TURNS_MAX {
            self.broken
                .push("a timer of the node never rests".to_owned());
        }
    }

    /// Tells the node something, and follows what comes of it.
    pub(super) fn with_node<T>(&mut self, action: impl FnOnce(&mut Node, Now) -> T) -> Option<T> {
        let now = self.broker_now();
        let result = self.node.as_mut().map(|node| action(node, now));
        self.after_node();
        result
    }

    /// Judges what was said, carries out what is asked, offers input that was not wanted before.
    pub(super) fn after_node(&mut self) {
        self.judge_rounds();
        let mut failure = None;
        while let Some(output) = self.node.as_mut().and_then(Node::poll_output) {
            match output {
                Output::Transmit { conn, bytes } => self.carry_to_client(conn.0, &bytes),
                Output::Persist(batch) => {
                    let now = self.broker_now();
                    self.reference.on_batch(now, &batch);
                    if let Err(text) = self.mirror.on_batch(&batch) {
                        self.broken.push(text);
                    }
                    self.disk.batches.push_back(batch);
                }
                // No operator asks in a simulation.
                Output::Reply { .. } => {}
                Output::Fetch(fetch) => self.disk.fetches.push_back(fetch),
                Output::Close { conn } => {
                    self.cut_all(conn);
                    self.close_at_broker(conn.0, false);
                }
                Output::Fail { text } => failure = Some(text),
            }
        }
        if failure.is_some() {
            // The process ends, and says so; its operator starts it again.
            return self.crash();
        }
        if let Some(node) = &self.node {
            let now = self.broker_now();
            self.reference.check_rest(now, &self.mirror, node.broker());
        }
        self.take_news();
        self.start_disk();
        self.arm_node();
        self.offer_again();
    }

    fn offer_again(&mut self) {
        let Some(node) = &self.node else {
            return;
        };
        let waiting = self.streams.iter().find(|(conn, stream)| {
            let is_binary = self.clients[stream.client].is_binary();
            // A whole frame may be there, which the face did not want before.
            stream.input.len() >= if is_binary { 6 } else { 8 }
                && stream.input.len() >= frame_len(&stream.input, is_binary)
                && node.wants_read(ConnId(**conn))
        });
        if let Some((conn, _)) = waiting {
            let conn = *conn;
            let before = self
                .streams
                .get(&conn)
                .map_or(0, |stream| stream.input.len());
            let Some(stream) = self.streams.get_mut(&conn) else {
                return;
            };
            let mut input = std::mem::take(&mut stream.input);
            let now = self.broker_now();
            if let Some(node) = &mut self.node {
                node.handle_input(now, ConnId(conn), &mut input);
            }
            let is_same = input.len() == before;
            if let Some(stream) = self.streams.get_mut(&conn) {
                stream.input = input;
            }
            if !is_same {
                self.after_node();
            }
        }
    }

    fn arm_node(&mut self) {
        let due = self.node.as_ref().and_then(Node::poll_timeout);
        let Some(at) = due.map(|due: Duration| self.epoch + due.as_nanos() as u64) else {
            return;
        };
        if self.node_timer.is_none_or(|armed| at < armed) {
            self.node_timer = Some(at);
            self.wake(at, Wake::NodeTimer);
        }
    }

    /// Cuts what was heard into rounds: inputs, then the notices of one flush.
    fn judge_rounds(&mut self) {
        let now = self.broker_now();
        self.reference.pass(now);
        let mut notices: Vec<(ConnId, Notice)> = Vec::new();
        let mut heard = BTreeMap::new();
        while let Ok(next) = self.listener.try_recv() {
            if self.plan.is_traced {
                println!("{:>12} act {:>4} {next:?}", self.now, self.acts);
            }
            heard.insert(heard.len(), next);
        }
        for next in heard.into_values() {
            let input = match next {
                Heard::Notices(conn, said) => {
                    notices.extend(said.into_iter().map(|notice| (conn, notice)));
                    continue;
                }
                Heard::Commands(conn, commands) => Input::Commands(conn, commands),
                Heard::Gone(conn) => Input::Gone(conn),
            };
            if !notices.is_empty() {
                let inputs = std::mem::take(&mut self.inputs);
                let notices = std::mem::take(&mut notices);
                self.reference.round(now, &self.mirror, inputs, notices);
            }
            self.inputs.push(input);
        }
        if !self.inputs.is_empty() || !notices.is_empty() {
            let inputs = std::mem::take(&mut self.inputs);
            self.reference.round(now, &self.mirror, inputs, notices);
        }
    }

    /// Tells the broker what the store says.
    pub(super) fn tell_store(&mut self, event: StoreEvent) {
        if self.plan.is_traced {
            println!("{:>12} act {:>4} {event:?}", self.now, self.acts);
        }
        let failed = match &event {
            StoreEvent::FetchFailed { fetch, .. } => self.reference.name_of(fetch.queue),
            _ => None,
        };
        let now = self.broker_now();
        if let Some(node) = &mut self.node {
            node.handle_store(now, event);
            // The queue is closed only if somebody still wanted what could not be read.
            let is_damaged = |name: &String| {
                let counters = node.broker().queue_counters(name);
                counters.is_some_and(|counters| counters.is_damaged)
            };
            self.inputs
                .extend(failed.filter(is_damaged).map(Input::Damaged));
        }
        self.after_node();
    }
}

/// Bytes of the frame that begins there.
fn frame_len(input: &[u8], is_binary: bool) -> usize {
    if is_binary {
        let len: [u8; 4] = input[2..6].try_into().unwrap_or_default();
        return 6 + u32::from_be_bytes(len) as usize;
    }
    let size: [u8; 4] = input[..4].try_into().unwrap_or_default();
    if &input[..4] == b"AMQP" {
        8
    } else {
        u32::from_be_bytes(size) as usize
    }
}
