//! One QWER-Q connection, both roles, as one synchronous machine.
//!
//! The driver owns socket and clock. It feeds bytes with [`Connection::handle_input`], time with
//! [`Connection::handle_timeout`], and after each input or command drains [`Connection::poll_event`], then
//! [`Connection::poll_transmit`], then reads [`Connection::poll_timeout`]. What a peer did wrong is answered by the
//! machine; the embedder hears of it only when the connection ends by it.
//!
//! The server machine answers by itself: what cannot be read, unknown opcodes, missing authentication, PING, and AUTH
//! where none is required. The embedder decides everything else: tokens with [`Connection::auth_outcome`], requests
//! with [`Connection::reply`] or [`Connection::refuse`], each exactly once and in any order; the machine puts the
//! answers into the order that the peer's layout demands.
//!
//! | file | knows |
//! | --- | --- |
//! | `state` | life of the connection, legal steps |
//! | `input` | bytes in, frames, the gate before authentication |
//! | `server`, `order` | requests, answers and their order, deliveries |
//! | `client` | requests of ours, matching of answers |
//! | `transmit`, `output` | bytes out |
//! | `timers`, `budget`, `violation` | deadlines, allowances, rules and what breaking them costs |

mod budget;
mod client;
mod config;
mod event;
mod input;
mod order;
mod output;
mod server;
mod state;
mod timers;
mod transmit;
mod violation;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

use bytes::BytesMut;

pub use config::{Auth, Config, Side};
pub use event::{
    CloseReason, Delivery, Event, ReplyTo, RequestId, StreamDelivery, Token, UsageError,
};
pub use violation::Violation;

use crate::frame::Layout;
use budget::Bucket;
use client::Calls;
use order::Order;
use output::Output;
use state::State;
use timers::Timers;

/// Room for events that a busy connection keeps.
const EVENTS_KEPT_MAX: usize = 1_024;

/// One QWER-Q connection. See the [module](self) for how to drive it.
#[derive(Debug)]
pub struct Connection {
    config: Box<Config>,
    side: Side,
    state: State,
    /// Server: none until the first byte is there.
    layout: Option<Layout>,
    /// The latest time that the driver told.
    now: Duration,
    timers: Timers,
    events: VecDeque<Event>,
    output: Output,
    /// Input that waits for the embedder.
    held: BytesMut,
    /// The last frame was not looked at because of that.
    is_holding: bool,
    /// Server: answers that are due.
    order: Order,
    /// Server: the AUTH that the embedder decides on.
    auth: Option<ReplyTo>,
    /// Client: requests without an answer.
    calls: Calls,
    /// When the peer said that it will send no more.
    eof_at: Option<Duration>,
    /// The last event is out.
    is_finished: bool,
    nuisance: Bucket,
}

impl Connection {
    /// A connection whose TCP connection has just been made.
    #[must_use]
    pub fn new(side: Side, config: Config, now: Duration) -> Self {
        let is_gated = match side {
            Side::Server => config.auth == Auth::Required,
            Side::Client => config.token.is_some(),
        };
        let mut connection = Self {
            layout: (side == Side::Client).then_some(config.layout),
            nuisance: Bucket::new(config.nuisance_burst, config.nuisance_rate, now),
            config: Box::new(config),
            side,
            state: if is_gated {
                State::AuthAwaited
            } else {
                State::Open
            },
            now,
            timers: Timers::new(now),
            events: VecDeque::new(),
            output: Output::default(),
            held: BytesMut::new(),
            is_holding: false,
            order: Order::default(),
            auth: None,
            calls: Calls::default(),
            eof_at: None,
            is_finished: false,
        };
        if side == Side::Client {
            connection.start_client();
        }
        connection
    }

    /// The next event, in the order of the wire.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if self.events.is_empty() && self.events.capacity() > EVENTS_KEPT_MAX {
            self.events = VecDeque::new();
        }
        event
    }

    /// The peer will send no more. What is to be written may still be taken. A server that owes answers goes on for
    /// [`Config::eof_grace_ms`] at most, for a peer may have closed its sending half only; [`Event::Closed`] comes when
    /// they are given.
    pub fn handle_eof(&mut self, now: Duration) {
        self.see(now);
        if self.state == State::Lingering {
            self.state = State::Done;
        }
        if self.eof_at.is_none() {
            self.eof_at = Some(self.now);
        }
        self.end_after_eof();
    }

    /// Ends the connection of a peer that sends no more, once it has its answers.
    fn end_after_eof(&mut self) {
        let Some(ends_at) = self.grace_ends_at() else {
            return;
        };
        let is_owing = self.order.len() > 0 || self.is_holding;
        if !is_owing || self.now >= ends_at {
            self.finish(CloseReason::Peer);
            self.state = State::Done;
        }
    }

    /// Ends the connection once all output is handed over. There is no goodbye on the wire. Answers that wait for
    /// earlier ones are dropped.
    pub fn close(&mut self) {
        self.finish(CloseReason::Local);
        if self.state != State::Lingering {
            self.state = State::Done;
        }
    }

    /// How the peer lays out its frames. None: a server that has read nothing yet.
    #[must_use]
    pub const fn layout(&self) -> Option<Layout> {
        self.layout
    }

    /// Which end this is.
    #[must_use]
    pub const fn side(&self) -> Side {
        self.side
    }

    /// Requests and deliveries may pass: authentication is done or not needed, and nobody has closed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// All output was handed over and the socket may be closed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done && self.output.is_empty()
    }

    /// Bytes that wait to be written. An embedder that sends more while this is large fills memory, not the socket.
    #[must_use]
    pub fn unsent_bytes(&self) -> usize {
        self.output.len()
    }

    /// The peer broke a rule that costs the connection.
    fn violate(&mut self, violation: Violation) {
        debug_assert!(violation.is_fatal(), "{violation:?} is answered");
        log::debug!("connection closed: {}", violation.text());
        self.finish(CloseReason::Violation(violation));
        self.linger_or_end();
    }

    /// Ends the connection, after a while in which the peer may read the last words where there are any: closing a
    /// socket with unread input would take them from it.
    fn linger_or_end(&mut self) {
        if self.output.is_empty() || self.eof_at.is_some() {
            self.state = State::Done;
        } else {
            self.timers.start_linger(self.now);
            self.state = State::Lingering;
        }
    }

    /// Says the last word to the embedder.
    fn finish(&mut self, reason: CloseReason) {
        if self.is_finished {
            return;
        }
        self.is_finished = true;
        self.held = BytesMut::new();
        self.is_holding = false;
        self.order = Order::default();
        self.calls = Calls::default();
        self.auth = None;
        self.events.push_back(Event::Closed { reason });
    }
}

/// The loop in the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
