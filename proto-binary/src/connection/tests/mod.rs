//! Machine tests: one file per topic. Bytes of the peer are written out as hex, answers are read by their layout.
//!
//! [`Peer`] is a server machine with a scripted client; [`Pair`] is a client and a server machine wired together.

mod auth;
mod client;
mod deliveries;
mod eof;
mod frames;
mod limits;
mod requests;
mod timers;

use std::collections::VecDeque;
use std::string::{String, ToString};
use std::time::Duration;
use std::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::{CloseReason, Config, Connection, Event, ReplyTo, Side};
use crate::frame::{Flags, Layout};
use crate::message::{ErrorResponse, PublishResponse};
use crate::opcode::Opcode;
use crate::reply::Reply;
use crate::request::Request;

/// QUEUE_LIST in both layouts.
pub(super) const LIST: &str = "00000002 01 32";
pub(super) const LIST_DOCUMENTED: &str = "32 00 00000000";
/// PUBLISH to q1 of "hi".
pub(super) const PUBLISH: &str = "0000000a 01 01 0a02 7131 1202 6869";

pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "hex has pairs");
    let digit = |c: char| c.to_digit(16).expect("hex digits") as u8;
    digits
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

/// A frame as the peer reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Got {
    pub(super) opcode: u8,
    pub(super) flags: Flags,
    pub(super) correlation: Option<u32>,
    pub(super) body: Bytes,
}

impl Got {
    pub(super) fn decode<M: prost::Message + Default>(&self) -> M {
        M::decode(self.body.clone()).expect("our own bytes")
    }

    /// Code and text, of an ERROR.
    pub(super) fn error(&self) -> (u32, String) {
        assert_eq!(self.opcode, Opcode::Error as u8);
        let error: ErrorResponse = self.decode();
        (error.code, error.message)
    }
}

/// Cuts what a machine wrote.
pub(super) fn cut(layout: Layout, bytes: &mut Vec<u8>) -> Vec<Got> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(head) = layout
        .parse_head(&bytes[at..], usize::MAX)
        .expect("our own lengths")
    {
        if at + head.end > bytes.len() {
            break;
        }
        found.push(Got {
            opcode: head.opcode,
            flags: head.flags,
            correlation: head.correlation,
            body: Bytes::copy_from_slice(&bytes[at + head.body_at..at + head.end]),
        });
        at += head.end;
    }
    bytes.drain(..at);
    found
}

/// A server machine and what its peer saw.
pub(super) struct Peer {
    pub(super) conn: Connection,
    pub(super) now: Duration,
    pub(super) layout: Layout,
    input: BytesMut,
    read: Vec<u8>,
    events: VecDeque<Event>,
}

impl Peer {
    pub(super) fn new(layout: Layout, config: Config) -> Self {
        Self {
            conn: Connection::new(Side::Server, config, Duration::ZERO),
            now: Duration::ZERO,
            layout,
            input: BytesMut::new(),
            read: Vec::new(),
            events: VecDeque::new(),
        }
    }

    pub(super) fn versioned() -> Self {
        Self::new(Layout::Versioned, Config::default())
    }

    pub(super) fn documented() -> Self {
        Self::new(Layout::Documented, Config::default())
    }

    /// The peer sends this.
    pub(super) fn feed(&mut self, text: &str) -> &mut Self {
        self.feed_bytes(&hex(text))
    }

    pub(super) fn feed_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.input.extend_from_slice(bytes);
        self.conn.handle_input(self.now, &mut self.input);
        self.drain()
    }

    /// Takes events and output.
    pub(super) fn drain(&mut self) -> &mut Self {
        while let Some(event) = self.conn.poll_event() {
            self.events.push_back(event);
        }
        let mut out = VecDeque::new();
        while self.conn.poll_transmit(self.now, &mut out, usize::MAX) > 0 {}
        self.read.extend(out.iter().flatten());
        self
    }

    pub(super) fn tick(&mut self, now_ms: u64) -> &mut Self {
        self.now = Duration::from_millis(now_ms);
        self.conn.handle_timeout(self.now);
        self.drain()
    }

    /// What the peer has read since the last call.
    pub(super) fn frames(&mut self) -> Vec<Got> {
        self.drain();
        cut(self.layout, &mut self.read)
    }

    /// The only frame since the last call.
    pub(super) fn frame(&mut self) -> Got {
        let mut frames = self.frames();
        assert_eq!(frames.len(), 1, "{frames:?}");
        frames.remove(0)
    }

    pub(super) fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next event, which is a request.
    pub(super) fn request(&mut self) -> (ReplyTo, Request) {
        match self.event().map(Event::into_owned) {
            Some(Event::Request { reply_to, request }) => (reply_to, request),
            other => panic!("no request but {other:?}"),
        }
    }

    /// Takes the next request and never answers it.
    pub(super) fn skip_request(&mut self) {
        drop(self.request());
    }

    /// Answers a PUBLISH with this id.
    pub(super) fn confirm(&mut self, reply_to: ReplyTo, id: &str) {
        self.conn
            .reply(reply_to, &published(id))
            .expect("it waits for an answer");
    }

    /// Why the connection ended, if that is the next event.
    pub(super) fn closed(&mut self) -> Option<CloseReason> {
        match self.event() {
            Some(Event::Closed { reason }) => Some(reason),
            Some(other) => panic!("not closed but {other:?}"),
            None => None,
        }
    }
}

pub(super) fn published(id: &str) -> Reply {
    Reply::Published(PublishResponse {
        message_id: id.to_string(),
    })
}

/// A client and a server machine, wired together.
pub(super) struct Pair {
    pub(super) client: Connection,
    pub(super) server: Connection,
    pub(super) now: Duration,
    to_server: BytesMut,
    to_client: BytesMut,
}

impl Pair {
    pub(super) fn new(client: Config, server: Config) -> Self {
        Self {
            client: Connection::new(Side::Client, client, Duration::ZERO),
            server: Connection::new(Side::Server, server, Duration::ZERO),
            now: Duration::ZERO,
            to_server: BytesMut::new(),
            to_client: BytesMut::new(),
        }
    }

    pub(super) fn with_layout(layout: Layout) -> Self {
        let client = Config {
            layout,
            ..Config::default()
        };
        Self::new(client, Config::default())
    }

    /// Carries bytes until nothing moves.
    pub(super) fn settle(&mut self) {
        loop {
            let up = carry(
                &mut self.client,
                &mut self.server,
                self.now,
                &mut self.to_server,
            );
            let down = carry(
                &mut self.server,
                &mut self.client,
                self.now,
                &mut self.to_client,
            );
            if up + down == 0 {
                return;
            }
        }
    }

    pub(super) fn client_events(&mut self) -> Vec<Event> {
        self.settle();
        core::iter::from_fn(|| self.client.poll_event()).collect()
    }

    pub(super) fn server_requests(&mut self) -> Vec<(ReplyTo, Request)> {
        self.settle();
        core::iter::from_fn(|| self.server.poll_event())
            .map(|event| match event.into_owned() {
                Event::Request { reply_to, request } => (reply_to, request),
                other => panic!("no request but {other:?}"),
            })
            .collect()
    }
}

fn carry(from: &mut Connection, to: &mut Connection, now: Duration, input: &mut BytesMut) -> usize {
    let mut out = VecDeque::new();
    let moved = from.poll_transmit(now, &mut out, usize::MAX);
    for bytes in out {
        input.extend_from_slice(&bytes);
    }
    to.handle_input(now, input);
    moved
}
