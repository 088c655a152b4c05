//! What one address can do to the others: hold connections, and be answered late.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own sockets and threads"
)]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use qq_core::admin::{Reply, Request};
use qq_http::{
    Backend, Credentials, Entry, NodeInfo, Page, Server, Settings, StoreNumbers, TokenInfo,
};

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A broker that knows nobody, and says so an hour later.
struct Nobody(NodeInfo);

impl Backend for Nobody {
    fn ask(&self, _request: Request) -> Option<Reply> {
        None
    }

    fn node(&self) -> &NodeInfo {
        &self.0
    }

    fn users(&self) -> Vec<String> {
        Vec::new()
    }

    fn tokens(&self) -> Vec<TokenInfo> {
        Vec::new()
    }

    fn admit(&self, _credentials: &Credentials, _peer: IpAddr) -> Entry {
        Entry::Denied(Duration::from_secs(3_600))
    }

    fn process(&self) -> (u64, u64) {
        (0, 0)
    }

    fn kept_out(&self) -> u64 {
        0
    }

    fn store(&self) -> Option<StoreNumbers> {
        None
    }

    fn page(&self, _path: &str, _known: Option<&str>) -> Option<Page> {
        None
    }
}

fn start(settings: Settings) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let node = NodeInfo {
        is_login_required: true,
        ..NodeInfo::default()
    };
    Server::start(listener, settings, Arc::new(Nobody(node))).expect("a thread");
    address
}

fn ask(address: SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    // One that is answered late is not waited for.
    let _ = socket.read_to_string(&mut answer);
    answer
}

#[test]
fn answers_that_are_late_hold_few_connections() {
    let address = start(Settings {
        connections_max: 3,
        connections_per_ip_max: 3,
        delayed_max: 1,
        ..Settings::default()
    });
    let (sender, answers) = channel();
    for _ in 0..2 {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let answer = ask(address, "/api/v1/stats");
            let _ = sender.send(answer);
        });
    }
    // The one waits, whichever it is; the other is told at once, and its connection is free again.
    let answer = answers.recv_timeout(PATIENCE).expect("one of two");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    let health = ask(address, "/health/live");
    assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
}

#[test]
fn one_address_has_its_share_of_the_connections() {
    let address = start(Settings {
        connections_max: 4,
        connections_per_ip_max: 2,
        ..Settings::default()
    });
    // Accepted in this order, by one thread.
    let _idle = [0; 2].map(|_| TcpStream::connect(address).expect("it listens"));
    let answer = ask(address, "/health/live");
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("of this address"),
        "{answer}"
    );
}
