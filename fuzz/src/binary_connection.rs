//! Targets for the binary protocol's connection machine, both roles: bytes of a hostile peer, cut anywhere, between
//! commands of an embedder that does everything that it may.
//!
//! An input is two bytes that choose cuts, settings and commands, then what the peer sends. What must hold: nothing
//! panics, every poll ends, what is buffered stays in proportion to what came, each request can be answered once, the
//! end is told once and last, what we write can be read, and the cuts change nothing.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use qq_proto_binary::connection::{
    Auth, Config, Connection, Delivery, Event, ReplyTo, Side, StreamDelivery, UsageError,
};
use qq_proto_binary::error::ErrorCode;
use qq_proto_binary::frame::Layout;
use qq_proto_binary::message::{
    AckRequest, AuthRequest, AuthResponse, ConsumeRequest, ConsumerClosed, ErrorResponse, Message,
    PingRequest, PublishRequest, PublishResponse, SeekRequest, SeekResponse, StreamMessage,
};
use qq_proto_binary::opcode::{Dialect, Opcode};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::{BodyLimits, Request};
use qq_proto_binary::stored::{self, Parts, Stored};

use crate::dice::Dice;

/// Bytes of a client against a server.
pub fn binary_server(data: &[u8]) {
    run(Side::Server, data);
}

/// Bytes of a server against a client.
pub fn binary_client(data: &[u8]) {
    run(Side::Client, data);
}

fn run(side: Side, data: &[u8]) {
    let Some((seed, wire)) = data.split_first_chunk::<2>() else {
        return;
    };
    let seed = u32::from(u16::from_be_bytes(*seed));
    check_cuts(side, seed, wire);
    let mut embedder = Embedder::new(side, seed);
    let mut rest = wire;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(embedder.dice.cut(rest.len()));
        rest = after;
        embedder.feed(piece);
        embedder.act();
        embedder.drain();
    }
    embedder.finish(wire.len());
}

fn config(side: Side, seed: u32) -> Config {
    let mut config = Config {
        dialect: if seed & 1 == 0 {
            Dialect::Groups
        } else {
            Dialect::Streams
        },
        payload_versioned_max: 16_384,
        payload_documented_max: 16_384,
        headers_max: 16,
        batch_messages_max: 8,
        requests_pending_max: 8,
        unsent_bytes_max: 8_192,
        nuisance_burst: 64,
        ..Config::default()
    };
    match side {
        Side::Server => {
            config.auth =
                [Auth::Open, Auth::Required, Auth::Absent, Auth::Open][(seed >> 1 & 3) as usize];
        }
        Side::Client => {
            if seed & 2 != 0 {
                config.layout = Layout::Versioned;
            }
            if seed & 4 != 0 {
                config.token = Some("token".to_owned());
            }
        }
    }
    config
}

/// The same bytes in one piece and in many give the same events, for an embedder that refuses everything at once.
fn check_cuts(side: Side, seed: u32, wire: &[u8]) {
    let events_of = |dice: Option<Dice>| {
        let mut config = config(side, seed);
        // Output is not taken here, so it must not decide when input is.
        config.unsent_bytes_max = usize::MAX;
        let mut conn = Connection::new(side, config, Duration::ZERO);
        let (mut log, mut dice, mut rest) = (String::new(), dice, wire);
        let mut input = BytesMut::new();
        while !rest.is_empty() {
            let cut = dice
                .as_mut()
                .map_or(rest.len(), |dice| dice.cut(rest.len()));
            input.extend_from_slice(&rest[..cut]);
            rest = &rest[cut..];
            conn.handle_input(Duration::ZERO, &mut input);
            while let Some(event) = conn.poll_event() {
                match event.into_owned() {
                    Event::Authenticate { .. } => _ = conn.auth_outcome(true),
                    Event::Request { reply_to, request } => {
                        write!(log, "{request:?}").expect("strings take everything");
                        _ = conn.refuse(reply_to, ErrorCode::Failed, "no");
                    }
                    event => write!(log, "{event:?}").expect("strings take everything"),
                }
            }
        }
        log
    };
    assert_eq!(
        events_of(None),
        events_of(Some(Dice(seed))),
        "cuts change nothing"
    );
}

struct Embedder {
    conn: Connection,
    now: Duration,
    dice: Dice,
    input: BytesMut,
    owed: Vec<(ReplyTo, Request)>,
    sent_bytes: usize,
    is_closed: bool,
    /// All output so far.
    out: Vec<u8>,
}

