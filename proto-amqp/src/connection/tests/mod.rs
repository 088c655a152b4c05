//! Machine tests: one file per topic. Bytes of the peer are written out as hex, answers are read by the decoder.
//!
//! [`Peer`] is a server machine with a scripted peer; [`Pair`] is a client and a server machine wired together.

mod churn;
mod client;
mod fit;
mod frames;
mod handshake;
mod heartbeat;
mod link;
mod link_flow;
mod memory;
mod performatives;
mod sasl;
mod session_flow;
mod settlement;
mod teardown;
mod transfer;

use std::collections::VecDeque;
use std::string::String;
use std::time::Duration;
use std::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::write::{Body, put_frame};
use super::{
    Config, Connection, Event, LinkId, LinkReply, OutgoingDelivery, SaslCode, SaslConfig, Side,
};
use crate::performative::{
    AmqpError, Attach, Disposition, Flow, Performative, Source, Target, TargetKind, Transfer,
};
use crate::types::{DeliveryTag, Str, Symbol, Value};

pub(super) const SASL: &str =
    "414d5150030100000000001c02010000005341c00f02a309414e4f4e594d4f5553a00161";
pub(super) const HDR: &str = "414d515000010000";
pub(super) const OPEN: &str = "0000001202000000005310c00501a1026331";
pub(super) const BEGIN: &str = "0000001a02000000005311c00d04404370000008007000000800";
pub(super) const SND: &str =
    "0000002702000000005312c01a0aa10273314342404000532845005329c00501a1027131404043";
pub(super) const RCV: &str =
    "0000002502000000005312c01807a10272315201414040005328c00501a102713100532945";
pub(super) const XFER0: &str = "0000001e02000000005314c007044343a0010043005375a00568656c6c6f";
pub(super) const CREDIT10: &str = "0000001f02000000005313c01207437000000800437000000800520143520a";

pub(super) fn hex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "hex has pairs");
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

pub(super) fn config() -> Config {
    Config {
        container_id: Str::from_static("broker"),
        sasl: SaslConfig {
            required: false,
            mechanisms: std::vec![
                Symbol::from_static("ANONYMOUS"),
                Symbol::from_static("PLAIN")
            ],
            credentials: None,
        },
        ..Config::default()
    }
}

/// A frame as the peer reads it.
#[derive(Debug)]
pub(super) struct Got {
    pub(super) channel: u16,
    /// None: an empty frame.
    pub(super) body: Option<Performative>,
    pub(super) payload: Vec<u8>,
    pub(super) size: usize,
}

/// A server machine and what its peer saw.
pub(super) struct Peer {
    pub(super) conn: Connection,
    pub(super) now: Duration,
    input: BytesMut,
    read: Vec<u8>,
    at: usize,
    pub(super) events: Vec<Event>,
    /// Opens and SASL are answered, links are accepted.
    pub(super) is_friendly: bool,
}

impl Peer {
    pub(super) fn new(config: Config) -> Self {
        Self {
            conn: Connection::new(Side::Server, config, Duration::ZERO),
            now: Duration::ZERO,
            input: BytesMut::new(),
            read: Vec::new(),
            at: 0,
            events: Vec::new(),
            is_friendly: true,
        }
    }

    /// Headers and opens are exchanged, one session is begun; what was answered to that is read already.
    pub(super) fn begun(config: Config) -> Self {
        let mut peer = Self::new(config);
        peer.feed(HDR).feed(OPEN).feed(BEGIN);
        peer.skip_header();
        peer.frames();
        peer.take_events();
        peer
    }

    /// As [`begun`](Self::begun), then the attach in `attach`. Returns its link.
    pub(super) fn attached(config: Config, attach: &str) -> (Self, LinkId) {
        let mut peer = Self::begun(config);
        let link = peer.attach(attach);
        (peer, link)
    }

    pub(super) fn attach(&mut self, attach: &str) -> LinkId {
        self.feed(attach);
        let link = self.take_events().iter().find_map(|event| match event {
            Event::Attached { link, .. } => Some(*link),
            _ => None,
        });
        self.frames();
        link.expect("attached")
    }

    pub(super) fn feed(&mut self, text: &str) -> &mut Self {
        self.feed_bytes(&hex(text))
    }

