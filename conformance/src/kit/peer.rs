//! One scripted peer: sends what it is told, keeps every frame it saw, waits with a limit.

use super::{Env, Kit, Login, SharedBed, known};
use crate::bed::Got;
use crate::script::{Done, Failure};
use crate::wire::{self, Frame, HEADER_AMQP, HEADER_SASL, Perf, Value, hex, perf, sym};
use crate::{broke, ensure};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// How long a peer waits for something that must come.
pub(super) const PATIENCE_MS: u64 = 5_000;
/// How many lines of conversation are kept for a failure report.
const TRACE_LINES_MAX: usize = 60;

/// What the peer knows of one of its links.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) channel: u16,
    pub(super) name: String,
    pub(super) handle: u32,
    pub(super) is_receiver: bool,
    pub(super) remote_handle: Option<u32>,
    /// As receiver: deliveries seen, on top of the broker's initial count. As sender: sent.
    pub(super) count: u32,
    /// As sender: the limit that the broker's last flow set.
    pub(super) limit: u32,
}

/// A connection to the broker, in the hands of a script.
pub struct Peer {
    bed: SharedBed,
    pub(super) env: Rc<Env>,
    pub(super) script: &'static str,
    trace: Rc<RefCell<Vec<String>>>,
    conn: usize,
    label: usize,
    buf: Vec<u8>,
    is_ended: bool,
    has_activity: bool,
    /// The broker's open, once it came.
    pub opened: Option<Frame>,
    /// Frames that came while the script waited for others.
    pub stash: VecDeque<Frame>,
    /// Size of the largest frame that came.
    pub largest: usize,
    pub(super) links: Vec<Link>,
    /// (our channel, broker's channel)
    pub(super) channels: Vec<(u16, Option<u16>)>,
    pub(super) next_incoming: u32,
    pub(super) next_outgoing: u32,
    pub(super) has_begun: bool,
    /// Incoming window that `credit` and `session_flow` announce.
    pub window: u32,
}

impl Peer {
    pub(super) fn new(kit: &Kit, script: &'static str, conn: usize, label: usize) -> Self {
        Self {
            bed: Rc::clone(&kit.bed),
            env: Rc::clone(&kit.env),
            script,
            trace: Rc::clone(&kit.trace),
            conn,
            label,
            buf: vec![],
            is_ended: false,
            has_activity: false,
            opened: None,
            stash: VecDeque::new(),
            largest: 0,
            links: vec![],
            channels: vec![],
            next_incoming: 0,
            next_outgoing: 0,
            has_begun: false,
            window: 2048,
        }
    }

    fn note(&self, line: String) {
        let mut trace = self.trace.borrow_mut();
        if trace.len() == TRACE_LINES_MAX {
            trace.remove(0);
        }
        trace.push(format!("{} {line}", self.label));
    }

    /// Milliseconds on the bed's clock.
    pub fn now_ms(&self) -> u64 {
        self.bed.borrow().now_ms()
    }

    /// The broker's address for a queue of this script.
    pub fn addr(&self, name: &str) -> String {
        super::address(&self.env, self.script, name)
    }

    // ---- out

    /// Sends bytes as they are. False when the broker has gone.
    pub fn raw(&mut self, bytes: &[u8]) -> bool {
        let shown = if bytes.len() > 80 {
            &bytes[..80]
        } else {
            bytes
        };
        self.note(format!("> {} ({} bytes)", wire::hex_of(shown), bytes.len()));
        self.bed.borrow_mut().send(self.conn, bytes)
    }

    /// Sends frames given in hex. Addresses in attach frames take the broker's own form; all else
    /// goes out byte for byte.
    pub fn hex(&mut self, text: &str) -> bool {
        let bytes = self.place(hex(text));
        self.raw(&bytes)
    }

    /// Sends frames given in hex `count` times in one write.
    pub fn hex_times(&mut self, text: &str, count: usize) -> bool {
        let mut bytes = vec![];
        for _ in 0..count {
            bytes.extend(self.place(hex(text)));
        }
        self.raw(&bytes)
    }