impl Embedder {
    fn new(side: Side, seed: u32) -> Self {
        Self {
            conn: Connection::new(side, config(side, seed), Duration::ZERO),
            now: Duration::ZERO,
            dice: Dice(!seed),
            input: BytesMut::new(),
            owed: Vec::new(),
            sent_bytes: 0,
            is_closed: false,
            out: Vec::new(),
        }
    }

    fn feed(&mut self, piece: &[u8]) {
        self.input.extend_from_slice(piece);
        self.conn.handle_input(self.now, &mut self.input);
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            assert!(!self.is_closed, "nothing comes after Closed: {event:?}");
            match event.into_owned() {
                Event::Authenticate { .. } => {
                    let is_accepted = self.dice.roll(8) > 0;
                    assert_eq!(self.conn.auth_outcome(is_accepted), Ok(()));
                }
                Event::Request { reply_to, request } => self.owed.push((reply_to, request)),
                Event::Closed { .. } => {
                    self.is_closed = true;
                    self.owed.clear();
                }
                _ => {}
            }
        }
        assert!(self.owed.len() <= 8, "no more is owed than may be");
    }

    /// One command or the passage of time.
    fn act(&mut self) {
        match self.dice.roll(8) {
            0 => {
                let time = Duration::from_millis(u64::from(self.dice.roll(40_000)));
                self.pass(time);
            }
            1 | 2 if self.conn.side() == Side::Server => self.deliver(),
            1..=4 if self.conn.side() == Side::Client => self.ask(),
            7 if self.dice.roll(16) == 0 => self.conn.close(),
            _ => {
                for _ in 0..self.dice.roll(4) {
                    self.answer();
                }
            }
        }
        self.take_events();
    }

    fn answer(&mut self) {
        if self.owed.is_empty() {
            return;
        }
        let at = self.dice.roll(self.owed.len() as u32) as usize;
        let (reply_to, request) = self.owed.swap_remove(at);
        let reply = match request {
            Request::Publish(_) => Some(Reply::Published(PublishResponse {
                message_id: "m".to_owned(),
            })),
            Request::Consume(_) | Request::Ack(_) | Request::Nack(_) | Request::Unsubscribe(_) => {
                Some(Reply::Done)
            }
            Request::Seek(_) => Some(Reply::Sought(SeekResponse { offset: 1 })),
            Request::Heartbeat(_) => Some(Reply::Heard),
            _ => None,
        };
        let result = match reply {
            Some(reply) if self.dice.roll(4) > 0 => self.conn.reply(reply_to, &reply),
            _ => self.conn.refuse(reply_to, ErrorCode::NotFound, "no"),
        };
        assert_eq!(result, Ok(()), "each request can be answered once");
        self.sent_bytes += 64;
        self.take_events();
    }

    fn deliver(&mut self) {
        let payload = vec![0x5a; self.dice.roll(20_000) as usize];
        let parts = Parts {
            message_id: "m-1",
            payload: &payload,
            published_at_ms: 5,
            ordering_key: "k",
            idempotency_key: "d",
        };
        let record = stored::encode(&parts, [("a", "b")].into_iter());
        let stored = Stored::read(&record).expect("our own record");
        let (queue, group) = ("q", "g");
        let result = if self.dice.roll(2) == 0 {
            self.conn.deliver(&Delivery {
                stored: &stored,
                queue,
                attempt: 1,
                delivery_id: 1,
                group,
            })
        } else {
            self.conn.deliver_stream(&StreamDelivery {
                stored: &stored,
                queue,
                sequence: 1,
                group,
            })
        };
        match result {
            Ok(()) => self.sent_bytes += record.len() + 64,
            Err(UsageError::TooLarge) => assert!(record.len() > 16_000),
            Err(error) => assert_eq!(error, UsageError::NotOpen),
        }
        if self.dice.roll(8) == 0 {
            _ = self.conn.close_consumer(&ConsumerClosed::default());
            self.sent_bytes += 16;
        }
    }

    fn ask(&mut self) {
        let queue = "q".to_owned();
        let request = match self.dice.roll(6) {
            0 => Request::Publish(Box::new(PublishRequest {
                queue,
                payload: Bytes::from(vec![0x5a; self.dice.roll(20_000) as usize]),
                ..PublishRequest::default()
            })),
            1 => Request::Consume(ConsumeRequest {
                queue,
                ..ConsumeRequest::default()
            }),
            2 => Request::Ack(AckRequest::default()),
            3 => Request::Seek(SeekRequest {
                queue,
                ..SeekRequest::default()
            }),
            4 => Request::Ping(PingRequest::default()),
            _ => Request::QueueList,
        };
        let is_confirmed = self.dice.roll(2) == 0;
        if self.conn.request(&request, is_confirmed).is_ok() {
            self.sent_bytes += request.body_len() + 16;
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..1_000 {
            let Some(deadline) = self.conn.poll_timeout().filter(|deadline| *deadline <= end)
            else {
                self.now = end;
                return;
            };
            self.now = self.now.max(deadline);
            self.conn.handle_timeout(self.now);
            self.take_events();
            self.drain();
        }
        panic!("deadlines do not move on");
    }

    /// Takes a little output, as a slow socket does.
    fn drain(&mut self) {
        let mut out = VecDeque::new();
        let budget = self.dice.roll(3) as usize * 2_000;
        let moved = self.conn.poll_transmit(self.now, &mut out, budget);
        assert_eq!(moved, out.iter().map(Bytes::len).sum::<usize>());
        assert!(moved <= budget, "the budget is kept");
        self.out.extend(out.into_iter().flatten());
    }

    fn finish(mut self, came: usize) {
        assert!(
            self.conn.unsent_bytes() <= 4_096 + came * 16 + self.sent_bytes,
            "output in proportion to input"
        );
        self.conn.handle_eof(self.now);
        self.take_events();
        while !self.is_closed && !self.owed.is_empty() && self.dice.roll(16) > 0 {
            self.answer();
        }
        // Who gets no answer is not waited for beyond the grace.
        self.pass(Duration::from_secs(6));
        assert!(self.is_closed, "the end is told");
        let layout = self.conn.layout();
        let mut out = VecDeque::new();
        while self.conn.poll_transmit(self.now, &mut out, 1 << 20) > 0 {}
        assert!(self.conn.is_done());
        assert_eq!(
            (self.conn.poll_timeout(), self.conn.unsent_bytes()),
            (None, 0)
        );
        self.out.extend(out.into_iter().flatten());
        match layout {
            None => assert!(self.out.is_empty(), "nothing is said to a stranger"),
            Some(layout) => check_output(self.conn.side(), layout, Bytes::from(self.out)),
        }
    }
}

