//! A plain AMQP client over a blocking socket: one connection, one session, pipelined writes.
//!
//! It uses the scripted peer's codec, not the broker's. It keeps the session window and nothing
//! else; what frames mean is the business of [`super::producer`] and [`super::consumer`].

use super::Outcome;
use crate::wire::{Frame, HEADER_AMQP, Perf, Reader, Value, frame_bytes, message, perf, perf_of};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long an answer may take that comes at once on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// After so long without a frame of ours an empty one is sent; the broker announces 30 s.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Why a client's connection is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The broker closed it; the condition, empty when it gave none.
    Closed(String),
    /// The stream ended, failed, or brought what is not AMQP.
    Cut(String),
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed(condition) => write!(f, "closed by the broker: {condition:?}"),
            Self::Cut(text) => write!(f, "connection lost: {text}"),
        }
    }
}

impl From<Lost> for String {
    fn from(lost: Lost) -> Self {
        lost.to_string()
    }
}

/// A connection with one open session on channel 0.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    timeout: Duration,
    input: Vec<u8>,
    at: usize,
    out: Vec<u8>,
    last_write: Instant,
    /// Transfers sent so far, which is also the id of the next one.
    pub sent: u32,
    /// Transfers that the broker's window allows in total.
    window_end: u32,
}

impl Client {
    /// Connects and opens; returns when the broker has answered.
    pub fn open(port: u16, container: &str) -> Result<Self, Lost> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| cut(&e))?;
        stream.set_nodelay(true).map_err(|e| cut(&e))?;
        let mut client = Self {
            stream,
            timeout: Duration::ZERO,
            input: vec![],
            at: 0,
            out: HEADER_AMQP.to_vec(),
            last_write: Instant::now(),
            sent: 0,
            window_end: 0,
        };
        client.put(&perf("open").with("container-id", container), &[]);
        let begin = perf("begin").with("next-outgoing-id", 0u32);
        // So large that it need not be renewed.
        let begin = begin.with("incoming-window", u32::MAX / 2);
        client.put(&begin.with("outgoing-window", u32::MAX / 2), &[]);
        client.flush()?;
        client.wait_for("begin", PATIENCE)?;
        Ok(client)
    }

    /// The socket, for harm.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Port of this end.
    pub fn local_port(&self) -> u16 {
        self.stream.local_addr().map_or(0, |a| a.port())
    }

    /// Queues a frame for the next flush.
    pub fn put(&mut self, perf: &Perf, payload: &[u8]) {
        self.out.extend(frame_bytes(0, 0, Some(perf), payload));
    }

    /// Whether the session lets another transfer out.
    pub fn has_window(&self) -> bool {
        self.sent.wrapping_sub(self.window_end) > u32::MAX / 2
    }

    /// Queues a whole message in one frame and returns its delivery id.
    pub fn transfer(&mut self, handle: u32, is_settled: bool, payload: &[u8]) -> u32 {
        let id = self.sent;
        let transfer = perf("transfer")
            .with("handle", handle)
            .with("delivery-id", id)
            .with("delivery-tag", id.to_be_bytes().to_vec())
            .with("message-format", 0u32)
            .with("settled", is_settled);
        self.put(&transfer, payload);
        self.sent = self.sent.wrapping_add(1);
        id
    }

    /// Writes what is queued.
    pub fn flush(&mut self) -> Result<(), Lost> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.last_write = Instant::now();
        let written = self.stream.write_all(&self.out);
        self.out.clear();
        match written {
            Ok(()) => Ok(()),
            // What the broker said before it left may still be in the socket.
            Err(e) => Err(self.last_words().unwrap_or_else(|| cut(&e))),
        }
    }

    fn last_words(&mut self) -> Option<Lost> {
        loop {
            match self.next_frame(Duration::from_millis(100)) {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(lost) => return Some(lost),
            }
        }
    }

    /// The next frame; waits for bytes at most `wait` (not at all for zero).
    pub fn next_frame(&mut self, wait: Duration) -> Result<Option<Frame>, Lost> {
        let until = Instant::now() + wait;
        loop {
            if let Some(frame) = self.buffered()? {
                if self.on_frame(&frame)? {
                    return Ok(Some(frame));
                }
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.fill(left)? {
                return Ok(None);
            }
        }
    }

    /// Takes note of a frame; false when it is none of the caller's business.
    fn on_frame(&mut self, frame: &Frame) -> Result<bool, Lost> {
        match frame.name() {
            "empty" | "open" => return Ok(false),
            "begin" | "flow" => {
                let window = frame.number("incoming-window").unwrap_or(0) as u32;
                let next = match frame.name() {
                    "begin" => 0,
                    _ => frame.number("next-incoming-id").unwrap_or(0) as u32,
                };
                self.window_end = next.wrapping_add(window);
            }
            "close" => return Err(Lost::Closed(frame.condition())),
            _ => {}
        }
        Ok(true)
    }

    fn buffered(&mut self) -> Result<Option<Frame>, Lost> {
        let bytes = &self.input[self.at..];
        if bytes.len() < 8 {
            return Ok(None);
        }
        if bytes.starts_with(b"AMQP") {
            self.at += 8;
            return self.buffered();
        }
        let size = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        if !(8..=1 << 21).contains(&size) {
            return Err(Lost::Cut(format!("a frame of {size} octets")));
        }
        if bytes.len() < size {
            return Ok(None);
        }
        let bad = |e| Lost::Cut(format!("not AMQP: {e:?}"));
        let mut reader = Reader::new(&bytes[8..size]);
        let perf = match size {
            8 => None,
            _ => perf_of(&reader.value().map_err(bad)?),
        };
        let frame = Frame {
            size,
            kind: bytes[5],
            channel: u16::from_be_bytes([bytes[6], bytes[7]]),
            perf,
            payload: reader.rest().to_vec(),
        };
        self.at += size;
        Ok(Some(frame))
    }

    /// Reads once; false when nothing came in time.
    fn fill(&mut self, wait: Duration) -> Result<bool, Lost> {
        self.input.drain(..self.at);
        self.at = 0;
        if self.last_write.elapsed() > HEARTBEAT {
            self.out.extend(frame_bytes(0, 0, None, &[]));
            self.flush()?;
        }
        let wait = wait.clamp(Duration::from_millis(1), HEARTBEAT);
        if wait != self.timeout {
            let set = self.stream.set_read_timeout(Some(wait));
            set.map_err(|e| cut(&e))?;
            self.timeout = wait;
        }
        let len = self.input.len();
        self.input.resize(len + 64 * 1_024, 0);
        let read = self.stream.read(&mut self.input[len..]);
        self.input.truncate(len + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(Lost::Cut("end of stream".into())),
            Ok(_) => Ok(true),
            Err(e) => match e.kind() {
                // A read with a time-out is not restarted after a signal to this process.
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(false),
                _ => Err(cut(&e)),
            },
        }
    }

    /// The next frame of that name; others are dropped.
    pub fn wait_for(&mut self, name: &str, patience: Duration) -> Result<Frame, Lost> {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            match self.next_frame(Duration::from_millis(200))? {
                Some(frame) if frame.name() == name => return Ok(frame),
                Some(frame) if frame.name() == "detach" || frame.name() == "end" => {
                    return Err(Lost::Cut(format!("{frame:?} instead of {name}")));
                }
                _ => {}
            }
        }
        Err(Lost::Cut(format!("no {name} in {patience:?}")))
    }

    /// Attaches a sender.
    pub fn attach_sender(&mut self, handle: u32, name: &str, queue: &str) -> Result<(), Lost> {
        let attach = perf("attach")
            .with("name", name)
            .with("handle", handle)
            .with("role", false)
            .with("source", perf("source"))
            .with("target", perf("target").with("address", queue))
            .with("initial-delivery-count", 0u32);
        self.put(&attach, &[]);
        self.flush()?;
        self.wait_for("attach", PATIENCE).map(|_| ())
    }

    /// Attaches a receiver; in `second` mode the broker confirms settlements.
    pub fn attach_receiver(
        &mut self,
        handle: u32,
        name: &str,
        queue: &str,
        is_second: bool,
    ) -> Result<(), Lost> {
        let attach = perf("attach")
            .with("name", name)
            .with("handle", handle)
            .with("role", true)
            .with("rcv-settle-mode", u8::from(is_second))
            .with("source", perf("source").with("address", queue))
            .with("target", perf("target"));
        self.put(&attach, &[]);
        self.flush()?;
        self.wait_for("attach", PATIENCE).map(|_| ())
    }

    /// Queues a flow of a receiving link.
    pub fn credit(&mut self, handle: u32, received: u32, credit: u32, is_drain: bool) {
        let flow = perf("flow")
            .with("next-incoming-id", 0u32)
            .with("incoming-window", u32::MAX / 2)
            .with("next-outgoing-id", self.sent)
            .with("outgoing-window", u32::MAX / 2)
            .with("handle", handle)
            .with("delivery-count", received)
            .with("link-credit", credit)
            .with("drain", is_drain);
        self.put(&flow, &[]);
    }

    /// Queues a receiver's disposition of deliveries `first` to `last`.
    pub fn settle(&mut self, first: u32, last: u32, is_settled: bool, outcome: &str) {
        let state = match outcome {
            "failed" => perf("modified").with("delivery-failed", true),
            other => perf(other),
        };
        let disposition = perf("disposition")
            .with("role", true)
            .with("first", first)
            .with("last", last)
            .with("settled", is_settled)
            .with("state", state);
        self.put(&disposition, &[]);
    }

    /// Says good-bye and waits for the answer.
    pub fn close(mut self) -> Outcome<()> {
        self.put(&perf("close"), &[]);
        match self.flush().and_then(|()| {
            let got = self.wait_for("close", PATIENCE);
            got.map(|_| ())
        }) {
            Err(Lost::Closed(condition)) if condition.is_empty() => Ok(()),
            Err(lost) => Err(lost.to_string()),
            Ok(()) => Ok(()),
        }
    }
}

