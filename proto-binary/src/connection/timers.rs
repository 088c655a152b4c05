//! Deadlines: first bytes, authentication, idle time-out, stalled frames, slow readers, lingering.
//!
//! Each deadline is computed from the moment that it counts from, so that nothing is rescheduled on the hot path.

use core::time::Duration;

use bytes::Bytes;

use super::violation::Violation;
use super::{Connection, Side, State};
use crate::frame::Layout;
use crate::message::PingRequest;
use crate::opcode::Opcode;

/// How long the peer may read our last words before the socket is closed.
const LINGER: Duration = Duration::from_millis(500);

/// The moments that deadlines count from.
#[derive(Debug)]
pub(super) struct Timers {
    created: Duration,
    last_received: Duration,
    /// A PING went out since then.
    is_pinged: bool,
    /// A frame has begun and is not complete.
    pub(super) is_mid_frame: bool,
    /// Since when output does not move.
    pub(super) stuck_since: Option<Duration>,
    linger_until: Duration,
}

impl Timers {
    pub(super) const fn new(now: Duration) -> Self {
        Self {
            created: now,
            last_received: now,
            is_pinged: false,
            is_mid_frame: false,
            stuck_since: None,
            linger_until: Duration::ZERO,
        }
    }

    pub(super) const fn on_received(&mut self, now: Duration) {
        self.last_received = now;
        self.is_pinged = false;
    }

    pub(super) fn start_linger(&mut self, now: Duration) {
        self.linger_until = now.saturating_add(LINGER);
    }
}

/// `from` plus milliseconds, where 0 means no deadline.
fn after_ms(from: Duration, ms: u32) -> Option<Duration> {
    (ms > 0).then(|| from.saturating_add(Duration::from_millis(u64::from(ms))))
}

impl Connection {
    /// When [`handle_timeout`](Self::handle_timeout) wants to be called, in the driver's time. None: never.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        match self.state {
            State::Done => None,
            State::Lingering => Some(self.timers.linger_until),
            // Output made room since input was held: there is work without a read.
            _ if self.is_held_due() => Some(self.now),
            _ => self
                .deadlines()
                .into_iter()
                .filter_map(|(at, _)| at)
                .chain(self.ping_at())
                .chain(self.grace_ends_at())
                .min(),
        }
    }

    /// Lets deadlines that have passed take effect.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.see(now);
        self.handle_held();
        match self.state {
            State::Done => {}
            State::Lingering => {
                if self.timers.linger_until <= self.now {
                    // Whoever did not read by now will not.
                    self.output.clear();
                    self.state = State::Done;
                }
            }
            _ => {
                let is_past = |at: Option<Duration>| at.is_some_and(|at| at <= self.now);
                let missed = self.deadlines().into_iter().find(|(at, _)| is_past(*at));
                if let Some((_, violation)) = missed {
                    if violation == Violation::SlowReader {
                        // Nothing of it will be read.
                        self.output.clear();
                    }
                    self.violate(violation);
                } else if is_past(self.ping_at()) {
                    self.timers.is_pinged = true;
                    let ping = PingRequest { data: Bytes::new() };
                    self.write_now(Opcode::Ping, None, &ping);
                }
            }
        }
    }

    /// What ends the connection, and when.
    fn deadlines(&self) -> [(Option<Duration>, Violation); 5] {
        // While we do not read, silence is ours.
        let is_reading = !self.is_blocked() && self.eof_at.is_none();
        let received = self.timers.last_received;
        let first_bytes = match self.layout {
            None => after_ms(self.timers.created, self.config.first_bytes_deadline_ms),
            Some(_) => None,
        };
        let auth = match self.state {
            State::AuthAwaited if self.side == Side::Server => {
                after_ms(self.timers.created, self.config.auth_deadline_ms)
            }
            _ => None,
        };
        let idle = (is_reading && self.state == State::Open)
            .then(|| after_ms(received, self.idle_timeout_ms()))
            .flatten();
        let stall = (is_reading && self.timers.is_mid_frame)
            .then(|| after_ms(received, self.config.frame_stall_ms))
            .flatten();
        [
            (self.slow_deadline(), Violation::SlowReader),
            (first_bytes, Violation::FirstBytesDeadline),
            (auth, Violation::AuthDeadline),
            (idle, Violation::IdleTimeout),
            (stall, Violation::FrameStalled),
        ]
    }

    /// Until when a peer that sends no more gets its answers.
    pub(super) fn grace_ends_at(&self) -> Option<Duration> {
        let grace = Duration::from_millis(u64::from(self.config.eof_grace_ms));
        Some(self.eof_at?.saturating_add(grace))
    }

    fn slow_deadline(&self) -> Option<Duration> {
        let since = self.timers.stuck_since?;
        after_ms(since, self.config.slow_reader_ms)
    }

    fn idle_timeout_ms(&self) -> u32 {
        match self.layout {
            Some(Layout::Documented) => self.config.idle_timeout_ms,
            Some(Layout::Versioned) | None => self.config.idle_timeout_versioned_ms,
        }
    }

    /// Half of the idle time-out, so that a late timer or a slow network does not cost the connection.
    fn ping_at(&self) -> Option<Duration> {
        let is_wanted = self.layout == Some(Layout::Documented)
            && self.state == State::Open
            && self.config.idle_timeout_ms > 0
            && self.eof_at.is_none()
            && !self.timers.is_pinged
            && !self.is_blocked();
        is_wanted.then(|| {
            let idle = Duration::from_millis(u64::from(self.config.idle_timeout_ms));
            self.timers.last_received.saturating_add(idle / 2)
        })
    }

    /// Time only goes forward here, whatever the driver's clock does.
    pub(super) fn see(&mut self, now: Duration) {
        self.now = self.now.max(now);
        if self.timers.stuck_since.is_none() && !self.output.is_empty() {
            self.timers.stuck_since = Some(self.now);
        }
    }
}