/// What we send is frames that the other side can read. The last may be cut: a slow reader loses the rest.
fn check_output(side: Side, layout: Layout, mut out: Bytes) {
    let limits = BodyLimits {
        headers_max: 16,
        batch_messages_max: 8,
        message_size_max: 16_384,
    };
    while let Some(head) = layout.parse_head(&out, 16_384).expect("our own lengths") {
        assert!(!head.flags.has_reserved());
        if out.len() < head.end {
            return;
        }
        let body = out.split_to(head.end).slice(head.body_at..);
        let dialect = if head.opcode == 0x0e {
            Dialect::Streams
        } else {
            Dialect::Groups
        };
        let (opcode, _) = Opcode::from_wire(head.opcode, dialect).expect("our own opcodes");
        let is_sound = match (side, opcode) {
            (Side::Server, Opcode::Message) => Message::decode(body).is_ok(),
            (Side::Server, Opcode::StreamMessage) => StreamMessage::decode(body).is_ok(),
            (Side::Server, Opcode::ConsumerClosed) => ConsumerClosed::decode(body).is_ok(),
            (Side::Server, Opcode::Error) => ErrorResponse::decode(body).is_ok(),
            (Side::Server, Opcode::AuthResponse) => AuthResponse::decode(body).is_ok(),
            (_, Opcode::Ping) => PingRequest::decode(body).is_ok(),
            (Side::Client, Opcode::Auth) => AuthRequest::decode(body).is_ok(),
            (Side::Client, Opcode::Pong) => true,
            (Side::Server, opcode) => matches!(Reply::decode(opcode, body), Ok(Some(_))),
            // A number with two meanings is read in one of them here.
            (Side::Client, Opcode::Heartbeat | Opcode::Unsubscribe) => true,
            (Side::Client, opcode) => {
                matches!(Request::decode(opcode, body, &limits), Ok(Some(_)))
            }
        };
        assert!(is_sound, "our frames decode: {opcode:?}");
    }
}
