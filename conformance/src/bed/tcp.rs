//! The bed of real sockets: blocking, with time-outs, on std alone.

use super::{Bed, Got};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a write may make no progress before the stream counts as gone.
const WRITE_STALL_MS: u64 = 10_000;
const CONNECT_MS: u64 = 5_000;

struct Stream {
    socket: Option<TcpStream>,
    /// Bytes that were read while a write was waiting, so that two full buffers never block us.
    early: Vec<u8>,
    eof: bool,
}

/// A broker at a host and port.
pub struct TcpBed {
    host: String,
    port: u16,
    streams: Vec<Stream>,
    start: Instant,
}

impl TcpBed {
    /// A bed for the broker at `host:port`; nothing is connected yet.
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
            streams: vec![],
            start: Instant::now(),
        }
    }
}

impl Stream {
    /// Reads what is there without waiting. False when nothing was there.
    fn read_some(&mut self) -> bool {
        let mut chunk = [0; 65_536];
        let Some(socket) = &mut self.socket else {
            return false;
        };
        match socket.read(&mut chunk) {
            Ok(0) => {
                self.eof = true;
                false
            }
            Ok(n) => {
                self.early.extend(&chunk[..n]);
                true
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => false,
            Err(e) if e.kind() == ErrorKind::Interrupted => true,
            Err(_) => {
                self.eof = true;
                false
            }
        }
    }
}

impl Bed for TcpBed {
    fn connect(&mut self) -> Result<usize, String> {
        let target = format!("{}:{}", self.host, self.port);
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        let mut last = format!("{target}: no address");
        for address in addresses.map_err(|e| format!("{target}: {e}"))? {
            match TcpStream::connect_timeout(&address, Duration::from_millis(CONNECT_MS)) {
                Ok(socket) => {
                    let _ = socket.set_nodelay(true);
                    self.streams.push(Stream {
                        socket: Some(socket),
                        early: vec![],
                        eof: false,
                    });
                    return Ok(self.streams.len() - 1);
                }
                Err(e) => last = format!("{target}: {e}"),
            }
        }
        Err(last)
    }

    fn send(&mut self, conn: usize, bytes: &[u8]) -> bool {
        let stream = &mut self.streams[conn];
        let mut sent = 0;
        let mut stalled = Instant::now();
        while sent < bytes.len() {
            let Some(socket) = &mut stream.socket else {
                return false;
            };
            if socket.set_nonblocking(true).is_err() {
                return false;
            }
            match socket.write(&bytes[sent..]) {
                Ok(n) => {
                    sent += n;
                    stalled = Instant::now();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if !stream.read_some() {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                    if stream.eof || stalled.elapsed() > Duration::from_millis(WRITE_STALL_MS) {
                        return false;
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn recv(&mut self, conn: usize, wait_ms: u64) -> Got {
        let stream = &mut self.streams[conn];
        let until = Instant::now() + Duration::from_millis(wait_ms);
        loop {
            if !stream.early.is_empty() {
                return Got::Bytes(std::mem::take(&mut stream.early));
            }
            let Some(socket) = stream.socket.as_ref().filter(|_| !stream.eof) else {
                return Got::Eof;
            };
            let left = until.saturating_duration_since(Instant::now());
            let set = socket
                .set_nonblocking(false)
                .and_then(|()| socket.set_read_timeout(Some(left.max(Duration::from_millis(1)))));
            if set.is_err() {
                return Got::Eof;
            }
            if !stream.read_some() && !stream.eof && left.is_zero() {
                return Got::Quiet;
            }
        }
    }

    fn cut(&mut self, conn: usize) {
        if let Some(socket) = self.streams[conn].socket.take() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn wait(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    fn is_virtual(&self) -> bool {
        false
    }
}
