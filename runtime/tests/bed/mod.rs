//! A runtime with a face that needs no protocol: it sends back what it gets, line by line. Every test runs on both
//! front ends.

#![allow(dead_code, unreachable_pub, reason = "every test binary uses its part")]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use qq_core::broker::{Broker, BrokerConfig, Now, QueueSpec};
use qq_core::face::{Face, FaceFactory, PeerInfo};
use qq_core::store::{Batch, BatchId, Fetch, Op, Store, StoreError};
use qq_core::vocab::{
    Address, Command, ConsumerSpec, DeliveryId, Envelope, Format, Message, Notice, Outcome, Port,
    ProducerSpec, Refusal, RuleId, Seq, Ticket, Verdict,
};
use qq_runtime::{Clock, Config, Listener, Recovered, RuntimeError, Shutdown};

/// A front end: its name and how it is run.
#[derive(Clone, Copy)]
pub struct Front {
    pub name: &'static str,
    run: fn(Config, Recovered, Shutdown, Clock) -> Result<(), RuntimeError>,
}

/// All of them.
pub const FRONTS: [Front; 2] = [
    Front {
        name: "tokio",
        run: qq_runtime_tokio::run,
    },
    Front {
        name: "smol",
        run: qq_runtime_smol::run,
    },
];

/// Echoes lines. The line `big N` is answered with N bytes, `bye` with a last line and the end, `panic` with a panic.
/// `put` publishes a durable message to the queue `q` and is answered by `confirmed`, `take` waits for a message and is
/// answered by `got`, `done` settles that; `bomb` publishes a transient
/// message whose memory panics when it is given back. The first line is the hand-shake.
#[derive(Default)]
pub struct Echo {
    output: VecDeque<Bytes>,
    commands: Vec<Command>,
    published: u64,
    big_left: usize,
    is_closing: bool,
    is_authenticated: bool,
}

const PRODUCER: Port = Port(1);
const CONSUMER: Port = Port(2);

impl Echo {
    fn put(&mut self, payload: Bytes, durable: bool) {
        let address = Address::Name("q".into());
        if self.published == 0 {
            let spec = Box::new(ProducerSpec { key: None, address });
            self.commands.push(Command::OpenProducer {
                port: PRODUCER,
                spec,
            });
        }
        let envelope = Envelope {
            durable,
            ..Envelope::default()
        };
        let message = Message {
            envelope,
            format: Format::Amqp(0),
            payload,
        }
        .share();
        let ticket = Ticket(self.published);
        self.published += 1;
        self.commands.push(Command::Publish {
            port: PRODUCER,
            ticket,
            message,
            vetted: RuleId::NONE,
        });
    }

    fn take(&mut self) {
        let spec = ConsumerSpec {
            key: None,
            address: Address::Name("q".into()),
            browse: false,
            settled: false,
            default_outcome: Outcome::Released,
            subscription: Default::default(),
            filter: None,
            lock: Default::default(),
            stream: qq_core::vocab::StreamRead::default(),
        };
        self.commands.push(Command::OpenConsumer {
            port: CONSUMER,
            spec: Box::new(spec),
        });
        self.commands.push(Command::Permit {
            port: CONSUMER,
            limit: 1,
            drain: false,
        });
    }

    fn done(&mut self) {
        let (first, last) = (DeliveryId(0), DeliveryId(0));
        self.commands.push(Command::Settle {
            port: CONSUMER,
            first,
            last,
            outcome: Outcome::Accepted,
            confirm: false,
        });
    }
}

impl Face for Echo {
    fn handle_input(&mut self, _: Now, input: &mut BytesMut) {
        while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            let line = input.split_to(end + 1).freeze();
            self.is_authenticated = true;
            match std::str::from_utf8(&line).unwrap_or("").trim_end() {
                "panic" => panic!("told to"),
                "put" => self.put(Bytes::from_static(b"hello"), true),
                "bomb" => self.put(Bytes::from_owner(Bomb), false),
                "take" => self.take(),
                "done" => self.done(),
                text if text.starts_with("big ") => {
                    self.big_left += text[4..].parse::<usize>().unwrap_or(0)
                }
                text if !self.is_closing => {
                    self.is_closing = text == "bye";
                    self.output.push_back(Bytes::copy_from_slice(&line));
                }
                _ => {}
            }
        }
    }

    fn handle_notices(&mut self, _: Now, notices: &mut Vec<Notice>) {
        for notice in notices.drain(..) {
            let word: &[u8] = match notice {
                Notice::Confirm {
                    verdict: Verdict::Accepted,
                    ..
                } => b"confirmed\n",
                Notice::Deliver { .. } => b"got\n",
                Notice::ProducerOpened { .. }
                | Notice::ConsumerOpened { .. }
                | Notice::Pressure { .. } => continue,
                _ => b"something else\n",
            };
            self.output.push_back(Bytes::from_static(word));
        }
    }

    fn handle_eof(&mut self, _: Now) {
        self.is_closing = true;
    }

    fn handle_timeout(&mut self, _: Now) {}

    fn handle_shutdown(&mut self, _: Now, refusal: &Refusal) {
        self.output
            .push_back(Bytes::from(format!("down: {}\n", refusal.text)));
        self.is_closing = true;
    }

    fn poll_commands(&mut self, commands: &mut Vec<Command>) {
        commands.append(&mut self.commands);
    }

    fn poll_transmit(&mut self, _: Now, out: &mut VecDeque<Bytes>, budget: usize) -> usize {
        let mut added = 0;
        while added < budget
            && let Some(line) = self.output.pop_front()
        {
            added += line.len();
            out.push_back(line);
        }
        while added < budget && self.big_left > 0 {
            let piece = self.big_left.min(1_000).min(budget - added);
            self.big_left -= piece;
            added += piece;
            out.push_back(Bytes::from(vec![b'x'; piece]));
        }
        added
    }

    fn poll_timeout(&self) -> Option<Duration> {
        None
    }

    fn wants_read(&self) -> bool {
        !self.is_closing
    }

    fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    fn is_done(&self) -> bool {
        self.is_closing && self.output.is_empty() && self.big_left == 0
    }
}

