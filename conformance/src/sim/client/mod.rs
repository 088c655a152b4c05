//! A simulated client: a connection machine in the client's role, its links, and what it remembers of them.
//!
//! It checks what a client can check: credit is kept, drains are answered, every answer was asked for, nothing ends
//! with an error that the broker has no reason for.

mod act;
mod attach;
mod events;
mod qwerq;
mod txn;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use qq_core::vocab::ConnId;
use qq_proto_amqp::connection::{
    Config, Connection, Credentials, IncomingId, LinkId, SaslConfig, SessionId, Side,
};
use qq_proto_amqp::types::Str;

use super::plan::{Fault, Plan};
use super::random::Random;
use super::recorder::Recorder;
use qwerq::Qwerq;

/// What a client needs of the world around it.
pub(super) struct Scene<'a> {
    /// Nanoseconds.
    pub(super) now: u64,
    pub(super) recorder: &'a mut Recorder,
    /// Rules that the broker broke.
    pub(super) broken: &'a mut Vec<String>,
    /// Acts, messages and deliveries so far.
    pub(super) operations: &'a mut u64,
    /// Number of the next message.
    pub(super) next_number: &'a mut u64,
}

/// How a receiving link takes its deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    First,
    Second,
    /// They are settled when they come.
    Settled,
    /// They stay in the queue.
    Browse,
}

/// A delivery that is not settled.
#[derive(Clone, Copy, Debug)]
struct Unsettled {
    id: IncomingId,
    /// Its number in the history.
    d: u64,
    /// The broker's number for it.
    token: u64,
}

#[derive(Debug)]
struct Receiver {
    mode: Mode,
    held: Vec<Unsettled>,
    /// Stated, and not confirmed yet.
    stated: Vec<Unsettled>,
    received: u64,
    /// So many deliveries were allowed at most.
    limit: u64,
    is_draining: bool,
    /// Credit was given while a drain had no answer: which answer belongs to which is not known any more.
    is_murky: bool,
    /// Numbers in the history by the broker's, where the broker may take deliveries back.
    numbers: BTreeMap<u64, u64>,
    /// Deliveries that the broker took back, by its numbers.
    lost: BTreeSet<u64>,
}

#[derive(Debug)]
struct Sender {
    is_settled: bool,
    /// It sends to an exchange.
    is_poster: bool,
    /// Numbers by token, with the transaction that they belong to.
    unanswered: BTreeMap<u64, (u64, Option<Bytes>)>,
    next_token: u64,
}

#[derive(Debug)]
enum Kind {
    Sender(Sender),
    Receiver(Receiver),
}

/// One link, as long as it is there.
#[derive(Debug)]
pub(super) struct Link {
    id: LinkId,
    /// The process in the history.
    process: String,
    name: String,
    queue: String,
    /// What is sent to it must survive a crash, when the message is durable.
    is_queue_durable: bool,
    is_up: bool,
    kind: Kind,
}

impl Link {
    /// Whether the broker took a delivery back.
    fn has_lost(&self, token: u64) -> bool {
        match &self.kind {
            Kind::Receiver(receiver) => receiver.lost.contains(&token),
            Kind::Sender(_) => false,
        }
    }
}

/// A connection, as long as it is there.
struct Live {
    conn: ConnId,
    machine: Connection,
    input: BytesMut,
    is_open: bool,
    sessions: Vec<SessionId>,
    links: Vec<Link>,
    control: Option<txn::Control>,
    /// Deliveries of transactions that took effect, or may have: the broker settles them.
    finished: Vec<(LinkId, IncomingId)>,
}

/// See the module.
pub(super) struct Client {
    number: usize,
    container: String,
    /// It speaks the binary protocol.
    is_binary: bool,
    live: Option<Live>,
    qwerq: Option<Qwerq>,
    links_made: u64,
}

impl Client {
    pub(super) fn new(number: usize, container: String, is_binary: bool) -> Self {
        Self {
            number,
            container,
            is_binary,
            live: None,
            qwerq: None,
            links_made: 0,
        }
    }

    /// Its connection, if it has one.
    pub(super) fn conn(&self) -> Option<ConnId> {
        let qwerq = self.qwerq.as_ref().map(|qwerq| qwerq.conn);
        self.live.as_ref().map(|live| live.conn).or(qwerq)
    }