    /// Walks whole frames: notes what they do to the peer's state, puts addresses in place.
    pub fn place(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let mut out = vec![];
        let mut rest = bytes;
        while !rest.is_empty() {
            if rest.len() >= 8 && rest.starts_with(b"AMQP") {
                out.extend(rest.drain(..8));
                continue;
            }
            let before = rest.clone();
            match wire::take_frame(&mut rest) {
                Ok(Some(frame)) => {
                    self.note_sent(&frame);
                    let original = &before[..frame.size];
                    out.extend(self.placed(&frame).unwrap_or_else(|| original.to_vec()));
                }
                _ => {
                    out.extend(before);
                    break;
                }
            }
        }
        out
    }

    fn placed(&self, frame: &Frame) -> Option<Vec<u8>> {
        let attach = frame.perf.as_ref().filter(|p| p.name == "attach")?;
        let mut changed = attach.clone();
        let mut has_changed = false;
        for field in ["source", "target"] {
            let Some(mut terminus) = wire::perf_of(attach.field(field)) else {
                continue;
            };
            if !["source", "target"].contains(&terminus.name) {
                continue;
            }
            let Value::Str(name) = terminus.field("address").clone() else {
                continue;
            };
            let address = self.addr(&name);
            if name.len() <= 4 && !name.is_empty() && address != name {
                terminus = terminus.with("address", address);
                changed = changed.with(field, terminus);
                has_changed = true;
            }
        }
        has_changed.then(|| wire::frame_bytes(frame.kind, frame.channel, Some(&changed), &[]))
    }

    /// Sends a performative.
    pub fn send(&mut self, channel: u16, perf: Perf) -> bool {
        self.send_with(channel, perf, &[])
    }

    /// Sends a performative with a payload.
    pub fn send_with(&mut self, channel: u16, perf: Perf, payload: &[u8]) -> bool {
        let bytes = wire::frame_bytes(0, channel, Some(&perf), payload);
        let mut copy = bytes.clone();
        if let Ok(Some(frame)) = wire::take_frame(&mut copy) {
            self.note_sent(&frame);
        }
        self.raw(&bytes)
    }

    /// Drops the connection without a word.
    pub fn cut(&mut self) {
        self.note("> (cut)".into());
        self.is_ended = true;
        self.bed.borrow_mut().cut(self.conn);
    }

    // ---- in

    fn fill(&mut self, until_ms: u64) -> bool {
        if self.is_ended {
            return false;
        }
        let left = until_ms.saturating_sub(self.now_ms());
        let got = self.bed.borrow_mut().recv(self.conn, left);
        match got {
            Got::Bytes(bytes) => {
                self.has_activity = true;
                self.buf.extend(bytes);
                true
            }
            Got::Eof => {
                self.note("< (end of stream)".into());
                self.is_ended = true;
                false
            }
            Got::Quiet => false,
        }
    }

    /// True when the broker closed its side and everything was read.
    pub fn is_gone(&self) -> bool {
        self.is_ended && self.buf.is_empty()
    }

    /// True when the broker closed its side, whatever is still unread.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// True when bytes came since the last call; heartbeat scripts measure silence with it.
    pub fn take_activity(&mut self) -> bool {
        std::mem::take(&mut self.has_activity)
    }

    /// Reads and drops whatever comes for `ms`.
    pub fn drop_input(&mut self, ms: u64) {
        let until = self.now_ms() + ms;
        while self.fill(until) {}
        self.buf.clear();
    }

    /// Like `pump`, but what cannot be decoded is dropped: for peers that broke the layering.
    pub fn pump_noise(&mut self, quiet_ms: u64) {
        while let Ok(Some(frame)) = self.fetch(quiet_ms) {
            self.stash.push_back(frame);
        }
        self.buf.clear();
    }

    /// Reads eight octets: a protocol header.
    pub fn header(&mut self) -> Done<[u8; 8]> {
        let until = self.now_ms() + PATIENCE_MS;
        while self.buf.len() < 8 {
            if !self.fill(until) {
                return Err(broke!("no protocol header came, only {:?}", self.buf));
            }
        }
        let mut header = [0; 8];
        header.copy_from_slice(&self.buf[..8]);
        self.buf.drain(..8);
        self.note(format!("< header {}", wire::hex_of(&header)));
        Ok(header)
    }

