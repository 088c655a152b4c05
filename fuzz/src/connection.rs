//! Targets for the AMQP connection machine, both roles: bytes of a hostile peer, cut anywhere, between commands of an
//! embedder that does everything that it may.
//!
//! An input is two bytes that choose cuts and commands, then what the peer sends. What must hold: nothing panics,
//! every poll ends, what is buffered stays in proportion to what came, each link and the connection end exactly
//! once, and the cuts change nothing.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::connection::{
    Config, Connection, Credentials, Event, IncomingId, LinkId, LinkReply, NewLink,
    OutgoingDelivery, SaslCode, SessionId, Side,
};
use qq_proto_amqp::performative::{
    AmqpError, DeliveryState, Performative, RcvSettleMode, SaslPerformative, SndSettleMode, Source,
    Target, TargetKind,
};
use qq_proto_amqp::types::{DeliveryTag, Str, Symbol, Value};

use crate::dice::Dice;

/// Bytes of the peer against a server.
pub fn connection_server(data: &[u8]) {
    run(Side::Server, data);
}

/// Bytes of the peer against a client.
pub fn connection_client(data: &[u8]) {
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
        container_id: Str::from_static("fuzz"),
        frame_size_max: 4_096,
        incoming_window: 16,
        incoming_window_slack: 8,
        credit_slack: 4,
        message_size_max: 16_384,
        partial_bytes_max: 32_768,
        first_outgoing_id: if seed & 1 == 0 { 0 } else { u32::MAX - 1 },
        ..Config::default()
    };
    if side == Side::Server {
        config.sasl.required = seed & 2 != 0;
        config.sasl.mechanisms = vec![
            Symbol::from_static("ANONYMOUS"),
            Symbol::from_static("PLAIN"),
        ];
    } else if seed & 2 != 0 {
        let (user, password) = ("guest".to_owned(), "guest".to_owned());
        config.sasl.credentials = Some(Credentials::Plain { user, password });
    }
    config
}