    pub(super) fn feed_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.input.extend_from_slice(bytes);
        self.conn.handle_input(self.now, &mut self.input);
        self.settle_down();
        self
    }

    pub(super) fn eof(&mut self) {
        self.conn.handle_eof(self.now);
        self.settle_down();
    }

    /// Lets time pass, deadline by deadline.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.conn.poll_timeout().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.conn.handle_timeout(self.now);
            self.settle_down();
            let next = self.conn.poll_timeout();
            assert!(
                next.is_none_or(|next| next > deadline),
                "a deadline that stays is a busy loop"
            );
        }
        self.now = end;
    }

    /// What a driver does after each input: events, output, until both are dry.
    pub(super) fn settle_down(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            if self.is_friendly {
                self.answer(&event);
            }
            self.events.push(event);
        }
        let mut out = VecDeque::new();
        while self.conn.poll_transmit(self.now, &mut out, 64 * 1024) > 0 {}
        out.iter()
            .for_each(|bytes| self.read.extend_from_slice(bytes));
    }

    fn answer(&mut self, event: &Event) {
        match event {
            Event::SaslInit { .. } => self.conn.sasl_outcome(SaslCode::Ok),
            Event::Opened => self.conn.open(),
            Event::Attached { link, attach, .. } => {
                // Fails when the peer's detach, end or close came in the same read.
                let _ = self.conn.accept_link(*link, reply(attach));
            }
            _ => {}
        }
    }

    pub(super) fn take_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.events)
    }

    /// Events that came since, those behind a command included.
    pub(super) fn poll_all(&mut self) -> Vec<Event> {
        self.settle_down();
        self.take_events()
    }

    /// Raw bytes that were not read yet.
    pub(super) fn raw(&mut self) -> Vec<u8> {
        let rest = self.read[self.at..].to_vec();
        self.at = self.read.len();
        rest
    }

    pub(super) fn skip_header(&mut self) {
        assert_eq!(self.read[self.at..self.at + 8], hex(HDR));
        self.at += 8;
    }

    /// Frames that were not read yet.
    pub(super) fn frames(&mut self) -> Vec<Got> {
        self.settle_down();
        frames_of(&self.raw())
    }

    pub(super) fn bodies(&mut self) -> Vec<Performative> {
        self.frames()
            .into_iter()
            .filter_map(|got| got.body)
            .collect()
    }

    pub(super) fn flows(&mut self) -> Vec<Flow> {
        let flow = |body| {
            if let Performative::Flow(flow) = body {
                Some(flow)
            } else {
                None
            }
        };
        self.bodies().into_iter().filter_map(flow).collect()
    }

    pub(super) fn dispositions(&mut self) -> Vec<Disposition> {
        let disposition = |body| {
            if let Performative::Disposition(it) = body {
                Some(it)
            } else {
                None
            }
        };
        self.bodies().into_iter().filter_map(disposition).collect()
    }

    pub(super) fn transfers(&mut self) -> Vec<Got> {
        self.frames()
            .into_iter()
            .filter(|got| matches!(got.body, Some(Performative::Transfer(_))))
            .collect()
    }

    /// Condition of the close that was sent, if one was.
    pub(super) fn close_condition(&mut self) -> Option<String> {
        self.bodies().into_iter().find_map(|body| match body {
            Performative::Close(close) => Some(condition(close.error.as_deref())),
            _ => None,
        })
    }

    pub(super) fn end_condition(&mut self) -> Option<String> {
        self.bodies().into_iter().find_map(|body| match body {
            Performative::End(end) => Some(condition(end.error.as_deref())),
            _ => None,
        })
    }

    pub(super) fn detach_condition(&mut self) -> Option<String> {
        self.bodies().into_iter().find_map(|body| match body {
            Performative::Detach(detach) => Some(condition(detach.error.as_deref())),
            _ => None,
        })
    }

    pub(super) fn payloads(&mut self) -> Vec<Vec<u8>> {
        let payload = |event| {
            if let Event::Delivery { payload, .. } = event {
                Some(payload.to_vec())
            } else {
                None
            }
        };
        self.take_events().into_iter().filter_map(payload).collect()
    }

    pub(super) fn send(&mut self, link: LinkId, token: u64, payload: &[u8]) {
        let payload = Bytes::copy_from_slice(payload);
        self.conn
            .send(link, delivery(token, &payload))
            .expect("there is credit");
    }

    /// The peer says this on channel 0.
    pub(super) fn say(&mut self, body: &impl Body) -> &mut Self {
        self.say_with(body, b"")
    }

    /// The peer says this on channel 0, with a payload behind it.
    pub(super) fn say_with(&mut self, body: &impl Body, payload: &[u8]) -> &mut Self {
        self.feed_bytes(&frame(body, payload))
    }

    /// The session on channel 0 is alive: an echo is answered, once.
    pub(super) fn assert_alive(&mut self) {
        self.frames();
        self.say(&Flow {
            echo: true,
            ..session_flow()
        });
        assert_eq!(self.flows().len(), 1, "the echo is answered");
    }
}

/// A flow that leaves everything open and says nothing about what came.
pub(super) fn session_flow() -> Flow {
    Flow {
        incoming_window: 2_048,
        outgoing_window: 2_048,
        ..Flow::default()
    }
}

