//! A runtime with a face that needs no protocol: it sends back what it gets, line by line.

#![allow(dead_code, unreachable_pub, reason = "every test binary uses its part")]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use qq_core::broker::{Broker, BrokerConfig, Now};
use qq_core::face::{Face, FaceFactory, PeerInfo};
use qq_core::store::{Batch, BatchId, Fetch, Op, Store, StoreError};
use qq_core::vocab::{Command, Message, Notice, Refusal, Seq};
use qq_runtime_smol::{Clock, Config, Listener, RuntimeError, Shutdown};

/// Echoes lines. The line `big N` is answered with N bytes, `bye` with a last line and the end, `panic` with a panic.
/// The first line is the hand-shake.
#[derive(Default)]
pub struct Echo {
    output: VecDeque<Bytes>,
    big_left: usize,
    is_closing: bool,
    is_authenticated: bool,
}

impl Face for Echo {
    fn handle_input(&mut self, _: Now, input: &mut BytesMut) {
        while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            let line = input.split_to(end + 1).freeze();
            self.is_authenticated = true;
            let text = std::str::from_utf8(&line).unwrap_or("").trim_end();
            assert_ne!(text, "panic", "told to");
            if let Some(size) = text.strip_prefix("big ") {
                self.big_left += size.parse::<usize>().unwrap_or(0);
            } else if !self.is_closing {
                self.is_closing = text == "bye";
                self.output.push_back(Bytes::copy_from_slice(&line));
            }
        }
    }

    fn handle_notices(&mut self, _: Now, notices: &mut Vec<Notice>) {
        notices.clear();
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

    fn poll_commands(&mut self, _: &mut Vec<Command>) {}

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

/// Keeps nothing; blocks or not as told.
pub struct NoStore {
    newest: Option<BatchId>,
    is_instant: bool,
}

impl Store for NoStore {
    fn recover(&mut self, _: &mut dyn FnMut(Op)) -> Result<(), StoreError> {
        Ok(())
    }

    fn submit(&mut self, batch: Batch) {
        self.newest = Some(batch.id);
    }

    fn flush(&mut self) -> Result<Option<BatchId>, StoreError> {
        Ok(self.newest.take())
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
    pub fn start(adjust: impl FnOnce(&mut Config)) -> Self {
        Self::start_with(
            true,
            adjust,
            Arc::new(|_: Now, _: PeerInfo| Box::<Echo>::default()),
        )
    }

    /// Runs faces of one's own.
    pub fn start_with(
        is_instant: bool,
        adjust: impl FnOnce(&mut Config),
        factory: FaceFactory,
    ) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = socket.local_addr().expect("address");
        let mut config = Config::default();
        config.listeners.push(Listener {
            name: "echo".into(),
            socket,
            factory,
        });
        adjust(&mut config);
        let shutdown = Shutdown::new();
        let switch = shutdown.clone();
        let store = Box::new(NoStore {
            newest: None,
            is_instant,
        });
        let run = std::thread::spawn(move || {
            qq_runtime_smol::run(
                config,
                Broker::new(BrokerConfig::default()),
                store,
                switch,
                Clock::start(),
            )
        });
        Self {
            address,
            shutdown,
            run: Some(run),
        }
    }

    /// A client.
    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).expect("connect");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("time-out");
        Client {
            stream: BufReader::new(stream),
        }
    }

    /// Triggers the drain and waits for its end.
    pub fn stop(mut self) -> Result<(), RuntimeError> {
        self.shutdown.trigger();
        self.run.take().expect("runs").join().expect("no panic")
    }
}

/// A client that speaks in lines.
pub struct Client {
    pub stream: BufReader<TcpStream>,
}

impl Client {
    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("write");
    }

    /// The next line without its end; empty at the end of the stream or when it was cut.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(_) => line.trim_end().to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => String::new(),
            Err(error) => panic!("no line: {error}"),
        }
    }

    /// Whether it answers.
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
