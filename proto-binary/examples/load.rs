//! A load generator for QWER-Q: one publisher, one consumer, one queue, by frames of the documented layout.
//!
//! `load PORT PID [--size N] [--seconds N] [--warmup N] [--window N] [--backlog N] [--rate N] [--durable]`
//!
//! Prints what arrived per second, the CPU time of the broker (PID) per million messages and, with `--rate`, the time
//! from publish to delivery. Payloads carry a number that is checked: everything arrives once, in order. With `--rate`
//! messages are sent at that pace, else as fast as a window of unanswered ones allows, and a bound on those that were
//! not received yet: without it a publisher that is faster fills the queue, and the broker is measured with a backlog that
//! grows.
//!
//! One thread drives both connections and reads frames by hand, so that the broker has the other core to itself and
//! what is measured is not the generator.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program that measures owns sockets and the clock"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use prost::Message as _;
use qq_proto_binary::message::{
    AckRequest, ConsumeRequest, PublishRequest, QueueDeclareRequest, QueueDeleteRequest,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const PUBLISH: u8 = 0x01;
const PUBLISH_ACK: u8 = 0x02;
const CONSUME: u8 = 0x03;
const MESSAGE: u8 = 0x04;
const ACK: u8 = 0x05;
const ERROR: u8 = 0x07;
const QUEUE_DECLARE: u8 = 0x50;
const QUEUE_DELETE: u8 = 0x52;
/// Fields of MESSAGE.
const PAYLOAD: u64 = 3;
const DELIVERY_ID: u64 = 50;
const HEAD: usize = 6;
/// Clock ticks of `/proc/PID/stat` a second.
const TICKS: f64 = 100.0;

#[derive(Clone, Debug)]
struct Options {
    port: u16,
    pid: u32,
    size: usize,
    seconds: u64,
    warmup: u64,
    window: u64,
    backlog: u64,
    rate: u64,
    is_durable: bool,
}

fn options() -> Options {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, otherwise: u64| {
        let at = args.iter().position(|arg| arg == name);
        let value = at.and_then(|at| args.get(at + 1));
        value.map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let place = |at: usize| -> u32 {
        args.get(at)
            .expect("load PORT PID")
            .parse()
            .expect("a number")
    };
    Options {
        port: u16::try_from(place(0)).expect("a port"),
        pid: place(1),
        size: number("--size", 100) as usize,
        seconds: number("--seconds", 3),
        warmup: number("--warmup", 1),
        window: number("--window", 1_000),
        backlog: number("--backlog", 2_000),
        rate: number("--rate", 0),
        is_durable: args.iter().any(|arg| arg == "--durable"),
    }
}

/// One connection, with whole frames out of a buffer.
struct Link {
    socket: TcpStream,
    input: Vec<u8>,
    input_end: usize,
    output: Vec<u8>,
    written: usize,
}

impl Link {
    fn open(port: u16) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("a broker");
        socket.set_nodelay(true).expect("a socket");
        socket.set_nonblocking(true).expect("a socket");
        Self {
            socket,
            input: vec![0; 1 << 20],
            input_end: 0,
            output: Vec::new(),
            written: 0,
        }
    }

    fn send(&mut self, opcode: u8, body: &impl prost::Message) {
        let frame = frame(opcode, &body.encode_to_vec());
        self.output.extend_from_slice(&frame);
    }

    /// Writes what the socket takes.
    fn flush(&mut self) {
        while self.written < self.output.len() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(len) => self.written += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("the broker closed: {error}"),
            }
        }
        self.output.clear();
        self.written = 0;
    }

    /// Reads once, and hands every whole frame to `each`.
    fn read(&mut self, mut each: impl FnMut(u8, &[u8])) {
        match self.socket.read(&mut self.input[self.input_end..]) {
            Ok(0) => panic!("the broker closed"),
            Ok(len) => self.input_end += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("the broker closed: {error}"),
        }
        let mut at = 0;
        while let Some(head) = self.input[at..self.input_end].first_chunk::<HEAD>() {
            let body_len = u32::from_be_bytes([head[2], head[3], head[4], head[5]]) as usize;
            let next = at + HEAD + body_len;
            if next > self.input_end {
                break;
            }
            assert_ne!(head[0], ERROR, "a request is refused");
            each(head[0], &self.input[at + HEAD..next]);
            at = next;
        }
        self.input.copy_within(at..self.input_end, 0);
        self.input_end -= at;
    }

    /// What to wait for.
    fn interest(&self) -> PollFd<'_> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, !self.output.is_empty());
        PollFd::new(&self.socket, flags)
    }
}

