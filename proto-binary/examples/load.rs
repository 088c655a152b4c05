//! A load generator for QWER-Q: one publisher, one consumer, one queue, by frames of the documented layout.
//!
//! `load PORT PID [--size N] [--seconds N] [--warmup N] [--window N] [--rate N] [--durable]`
//!
//! Prints what arrived per second, the CPU time of the broker (PID) per million messages and, with `--rate`, the time
//! from publish to delivery. Payloads carry a number that is checked: everything arrives once, in order. With `--rate`
//! messages are sent at that pace, else as fast as a window of unanswered ones allows.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program that measures owns sockets, threads and the clock"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use prost::Message as _;
use qq_proto_binary::message::{
    AckRequest, ConsumeRequest, Message, PublishRequest, QueueDeclareRequest, QueueDeleteRequest,
};

const PUBLISH: u8 = 0x01;
const PUBLISH_ACK: u8 = 0x02;
const CONSUME: u8 = 0x03;
const MESSAGE: u8 = 0x04;
const ACK: u8 = 0x05;
const ERROR: u8 = 0x07;
const QUEUE_DECLARE: u8 = 0x50;
const QUEUE_DELETE: u8 = 0x52;
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
        rate: number("--rate", 0),
        is_durable: args.iter().any(|arg| arg == "--durable"),
    }
}

/// One connection, with whole frames out of a buffer.
struct Link {
    socket: TcpStream,
    buf: Vec<u8>,
    end: usize,
}

impl Link {
    fn open(port: u16) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("a broker");
        socket.set_nodelay(true).expect("a socket");
        let timeout = Some(Duration::from_millis(500));
        socket.set_read_timeout(timeout).expect("a socket");
        Self {
            socket,
            buf: vec![0; 1 << 20],
            end: 0,
        }
    }

    fn send(&mut self, opcode: u8, body: &impl prost::Message) {
        let frame = frame(opcode, &body.encode_to_vec());
        self.socket.write_all(&frame).expect("the broker reads");
    }

    /// Reads once, and hands every whole frame to `each`. False: nothing came.
    fn read(&mut self, mut each: impl FnMut(u8, &[u8])) -> bool {
        let len = match self.socket.read(&mut self.buf[self.end..]) {
            Ok(0) => panic!("the broker closed"),
            Ok(len) => len,
            Err(_) => return false,
        };
        self.end += len;
        let mut at = 0;
        while let Some(head) = self.buf[at..self.end].first_chunk::<HEAD>() {
            let body_len = u32::from_be_bytes([head[2], head[3], head[4], head[5]]) as usize;
            let next = at + HEAD + body_len;
            if next > self.end {
                break;
            }
            assert_ne!(head[0], ERROR, "a request is refused");
            each(head[0], &self.buf[at + HEAD..next]);
            at = next;
        }
        self.buf.copy_within(at..self.end, 0);
        self.end -= at;
        true
    }
}

