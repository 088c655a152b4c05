//! The world of a run: one node with its disk, clients, streams between them, and one clock for all.
//!
//! Everything that can happen stands in one heap, ordered by time and then by the order of its making, so that a seed
//! is a run. A run has two parts: trouble, for as many acts as the plan has, and then peace, in which everything must
//! come to its end.

mod acts;
mod disk;
mod finish;
mod node;
mod streams;
mod topology;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use bytes::BytesMut;
use qq_core::broker::Now;
use qq_core::face::amqp::AmqpConfig;
use qq_core::face::binary::BinaryConfig;
use qq_core::node::Node;
use qq_core::vocab::ConnId;
use qq_store_mem::Ledger;

use super::client::{Client, Scene};
use super::mirror::Mirror;
use super::pipe::{MS, Pipe};
use super::plan::{self, Fault, Plan};
use super::random::Random;
use super::recorder::Recorder;
use super::reference::{Input, News, Reference};
use super::tap::Heard;
use super::{Report, Violation};
use crate::history;
use disk::Disk;

/// Wall clock at the start: 2026-01-01.
const WALL_START_MS: i64 = 1_767_225_600_000;

/// Something that is going to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    /// The next act of the plan.
    Act,
    ToBroker(u64),
    ToClient(u64),
    ClientTimer(usize),
    NodeTimer,
    /// The disk is done with what it does. The number is that of the process that asked.
    Disk(u64),
    /// The node comes back.
    Restart,
}

/// A stream and who stands at its ends.
struct Stream {
    pipe: Pipe,
    client: usize,
    /// What the node has not taken.
    input: BytesMut,
    is_at_broker: bool,
    is_at_client: bool,
}

/// See the module.
pub(super) struct World {
    plan: Plan,
    now: u64,
    heap: BinaryHeap<Reverse<(u64, u64, Wake)>>,
    wakes: u64,
    // The node.
    node: Option<Node>,
    face_config: Arc<AmqpConfig>,
    binary_config: Arc<BinaryConfig>,
    listener: Receiver<Heard>,
    speaker: Sender<Heard>,
    /// When the process began.
    epoch: u64,
    /// How many processes there were.
    process: u64,
    wall_offset_ms: i64,
    node_timer: Option<u64>,
    node_timer_turns: u32,
    ledger: Ledger,
    disk: Disk,
    mirror: Mirror,
    reference: Reference,
    /// Inputs of the broker that no face made, for the round that begins.
    inputs: Vec<Input>,
    // The clients.
    clients: Vec<Client>,
    client_timers: Vec<Option<u64>>,
    streams: BTreeMap<u64, Stream>,
    next_conn: u64,
    next_number: u64,
    // The run.
    recorder: Recorder,
    acts: u32,
    operations: u64,
    crashes: u32,
    is_healed: bool,
    is_disk_full: bool,
    random: Random,
    broken: Vec<String>,
}

impl World {
    pub(super) fn new(plan: Plan) -> Self {
        let (speaker, listener) = std::sync::mpsc::channel();
        let count = plan.clients.iter().max().map_or(0, |most| most + 1);
        let container = |number: usize| {
            // Where links are stolen, two clients share a container.
            let shared = if plan.has(Fault::Steal) {
                number / 2
            } else {
                number
            };
            format!("container-{shared}")
        };
        let mut clients: Vec<_> = (0..count)
            .map(|number| {
                let is_binary = plan.has(Fault::Qwerq) && number % 2 == 1;
                Client::new(number, container(number), is_binary)
            })
            .collect();
        // The last one empties the queues at the end.
        clients.push(Client::new(count, "drainer".to_owned(), false));
        let mut recorder = Recorder::default();
        recorder.has_keys = plan.is_calm();
        let mut reference = Reference::default();
        reference.may_refuse = plan.has(Fault::Memory) || plan.has(Fault::NoRoom);
        reference.may_page = plan.has(Fault::Paging);
        Self {
            now: 0,
            heap: BinaryHeap::new(),
            wakes: 0,
            node: None,
            face_config: Arc::new(node::face_config(&plan)),
            binary_config: Arc::new(node::binary_config(&plan)),
            listener,
            speaker,
            epoch: 0,
            process: 0,
            wall_offset_ms: 0,
            node_timer: None,
            node_timer_turns: 0,
            ledger: Ledger::new(plan.seed),
            disk: Disk::new(&plan),
            mirror: Mirror::default(),
            reference,
            inputs: Vec::new(),
            client_timers: vec![None; clients.len()],
            clients,
            streams: BTreeMap::new(),
            next_conn: 1,
            next_number: 1,
            recorder,
            acts: 0,
            operations: 0,
            crashes: 0,
            is_healed: false,
            is_disk_full: false,
            random: Random::fork(plan.seed, 5, 0),
            broken: Vec::new(),
            plan,
        }
    }