fn frame(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![opcode, 0];
    frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

/// Waits until one of the links can go on, or until the time is over.
fn wait(links: &[&Link], timeout: Duration) {
    let mut interests: Vec<PollFd<'_>> = links.iter().map(|link| link.interest()).collect();
    let timeout = Timespec::try_from(timeout).expect("a short time");
    // Interrupted or not: whoever can go on goes on.
    let _ = poll(&mut interests, Some(&timeout));
}

/// The payload of a MESSAGE and the number of its delivery.
fn payload_of(body: &[u8]) -> (&[u8], u64) {
    let mut at = 0;
    let varint = |at: &mut usize| {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = body[*at];
            *at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
            shift += 7;
        }
    };
    let (mut payload, mut delivery_id) = (&body[..0], 0);
    while at < body.len() {
        let tag = varint(&mut at);
        let value = varint(&mut at);
        match (tag >> 3, tag & 7) {
            (DELIVERY_ID, 0) => delivery_id = value,
            (PAYLOAD, 2) => payload = &body[at..at + value as usize],
            _ => {}
        }
        if tag & 7 == 2 {
            at += value as usize;
        }
    }
    (payload, delivery_id)
}

/// CPU time of a process, seconds.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the broker's process");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let ticks = fields[11..13]
        .iter()
        .map(|field| field.parse::<f64>().expect("ticks"));
    ticks.sum::<f64>() / TICKS
}

/// Sends messages; a number and a moment are the first 16 bytes of each payload.
struct Publisher {
    link: Link,
    template: Vec<u8>,
    /// Where in it the payload begins.
    payload_at: usize,
    sent: u64,
    answered: u64,
}

impl Publisher {
    fn new(options: &Options, queue: &str) -> Self {
        let request = PublishRequest {
            queue: queue.to_owned(),
            payload: vec![0xee; options.size.max(16)].into(),
            transient: !options.is_durable,
            ..PublishRequest::default()
        };
        let template = frame(PUBLISH, &request.encode_to_vec());
        let payload_at = template.windows(16).position(|bytes| bytes == [0xee; 16]);
        Self {
            link: Link::open(options.port),
            template,
            payload_at: payload_at.expect("the payload"),
            sent: 0,
            answered: 0,
        }
    }

    /// Sends what is due, and reads what is answered.
    fn turn(&mut self, options: &Options, epoch: Instant, received: u64) {
        let answered = &mut self.answered;
        self.link
            .read(|opcode, _| *answered += u64::from(opcode == PUBLISH_ACK));
        let now = epoch.elapsed();
        let room = (options.window - (self.sent - self.answered))
            .min(options.backlog.saturating_sub(self.sent - received));
        let due = match options.rate {
            0 => room,
            rate => ((now.as_secs_f64() * rate as f64) as u64)
                .saturating_sub(self.sent)
                .min(room),
        };
        let nanos = now.as_nanos() as u64;
        let out = &mut self.link.output;
        for _ in 0..due {
            let from = out.len() + self.payload_at;
            out.extend_from_slice(&self.template);
            out[from..from + 8].copy_from_slice(&self.sent.to_be_bytes());
            out[from + 8..from + 16].copy_from_slice(&nanos.to_be_bytes());
            self.sent += 1;
        }
        self.link.flush();
    }
}

/// Takes messages, and acknowledges those of one read together.
struct Consumer {
    link: Link,
    next: u64,
    is_measured: bool,
    count: u64,
    latencies_us: Vec<u32>,
}