fn cut(error: &std::io::Error) -> Lost {
    Lost::Cut(error.to_string())
}

/// A message with a header and one data section. `ttl_ms` of 0 is none.
pub fn encode(body: &[u8], is_durable: bool, ttl_ms: u32) -> Vec<u8> {
    let mut header = perf("header").with("durable", is_durable);
    if ttl_ms > 0 {
        header = header.with("ttl", ttl_ms);
    }
    let mut payload = header.value().bytes();
    payload.extend(message::data(body));
    payload
}

/// Delivery count and body of a message as [`encode`] made it, after its way through the broker.
pub fn decode(payload: &[u8]) -> Option<(u32, Vec<u8>)> {
    let mut count = 0;
    for section in message::sections(payload).ok()? {
        match (section.code, section.value) {
            (message::code::HEADER, value) => {
                let header = perf_of(&value)?;
                count = header.field("delivery-count").number().unwrap_or(0) as u32;
            }
            (message::code::DATA, Value::Described(_, body)) => match *body {
                Value::Binary(body) => return Some((count, body)),
                _ => return None,
            },
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_went() {
        let payload = encode(b"0123456789abcdef", true, 5);
        assert_eq!(decode(&payload), Some((0, b"0123456789abcdef".to_vec())));
        assert_eq!(decode(&payload[..payload.len() - 1]), None);
    }
}
