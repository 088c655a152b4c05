//! The daemon as a process: descriptors, silent peers, the end on SIGTERM, taken ports, probes.
//! Sized for continuous integration; both runtimes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes, sockets, files and clocks"
)]

mod common;

use common::{Daemon, Flavour, binary, configure, folder, free_port};
use qq_conformance::bed::tcp::TcpBed;
use qq_conformance::kit::{Env, Kit, Login, Peer};
use qq_conformance::run::shared;
use qq_conformance::script::Failure;
use qq_conformance::wire::message;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

const BOTH: [(Flavour, &str); 2] = [(Flavour::Tokio, "tokio"), (Flavour::Smol, "smol")];

fn kit(daemon: &Daemon) -> Kit {
    let env = Env {
        login: Login::None,
        run: "p".into(),
        ..Env::fresh()
    };
    Kit::new(
        shared(TcpBed::new("127.0.0.1", daemon.port)),
        Rc::new(env),
        "process",
    )
}

fn well<T>(result: Result<T, Failure>, daemon: &Daemon) -> T {
    result.unwrap_or_else(|e| panic!("{e:?}\n{}", daemon.log()))
}

/// One message through a queue on connections of their own.
fn works(daemon: &Daemon) {
    let mut kit = kit(daemon);
    well(kit.fill_count("probe", 1), daemon);
    assert_eq!(well(kit.bodies("probe"), daemon), ["m0"]);
}

/// A session with a sender `s` on handle 0.
fn publisher(kit: &mut Kit, daemon: &Daemon) -> Peer {
    let mut peer = well(kit.session_as("publisher"), daemon);
    well(peer.sender("s", 0, "q1"), daemon);
    peer
}

fn is_closed(stream: &mut TcpStream, wait: Duration) -> bool {
    stream.set_read_timeout(Some(wait)).expect("a time-out");
    let mut bytes = [0; 256];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(e) => return e.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// OP-01: with no descriptors left the listener neither spins nor dies.
#[test]
fn out_of_descriptors() {
    for (flavour, name) in BOTH {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg("ulimit -n 128; exec \"$0\" \"$@\"")
            .arg(binary(flavour));
        let limits = "[limits]\nfirst_bytes_timeout = \"60s\"\nopen_timeout = \"60s\"\n\
                      unauthenticated_per_ip_max = 500\n";
        let daemon = Daemon::start_with(command, &format!("{name}-nofile"), "", limits);
        let mut kit = kit(&daemon);
        let mut peer = publisher(&mut kit, &daemon);
        let streams: Vec<_> = (0..300)
            .filter_map(|_| TcpStream::connect(("127.0.0.1", daemon.port)).ok())
            .collect();
        let before = daemon.cpu_ticks();
        std::thread::sleep(Duration::from_secs(3));
        let used = daemon.cpu_ticks() - before;
        assert!(
            used <= 150,
            "{used} ticks of processor time in 3 s without descriptors"
        );
        well(peer.credit_wait(0), &daemon);
        peer.publish(0, 0, &message::data(b"x"));
        assert_eq!(well(peer.outcome(0), &daemon), "accepted");
        let lines = daemon.log().lines().count();
        assert!(lines <= 60, "{lines} log lines:\n{}", daemon.log());
        drop(streams);
        std::thread::sleep(Duration::from_millis(500));
        works(&daemon);
    }
}

/// OP-02: peers that say nothing, or too little, are dropped in time and harm nobody.
#[test]
fn silent_peers() {
    for (flavour, name) in BOTH {
        let limits = "[limits]\nfirst_bytes_timeout = \"700ms\"\nopen_timeout = \"1500ms\"\n";
        let daemon = Daemon::start(flavour, &format!("{name}-silent"), "", limits);
        works(&daemon);
        let before = daemon.descriptors();
        let mut streams = vec![];
        for start in [
            &b""[..],
            b"AMQP",
            b"AMQP\x03\x01\x00\x00",
            b"AMQP\x00\x01\x00\x00",
        ] {
            for _ in 0..50 {
                let mut stream = TcpStream::connect(("127.0.0.1", daemon.port)).expect("a stream");
                let _ = std::io::Write::write_all(&mut stream, start);
                streams.push(stream);
            }
            works(&daemon);
        }
        let until = Instant::now() + Duration::from_secs(30);
        for stream in &mut streams {
            let left = until.saturating_duration_since(Instant::now());
            let closed = is_closed(stream, left.max(Duration::from_millis(1)));
            assert!(closed, "a silent peer is still connected\n{}", daemon.log());
        }
        works(&daemon);
        // The streams stay open on this side: what lingers for a peer's end must end by itself.
        while daemon.descriptors() > before + 2 {
            let now = daemon.descriptors();
            assert!(Instant::now() < until, "{before} descriptors became {now}");
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(streams);
    }
}

/// OP-03: SIGTERM lets what is in flight be settled, says good-bye, ends with 0.
#[test]
fn drain_on_sigterm() {
    for (flavour, name) in BOTH {
        let server = "drain_grace = \"5s\"";
        let mut daemon = Daemon::start(flavour, &format!("{name}-drain"), server, "");
        let mut kit = kit(&daemon);
        well(kit.fill_count("q1", 4), &daemon);
        let mut peer = well(kit.session_as("consumer"), &daemon);
        well(peer.receiver("r", 0, "q1"), &daemon);
        peer.credit(0, 4);
        let got = well(peer.must_get_all("r", 4), &daemon);
        daemon.terminate();
        std::thread::sleep(Duration::from_millis(300));
        for delivery in &got {
            peer.settle(delivery.id, "accepted");
        }
        well(peer.refused(&["amqp:connection:forced"]), &daemon);
        let status = daemon.ended();
        assert!(status.success(), "{status}\n{}", daemon.log());
        assert!(
            TcpStream::connect(("127.0.0.1", daemon.port)).is_err(),
            "somebody still listens"
        );
    }
}

/// OP-05: a taken port ends the start with 2 and a line that names the address.
#[test]
fn port_in_use() {
    for (flavour, name) in BOTH {
        let port = free_port();
        let _taken = TcpListener::bind(("127.0.0.1", port)).expect("the port");
        let dir = folder(&format!("{name}-taken"));
        let config = configure(&dir, port, "", "");
        let output = Command::new(binary(flavour))
            .arg("--config")
            .arg(config)
            .output();
        let output = output.expect("the daemon can be started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&port.to_string()), "no port in: {said}");
    }
}

/// OP-06: probes that connect and go leave no line and no descriptor behind.
#[test]
fn health_probes() {
    for (flavour, name) in BOTH {
        let daemon = Daemon::start(flavour, &format!("{name}-probes"), "", "");
        works(&daemon);
        let before = daemon.descriptors();
        for _ in 0..200 {
            drop(TcpStream::connect(("127.0.0.1", daemon.port)).expect("a stream"));
        }
        works(&daemon);
        std::thread::sleep(Duration::from_millis(300));
        let after = daemon.descriptors();
        assert!(after <= before + 2, "{before} descriptors became {after}");
        assert_eq!(daemon.log(), "", "lines at level warn");
    }
}