    /// Runs to the end, or to the first rule that is broken.
    pub(super) fn run(mut self) -> Report {
        for spec in self.plan.declared().iter().chain(&self.plan.graves) {
            self.recorder.queue(self.now, spec);
        }
        self.start_node();
        self.wake(self.now, Wake::Act);
        while self.has_more() && self.broken.is_empty() && self.step(u64::MAX) {}
        if self.broken.is_empty() {
            self.finish();
        }
        let judged = history::check(&self.recorder.events);
        let violation = if let Some(text) = self.broken.first() {
            Some(Violation {
                class: "reference",
                text: text.clone(),
            })
        } else if judged.verdict() != history::Verdict::Valid {
            Some(Violation {
                class: judged
                    .errors
                    .keys()
                    .next()
                    .map_or("undecided", |class| class.name()),
                text: judged.to_string(),
            })
        } else {
            None
        };
        Report {
            violation,
            operations: self.operations,
            crashes: self.crashes,
            boundaries: self.disk.boundaries,
            virtual_ms: self.now / MS,
            history: self.recorder.events,
        }
    }

    /// Whether the troubled part goes on.
    fn has_more(&self) -> bool {
        let plan = &self.plan;
        let is_short = self.operations < plan.operations_min || self.crashes < plan.crashes_min;
        self.acts < plan.acts_max || is_short && self.acts < plan.acts_max * plan::ACTS_FACTOR
    }

    fn wake(&mut self, at: u64, what: Wake) {
        self.wakes += 1;
        self.heap
            .push(Reverse((at.max(self.now), self.wakes, what)));
    }

    /// Lets the next thing happen, if it happens before a moment. Says whether it did.
    fn step(&mut self, until: u64) -> bool {
        let is_due = self
            .heap
            .peek()
            .is_some_and(|Reverse((at, _, _))| *at <= until);
        let Some(Reverse((at, _, what))) = self.heap.pop().filter(|_| is_due) else {
            return false;
        };
        self.now = at;
        match what {
            Wake::Act => self.act(),
            Wake::ToBroker(conn) => self.arrive_at_broker(conn),
            Wake::ToClient(conn) => self.arrive_at_client(conn),
            Wake::ClientTimer(client) => self.on_client_timer(client),
            Wake::NodeTimer => self.on_node_timer(),
            Wake::Disk(process) => self.on_disk(process),
            Wake::Restart => self.start_node(),
        }
        true
    }

    /// Lets time pass.
    fn run_for(&mut self, ns: u64) {
        let until = self.now + ns;
        while self.broken.is_empty() && self.peek() <= until && self.step(until) {}
        self.now = self.now.max(until);
    }

    fn peek(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((at, _, _))| *at)
    }

    /// The broker's two clocks.
    fn broker_now(&self) -> Now {
        Now {
            mono: std::time::Duration::from_nanos(self.now - self.epoch),
            wall_ms: WALL_START_MS + self.wall_offset_ms + (self.now / MS) as i64,
        }
    }

    /// Lets a client do something, and carries what it has to say.
    fn with_client<T>(
        &mut self,
        number: usize,
        action: impl FnOnce(&mut Client, &mut Scene<'_>, &Plan) -> T,
    ) -> T {
        let mut scene = Scene {
            now: self.now,
            recorder: &mut self.recorder,
            broken: &mut self.broken,
            operations: &mut self.operations,
            next_number: &mut self.next_number,
        };
        let result = action(&mut self.clients[number], &mut scene, &self.plan);
        self.after_client(number);
        result
    }

    /// Passes on what the reference says.
    fn take_news(&mut self) {
        for news in std::mem::take(&mut self.reference.news) {
            match news {
                News::Broken(text) => self.broken.push(text),
                News::Dropped(number, queue) => self.recorder.dropped(self.now, number, &queue),
                News::Routed(number, copies) => {
                    for (queue, is_durable) in copies {
                        self.recorder.routed(self.now, number, &queue, is_durable);
                    }
                }
                News::Lost(conn, key, first, last) => {
                    let client = self.streams.get(&conn.0).map(|stream| stream.client);
                    let name = String::from_utf8_lossy(&key.name).into_owned();
                    if let Some(client) = client.filter(|at| self.clients[*at].conn() == Some(conn))
                    {
                        self.with_client(client, |client, scene, _| {
                            client.take_back(scene, &name, (first, last));
                        });
                    }
                }
                News::Gone(queue) => self.recorder.admin(self.now, "delete", &queue),
                News::Discharged(conn, txn, is_done) => {
                    self.recorder.discharged(self.now, (conn, txn.0), is_done);
                }
                News::Cut(conn, key, is_producer) => {
                    let client = self.streams.get(&conn.0).map(|stream| stream.client);
                    let name = String::from_utf8_lossy(&key.name).into_owned();
                    if let Some(client) = client
                        && !is_producer
                        && self.clients[client].conn() == Some(conn)
                    {
                        for process in self.clients[client].receivers(Some(&name)) {
                            self.recorder.cut(self.now, &process);
                        }
                    }
                }
            }
        }
    }

    /// The broker took back every link of a connection.
    fn cut_all(&mut self, conn: ConnId) {
        let client = self.streams.get(&conn.0).map(|stream| stream.client);
        if let Some(client) = client
            && self.clients[client].conn() == Some(conn)
        {
            for process in self.clients[client].receivers(None) {
                self.recorder.cut(self.now, &process);
            }
        }
    }
}