/// Memory that panics when the last owner gives it back.
struct Bomb;

impl AsRef<[u8]> for Bomb {
    fn as_ref(&self) -> &[u8] {
        b"boom"
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("told to");
    }
}

/// What a store was given and made safe.
pub type Kept = Arc<Mutex<Vec<Op>>>;

/// What a store does with a message; topology, which is written at the start, is always taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Well,
    /// Finds no room so many times.
    Full(u32),
    Fails,
    Panics,
}

/// Keeps what is flushed where the test sees it; blocks or not, as told.
pub struct TestStore {
    pub kept: Kept,
    is_instant: bool,
    mood: Mood,
    submitted: Vec<Batch>,
}

impl TestStore {
    pub fn new(is_instant: bool, mood: Mood) -> Self {
        Self {
            kept: Kept::default(),
            is_instant,
            mood,
            submitted: Vec::new(),
        }
    }
}

impl Store for TestStore {
    fn recover(&mut self, _: &mut dyn FnMut(Op)) -> Result<(), StoreError> {
        Ok(())
    }

    fn submit(&mut self, batch: Batch) {
        self.submitted.push(batch);
    }

    fn flush(&mut self) -> Result<Option<BatchId>, StoreError> {
        let is_message = |op: &Op| matches!(op, Op::Enqueued(_));
        if self
            .submitted
            .iter()
            .flat_map(|batch| &batch.ops)
            .any(is_message)
        {
            match &mut self.mood {
                Mood::Well | Mood::Full(0) => {}
                Mood::Full(times) => {
                    *times -= 1;
                    return Err(StoreError::no_room("full"));
                }
                Mood::Fails => return Err(StoreError::fatal("disk on fire")),
                Mood::Panics => panic!("told to"),
            }
        }
        let mut newest = None;
        for batch in self.submitted.drain(..) {
            newest = Some(batch.id);
            self.kept.lock().expect("no panic").extend(batch.ops);
        }
        Ok(newest)
    }

    fn fetch(&mut self, _: &Fetch) -> Result<Vec<(Seq, Arc<Message>)>, StoreError> {
        Ok(Vec::new())
    }

    fn is_instant(&self) -> bool {
        self.is_instant
    }
}

/// A runtime that runs beside the test.
pub struct Bed {
    pub address: SocketAddr,
    pub shutdown: Shutdown,
    run: Option<JoinHandle<Result<(), RuntimeError>>>,
}

impl Bed {
    /// Runs echo faces; `adjust` changes the configuration.
    pub fn start(front: Front, adjust: impl FnOnce(&mut Config)) -> Self {
        Self::start_with(front, TestStore::new(true, Mood::Well), adjust)
    }

    /// The same with a store of one's own.
    pub fn start_with(front: Front, store: TestStore, adjust: impl FnOnce(&mut Config)) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = socket.local_addr().expect("address");
        let factory: FaceFactory = Arc::new(|_: Now, _: PeerInfo| Box::<Echo>::default());
        let mut config = Config::default();
        config.listeners.push(Listener {
            name: "echo".into(),
            socket,
            factory,
        });
        adjust(&mut config);
        let shutdown = Shutdown::new();
        let switch = shutdown.clone();
        let queues = vec![QueueSpec::new("q")];
        let broker = Broker::new(BrokerConfig {
            queues,
            ..BrokerConfig::default()
        });
        let run = std::thread::spawn(move || {
            let clock = Clock::start();
            let recovered = Recovered::new(broker, Box::new(store), &clock).expect("recovers");
            (front.run)(config, recovered, switch, clock)
        });
        Self {
            address,
            shutdown,
            run: Some(run),
        }
    }

    /// A client.
    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Triggers the drain and waits for its end.
    pub fn stop(self) -> Result<(), RuntimeError> {
        self.shutdown.trigger();
        self.wait()
    }

    /// Waits for the end.
    pub fn wait(mut self) -> Result<(), RuntimeError> {
        self.run.take().expect("runs").join().expect("no panic")
    }
}

/// A client that speaks in lines.
pub struct Client {
    pub stream: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connect");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("time-out");
        Self {
            stream: BufReader::new(stream),
        }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("write");
    }

    /// The next line without its end; empty at the end of the stream or when it was cut.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(_) => line.trim_end().to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => String::new(),
            Err(error) => panic!("no line: {error}"),
        }
    }

    /// Whether it answers.
    #[track_caller]
    pub fn is_served(&mut self) -> bool {
        self.stream.get_mut().write_all(b"hello\n").is_ok() && self.line() == "hello"
    }

    /// Reads to the end of the stream.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.stream
            .read_to_end(&mut bytes)
            .expect("the end, not a reset");
        bytes
    }
}