    pub(super) fn is_open(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_open)
    }

    /// Whether it speaks the binary protocol.
    pub(super) fn is_binary(&self) -> bool {
        self.is_binary
    }

    /// Lets a client of the binary protocol do something of its own accord.
    pub(super) fn act(&mut self, scene: &mut Scene<'_>, plan: &Plan, random: &mut Random) {
        if let Some(qwerq) = &mut self.qwerq {
            qwerq.act(scene, plan, random);
        }
    }

    /// Begins a connection; its first bytes are due.
    pub(super) fn connect(&mut self, now: u64, conn: ConnId, plan: &Plan, random: &mut Random) {
        if self.is_binary {
            self.qwerq = Some(Qwerq::new(now, conn, self.number));
            return;
        }
        let is_tiny = plan.has(Fault::Tiny);
        let credentials = random.is_lucky(500).then_some(Credentials::Anonymous);
        let mut config = Config {
            container_id: Str::from(self.container.as_str()),
            idle_timeout_ms: random.within(10, 60) as u32 * 1_000,
            incoming_window_slack: 0,
            // Whoever takes credit back must bear what is under way; what is too much is judged by the limit of the link.
            credit_slack: u32::MAX,
            sasl: SaslConfig {
                credentials,
                ..SaslConfig::default()
            },
            ..Config::default()
        };
        if is_tiny {
            config.frame_size_max = random.within(512, 700) as u32;
            config.incoming_window = random.within(1, 8) as u32;
            config.first_outgoing_id = u32::MAX - random.below(40) as u32;
        }
        let mut machine = Connection::new(Side::Client, config, Duration::from_nanos(now));
        machine.open();
        self.live = Some(Live {
            conn,
            machine,
            input: BytesMut::new(),
            is_open: false,
            sessions: Vec::new(),
            links: Vec::new(),
            control: None,
            finished: Vec::new(),
        });
    }

    pub(super) fn handle_input(&mut self, scene: &mut Scene<'_>, bytes: &[u8]) {
        if let Some(qwerq) = &mut self.qwerq {
            return qwerq.handle_input(scene, bytes);
        }
        let Some(live) = &mut self.live else {
            return;
        };
        live.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut live.input);
        live.machine
            .handle_input(Duration::from_nanos(scene.now), &mut input);
        live.input = input;
        self.drain_events(scene);
    }

    pub(super) fn handle_timeout(&mut self, scene: &mut Scene<'_>) {
        if let Some(qwerq) = &mut self.qwerq {
            return qwerq.handle_timeout(scene);
        }
        if let Some(live) = &mut self.live {
            live.machine.handle_timeout(Duration::from_nanos(scene.now));
            self.drain_events(scene);
        }
    }

    /// The connection is over, in whatever way.
    pub(super) fn lose(&mut self, scene: &mut Scene<'_>) {
        if let Some(mut qwerq) = self.qwerq.take() {
            qwerq.lose(scene);
        }
        if let Some(live) = &mut self.live {
            live.machine.handle_eof(Duration::from_nanos(scene.now));
            self.drain_events(scene);
            self.live = None;
        }
    }

    /// What is to be written.
    pub(super) fn poll_transmit(&mut self, now: u64) -> Vec<u8> {
        let mut out: VecDeque<Bytes> = VecDeque::new();
        if let Some(qwerq) = &mut self.qwerq {
            qwerq.poll_transmit(now, &mut out);
        }
        if let Some(live) = &mut self.live {
            let now = Duration::from_nanos(now);
            while live.machine.poll_transmit(now, &mut out, 64 * 1024) > 0 {}
        }
        out.iter().flat_map(|bytes| bytes.iter().copied()).collect()
    }

    /// When [`Client::handle_timeout`] wants to be called, in nanoseconds.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        if let Some(qwerq) = &self.qwerq {
            return qwerq.poll_timeout();
        }
        let at = self.live.as_ref()?.machine.poll_timeout()?;
        Some(at.as_nanos() as u64)
    }

    /// Whether everything is said and the stream can be closed.
    pub(super) fn is_done(&self) -> bool {
        if let Some(qwerq) = &self.qwerq {
            return qwerq.is_done();
        }
        self.live
            .as_ref()
            .is_some_and(|live| live.machine.is_done())
    }

    /// The processes of receiving links, all or those of one name.
    pub(super) fn receivers(&self, name: Option<&str>) -> Vec<String> {
        if let Some(qwerq) = self.qwerq.as_ref().filter(|_| name.is_none()) {
            return qwerq.processes();
        }
        let links = self.live.iter().flat_map(|live| &live.links);
        links
            .filter(|link| matches!(link.kind, Kind::Receiver(_)))
            .filter(|link| name.is_none_or(|name| link.name == name))
            .map(|link| link.process.clone())
            .collect()
    }

    /// The broker took deliveries of a link back, whatever its client knows or says.
    pub(super) fn take_back(&mut self, scene: &mut Scene<'_>, name: &str, lost: (u64, u64)) {
        let links = self.live.iter_mut().flat_map(|live| &mut live.links);
        for link in links.filter(|link| link.name == name) {
            if let Kind::Receiver(receiver) = &mut link.kind {
                for token in lost.0..=lost.1 {
                    receiver.lost.insert(token);
                    if let Some(d) = receiver.numbers.get(&token) {
                        scene.recorder.lose(scene.now, *d);
                    }
                }
            }
        }
    }

    /// Messages without an answer.
    pub(super) fn unanswered(&self) -> usize {
        let links = self.live.iter().flat_map(|live| &live.links);
        let counts = links.map(|link| match &link.kind {
            Kind::Sender(sender) => sender.unanswered.len(),
            Kind::Receiver(_) => 0,
        });
        counts.sum::<usize>() + self.qwerq.as_ref().map_or(0, Qwerq::unanswered)
    }

    /// Settlements without the confirmation that they asked for, drains and transactions without an answer.
    pub(super) fn unconfirmed(&self) -> usize {
        let controls = self.live.iter().flat_map(|live| &live.control);
        let asked: usize = controls.map(txn::Control::unanswered).sum();
        let links = self.live.iter().flat_map(|live| &live.links);
        let counts = links.map(|link| match &link.kind {
            Kind::Receiver(receiver) => receiver.stated.len() + usize::from(receiver.is_draining),
            Kind::Sender(_) => 0,
        });
        let stated = self.qwerq.as_ref().map_or(0, Qwerq::unconfirmed);
        counts.sum::<usize>() + asked + stated
    }
}
