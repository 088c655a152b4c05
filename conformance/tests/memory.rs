//! Memory of the daemon under peers that take much and read little (MM-01, MM-02, MM-05) and under strangers, sized
//! for continuous integration.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes, sockets, files and clocks"
)]

mod common;

use common::{Daemon, Flavour};
use qq_conformance::bed::tcp::TcpBed;
use qq_conformance::kit::{Env, Kit, Login};
use qq_conformance::run::shared;
use qq_conformance::script::Failure;
use qq_conformance::wire::{frame_bytes, message, perf, sym};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;

const BOTH: [(Flavour, &str); 2] = [(Flavour::Tokio, "tokio"), (Flavour::Smol, "smol")];

fn kit(daemon: &Daemon) -> Kit {
    let env = Env {
        login: Login::None,
        run: "m".into(),
        ..Env::fresh()
    };
    Kit::new(
        shared(TcpBed::new("127.0.0.1", daemon.port)),
        Rc::new(env),
        "memory",
    )
}

fn well<T>(result: Result<T, Failure>, daemon: &Daemon) -> T {
    result.unwrap_or_else(|e| panic!("{e:?}\n{}", daemon.log()))
}

/// Publishes `count` settled messages of `size` octets.
fn flood(kit: &mut Kit, daemon: &Daemon, queue: &str, count: u32, size: usize) {
    let mut peer = well(kit.session_as("flood"), daemon);
    well(peer.sender("s", 0, queue), daemon);
    let payload = message::data(&vec![7; size]);
    for id in 0..count {
        well(peer.credit_wait(0), daemon);
        let transfer = peer.transfer(0, id).with("settled", true);
        assert!(
            peer.send_with(0, transfer, &payload),
            "the daemon closed the flood"
        );
        if id % 64 == 0 {
            well(peer.pump(0), daemon);
            peer.forget();
        }
    }
    well(peer.close(), daemon);
}

/// MM-01: a huge credit and a reader that stops cost a bounded amount, and starve nobody.
#[test]
fn large_credit_and_no_reader() {
    for (flavour, name) in BOTH {
        let daemon = Daemon::start(flavour, &format!("{name}-credit"), "", "");
        let mut kit = kit(&daemon);
        flood(&mut kit, &daemon, "q1", 40_000, 1_024);
        let mut idle = well(kit.session_as("idle"), &daemon);
        well(idle.receiver("r", 0, "q1"), &daemon);
        let before = daemon.resident_kib();
        idle.window = u32::MAX / 2;
        idle.credit(0, 100_000);
        std::thread::sleep(Duration::from_secs(1));
        let grown = daemon.resident_kib().saturating_sub(before);
        assert!(
            grown < 16 * 1_024,
            "{grown} KiB for one reader that does not read"
        );
        let mut other = well(kit.session_as("other"), &daemon);
        well(other.receiver("r", 0, "q1"), &daemon);
        other.credit(0, 10);
        well(other.must_get_all("r", 10), &daemon);
        idle.cut();
        well(other.close(), &daemon);
    }
}

/// MM-02: publishers that never wait are held back by credit and by the socket, within a bound.
#[test]
fn fast_publishers() {
    for (flavour, name) in BOTH {
        let limits = "[limits]\nmemory_max = \"32MiB\"\n";
        let daemon = Daemon::start(flavour, &format!("{name}-fast"), "", limits);
        let mut kit = kit(&daemon);
        let payload = message::data(&vec![7; 100_000]);
        let before = daemon.resident_kib();
        let mut peers = vec![];
        for n in 0..5 {
            let mut peer = well(kit.session_as(&format!("p{n}")), &daemon);
            well(peer.sender("s", 0, "q1"), &daemon);
            peers.push((peer, 0u32));
        }
        for _ in 0..200 {
            for (peer, id) in &mut peers {
                well(peer.pump(0), &daemon);
                if peer.credit_left(0) > 0 {
                    let transfer = peer.transfer(0, *id).with("settled", true);
                    peer.send_with(0, transfer, &payload);
                    *id += 1;
                }
            }
        }
        let sent: u32 = peers.iter().map(|(_, id)| id).sum();
        let grown = daemon.resident_kib().saturating_sub(before);
        // 32 MiB of messages, plus what is on its way: credit times size, bounded by the socket.
        assert!(
            grown < 96 * 1_024,
            "{grown} KiB after {sent} messages of 100 kB"
        );
        for (peer, _) in &mut peers {
            peer.cut();
        }
        let mut reader = well(kit.session_as("reader"), &daemon);
        well(reader.receiver("r", 0, "q1"), &daemon);
        reader.credit(0, 10);
        well(reader.must_get_all("r", 10), &daemon);
    }
}

