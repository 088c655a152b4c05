//! Who is let in, over a real socket: SASL frames written by hand (AMQP 1.0 part 5, 5.3).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of a process own files, sockets and clocks"
)]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use common::{Daemon, Scratch};

const SASL_HEADER: &[u8] = b"AMQP\x03\x01\x00\x00";
const AMQP_HEADER: &[u8] = b"AMQP\x00\x01\x00\x00";

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it accepts");
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("a time-out can be set");
    stream
}

fn read_header(stream: &mut TcpStream) -> [u8; 8] {
    let mut header = [0; 8];
    stream.read_exact(&mut header).expect("a protocol header");
    header
}

/// The body of the next SASL frame (type 1).
fn read_sasl_frame(stream: &mut TcpStream) -> Vec<u8> {
    let header = read_header(stream);
    let size = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
    assert_eq!(
        (header[4], header[5]),
        (2, 1),
        "data offset and type of a SASL frame"
    );
    let mut body = vec![0; size - 8];
    stream.read_exact(&mut body).expect("a frame body");
    body
}

/// sasl-init: descriptor 0x41, a list of the mechanism (sym8) and the initial response (vbin8).
fn sasl_init(mechanism: &[u8], response: &[u8]) -> Vec<u8> {
    let byte = |len: usize| u8::try_from(len).expect("short");
    let mut fields = vec![0xa3, byte(mechanism.len())];
    fields.extend_from_slice(mechanism);
    fields.extend_from_slice(&[0xa0, byte(response.len())]);
    fields.extend_from_slice(response);
    let mut frame = vec![0, 0, 0, byte(8 + 6 + fields.len()), 2, 1, 0, 0];
    frame.extend_from_slice(&[0x00, 0x53, 0x41, 0xc0, byte(fields.len() + 1), 2]);
    frame.extend_from_slice(&fields);
    frame
}

/// Logs in and returns the code of the sasl-outcome (descriptor 0x44): 0 ok, 1 authentication failed.
fn log_in(address: SocketAddr, mechanism: &[u8], response: &[u8]) -> (u8, TcpStream) {
    let mut stream = connect(address);
    stream.write_all(SASL_HEADER).expect("it reads");
    assert_eq!(read_header(&mut stream), SASL_HEADER);
    let mechanisms = read_sasl_frame(&mut stream);
    assert_eq!(mechanisms[..3], [0x00, 0x53, 0x40], "sasl-mechanisms");
    stream
        .write_all(&sasl_init(mechanism, response))
        .expect("it reads");
    let outcome = read_sasl_frame(&mut stream);
    assert_eq!(outcome[..3], [0x00, 0x53, 0x44], "sasl-outcome");
    let code = outcome
        .iter()
        .position(|byte| *byte == 0x50)
        .expect("the code is a ubyte");
    (outcome[code + 1], stream)
}

fn offered(address: SocketAddr) -> Vec<u8> {
    let mut stream = connect(address);
    stream.write_all(SASL_HEADER).expect("it reads");
    read_header(&mut stream);
    read_sasl_frame(&mut stream)
}

fn contains(bytes: &[u8], name: &[u8]) -> bool {
    bytes.windows(name.len()).any(|window| window == name)
}

fn start(scratch: &Scratch, sasl_enabled: bool, has_users: bool) -> (Daemon, SocketAddr) {
    let mut toml = format!("[server]\namqp_port = 0\n[sasl]\nenabled = {sasl_enabled}\n");
    if has_users {
        let users = scratch.file("users", "ann:s3cret\n");
        toml.push_str(&format!("[auth]\nusers_file = \"{users}\"\n"));
    }
    let daemon = Daemon::start(&scratch.file("broker.toml", &toml));
    let address = daemon.address();
    (daemon, address)
}

#[test]
fn with_login_required_only_the_right_password_enters() {
    let scratch = Scratch::new("required");
    let (daemon, address) = start(&scratch, true, true);
    let mechanisms = offered(address);
    assert!(contains(&mechanisms, b"PLAIN") && !contains(&mechanisms, b"ANONYMOUS"));
    assert_eq!(log_in(address, b"PLAIN", b"\0ann\0s3cret").0, 0);
    assert_eq!(log_in(address, b"PLAIN", b"\0ann\0wrong").0, 1);
    assert_eq!(log_in(address, b"PLAIN", b"\0eve\0s3cret").0, 1);
    assert_eq!(log_in(address, b"PLAIN", b"").0, 1);
    assert_eq!(log_in(address, b"ANONYMOUS", b"").0, 1);

    // A peer that skips the login is answered with the header that it should have sent, then closed (part 2, 2.2).
    let mut stream = connect(address);
    stream.write_all(AMQP_HEADER).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("closed in order");
    assert_eq!(answer, SASL_HEADER);

    // Changed users hold for the next login.
    scratch.file("users", "ann:changed\n");
    daemon.signal("HUP");
    daemon.wait_for("read again");
    assert_eq!(log_in(address, b"PLAIN", b"\0ann\0s3cret").0, 1);
    assert_eq!(log_in(address, b"PLAIN", b"\0ann\0changed").0, 0);
}

#[test]
fn without_users_anonymous_and_bare_peers_enter() {
    let scratch = Scratch::new("open");
    let (_daemon, address) = start(&scratch, false, false);
    let mechanisms = offered(address);
    assert!(contains(&mechanisms, b"ANONYMOUS") && !contains(&mechanisms, b"PLAIN"));
    let (code, mut stream) = log_in(address, b"ANONYMOUS", b"guest");
    assert_eq!(code, 0);
    stream.write_all(AMQP_HEADER).expect("it reads");
    assert_eq!(read_header(&mut stream), AMQP_HEADER);
    assert_eq!(log_in(address, b"PLAIN", b"\0ann\0s3cret").0, 1);

    let mut bare = connect(address);
    bare.write_all(AMQP_HEADER).expect("it reads");
    assert_eq!(read_header(&mut bare), AMQP_HEADER);
}

#[test]
fn with_users_but_no_login_required_both_ways_are_open() {
    let scratch = Scratch::new("both");
    let (_daemon, address) = start(&scratch, false, true);
    assert_eq!(log_in(address, b"ANONYMOUS", b"").0, 0);
    assert_eq!(log_in(address, b"PLAIN", b"\0ann\0s3cret").0, 0);
    assert_eq!(log_in(address, b"PLAIN", b"\0ann\0wrong").0, 1);
}
