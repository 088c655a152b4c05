//! The HTTP API of a daemon, asked by raw bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use super::{Daemon, Scratch};

/// The API of a daemon.
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    /// Header lines of every request.
    pub(crate) headers: String,
}

impl Api {
    pub(crate) fn of(daemon: &Daemon) -> Self {
        let line = daemon.wait_for("HTTP API and dashboard on ");
        let rest = line.split("dashboard on ").nth(1).expect("an address");
        let address = rest.split(',').next().expect("an address");
        Self {
            address: address.parse().expect("an address"),
            headers: String::new(),
        }
    }

    /// Sends bytes and reads until the daemon closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut socket = TcpStream::connect(self.address).expect("it listens");
        let patience = Some(Duration::from_secs(30));
        socket.set_read_timeout(patience).expect("a time-out");
        socket.write_all(bytes).expect("it reads");
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).expect("it closes");
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n{body}",
            self.address,
            self.headers,
            body.len()
        );
        let answer = self.raw(text.as_bytes());
        let status = answer.split(' ').nth(1).expect("a status");
        let body = answer.split_once("\r\n\r\n").expect("a head").1;
        (status.parse().expect("a number"), body.to_owned())
    }

    pub(crate) fn json(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let (status, body) = self.call(method, path, &body);
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }
}

/// Starts a daemon with these sections.
pub(crate) fn start(scratch: &Scratch, toml: &str) -> (Daemon, Api) {
    let text = format!("[server]\namqp_port = 0\n{toml}");
    let daemon = Daemon::start(&scratch.file("qqd.toml", &text));
    let api = Api::of(&daemon);
    (daemon, api)
}

/// No body.
pub(crate) const NULL: Value = Value::Null;

/// What comes until `is_enough`.
pub(crate) fn read_until(socket: &mut TcpStream, is_enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let patience = Some(Duration::from_secs(30));
    socket.set_read_timeout(patience).expect("a time-out");
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !is_enough(&seen) {
        let len = socket.read(&mut buffer).expect("it writes");
        assert!(len > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..len]);
    }
    seen
}