fn frame(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![opcode, 0];
    frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
    frame.extend_from_slice(body);
    frame
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

/// Publishes until told to stop; a number and a moment are the first 16 bytes of each payload.
fn publish(options: &Options, queue: &str, epoch: Instant, stop: &AtomicBool) {
    let mut link = Link::open(options.port);
    let request = PublishRequest {
        queue: queue.to_owned(),
        payload: vec![0xee; options.size.max(16)].into(),
        transient: !options.is_durable,
        ..PublishRequest::default()
    };
    let template = frame(PUBLISH, &request.encode_to_vec());
    let at = template
        .windows(16)
        .position(|bytes| bytes == [0xee; 16])
        .expect("the payload");
    link.socket
        .set_nonblocking(options.rate > 0)
        .expect("a socket");
    let (mut sent, mut answered) = (0_u64, 0_u64);
    let mut batch = Vec::new();
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let room = options.window - (sent - answered);
        let due = match options.rate {
            0 => room,
            rate => ((began.elapsed().as_secs_f64() * rate as f64) as u64)
                .saturating_sub(sent)
                .min(room),
        };
        batch.clear();
        for _ in 0..due {
            let from = batch.len() + at;
            batch.extend_from_slice(&template);
            batch[from..from + 8].copy_from_slice(&sent.to_be_bytes());
            let nanos = epoch.elapsed().as_nanos() as u64;
            batch[from + 8..from + 16].copy_from_slice(&nanos.to_be_bytes());
            sent += 1;
        }
        link.socket.write_all(&batch).expect("the broker reads");
        link.read(|opcode, _| answered += u64::from(opcode == PUBLISH_ACK));
        if options.rate > 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// What the consumer saw in the measured time.
#[derive(Default)]
struct Seen {
    count: u64,
    latencies_us: Vec<u32>,
}

/// What was seen, in how many seconds, and the broker's CPU seconds meanwhile.
fn consume(options: &Options, queue: &str, epoch: Instant) -> (Seen, f64, f64) {
    let mut link = Link::open(options.port);
    link.send(
        CONSUME,
        &ConsumeRequest {
            queue: queue.to_owned(),
            prefetch: options.window as u32,
            ..ConsumeRequest::default()
        },
    );
    let begin = Instant::now() + Duration::from_secs(options.warmup);
    let end = begin + Duration::from_secs(options.seconds);
    let (mut seen, mut next, mut before) = (Seen::default(), 0_u64, None);
    let mut now = Instant::now();
    while now < end {
        let mut range = None;
        let is_measured = now >= begin;
        if is_measured && before.is_none() {
            before = Some((cpu_seconds(options.pid), now));
        }
        link.read(|opcode, body| {
            if opcode != MESSAGE {
                return;
            }
            let message = Message::decode(body).expect("a message");
            let number = |at: usize| {
                let bytes = message.payload[at..at + 8].try_into().expect("eight bytes");
                u64::from_be_bytes(bytes)
            };
            assert_eq!(number(0), next, "everything once, in order");
            next += 1;
            let first = range.map_or(message.delivery_id, |(first, _)| first);
            range = Some((first, message.delivery_id));
            seen.count += u64::from(is_measured);
            if is_measured && options.rate > 0 {
                let took = (epoch.elapsed().as_nanos() as u64).saturating_sub(number(8));
                seen.latencies_us.push((took / 1_000) as u32);
            }
        });
        if let Some((first, last)) = range {
            link.send(
                ACK,
                &AckRequest {
                    delivery_id: first,
                    delivery_id_last: last,
                    ..AckRequest::default()
                },
            );
        }
        now = Instant::now();
    }
    let (cpu_before, since) = before.expect("time passed");
    let took = now - since;
    (
        seen,
        took.as_secs_f64(),
        cpu_seconds(options.pid) - cpu_before,
    )
}

fn main() {
    let options = options();
    let queue = format!("load-{}", std::process::id());
    let mut control = Link::open(options.port);
    control.send(
        QUEUE_DECLARE,
        &QueueDeclareRequest {
            queue: queue.clone(),
            durable: Some(options.is_durable),
            ..QueueDeclareRequest::default()
        },
    );
    while !control.read(|_, _| {}) {}
    let (epoch, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let publisher = {
        let (options, queue, stop) = (options.clone(), queue.clone(), Arc::clone(&stop));
        std::thread::spawn(move || publish(&options, &queue, epoch, &stop))
    };
    let (mut seen, took, cpu) = consume(&options, &queue, epoch);
    stop.store(true, Ordering::Relaxed);
    publisher.join().expect("the publisher");
    control.send(
        QUEUE_DELETE,
        &QueueDeleteRequest {
            queue,
            ..QueueDeleteRequest::default()
        },
    );
    control.read(|_, _| {});
    let count = seen.count as f64;
    print!(
        "{:.0}/s, broker CPU {:.2} s per million",
        count / took,
        cpu / count * 1e6
    );
    if !seen.latencies_us.is_empty() {
        seen.latencies_us.sort_unstable();
        let at = |share: f64| seen.latencies_us[((count - 1.0) * share) as usize];
        print!(
            ", p50 {} us, p99 {} us, max {} us",
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
    println!();
}