    /// Next frame from the stream, past the stash; `None` when none came in time or the stream
    /// has ended.
    pub fn fetch(&mut self, wait_ms: u64) -> Done<Option<Frame>> {
        let until = self.now_ms() + wait_ms;
        loop {
            let taken = wire::take_frame(&mut self.buf);
            match taken.map_err(|e| broke!("undecodable frame from the broker: {}", e.0))? {
                Some(frame) => {
                    self.note(format!("< {frame:?}"));
                    self.largest = self.largest.max(frame.size);
                    self.note_received(&frame);
                    return Ok(Some(frame));
                }
                None if self.fill(until) => {}
                None => return Ok(None),
            }
        }
    }

    /// Reads into the stash until nothing came for `quiet_ms` or the stream has ended.
    pub fn pump(&mut self, quiet_ms: u64) -> Done {
        while let Some(frame) = self.fetch(quiet_ms)? {
            self.stash.push_back(frame);
        }
        Ok(())
    }

    /// Reads into the stash for `ms`, whatever comes.
    pub fn pump_for(&mut self, ms: u64) -> Done {
        let until = self.now_ms() + ms;
        while self.now_ms() < until && !self.is_gone() {
            let left = until - self.now_ms();
            if let Some(frame) = self.fetch(left)? {
                self.stash.push_back(frame);
            }
        }
        Ok(())
    }

    /// How many frames of this name wait in the stash.
    pub fn count(&self, name: &str) -> usize {
        self.stash.iter().filter(|f| f.name() == name).count()
    }

    /// Takes all frames of this name out of the stash.
    pub fn take(&mut self, name: &str) -> Vec<Frame> {
        let (taken, kept) = self.stash.drain(..).partition(|f| f.name() == name);
        self.stash = kept;
        Vec::from(taken)
    }

    /// Forgets what was stashed.
    pub fn forget(&mut self) {
        self.stash.clear();
    }

    /// The next frame of this name, from the stash or the stream.
    pub fn want(&mut self, name: &str) -> Done<Frame> {
        self.want_where(name, |f| f.name() == name)
    }

    /// The next frame of this name on the broker's channel that answers to ours.
    pub fn want_on(&mut self, channel: u16, name: &str) -> Done<Frame> {
        let remote = self.remote_channel(channel);
        self.want_where(name, move |f| f.name() == name && Some(f.channel) == remote)
    }

    /// The next frame that fits. Others stay in the stash; an unexpected close fails at once.
    pub fn want_where(&mut self, what: &str, fits: impl Fn(&Frame) -> bool) -> Done<Frame> {
        if let Some(at) = self.stash.iter().position(&fits) {
            return Ok(self.stash.remove(at).expect("a frame"));
        }
        let until = self.now_ms() + PATIENCE_MS;
        loop {
            let left = until.saturating_sub(self.now_ms());
            match self.fetch(left)? {
                Some(frame) if fits(&frame) => return Ok(frame),
                Some(frame) => {
                    let is_close = frame.name() == "close";
                    let shown = format!("{frame:?}");
                    self.stash.push_back(frame);
                    ensure!(!is_close, "waited for {what}, got {shown}");
                }
                None if self.is_gone() => {
                    return Err(broke!("waited for {what}, the connection was closed"));
                }
                None => return Err(broke!("no {what} came{}", self.instead())),
            }
        }
    }

    fn instead(&self) -> String {
        let seen: Vec<_> = self
            .stash
            .iter()
            .rev()
            .take(3)
            .map(|f| format!("{f:?}"))
            .collect();
        if seen.is_empty() {
            String::new()
        } else {
            format!("; last seen: {}", seen.join(", "))
        }
    }

    /// Nothing of this name comes for `ms`, nor waits in the stash.
    pub fn quiet(&mut self, name: &str, ms: u64) -> Done {
        self.pump_for(ms)?;
        let found = self.stash.iter().find(|f| f.name() == name);
        match found {
            Some(frame) => Err(broke!("{frame:?} came, nothing should have")),
            None => Ok(()),
        }
    }

    // ---- ends

    /// The broker closes with one of these conditions, then ends the stream.
    pub fn refused(&mut self, conditions: &[&str]) -> Done<Frame> {
        let close = self.refusal(conditions)?;
        close.ok_or_else(|| broke!("the stream ended without a close; wanted {conditions:?}"))
    }

