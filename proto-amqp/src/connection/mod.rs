//! One AMQP 1.0 connection with its sessions and links, both roles, as one synchronous machine (part 2; SASL of
//! part 5).
//!
//! The driver owns socket and clock. It feeds bytes with [`Connection::handle_input`], time with
//! [`Connection::handle_timeout`], and after each input or command drains [`Connection::poll_event`], then
//! [`Connection::poll_transmit`], then reads [`Connection::poll_timeout`]. What a peer did wrong is answered by the
//! machine, at the smallest scope that the spec allows; the embedder hears of what it lost by it.
//!
//! The machine answers by itself: protocol headers, SASL mechanisms, `begin`, detach, end, close, echoes, windows and
//! heartbeats. The embedder decides: SASL outcomes, opens, attaches, credit, outcomes of deliveries, drains.
//!
//! | file | knows |
//! | --- | --- |
//! | `state` | life of the connection, legal steps |
//! | `input`, `handshake`, `sasl` | bytes in, frames, protocol headers, SASL |
//! | `session`, `link/*` | begin and end, attach and detach, deliveries both ways |
//! | `flow`, `settle`, `unsettled`, `tokens` | windows and credit, dispositions |
//! | `transmit`, `output`, `write`, `fit` | bytes out, within the peer's frame size |
//! | `timers`, `budget`, `partial`, `violation` | deadlines, allowances, rules and what breaking them costs |

mod budget;
mod config;
mod event;
mod fit;
mod flow;
mod handshake;
mod ids;
mod input;
mod link;
mod output;
mod partial;
mod sasl;
mod session;
mod settle;
mod slots;
mod state;
mod timers;
mod tokens;
mod transmit;
mod unsettled;
mod view;
mod violation;
mod write;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::BytesMut;

pub use config::{Config, Credentials, SaslConfig, Side};
pub use event::{Event, LinkReply, NewLink, OutgoingDelivery, SaslCode, UsageError};
pub use ids::{IncomingId, LinkId, SessionId};
pub use partial::SharedBudget;
pub use view::{LinkView, SessionView};

use crate::condition;
use crate::performative::{AmqpError, Close, Open};
use budget::Bucket;
use link::Link;
use output::Output;
use partial::PartialBytes;
use session::{Channel, Session};
use slots::Slots;
use state::State;
use timers::Timers;
use violation::{Scope, Violation};

/// Marks a handle without a link.
const NO_SLOT: u32 = u32::MAX;
/// Marks a handle whose link we detached first and the peer then: one more detach is forgiven.
const LATE_SLOT: u32 = u32::MAX - 1;
/// Frames of this size must be accepted by everyone (part 2, 2.8.19).
const FRAME_SIZE_FLOOR: usize = 512;
/// We never run out of transfers to announce; the number only has to be large and inside the half circle.
const OUTGOING_WINDOW: u32 = i32::MAX as u32;
/// What a frame without progress costs, in quarters of a frame.
const FRAME_QUARTERS: u32 = 4;
/// Quarters that one transfer of ours, or one whole delivery of the peer, pays back.
const PROGRESS_TRANSFER: u64 = 32;
/// Room for events that a busy connection keeps.
const EVENTS_KEPT_MAX: usize = 512;
/// Frames of allowance that come back each second.
const NO_PROGRESS_RATE: u32 = 100;

/// One AMQP 1.0 connection. See the [module](self) for how to drive it.
#[derive(Debug)]
pub struct Connection {
    config: Box<Config>,
    side: Side,
    state: State,
    /// The latest time that the driver told.
    now: Duration,
    timers: Timers,
    events: VecDeque<Event>,
    output: Output,
    /// Input that waits for the embedder.
    held: BytesMut,
    remote_open: Option<Box<Open>>,
    is_open_wanted: bool,
    is_open_sent: bool,
    /// The last event is out.
    is_finished: bool,
    /// Largest frame that the peer takes.
    frame_out_max: u32,
    /// Highest channel that the peer takes.
    channel_out_max: u16,
    sessions: Slots<Session>,
    links: Slots<Link>,
    /// By the peer's channel.
    channels: Vec<Channel>,
    /// Sessions with something to send.
    ready: VecDeque<SessionId>,
    /// Bytes of unfinished deliveries from the peer.
    partial_bytes: PartialBytes,
    /// Bytes of queued messages to the peer.
    queued_bytes: usize,
    no_progress: Bucket,
    churn: Bucket,
}