/// The same bytes in one piece and in many give the same events, for an embedder that only lets peers in.
fn check_cuts(side: Side, seed: u32, wire: &[u8]) {
    let events_of = |dice: Option<Dice>| {
        let mut conn = Connection::new(side, config(side, seed), Duration::ZERO);
        conn.open();
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
                match &event {
                    Event::SaslInit { .. } => conn.sasl_outcome(SaslCode::Ok),
                    Event::Opened => conn.open(),
                    _ => {}
                }
                write!(log, "{event:?}").expect("strings take everything");
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
    sessions: Vec<SessionId>,
    links: BTreeSet<LinkId>,
    deliveries: Vec<IncomingId>,
    tokens: u64,
    sent_bytes: usize,
    is_closed: bool,
    /// All output so far.
    out: Vec<u8>,
}

impl Embedder {
    fn new(side: Side, seed: u32) -> Self {
        let mut conn = Connection::new(side, config(side, seed), Duration::ZERO);
        conn.open();
        Self {
            conn,
            now: Duration::ZERO,
            dice: Dice(!seed),
            input: BytesMut::new(),
            sessions: Vec::new(),
            links: BTreeSet::new(),
            deliveries: Vec::new(),
            tokens: 0,
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
            match event {
                Event::SaslInit { .. } => self.conn.sasl_outcome(SaslCode::Ok),
                Event::Opened => {
                    self.conn.open();
                    self.sessions.extend(self.conn.begin());
                }
                Event::SessionBegun(session) => self.on_begun(session),
                Event::SessionEnded { session, .. } => {
                    self.sessions.retain(|known| *known != session)
                }
                Event::Attached { link, .. } => self.on_attached(link),
                Event::LinkClosed {
                    link, unsettled, ..
                } => {
                    assert!(self.links.remove(&link), "a link ends once");
                    assert!(
                        unsettled.iter().all(|token| *token < self.tokens),
                        "tokens are ours"
                    );
                }
                Event::Delivery {
                    delivery,
                    settled: false,
                    ..
                } => self.deliveries.push(delivery),
                Event::Closed { .. } => {
                    assert!(self.links.is_empty(), "links end before the connection");
                    self.is_closed = true;
                }
                _ => {}
            }
        }
    }

    fn on_begun(&mut self, session: SessionId) {
        if !self.sessions.contains(&session) {
            self.sessions.push(session);
        }
        if self.dice.roll(2) == 0 {
            return;
        }
        let name = if self.dice.roll(2) == 0 { "s1" } else { "ours" };
        let address = Some(Value::Str(Str::from_static("q1")));
        let new = NewLink {
            name: Str::from_static(name),
            is_sender: self.dice.roll(2) == 0,
            source: Some(Source {
                address: address.clone(),
                ..Source::default()
            }),
            target: Some(TargetKind::Target(Target {
                address,
                ..Target::default()
            })),
            snd_settle_mode: SndSettleMode::Mixed,
            rcv_settle_mode: RcvSettleMode::First,
            max_message_size: None,
            unsettled: None,
            properties: None,
        };
        self.links.extend(self.conn.attach(session, new));
    }

    fn on_attached(&mut self, link: LinkId) {
        self.links.insert(link);
        match self.dice.roll(8) {
            0 => {
                if self.conn.refuse_link(link, error()).is_ok() {
                    self.links.remove(&link);
                }
            }
            // Left waiting.
            1 => {}
            // The peer may have ended it in the same piece.
            _ => _ = self.conn.accept_link(link, LinkReply::default()),
        }
        _ = self.conn.grant(link, 1 + self.dice.roll(10));
    }

    /// One command or the passage of time. Errors are the answer to what cannot be; only panics count here.
    fn act(&mut self) {
        let pick = self.dice.roll(64) as usize;
        let link = self
            .links
            .iter()
            .nth(pick % self.links.len().max(1))
            .copied();
        let time = Duration::from_millis(u64::from(self.dice.roll(40_000)));
        match (self.dice.roll(14), link) {
            (0, _) => self.pass(time),
            (1 | 2, Some(link)) => _ = self.conn.grant(link, self.dice.roll(20)),
            (3, Some(link)) => _ = self.conn.grant_drain(link, self.dice.roll(20)),
            (4..=6, Some(link)) => self.send(link),
            (7, Some(link)) => _ = self.conn.drained(link),
            (8, Some(link)) => {
                _ = self
                    .conn
                    .settle_outgoing(link, u64::from(self.dice.roll(8)), None)
            }
            (9, Some(link)) => _ = self.conn.abort(link, self.tokens.saturating_sub(1)),
            (10, Some(link)) if pick < 16 => {
                _ = self
                    .conn
                    .detach(link, pick.is_multiple_of(2), Some(error()))
            }
            (11, _) if pick < 4 => {
                if let Some(session) = self.sessions.first() {
                    _ = self.conn.end(*session, None);
                }
            }
            (11, _) if pick == 63 => self.conn.close(Some(error())),
            (12, _) if pick < 8 => self.sessions.extend(self.conn.begin()),
            _ => {
                let state = if pick.is_multiple_of(2) {
                    DeliveryState::Accepted
                } else {
                    DeliveryState::Released
                };
                for delivery in self.deliveries.drain(..) {
                    _ = self
                        .conn
                        .settle(delivery, state.clone(), !pick.is_multiple_of(8));
                }
            }
        }
        self.take_events();
    }

    fn send(&mut self, link: LinkId) {
        let payload = Bytes::from(vec![0x5a; self.dice.roll(40_000) as usize]);
        let out = OutgoingDelivery {
            tag: DeliveryTag::new(&self.tokens.to_be_bytes()).expect("eight bytes"),
            token: self.tokens,
            settled: self.dice.roll(4) == 0,
            message_format: 0,
            head: b"head",
            payload: &payload,
            batchable: self.dice.roll(2) == 0,
        };
        let has_credit = self.conn.credit(link) > 0;
        let is_sent = self.conn.send(link, out).is_ok();
        assert!(has_credit || !is_sent, "nothing goes without credit");
        if is_sent {
            self.tokens += 1;
            self.sent_bytes += payload.len() + 128;
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
            self.conn.unsent_bytes() <= 65_536 + came * 64 + self.sent_bytes,
            "output in proportion to input"
        );
        self.conn.handle_eof(self.now);
        self.take_events();
        assert!(self.is_closed, "the end is told");
        let mut out = VecDeque::new();
        while self.conn.poll_transmit(self.now, &mut out, 1 << 20) > 0 {}
        assert!(self.conn.is_done());
        assert_eq!(
            (self.conn.poll_timeout(), self.conn.unsent_bytes()),
            (None, 0)
        );
        self.out.extend(out.into_iter().flatten());
        check_output(&self.out);
    }
}

/// What we send is protocol headers and frames that decode. The last may be cut: a slow reader loses the rest.
fn check_output(mut out: &[u8]) {
    while let Some(start) = out.first_chunk::<8>() {
        if start.starts_with(b"AMQP") {
            out = &out[8..];
            continue;
        }
        let [a, b, c, d, offset, kind, ..] = *start;
        let size = u32::from_be_bytes([a, b, c, d]) as usize;
        assert!(
            size >= 8 && offset == 2 && kind <= 1,
            "a frame header: {start:02x?}"
        );
        if out.len() < size {
            return;
        }
        let body = Bytes::copy_from_slice(&out[8..size]);
        let is_sound = match kind {
            _ if body.is_empty() => kind == 0,
            0 => Performative::decode(&body).is_ok(),
            _ => SaslPerformative::decode(&body).is_ok(),
        };
        assert!(is_sound, "our frames decode: {body:02x?}");
        out = &out[size..];
    }
}

fn error() -> AmqpError {
    AmqpError {
        condition: qq_proto_amqp::condition::NOT_ALLOWED,
        description: None,
        info: None,
    }
}