impl Consumer {
    fn new(options: &Options, queue: &str) -> Self {
        let mut link = Link::open(options.port);
        let consume = ConsumeRequest {
            queue: queue.to_owned(),
            prefetch: options.window as u32,
            ..ConsumeRequest::default()
        };
        link.send(CONSUME, &consume);
        Self {
            link,
            next: 0,
            is_measured: false,
            count: 0,
            latencies_us: Vec::new(),
        }
    }

    fn turn(&mut self, options: &Options, epoch: Instant) {
        let mut range = None;
        let (next, latencies_us) = (&mut self.next, &mut self.latencies_us);
        let (is_measured, count) = (self.is_measured, &mut self.count);
        self.link.read(|opcode, body| {
            if opcode != MESSAGE {
                return;
            }
            let (payload, delivery_id) = payload_of(body);
            let number = |at: usize| {
                let bytes = payload[at..at + 8].try_into().expect("eight bytes");
                u64::from_be_bytes(bytes)
            };
            assert_eq!(number(0), *next, "everything once, in order");
            *next += 1;
            let first = range.map_or(delivery_id, |(first, _)| first);
            range = Some((first, delivery_id));
            *count += u64::from(is_measured);
            if is_measured && options.rate > 0 {
                let now = epoch.elapsed().as_nanos() as u64;
                latencies_us.push((now.saturating_sub(number(8)) / 1_000) as u32);
            }
        });
        if let Some((first, last)) = range {
            let ack = AckRequest {
                delivery_id: first,
                delivery_id_last: last,
                ..AckRequest::default()
            };
            self.link.send(ACK, &ack);
        }
        self.link.flush();
    }
}

/// Runs publisher and consumer for so long.
fn run(
    publisher: &mut Publisher,
    consumer: &mut Consumer,
    options: &Options,
    epoch: Instant,
    time: Duration,
) {
    let end = Instant::now() + time;
    // With a rate the next message is due soon.
    let timeout = match options.rate {
        0 => Duration::from_millis(100),
        rate => Duration::from_nanos(1_000_000_000 / rate / 4),
    };
    while Instant::now() < end {
        publisher.turn(options, epoch, consumer.next);
        consumer.turn(options, epoch);
        wait(&[&publisher.link, &consumer.link], timeout);
    }
}

fn main() {
    let options = options();
    let queue = format!("load-{}", std::process::id());
    let mut control = Link::open(options.port);
    let declare = QueueDeclareRequest {
        queue: queue.clone(),
        durable: Some(options.is_durable),
        ..QueueDeclareRequest::default()
    };
    control.send(QUEUE_DECLARE, &declare);
    control.flush();
    wait(&[&control], Duration::from_secs(5));
    control.read(|_, _| {});
    let mut consumer = Consumer::new(&options, &queue);
    let mut publisher = Publisher::new(&options, &queue);
    let epoch = Instant::now();
    let mut drive = |consumer: &mut Consumer, seconds| {
        let time = Duration::from_secs(seconds);
        run(&mut publisher, consumer, &options, epoch, time);
    };
    drive(&mut consumer, options.warmup);
    consumer.is_measured = true;
    let (began, cpu) = (Instant::now(), cpu_seconds(options.pid));
    drive(&mut consumer, options.seconds);
    let took = began.elapsed().as_secs_f64();
    let cpu = cpu_seconds(options.pid) - cpu;
    control.send(
        QUEUE_DELETE,
        &QueueDeleteRequest {
            queue,
            ..QueueDeleteRequest::default()
        },
    );
    control.flush();
    let count = consumer.count as f64;
    print!(
        "{:.0}/s, broker CPU {:.2} s per million",
        count / took,
        cpu / count * 1e6
    );
    let latencies_us = &mut consumer.latencies_us;
    if !latencies_us.is_empty() {
        latencies_us.sort_unstable();
        let at = |share: f64| latencies_us[((count - 1.0) * share) as usize];
        print!(
            ", p50 {} us, p99 {} us, max {} us",
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
    println!();
}
