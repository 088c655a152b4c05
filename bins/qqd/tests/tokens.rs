//! Tokens of QWER-Q over a real socket, and that they are read again.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of a process own files, sockets and clocks"
)]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use common::{Daemon, Scratch, address_in};

/// Shows a token in the versioned layout; what comes back must be AUTH_RESPONSE. Whether it was right.
fn is_taken(address: SocketAddr, token: &str) -> bool {
    let mut stream = TcpStream::connect(address).expect("it accepts");
    let patience = Some(Duration::from_secs(30));
    stream.set_read_timeout(patience).expect("a socket");
    let len = u8::try_from(token.len()).expect("short");
    // Length of version, opcode 0x40 and payload; field 1 is the token.
    let mut frame = vec![0, 0, 0, len + 4, 1, 0x40, 0x0a, len];
    frame.extend_from_slice(token.as_bytes());
    stream.write_all(&frame).expect("it reads");
    let mut head = [0; 6];
    stream.read_exact(&mut head).expect("an answer");
    assert_eq!(head[4..], [1, 0x41]);
    let mut payload = vec![0; usize::from(head[3]) - 2];
    stream.read_exact(&mut payload).expect("its payload");
    // Field 1, success, is there when it is true.
    payload.starts_with(&[0x08, 0x01])
}

#[test]
fn tokens_are_read_again_on_sighup() {
    let scratch = Scratch::new("tokens");
    let tokens = scratch.file("tokens", "# for tests\nold\n");
    let toml =
        format!("[server]\namqp_port = 0\nbinary_port = 0\n[auth]\ntokens_file = \"{tokens}\"\n");
    let daemon = Daemon::start(&scratch.file("broker.toml", &toml));
    let line = daemon.wait_for("QWER-Q on ");
    assert!(line.contains("1 tokens"), "{line}");
    let (_, behind) = line.split_once("QWER-Q on ").expect("found");
    let address = address_in(&format!("AMQP on {behind}"));
    assert!(is_taken(address, "old"));
    scratch.file("tokens", "new\nother\n");
    daemon.signal("HUP");
    daemon.wait_for("read again");
    assert!(is_taken(address, "new") && is_taken(address, "other"));
    assert!(!is_taken(address, "old"));
    // A file that is gone leaves what was.
    std::fs::remove_file(&tokens).expect("it was there");
    daemon.signal("HUP");
    daemon.wait_for("not read again");
    assert!(is_taken(address, "new"));
}
