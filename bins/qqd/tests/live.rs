//! Live updates over HTTP, against the real daemon.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes and sockets"
)]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;

use common::Scratch;
use common::api::{read_until, start};
use serde_json::json;

#[test]
fn a_web_socket_answers_pings_and_its_close() {
    let scratch = Scratch::new("http-ws");
    let (_daemon, api) = start(&scratch, "");
    let mut socket = TcpStream::connect(api.address).expect("it listens");
    let request = format!(
        "GET /api/v1/ws?only=stats HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        api.address
    );
    socket.write_all(request.as_bytes()).expect("it reads");
    let has = |words: &'static [u8]| {
        move |seen: &[u8]| seen.windows(words.len()).any(|window| window == words)
    };
    read_until(&mut socket, has(b"\"type\":\"stats\""));
    // RFC 6455, 5.7: a ping with "Hello", masked as in the example of a text, in two pieces.
    socket.write_all(b"\x89\x85\x37\xfa\x21").expect("it reads");
    socket
        .write_all(b"\x3d\x7f\x9f\x4d\x51\x58")
        .expect("it reads");
    read_until(&mut socket, has(b"\x8a\x05Hello"));
    // An end with the code 1000 under the mask of zeros.
    socket
        .write_all(b"\x88\x82\x00\x00\x00\x00\x03\xe8")
        .expect("it reads");
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).expect("it closes");
    assert!(rest.ends_with(b"\x88\x02\x03\xe8"), "{rest:?}");
}

#[test]
fn who_wants_the_node_alone_is_not_told_of_queues() {
    let scratch = Scratch::new("http-only");
    let (_daemon, api) = start(&scratch, "");
    api.json("PUT", "/api/v1/queues/q", &json!({}));
    let mut socket = TcpStream::connect(api.address).expect("it listens");
    let request = format!(
        "GET /api/v1/events?only=stats HTTP/1.1\r\nHost: {}\r\n\r\n",
        api.address
    );
    socket.write_all(request.as_bytes()).expect("it reads");
    let seen = read_until(&mut socket, |seen| {
        String::from_utf8_lossy(seen)
            .matches("event: stats")
            .count()
            == 2
    });
    assert!(!String::from_utf8_lossy(&seen).contains("event: queue"));
    for wrong in ["?only=queues", "?queue=%zz", "?queues=q"] {
        let path = format!("/api/v1/events{wrong}");
        assert_eq!(api.call("GET", &path, "").0, 400, "{wrong}");
    }
    assert_eq!(api.call("POST", "/api/v1/events", "").0, 405);
    assert_eq!(api.call("OPTIONS", "/api/v1/ws", "").0, 204);
}
