//! The client's half: requests out, answers matched to them, deliveries in.
//!
//! In the documented layout every request has a correlation id. In the versioned layout answers come in the order of
//! their requests, and an ERROR may also be about an earlier request that has no answer; see [`Calls::take_refused`].

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::event::{Event, RequestId, UsageError};
use super::violation::Violation;
use super::{CloseReason, Connection, Side, State};
use crate::error::ErrorCode;
use crate::frame::{Flags, Head, Layout};
use crate::message::{
    AuthRequest, AuthResponse, ConsumerClosed, ErrorResponse, Message, PingRequest, PingResponse,
    StreamMessage,
};
use crate::opcode::{Numbering, Opcode};
use crate::reply::Reply;
use crate::request::Request;

/// Requests that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    next: u32,
    /// Documented layout.
    by_correlation: BTreeMap<u32, Opcode>,
    /// Versioned layout, in the order of the requests.
    in_order: VecDeque<(u32, Opcode)>,
}

impl Calls {
    fn len(&self) -> usize {
        self.by_correlation.len() + self.in_order.len()
    }

    fn next_id(&mut self) -> u32 {
        // Numbers come round; one that is still in use is passed over.
        while self.by_correlation.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        id
    }

    fn put(&mut self, layout: Layout, id: u32, opcode: Opcode) {
        match layout {
            Layout::Documented => {
                self.by_correlation.insert(id, opcode);
            }
            Layout::Versioned => self.in_order.push_back((id, opcode)),
        }
    }

    /// The request that a success answers.
    fn take_replied(&mut self, correlation: Option<u32>, reply: Opcode) -> Option<RequestId> {
        let (id, opcode) = match correlation {
            Some(id) => (id, self.by_correlation.remove(&id)?),
            None => self.in_order.pop_front()?,
        };
        (opcode.reply() == Some(reply)).then_some(RequestId(id))
    }

    /// The request that an ERROR answers, as far as that can be known. Without a correlation id it is the oldest one
    /// that waits, unless that one cannot be refused with "not found": then it is an ACK, NACK or UNSUBSCRIBE.
    fn take_refused(&mut self, correlation: Option<u32>, code: u32) -> Option<RequestId> {
        if let Some(id) = correlation {
            self.by_correlation.remove(&id);
            return Some(RequestId(id));
        }
        let (id, opcode) = *self.in_order.front()?;
        let is_findable = matches!(
            opcode,
            Opcode::ExtendVisibility | Opcode::Heartbeat | Opcode::Seek | Opcode::CommitOffset
        );
        if code == ErrorCode::NotFound.number() && !is_findable {
            return None;
        }
        self.in_order.pop_front();
        Some(RequestId(id))
    }
}

impl Connection {
    /// Sends a request. The answer comes as [`Event::Replied`] or [`Event::Refused`]. CONSUME, ACK, NACK and
    /// UNSUBSCRIBE are only answered when they are refused, or when `is_confirmed` asks for more; it has no meaning
    /// for others.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn request(
        &mut self,
        request: &Request,
        is_confirmed: bool,
    ) -> Result<RequestId, UsageError> {
        if self.side != Side::Client {
            return Err(UsageError::WrongSide);
        }
        if self.state != State::Open {
            return Err(UsageError::NotOpen);
        }
        let layout = self.config.layout;
        let opcode = request.opcode();
        let is_confirmed = is_confirmed && opcode.is_silent();
        if is_confirmed && layout == Layout::Versioned {
            return Err(UsageError::NoConfirmation);
        }
        if self.calls.len() >= self.config.requests_pending_max {
            return Err(UsageError::TooManyPending);
        }
        if request.body_len() > self.config.payload_max(layout) {
            return Err(UsageError::TooLarge);
        }
        let id = self.calls.next_id();
        let flags = if is_confirmed {
            Flags::CONFIRM
        } else {
            Flags::default()
        };
        let numbering = Numbering::Shared(self.config.dialect);
        request.put_frame(self.output.buf(), layout, numbering, flags, Some(id));
        if is_confirmed || !opcode.is_silent() {
            self.calls.put(layout, id, opcode);
        }
        Ok(RequestId(id))
    }

    pub(super) fn start_client(&mut self) {
        match self.config.token.clone() {
            None => self.events.push_back(Event::Opened),
            Some(token) => self.write_now(Opcode::Auth, None, &AuthRequest { token }),
        }
    }

    pub(super) fn on_answer(&mut self, head: &Head, body: Bytes) {
        let result = match Opcode::from_wire(head.opcode, self.config.dialect) {
            Some((opcode, _)) if self.state == State::AuthAwaited => {
                self.on_answer_to_auth(opcode, body)
            }
            Some((opcode, _)) => self.on_answer_of(opcode, head, body),
            // A later server may say more than we understand.
            None if head.correlation.is_none() && self.config.layout == Layout::Documented => {
                Ok(())
            }
            None => Err(Violation::UnexpectedReply),
        };
        if let Err(violation) = result {
            self.violate(violation);
        }
    }

    fn on_answer_of(&mut self, opcode: Opcode, head: &Head, body: Bytes) -> Result<(), Violation> {
        let is_documented = self.config.layout == Layout::Documented;
        let event = match opcode {
            Opcode::Message => Event::Delivered(Box::new(decode::<Message>(body)?)),
            Opcode::StreamMessage => {
                Event::StreamDelivered(Box::new(decode::<StreamMessage>(body)?))
            }
            Opcode::ConsumerClosed => Event::ConsumerClosed(decode::<ConsumerClosed>(body)?),
            Opcode::Ping if is_documented => {
                let ping: PingRequest = decode(body)?;
                let pong = PingResponse { data: ping.data };
                self.write_now(Opcode::Pong, head.correlation, &pong);
                return Ok(());
            }
            // To a PING of the machine.
            Opcode::Pong if is_documented && head.correlation.is_none() => return Ok(()),
            Opcode::Error => {
                let error: ErrorResponse = decode(body)?;
                let request = self.calls.take_refused(head.correlation, error.code);
                Event::Refused { request, error }
            }
            _ => {
                let reply = Reply::decode(opcode, body)
                    .map_err(|_| Violation::ReplyUndecodable)?
                    .ok_or(Violation::UnexpectedReply)?;
                let request = self
                    .calls
                    .take_replied(head.correlation, opcode)
                    .ok_or(Violation::UnexpectedReply)?;
                Event::Replied { request, reply }
            }
        };
        self.events.push_back(event);
        Ok(())
    }

    /// An ERROR comes from servers that know no AUTH, or no such token.
    fn on_answer_to_auth(&mut self, opcode: Opcode, body: Bytes) -> Result<(), Violation> {
        let (is_accepted, text) = match opcode {
            Opcode::AuthResponse => {
                let response: AuthResponse = decode(body)?;
                (response.success, response.message)
            }
            Opcode::Error => (false, decode::<ErrorResponse>(body)?.message),
            _ => return Err(Violation::UnexpectedReply),
        };
        if is_accepted {
            self.state = State::Open;
            self.events.push_back(Event::Opened);
        } else {
            self.finish(CloseReason::TokenRefused(text));
            self.state = State::Done;
        }
        Ok(())
    }
}

fn decode<M: prost::Message + Default>(body: Bytes) -> Result<M, Violation> {
    M::decode(body).map_err(|_| Violation::ReplyUndecodable)
}
