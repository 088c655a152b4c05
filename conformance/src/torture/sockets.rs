//! Peers that misuse their sockets: half-closed, never read, reset in storms, more than there are
//! descriptors; and a thousand clients at the end of the daemon.

use super::client::{Client, Lost, encode};
use super::consumer::{ConsumerPlan, drain};
use super::daemon::{Daemon, Setup};
use super::load::{Load, drain_all};
use super::producer::ProducerPlan;
use super::record::{MessageId, Recorder, What, hash_of, merge};
use super::{Outcome, Seed, judge};
use crate::wire::HEADER_AMQP;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// Waits until the daemon holds at most so many descriptors; says how long it took.
pub fn wait_descriptors(daemon: &Daemon, most: usize, patience: Duration) -> Outcome<Duration> {
    let began = Instant::now();
    loop {
        let now = daemon.descriptors();
        if now <= most {
            return Ok(began.elapsed());
        }
        if began.elapsed() > patience {
            return Err(format!(
                "{now} descriptors, {most} before\n{}",
                daemon.log()
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Descriptors of a daemon that has served, so that whatever it keeps open is open, and has let go
/// of that client.
fn at_rest(daemon: &Daemon, queue: &str) -> Outcome<usize> {
    serves(daemon.port, queue)?;
    let (mut count, mut since) = (daemon.descriptors(), Instant::now());
    while since.elapsed() < Duration::from_millis(500) {
        std::thread::sleep(Duration::from_millis(10));
        let now = daemon.descriptors();
        if now != count {
            (count, since) = (now, Instant::now());
        }
    }
    Ok(count)
}

/// Sends one message on a connection of its own and takes it back: the daemon serves.
pub fn serves(port: u16, queue: &str) -> Outcome<()> {
    let epoch = Instant::now();
    let plan = ProducerPlan {
        count: Some(1),
        ..ProducerPlan::new(900, queue)
    };
    let mut seen = Load::start(port, epoch, &[plan], &[]).join();
    if seen.accepted() != 1 {
        return Err(format!("not served: {:?}", seen.produced));
    }
    drain_all(port, epoch, 900, &[queue], &mut seen.events)?;
    judge::judge(&merge(seen.events)).map(|_| ())
}

/// A publisher that closes its sending half right behind its messages: each message is taken whole
/// or not at all, and the connection ends.
pub fn half_close(daemon: &Daemon, messages: u64) -> Outcome<u64> {
    let baseline = at_rest(daemon, "half")?;
    let epoch = Instant::now();
    let mut recorder = Recorder::new(epoch, "half");
    let mut client = Client::open(daemon.port, "half")?;
    client.attach_sender(0, "half", "half")?;
    client.wait_for("flow", Duration::from_secs(10))?;
    for n in 0..messages {
        let m = MessageId::new(1, n);
        let body = m.body(1_000);
        recorder.note(What::Send {
            queue: "half".into(),
            m,
            hash: hash_of(&body),
            is_durable: true,
        });
        client.transfer(0, false, &encode(&body, true, 0));
    }
    client.flush()?;
    let shut = client.stream().shutdown(Shutdown::Write);
    shut.map_err(|e| e.to_string())?;
    // The broker may still answer; it must come to an end by itself.
    let until = Instant::now() + Duration::from_secs(30);
    let mut accepted = 0;
    loop {
        match client.next_frame(Duration::from_millis(100)) {
            Ok(Some(frame)) if frame.name() == "disposition" && frame.state() == "accepted" => {
                let first = frame.number("first").unwrap_or(0);
                for n in first..=frame.number("last").unwrap_or(first) {
                    recorder.note(What::Sent(MessageId::new(1, n)));
                    accepted += 1;
                }
            }
            Ok(_) if Instant::now() > until => return Err("a half-closed stream lives on".into()),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    drop(client);
    recorder.note(What::Gone);
    wait_descriptors(daemon, baseline, Duration::from_secs(30))?;
    let mut events = vec![recorder.events];
    drain_all(daemon.port, epoch, 50, &["half"], &mut events)?;
    judge::judge(&merge(events))?;
    Ok(accepted)
}

/// A consumer that grants a huge credit and never reads: the daemon's memory stays bounded, it
/// lets go of the peer after its time, and others get all messages. Returns the growth in KiB.
pub fn zero_window(daemon: &Daemon, messages: u64) -> Outcome<u64> {
    let baseline = at_rest(daemon, "stuck")?;
    let epoch = Instant::now();
    let plan = ProducerPlan {
        count: Some(messages),
        size: 4_000,
        ..ProducerPlan::new(2, "stuck")
    };
    let mut seen = Load::start(daemon.port, epoch, &[plan], &[]).join();
    let before = daemon.resident_kib();
    let mut reader = Client::open(daemon.port, "stuck")?;
    reader.attach_receiver(0, "stuck", "stuck", false)?;
    reader.credit(0, 0, 1_000_000, false);
    reader.flush()?;
    // It never reads again, and keeps its end open.
    let let_go = wait_descriptors(daemon, baseline, Duration::from_secs(60))?;
    let grown = daemon.resident_kib().saturating_sub(before);
    println!("a peer that does not read was let go after {let_go:?}");
    let count = drain_all(daemon.port, epoch, 60, &["stuck"], &mut seen.events)?;
    if count != messages {
        return Err(format!(
            "{count} of {messages} messages were left for others"
        ));
    }
    drop(reader);
    judge::judge(&merge(seen.events))?;
    Ok(grown)
}

/// Connections reset in every stage, `count` of them, while a load runs: the load is served, and
/// the descriptors come back. Returns how long that took.
pub fn reset_storm(daemon: &Daemon, count: u32, mut seed: Seed) -> Outcome<Duration> {
    let baseline = at_rest(daemon, "storm")?;
    let epoch = Instant::now();
    let producers = [ProducerPlan::new(3, "storm")];
    let consumers = [ConsumerPlan::new(70, "storm")];
    let load = Load::start(daemon.port, epoch, &producers, &consumers);
    let began = Instant::now();
    for n in 0..count {
        let stream = TcpStream::connect(("127.0.0.1", daemon.port)).map_err(|e| e.to_string())?;
        let socket = socket2::SockRef::from(&stream);
        let reset = socket.set_linger(Some(Duration::ZERO));
        reset.map_err(|e| e.to_string())?;
        let mut stream = &stream;
        let _ = match seed.below(4) {
            0 => stream.write_all(&[]),
            1 => stream.write_all(&HEADER_AMQP[..seed.below(8) as usize]),
            2 => stream.write_all(&HEADER_AMQP),
            _ => {
                let opened = Client::open(daemon.port, &format!("storm-{n}"));
                let opened = opened.map_err(|e| e.to_string())?;
                let socket = socket2::SockRef::from(opened.stream());
                socket.set_linger(Some(Duration::ZERO))
            }
        };
    }
    let rate = f64::from(count) / began.elapsed().as_secs_f64();
    println!("{rate:.0} connections reset a second");
    let before = load.accepted();
    load.wait_accepted(before + 100, Duration::from_secs(30))?;
    let mut seen = load.stop();
    if let Some(lost) = seen.produced.iter().find_map(|p| p.lost.as_ref()) {
        return Err(format!("the load was not served: {lost}\n{}", daemon.log()));
    }
    drain_all(daemon.port, epoch, 80, &["storm"], &mut seen.events)?;
    judge::judge(&merge(seen.events))?;
    wait_descriptors(daemon, baseline, Duration::from_secs(30))
}

/// What a daemon without descriptors did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Starved {
    /// Processor time in ticks of 10 ms, per second without descriptors.
    pub ticks_per_second: u64,
    /// Lines that it logged meanwhile.
    pub lines: usize,
    /// Messages accepted from those who were connected before.
    pub accepted: u64,
}

/// A running daemon whose limit of descriptors is cut to what it has open, with more clients than
/// that knocking: who is connected is served, durably, a line says what is wrong, and when there
/// are descriptors again everybody is served.
pub fn no_descriptors(setup: &Setup, pause: Duration) -> Outcome<Starved> {
    let mut setup = setup.clone();
    setup.limits = "first_bytes_timeout = \"60s\"\nopen_timeout = \"60s\"\n\
                   unauthenticated_per_ip_max = 500\n"
        .into();
    let daemon = setup.start()?;
    let epoch = Instant::now();
    let load = Load::start(daemon.port, epoch, &[ProducerPlan::new(4, "few")], &[]);
    load.wait_accepted(10, Duration::from_secs(30))?;
    let lines = daemon.log().lines().count();
    limit_descriptors(daemon.id(), daemon.descriptors() + 1)?;
    let streams: Vec<_> = (0..100)
        .filter_map(|_| TcpStream::connect(("127.0.0.1", daemon.port)).ok())
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let before = load.accepted();
    load.wait_accepted(before + 100, Duration::from_secs(30))?;
    let accepted = load.accepted() - before;
    // Without load, to see whether the listener spins.
    let mut seen = load.stop();
    let ticks = daemon.cpu_ticks();
    std::thread::sleep(pause);
    let ticks = daemon.cpu_ticks() - ticks;
    let log = daemon.log();
    let lines = log.lines().count() - lines;
    if !log.contains("cannot accept") {
        return Err(format!("no line about descriptors\n{log}"));
    }
    limit_descriptors(daemon.id(), 1_024)?;
    drop(streams);
    drain_all(daemon.port, epoch, 90, &["few"], &mut seen.events)?;
    judge::judge(&merge(seen.events))?;
    Ok(Starved {
        ticks_per_second: (ticks as f64 / pause.as_secs_f64()) as u64,
        lines,
        accepted,
    })
}

/// What the end of a daemon with many clients was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// From the signal to the process's end.
    pub took: Duration,
    /// Clients that were told.
    pub told: usize,
}

/// SIGTERM with so many clients: each is told `amqp:connection:forced`, and the daemon ends with 0.
pub fn terminate(setup: &Setup, clients: usize) -> Outcome<Ended> {
    limit_descriptors(std::process::id(), clients + 200)?;
    let mut setup = setup.clone();
    setup.server.push_str("drain_grace = \"2s\"\n");
    let per_ip = clients + 100;
    setup
        .limits
        .push_str(&format!("connections_per_ip_max = {per_ip}\n"));
    let mut daemon = setup.start()?;
    let mut all = vec![];
    for n in 0..clients {
        let mut client = Client::open(daemon.port, &format!("many-{n}"))?;
        client.attach_receiver(0, &format!("r{n}"), "many", false)?;
        client.credit(0, 0, 10, false);
        client.flush()?;
        all.push(client);
    }
    // Longer than the daemon lingers: also who was silent must be told.
    std::thread::sleep(Duration::from_millis(2_500));
    let began = Instant::now();
    daemon.signal("TERM")?;
    let status = daemon.wait(Duration::from_secs(60))?;
    let took = began.elapsed();
    if status.code() != Some(0) {
        return Err(format!("{status}\n{}", daemon.log()));
    }
    let mut told = 0;
    for (n, mut client) in all.into_iter().enumerate() {
        match client.wait_for("close", Duration::from_secs(10)) {
            Err(Lost::Closed(condition)) if condition == "amqp:connection:forced" => told += 1,
            other => {
                let port = client.local_port();
                return Err(format!("client {n} at port {port} was told {other:?}"));
            }
        }
    }
    Ok(Ended { took, told })
}

/// Sets the soft limit of descriptors of a process that runs.
fn limit_descriptors(process: u32, descriptors: usize) -> Outcome<()> {
    let status = Command::new("prlimit")
        .args(["--pid", &process.to_string()])
        .arg(format!("--nofile={descriptors}:"))
        .status()
        .map_err(|e| format!("prlimit (util-linux) is needed: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{descriptors} descriptors are not allowed here")),
    }
}

/// Empties a queue and says how many messages came.
pub fn drain_count(port: u16, queue: &str) -> Outcome<u64> {
    let plan = ConsumerPlan {
        credit: 1_000,
        ..ConsumerPlan::new(990, queue)
    };
    let mut recorder = Recorder::new(Instant::now(), "counter");
    let quiet = Duration::from_millis(300);
    Ok(drain(port, &plan, quiet, &mut recorder)?)
}