    /// The broker ends the stream; if it sends a close, then with one of these conditions.
    pub fn refusal(&mut self, conditions: &[&str]) -> Done<Option<Frame>> {
        let stashed = self.stash.iter().position(|f| f.name() == "close");
        let mut close = stashed.and_then(|at| self.stash.remove(at));
        let until = self.now_ms() + PATIENCE_MS;
        while close.is_none() && !self.is_gone() {
            let left = until.saturating_sub(self.now_ms());
            match self.fetch(left)? {
                Some(frame) if frame.name() == "close" => close = Some(frame),
                Some(frame) => self.stash.push_back(frame),
                None if self.is_ended => break,
                None => {
                    return Err(broke!(
                        "no close came; wanted {conditions:?}{}",
                        self.instead()
                    ));
                }
            }
        }
        if let Some(frame) = &close {
            let condition = frame.condition();
            ensure!(
                conditions.contains(&condition.as_str()),
                "close with {condition:?}, wanted one of {conditions:?}"
            );
            self.hex(known::CLOSE);
        }
        self.gone()?;
        Ok(close)
    }

    /// The stream ends; nothing but what was already there comes before.
    pub fn gone(&mut self) -> Done {
        let until = self.now_ms() + PATIENCE_MS;
        while !self.is_ended {
            let left = until.saturating_sub(self.now_ms());
            match self.fetch(left) {
                Ok(Some(frame)) => {
                    return Err(broke!("{frame:?} came behind the close"));
                }
                Ok(None) if self.is_ended => {}
                Ok(None) => return Err(broke!("the stream was not closed")),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Closes in order; the broker must answer without an error and say nothing more. Whether it
    /// ends the stream by itself is left to the scripts about that.
    pub fn close(&mut self) -> Done {
        self.close_frames()?;
        let late = self.fetch(20)?;
        ensure!(late.is_none(), "{late:?} came behind the close");
        self.cut();
        Ok(())
    }

    /// Exchanges close frames and leaves the stream as it is.
    pub fn close_frames(&mut self) -> Done {
        self.hex(known::CLOSE);
        let close = self.want("close")?;
        ensure!(
            close.field("error").is_null(),
            "close answered with {:?}",
            close.field("error")
        );
        Ok(())
    }

    // ---- layers

    /// Exchanges headers, with SASL where the broker wants it.
    pub fn hello(&mut self) -> Done {
        if self.env.login != Login::None {
            self.sasl()?;
        }
        self.raw(&HEADER_AMQP);
        let header = self.header()?;
        crate::same!(header, HEADER_AMQP, "answer to the AMQP header");
        Ok(())
    }

    /// SASL with the login of the run, up to an ok outcome.
    pub fn sasl(&mut self) -> Done {
        let (mechanism, response) = match self.env.login.clone() {
            Login::Plain(user, pass) => ("PLAIN", format!("\0{user}\0{pass}").into_bytes()),
            _ => ("ANONYMOUS", b"a".to_vec()),
        };
        self.sasl_start()?;
        let init = perf("sasl-init").with("mechanism", sym(mechanism));
        self.send_sasl(init.with("initial-response", response));
        let outcome = self.want("sasl-outcome")?;
        match outcome.number("code") {
            Some(0) => Ok(()),
            code => Err(Failure::Unreachable(format!(
                "login refused, sasl code {code:?}"
            ))),
        }
    }

    /// SASL headers and the broker's mechanisms.
    pub fn sasl_start(&mut self) -> Done<Vec<String>> {
        self.raw(&HEADER_SASL);
        let header = self.header()?;
        crate::same!(header, HEADER_SASL, "answer to the SASL header");
        let mechanisms = self.want("sasl-mechanisms")?;
        Ok(match mechanisms.field("sasl-server-mechanisms") {
            Value::Array(items) => items
                .iter()
                .filter_map(|v| v.words().map(String::from))
                .collect(),
            one => one.words().map(String::from).into_iter().collect(),
        })
    }

    /// Sends a SASL frame.
    pub fn send_sasl(&mut self, perf: Perf) -> bool {
        let bytes = wire::frame_bytes(1, 0, Some(&perf), &[]);
        self.raw(&bytes)
    }
}