/// MM-05: a long stream with aborts and releases neither leaks nor stalls.
#[test]
fn long_stream() {
    for (flavour, name) in BOTH {
        let daemon = Daemon::start(flavour, &format!("{name}-stream"), "", "");
        let mut kit = kit(&daemon);
        let mut peer = well(kit.session_as("stream"), &daemon);
        well(peer.sender("s", 0, "q1"), &daemon);
        well(peer.receiver("r", 1, "q1"), &daemon);
        let sizes = [10, 1_000, 30_000, 100];
        let total = 6_000u32;
        let mut levels = vec![];
        for id in 0..total {
            well(peer.credit_wait(0), &daemon);
            let payload = message::data(&vec![1; sizes[id as usize % sizes.len()]]);
            if id % 50 == 49 {
                let transfer = peer.transfer(0, id).with("more", true);
                peer.send_with(0, transfer, &payload[..8]);
                let abort = perf("transfer").with("handle", 0u32).with("aborted", true);
                peer.send(0, abort);
                continue;
            }
            peer.publish(0, id, &payload);
            peer.credit(1, 1);
            let got = well(peer.must_get("r"), &daemon);
            assert_eq!(
                got.payload.len(),
                message::bare(&payload).len(),
                "message {id}"
            );
            if id % 70 == 69 {
                peer.settle(got.id, "released");
                peer.credit(1, 1);
                let again = well(peer.must_get("r"), &daemon);
                peer.settle(again.id, "accepted");
            } else {
                peer.settle(got.id, "accepted");
            }
            peer.forget();
            if id % 1_000 == 999 || id == 1_000 {
                levels.push(daemon.resident_kib());
            }
        }
        let (first, last) = (levels[0], levels[levels.len() - 1]);
        assert!(
            last < first + 8 * 1_024,
            "{levels:?} KiB, round after round"
        );
        well(peer.close(), &daemon);
        assert_eq!(well(kit.bodies("q1"), &daemon).len(), 0, "messages left");
    }
}

/// Strangers of each kind at once.
const STRANGERS: usize = 250;
/// What one of them may cost, in KiB.
const STRANGER_MAX_KIB: u64 = 32;

/// Peers that are not let in cost 32 KiB each at most, whatever they send: an unfinished frame, or a wrong password and
/// much behind it, which is held until the answer is due.
#[test]
fn strangers() {
    let header = b"AMQP\x03\x01\x00\x00";
    let init = perf("sasl-init")
        .with("mechanism", sym("PLAIN"))
        .with("initial-response", b"\0guest\0wrong".to_vec());
    let mut login = frame_bytes(1, 0, Some(&init), &[]);
    login.extend(vec![0; 60_000]);
    let mut unfinished = 8_192u32.to_be_bytes().to_vec();
    unfinished.extend([2, 1, 0, 0]);
    unfinished.extend(vec![0; 8_183]);
    for (flavour, name) in BOTH {
        let extra = "[sasl]\nenabled = true\n[auth]\nusers_file = \"USERS\"\n\
                     [limits]\nunauthenticated_per_ip_max = 512\nlogin_failures_per_minute_max = 10_000\n\
                     login_delay_min = \"10s\"\nlogin_delay_max = \"10s\"\n";
        for (kind, bytes) in [("unfinished", &unfinished), ("login", &login)] {
            let daemon = Daemon::start(flavour, &format!("{name}-strangers-{kind}"), "", extra);
            let come = |count: usize| -> Vec<TcpStream> {
                let streams = (0..count).map(|_| {
                    let mut stream =
                        TcpStream::connect(("127.0.0.1", daemon.port)).expect("a stream");
                    stream.write_all(header).expect("a header");
                    let mut answer = [0; 8];
                    stream.read_exact(&mut answer).expect("an answer");
                    assert_eq!(&answer, header);
                    stream.write_all(bytes).expect("room in the socket");
                    stream
                });
                let streams = streams.collect();
                std::thread::sleep(Duration::from_millis(500));
                streams
            };
            let _first = come(20);
            let before = daemon.resident_kib();
            let streams = come(STRANGERS);
            let grown = daemon.resident_kib().saturating_sub(before);
            let allowed = STRANGERS as u64 * STRANGER_MAX_KIB;
            assert!(
                grown <= allowed,
                "{grown} KiB for {STRANGERS} strangers, {kind}, {allowed} are allowed"
            );
            for mut stream in streams {
                stream.set_nonblocking(true).expect("a socket");
                let mut byte = [0; 4_096];
                let is_there = loop {
                    match stream.read(&mut byte) {
                        Ok(0) => break false,
                        Ok(_) => {}
                        Err(e) => break e.kind() == std::io::ErrorKind::WouldBlock,
                    }
                };
                assert!(is_there, "a stranger was not counted\n{}", daemon.log());
            }
        }
    }
}