/// A flow that grants credit, as if nothing had come yet.
pub(super) fn credit(handle: u32, credit: u32) -> Flow {
    Flow {
        handle: Some(handle),
        delivery_count: Some(0),
        link_credit: Some(credit),
        ..session_flow()
    }
}

/// The first frame of a delivery whose tag is its id.
pub(super) fn transfer(handle: u32, id: u32) -> Transfer {
    Transfer {
        handle,
        delivery_id: Some(id),
        delivery_tag: DeliveryTag::new(&id.to_be_bytes()),
        message_format: Some(0),
        ..Transfer::default()
    }
}

/// A frame on channel 0.
pub(super) fn frame(body: &impl Body, payload: &[u8]) -> Vec<u8> {
    let mut buf = BytesMut::new();
    put_frame(&mut buf, 0, 0, body);
    let mut bytes = buf.to_vec();
    bytes.extend_from_slice(payload);
    let size = u32::try_from(bytes.len()).expect("short").to_be_bytes();
    bytes[..4].copy_from_slice(&size);
    bytes
}

pub(super) fn condition(error: Option<&AmqpError>) -> String {
    error.map_or_else(String::new, |error| error.condition.as_str().into())
}

pub(super) fn delivery(token: u64, payload: &Bytes) -> OutgoingDelivery<'_> {
    OutgoingDelivery {
        tag: DeliveryTag::new(&token.to_be_bytes()).expect("eight bytes"),
        token,
        settled: false,
        message_format: 0,
        head: &[],
        payload,
        batchable: false,
    }
}

pub(super) fn reply(attach: &Attach) -> LinkReply {
    LinkReply {
        source: attach.source.clone(),
        target: attach.target.clone(),
        snd_settle_mode: attach.snd_settle_mode,
        rcv_settle_mode: attach.rcv_settle_mode,
        ..LinkReply::default()
    }
}

pub(super) fn source(address: &'static str) -> Source {
    Source {
        address: Some(Value::Str(Str::from_static(address))),
        ..Source::default()
    }
}

pub(super) fn target(address: &'static str) -> TargetKind {
    TargetKind::Target(Target {
        address: Some(Value::Str(Str::from_static(address))),
        ..Target::default()
    })
}

pub(super) fn frames_of(bytes: &[u8]) -> Vec<Got> {
    let mut frames = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let size = u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
        assert_eq!(&bytes[at + 4..at + 6], [2, 0], "plain AMQP frames");
        let channel = u16::from_be_bytes(bytes[at + 6..at + 8].try_into().expect("two bytes"));
        let body = Bytes::copy_from_slice(&bytes[at + 8..at + size]);
        let (body, payload) = if body.is_empty() {
            (None, Vec::new())
        } else {
            let (performative, used) = Performative::decode(&body).expect("our frames decode");
            (Some(performative), body[used..].to_vec())
        };
        frames.push(Got {
            channel,
            body,
            payload,
            size,
        });
        at += size;
    }
    frames
}

/// Ten lines of network: a client and a server machine, bytes carried between them until both are quiet.
pub(super) struct Pair {
    pub(super) client: Connection,
    pub(super) server: Connection,
    pub(super) now: Duration,
}

impl Pair {
    pub(super) fn new(client: Config, server: Config) -> Self {
        let now = Duration::ZERO;
        let client = Connection::new(Side::Client, client, now);
        Self {
            client,
            server: Connection::new(Side::Server, server, now),
            now,
        }
    }

    /// Carries bytes until nothing moves. The server side is friendly; events of both are returned.
    pub(super) fn drive(&mut self) -> (Vec<Event>, Vec<Event>) {
        let (mut at_client, mut at_server) = (Vec::new(), Vec::new());
        loop {
            while let Some(event) = self.server.poll_event() {
                match &event {
                    Event::SaslInit { .. } => self.server.sasl_outcome(SaslCode::Ok),
                    Event::Opened => self.server.open(),
                    Event::Attached { link, attach, .. } => {
                        self.server
                            .accept_link(*link, reply(attach))
                            .expect("the link waits");
                    }
                    _ => {}
                }
                at_server.push(event);
            }
            at_client.extend(core::iter::from_fn(|| self.client.poll_event()));
            let moved = carry(self.now, &mut self.client, &mut self.server)
                + carry(self.now, &mut self.server, &mut self.client);
            if moved == 0 {
                return (at_client, at_server);
            }
        }
    }
}

fn carry(now: Duration, from: &mut Connection, to: &mut Connection) -> usize {
    let mut out = VecDeque::new();
    let moved = from.poll_transmit(now, &mut out, usize::MAX);
    let mut input: BytesMut = out.iter().flatten().copied().collect();
    to.handle_input(now, &mut input);
    assert!(input.is_empty(), "machines write whole frames");
    moved
}
