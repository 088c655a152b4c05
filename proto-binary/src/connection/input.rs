//! Bytes in: cuts frames by their length and leads each to its side.
//!
//! A frame is split off the driver's buffer, and payloads stay slices of it. What waits for the embedder (a token to
//! judge, answers that are due in too great a number) is held in the machine, because no further read may come to wake
//! it.

use core::time::Duration;

use bytes::{Buf, BytesMut};

use super::violation::Violation;
use super::{Connection, Side, State};
use crate::frame::{Head, Layout};
use crate::opcode::Opcode;

/// Held input above which reading stops. Together with one more read it bounds what a stranger costs.
const HELD_MAX: usize = 8 * 1024;

impl Connection {
    /// Takes what the peer sent. Whole frames are taken out of `input`, an unfinished one stays there for the next
    /// call.
    pub fn handle_input(&mut self, now: Duration, input: &mut BytesMut) {
        self.see(now);
        if input.is_empty() {
            return;
        }
        self.timers.on_received(self.now);
        if !self.held.is_empty() {
            self.held.unsplit(core::mem::take(input));
            core::mem::swap(&mut self.held, input);
        }
        self.take_frames(input);
        self.timers.is_mid_frame = !input.is_empty();
        self.is_holding = self.is_blocked();
        if self.is_holding {
            self.held = core::mem::take(input);
        }
    }

    /// The embedder decided or answered, or output made room: goes on with what came meanwhile.
    pub(super) fn handle_held(&mut self) {
        if self.is_held_due() {
            self.take_held();
        }
        self.end_after_eof();
    }

    fn take_held(&mut self) {
        // Silence while nothing was read is not the peer's.
        self.timers.on_received(self.now);
        let mut held = core::mem::take(&mut self.held);
        self.take_frames(&mut held);
        self.is_holding = self.is_blocked();
        self.timers.is_mid_frame = !held.is_empty();
        // The rest of an unfinished frame waits here; the next input joins it.
        self.held = held;
    }

    /// Held input can be gone on with.
    pub(super) fn is_held_due(&self) -> bool {
        self.is_holding && !self.is_blocked()
    }

    /// Whether the driver should read on. False while answers, output or held input exceed their bounds.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        match self.state {
            _ if self.eof_at.is_some() => false,
            State::Done => false,
            State::Lingering => true,
            State::AuthDeciding => self.held.len() < HELD_MAX,
            State::AuthAwaited | State::Open => !self.is_full(),
        }
    }

    /// Input waits for the embedder.
    pub(super) fn is_blocked(&self) -> bool {
        self.state == State::AuthDeciding || (self.state.is_listening() && self.is_full())
    }

    /// A server owes as much as it may. A client never is: what it reads makes room.
    fn is_full(&self) -> bool {
        self.side == Side::Server
            && (self.order.len() >= self.config.requests_pending_max
                || self.output.len() + self.order.waiting_bytes() >= self.config.unsent_bytes_max)
    }

    fn take_frames(&mut self, input: &mut BytesMut) {
        while !input.is_empty() {
            if !self.state.is_listening() {
                input.clear();
                return;
            }
            if self.is_blocked() {
                return;
            }
            let layout = match self.layout {
                Some(layout) => layout,
                None => match Layout::detect(input[0]) {
                    Some(layout) => *self.layout.insert(layout),
                    None => {
                        self.violate(Violation::FirstByte);
                        continue;
                    }
                },
            };
            match layout.parse_head(input, self.config.payload_max(layout)) {
                Err(error) => self.violate(error.into()),
                Ok(None) => return,
                Ok(Some(head)) => {
                    if let Err(violation) = self.check_gate(&head) {
                        self.violate_with_error(violation, head.correlation);
                        continue;
                    }
                    if input.len() < head.end {
                        return;
                    }
                    let mut frame = input.split_to(head.end);
                    frame.advance(head.body_at);
                    match self.side {
                        Side::Server => self.on_request(&head, frame.freeze()),
                        Side::Client => self.on_answer(&head, frame.freeze()),
                    }
                }
            }
        }
    }

    /// Before authentication a server takes AUTH alone, and little of it. Judged by the head: what may not pass need
    /// not be sent first.
    fn check_gate(&self, head: &Head) -> Result<(), Violation> {
        if self.side == Side::Client || self.state != State::AuthAwaited {
            return Ok(());
        }
        let opcode = Opcode::from_wire(head.opcode, self.config.dialect);
        if !matches!(opcode, Some((Opcode::Auth, _))) {
            return Err(Violation::AuthRequired);
        }
        if head.body_len() > self.config.payload_before_auth_max {
            return Err(Violation::PayloadTooLarge);
        }
        Ok(())
    }

    /// Ends the connection, with an ERROR where the rule has a code.
    fn violate_with_error(&mut self, violation: Violation, correlation: Option<u32>) {
        if let Some(code) = violation.code() {
            self.write_error(correlation, code.number(), violation.text());
        }
        self.violate(violation);
    }
}