impl Connection {
    /// A connection whose TCP connection has just been made.
    #[must_use]
    pub fn new(side: Side, config: Config, now: Duration) -> Self {
        let no_progress = config.no_progress_frames_max.saturating_mul(FRAME_QUARTERS);
        let mut connection = Self {
            no_progress: Bucket::new(no_progress, NO_PROGRESS_RATE * FRAME_QUARTERS, now),
            churn: Bucket::new(config.churn_burst, config.churn_rate, now),
            partial_bytes: PartialBytes::new(
                config.partial_bytes_max,
                config.partial_bytes_node.clone(),
            ),
            config: Box::new(config),
            side,
            state: State::HeaderAwaited,
            now,
            timers: Timers::new(now),
            events: VecDeque::new(),
            output: Output::default(),
            held: BytesMut::new(),
            remote_open: None,
            is_open_wanted: false,
            is_open_sent: false,
            is_finished: false,
            frame_out_max: FRAME_SIZE_FLOOR as u32,
            channel_out_max: 0,
            sessions: Slots::new(),
            links: Slots::new(),
            channels: Vec::new(),
            ready: VecDeque::new(),
            queued_bytes: 0,
        };
        if side == Side::Client {
            connection.start_client();
        }
        connection
    }

    /// The next event, in the order of the wire.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if self.events.is_empty() && self.events.capacity() > 0 {
            self.trim_events();
        }
        event
    }

    /// The peer is gone or will send no more.
    pub fn handle_eof(&mut self, now: Duration) {
        self.see(now);
        if self.state == State::Done {
            return;
        }
        self.finish(None);
        self.state.go(State::Done);
    }

    /// Sends our `open`. Server: answers [`Event::Opened`]. Client: once, at any time; it goes out as soon as the
    /// headers are through.
    pub fn open(&mut self) {
        if self.is_open_wanted || !self.state.is_listening() {
            return;
        }
        match (self.side, self.state) {
            (Side::Server, State::OpenDeciding) => {
                self.is_open_wanted = true;
                self.write_open();
                self.state.go(State::Opened);
                self.handle_held();
            }
            (Side::Server, _) => {}
            (Side::Client, state) => {
                self.is_open_wanted = true;
                // Without SASL the server's header need not be waited for (part 2, 2.4.1: pipelined open).
                let is_header_sent =
                    self.config.sasl.credentials.is_none() && state == State::HeaderAwaited;
                if is_header_sent || state == State::OpenAwaited {
                    self.write_open();
                }
            }
        }
    }

    /// Server: answers [`Event::Opened`] with a refusal: our `open`, then a close with the reason (part 2, 2.4.1).
    pub fn refuse_open(&mut self, error: AmqpError) {
        if self.state == State::OpenDeciding {
            self.shut_down(Some(error));
        }
    }

    /// Closes the connection. Links and sessions are over at once ([`Event::LinkClosed`], [`Event::SessionEnded`]),
    /// then comes [`Event::Closed`]; messages that are queued and not written are handed back with their links.
    pub fn close(&mut self, error: Option<AmqpError>) {
        if self.state.is_listening() {
            self.shut_down(error);
        }
    }

    /// The peer's `open`, once it came.
    #[must_use]
    pub fn remote_open(&self) -> Option<&Open> {
        self.remote_open.as_deref()
    }

    /// All output was handed over and the socket may be closed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done && self.output.is_empty()
    }

    /// Frames may be written: our `open` is out and no close is.
    const fn is_speaking(&self) -> bool {
        self.is_open_sent && self.state.is_listening()
    }

    fn on_open(&mut self, open: Box<Open>) -> Result<(), Violation> {
        self.frame_out_max = open
            .max_frame_size
            .min(self.config.frame_size_max.max(FRAME_SIZE_FLOOR as u32));
        self.channel_out_max = open.channel_max;
        let is_frame_size_legal = open.max_frame_size >= FRAME_SIZE_FLOOR as u32;
        let idle_ms = open.idle_time_out.unwrap_or(0);
        self.remote_open = Some(open);
        if !is_frame_size_legal {
            self.frame_out_max = FRAME_SIZE_FLOOR as u32;
            return Err(Violation::FrameSizeBelowMinimum);
        }
        if idle_ms > 0 {
            if idle_ms < self.config.idle_timeout_peer_min_ms {
                return Err(Violation::IdleTimeoutTooShort);
            }
            // Half of it, so that a late timer or a slow network does not cost the connection (part 2, 2.4.5).
            self.timers.heartbeat_every = Some(Duration::from_millis(u64::from(idle_ms)) / 2);
        }
        self.state.go(if self.side == Side::Server {
            State::OpenDeciding
        } else {
            State::Opened
        });
        self.events.push_back(Event::Opened);
        Ok(())
    }

    fn write_open_if_wanted(&mut self) {
        if self.is_open_wanted && !self.is_open_sent {
            self.write_open();
        }
    }

    fn write_open(&mut self) {
        self.is_open_sent = true;
        let announced_idle_ms = self.config.idle_timeout_ms;
        let open = Open {
            container_id: self.config.container_id.clone(),
            hostname: self.config.hostname.clone(),
            max_frame_size: self.config.frame_size_max.max(FRAME_SIZE_FLOOR as u32),
            channel_max: self.config.channel_max,
            idle_time_out: (announced_idle_ms > 0).then_some(announced_idle_ms),
            offered_capabilities: self.config.offered_capabilities.clone(),
            desired_capabilities: self.config.desired_capabilities.clone(),
            properties: self.config.properties.clone(),
            ..Open::default()
        };
        self.write(0, &open);
    }

    fn on_close(&mut self, close: Close) {
        for session in self.session_ids() {
            self.flush_session(session);
        }
        self.finish(close.error.map(|error| *error));
        if self.is_open_sent {
            self.write(0, &Close { error: None });
        }
        self.state.go(State::Done);
    }

    /// The peer broke a rule of the connection.
    fn violate(&mut self, violation: Violation) {
        if !self.state.is_listening() {
            return;
        }
        debug_assert_eq!(
            violation.scope(),
            Scope::Connection,
            "{violation:?} is answered where it happened"
        );
        log::debug!("connection closed: {}", violation.text());
        self.shut_down(Some(violation.to_error(&self.config)));
    }

    /// Our close, or what comes closest to it in the present state.
    fn shut_down(&mut self, error: Option<AmqpError>) {
        match self.state {
            State::OpenAwaited | State::OpenDeciding | State::Opened => {
                for session in self.session_ids() {
                    self.flush_session(session);
                }
                if !self.is_open_sent {
                    // A close needs an open before it (part 2, 2.4.1).
                    self.write_open();
                }
                self.finish(error.clone());
                self.write(
                    0,
                    &Close {
                        error: error.map(Box::new),
                    },
                );
                self.linger();
            }
            _ => self.break_off(error),
        }
    }

    /// Ends the connection without a close: the AMQP layer is not there yet.
    fn break_off(&mut self, error: Option<AmqpError>) {
        self.finish(error);
        self.linger();
    }

    fn linger(&mut self) {
        self.start_linger();
        self.state.go(State::Lingering);
    }

    /// Says the last words to the embedder: every link, every session, the connection.
    fn finish(&mut self, error: Option<AmqpError>) {
        if self.is_finished {
            return;
        }
        self.is_finished = true;
        for session in self.session_ids() {
            self.close_links_of(session, None);
            let is_news = self
                .sessions
                .remove(session.0)
                .is_some_and(|session| session.state != session::SessionState::Discarding);
            if is_news {
                self.events.push_back(Event::SessionEnded {
                    session,
                    error: None,
                });
            }
        }
        self.channels = Vec::new();
        self.ready = VecDeque::new();
        self.held = BytesMut::new();
        self.events.push_back(Event::Closed { error });
    }

    fn session_ids(&self) -> Vec<SessionId> {
        self.sessions.keys().map(SessionId).collect()
    }

    /// A queue that was very long once is not kept; one of common length is, until the next timeout.
    fn trim_events(&mut self) {
        if self.state != State::Opened || self.events.capacity() > EVENTS_KEPT_MAX {
            self.events = VecDeque::new();
        }
    }

    /// An empty frame, or one that says nothing.
    fn charge_frame(&mut self) {
        self.no_progress.charge(FRAME_QUARTERS);
    }

    /// A frame that costs little and may have said nothing new.
    fn charge_quarter_frame(&mut self) {
        self.no_progress.charge(1);
    }

    /// Payload pays for frames; a whole delivery does, for it used credit that we gave.
    fn charge_transfer(&mut self, payload: usize, is_whole: bool) {
        let paid = payload as u64 / 16 + if is_whole { PROGRESS_TRANSFER } else { 0 };
        let cost = u64::from(FRAME_QUARTERS);
        if paid >= cost {
            self.no_progress.credit(paid - cost);
        } else {
            self.no_progress.charge((cost - paid) as u32);
        }
    }

    fn check_progress(&mut self) -> Result<(), Violation> {
        if self.no_progress.is_overdrawn(self.now) {
            Err(Violation::NoProgress)
        } else {
            Ok(())
        }
    }

    fn check_churn(&mut self) -> Result<(), Violation> {
        if self.churn.is_overdrawn(self.now) {
            Err(Violation::Churn)
        } else {
            Ok(())
        }
    }
}

/// The server refused our credentials; SASL has a code for that, the embedder gets a condition.
fn unauthorized() -> AmqpError {
    AmqpError {
        condition: condition::UNAUTHORIZED_ACCESS,
        description: Some(crate::types::Str::from_static(
            "the server refused the credentials",
        )),
        info: None,
    }
}

/// The loop in the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
