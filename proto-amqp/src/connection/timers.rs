//! Deadlines: first bytes, open, idle time-out both ways, slow readers, lingering (part 2, 2.4.5).
//!
//! Each deadline is computed from the moment that it counts from, so that nothing is rescheduled on the hot path.

use core::time::Duration;

use super::violation::Violation;
use super::{Connection, State};

/// How long we listen to a peer that was told of its error, so that a reset does not destroy what it should read.
const LINGER: Duration = Duration::from_secs(2);
/// The same for peers that did not get past the headers.
const LINGER_REFUSED: Duration = Duration::from_millis(250);

/// The moments that deadlines count from.
#[derive(Debug)]
pub(super) struct Timers {
    created: Duration,
    /// Bytes came from the peer.
    pub(super) last_received: Duration,
    /// Bytes were handed to the driver.
    pub(super) last_sent: Duration,
    /// Half of the peer's idle-time-out; none when it does not ask for heartbeats.
    pub(super) heartbeat_every: Option<Duration>,
    /// Since when output does not move.
    pub(super) stuck_since: Option<Duration>,
    /// How long to linger from the next moment that the driver names: a command names none, and what came last may be
    /// long ago.
    linger_due: Option<Duration>,
    /// When lingering ends.
    linger_until: Duration,
}

impl Timers {
    pub(super) const fn new(now: Duration) -> Self {
        Self {
            created: now,
            last_received: now,
            last_sent: now,
            heartbeat_every: None,
            stuck_since: None,
            linger_due: None,
            linger_until: Duration::ZERO,
        }
    }
}

/// `from` plus milliseconds, where 0 means no deadline.
fn after_ms(from: Duration, ms: u32) -> Option<Duration> {
    (ms > 0).then(|| from.saturating_add(Duration::from_millis(u64::from(ms))))
}

fn earliest(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Connection {
    /// When [`handle_timeout`](Self::handle_timeout) wants to be called, in the driver's time. None: never.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        match self.state {
            State::Done => None,
            State::Lingering => Some(self.timers.linger_until),
            State::Opened => earliest(
                earliest(self.idle_deadline(), self.heartbeat_deadline()),
                self.slow_deadline(),
            ),
            _ => earliest(self.first_bytes_deadline(), self.open_deadline()),
        }
    }

    /// Lets deadlines that have passed take effect.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.see(now);
        if self.events.is_empty() {
            // Timeouts are for the quiet: what was room for traffic is given back.
            self.events = alloc::collections::VecDeque::new();
        }
        let is_past = |deadline: Option<Duration>| deadline.is_some_and(|deadline| deadline <= now);
        match self.state {
            State::Done => {}
            State::Lingering => {
                if self.timers.linger_until <= now {
                    // Whoever did not read by now will not.
                    self.output.clear();
                    self.state.go(State::Done);
                }
            }
            State::Opened => {
                if is_past(self.slow_deadline()) {
                    // A close would join the queue that does not move.
                    self.output.clear();
                    let error = Violation::SlowReader.to_error(&self.config);
                    self.finish(Some(error));
                    self.state.go(State::Done);
                } else if is_past(self.idle_deadline()) {
                    self.violate(Violation::IdleTimeout);
                }
            }
            _ => {
                if is_past(self.first_bytes_deadline()) || is_past(self.open_deadline()) {
                    self.violate(Violation::OpenDeadline);
                }
            }
        }
    }

    fn first_bytes_deadline(&self) -> Option<Duration> {
        if self.state != State::HeaderAwaited {
            return None;
        }
        after_ms(self.timers.created, self.config.first_bytes_deadline_ms)
    }

    fn open_deadline(&self) -> Option<Duration> {
        after_ms(self.timers.created, self.config.open_deadline_ms)
    }

    fn idle_deadline(&self) -> Option<Duration> {
        let announced_ms = self.config.idle_timeout_ms;
        after_ms(
            self.timers.last_received,
            announced_ms.saturating_add(announced_ms / 2),
        )
    }

    fn slow_deadline(&self) -> Option<Duration> {
        after_ms(self.timers.stuck_since?, self.config.slow_reader_ms)
    }

    fn heartbeat_deadline(&self) -> Option<Duration> {
        // While output waits, the driver needs no reminding: it is what it waits for.
        if !self.output.is_empty() {
            return None;
        }
        self.timers
            .last_sent
            .checked_add(self.timers.heartbeat_every?)
    }

    pub(super) fn is_heartbeat_due(&self) -> bool {
        self.state == State::Opened
            && self
                .heartbeat_deadline()
                .is_some_and(|deadline| deadline <= self.now)
    }

    /// Time only goes forward here, whatever the driver's clock does.
    pub(super) fn see(&mut self, now: Duration) {
        self.now = self.now.max(now);
        if let Some(linger) = self.timers.linger_due.take() {
            self.timers.linger_until = self.now.saturating_add(linger);
        }
    }

    pub(super) fn start_linger(&mut self) {
        let linger = if self.is_open_sent {
            LINGER
        } else {
            LINGER_REFUSED
        };
        self.timers.linger_due = Some(linger);
        // Until a moment is named the driver is to come back at once.
        self.timers.linger_until = self.now;
    }
}
