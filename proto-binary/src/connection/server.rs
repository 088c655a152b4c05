//! The server's half: requests in, answers and deliveries out.

use alloc::string::ToString;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;

use super::event::{Delivery, Event, ReplyTo, StreamDelivery, Token, UsageError};
use super::order::Turn;
use super::output::SLICE_MIN;
use super::violation::Violation;
use super::{Auth, CloseReason, Config, Connection, Side, State};
use crate::error::{ErrorCode, text};
use crate::frame::{CORRELATION_LEN, Flags, HEAD_LEN, Head, Layout};
use crate::message::{AuthRequest, AuthResponse, ConsumerClosed, ErrorResponse, PingResponse};
use crate::opcode::{Numbering, Opcode};
use crate::reply::Reply;
use crate::request::{BodyLimits, Request, read_publish, read_publish_batch};
use crate::stored::{MESSAGE_ID, Stored};
use crate::wire::{
    put_str_field, put_text_field, put_uint_field, str_field_len, text_field_len, uint_field_len,
};

/// Numbers of the fields of MESSAGE and STREAM_MESSAGE that are written beside a record's content. The two share the
/// first, and differ in what the fifth, the fiftieth and ordering keys are.
const QUEUE: u32 = 2;
const ATTEMPT_OR_SEQUENCE: u32 = 5;
const PUBLISHED_AT: u32 = 6;
const DELIVERY_ID: u32 = 50;
const STREAM_ORDERING_KEY: u32 = 50;
const GROUP: u32 = 51;
const IDEMPOTENCY_KEY: u32 = 52;

/// With [`ErrorCode::TooLarge`], for people.
const ANSWER_TOO_LARGE: &str = "the answer is too large";

/// A field of a delivery that is written after the content. Empty and zero ones are left out.
enum Tail<'a> {
    Uint(u32, u64),
    Text(u32, &'a str),
    /// Fields as they stand in the record.
    Written(&'a [u8]),
}

impl Connection {
    /// Answers [`Event::Authenticate`]. After a no, AUTH_RESPONSE is the last thing that the peer reads.
    ///
    /// # Errors
    /// No token waits to be judged.
    pub fn auth_outcome(&mut self, is_accepted: bool) -> Result<(), UsageError> {
        let Some(reply_to) = self.auth.take() else {
            return Err(UsageError::NotDeciding);
        };
        if is_accepted {
            self.state = State::Open;
            self.write_auth_response(&reply_to, true, text::AUTHENTICATED);
            self.handle_held();
        } else {
            // Whatever else is due will not be answered any more, so nothing has to be waited for.
            let body = auth_response(false, text::TOKEN_INVALID);
            self.write_now(Opcode::AuthResponse, reply_to.correlation, &body);
            self.finish(CloseReason::Local);
            self.linger_or_end();
        }
        Ok(())
    }

    /// Answers a request with success. An answer that is too large for a frame becomes an ERROR.
    ///
    /// # Errors
    /// See [`UsageError`]; the request stays without an answer.
    pub fn reply(&mut self, reply_to: ReplyTo, reply: &Reply) -> Result<(), UsageError> {
        let layout = self.check_server()?;
        if reply_to.opcode.and_then(Opcode::reply) != Some(reply.opcode()) {
            return Err(UsageError::WrongReply);
        }
        if reply.body_len() > self.config.payload_max(layout) {
            return self.refuse(reply_to, ErrorCode::TooLarge, ANSWER_TOO_LARGE);
        }
        if reply_to.is_confirmed {
            let number = reply.opcode().to_wire(reply_to.numbering);
            self.answer(&reply_to, |buf, layout| {
                reply.put_frame(buf, layout, number, reply_to.correlation);
            })?;
        } else {
            self.answer(&reply_to, |_, _| {})?;
        }
        self.handle_held();
        Ok(())
    }

    /// Answers a PUBLISH with PUBLISH_ACK: [`reply`](Self::reply) of a [`Reply::Published`] that need not be made first.
    /// The id has to be UTF-8.
    ///
    /// # Errors
    /// See [`UsageError`]; the request stays without an answer.
    pub fn published(&mut self, reply_to: ReplyTo, message_id: &[u8]) -> Result<(), UsageError> {
        let layout = self.check_server()?;
        if reply_to.opcode != Some(Opcode::Publish) {
            return Err(UsageError::WrongReply);
        }
        let body_len = text_field_len(MESSAGE_ID, message_id);
        if body_len > self.config.payload_max(layout) {
            return self.refuse(reply_to, ErrorCode::TooLarge, ANSWER_TOO_LARGE);
        }
        self.answer(&reply_to, |buf, layout| {
            let number = Opcode::PublishAck.to_wire(reply_to.numbering);
            let acked = Acked {
                layout,
                number,
                correlation: reply_to.correlation,
                body_len,
                message_id,
            };
            put_in_one(buf, HEAD_LEN + CORRELATION_LEN + body_len, &acked);
        })?;
        self.handle_held();
        Ok(())
    }

    /// Answers a request with ERROR, whether or not it asked for an answer.
    ///
    /// # Errors
    /// See [`UsageError`]; the request stays without an answer.
    pub fn refuse(
        &mut self,
        reply_to: ReplyTo,
        code: ErrorCode,
        text: &str,
    ) -> Result<(), UsageError> {
        self.check_server()?;
        self.answer_error(&reply_to, code, text)?;
        self.handle_held();
        Ok(())
    }

    /// Sends a message to a consumer.
    ///
    /// # Errors
    /// [`UsageError::TooLarge`] when the peer could not read it: such a message has to go elsewhere.
    pub fn deliver(&mut self, delivery: &Delivery<'_>) -> Result<(), UsageError> {
        let stored = delivery.stored;
        let tail = [
            Tail::Uint(ATTEMPT_OR_SEQUENCE, u64::from(delivery.attempt)),
            Tail::Written(stored.dated()),
            Tail::Uint(DELIVERY_ID, delivery.delivery_id),
            Tail::Text(GROUP, delivery.group),
            Tail::Text(IDEMPOTENCY_KEY, stored.idempotency_key),
        ];
        self.push_message(Opcode::Message, stored, delivery.queue, &tail, 2)
    }

    /// Sends an entry of a stream to a reader.
    ///
    /// # Errors
    /// [`UsageError::TooLarge`] when the peer could not read it: such an entry has to be left out.
    pub fn deliver_stream(&mut self, delivery: &StreamDelivery<'_>) -> Result<(), UsageError> {
        let stored = delivery.stored;
        let tail = [
            Tail::Uint(ATTEMPT_OR_SEQUENCE, delivery.sequence),
            Tail::Uint(PUBLISHED_AT, stored.published_at_ms as u64),
            Tail::Text(STREAM_ORDERING_KEY, stored.ordering_key),
            Tail::Text(GROUP, delivery.group),
            Tail::Text(IDEMPOTENCY_KEY, stored.idempotency_key),
        ];
        self.push_message(Opcode::StreamMessage, stored, delivery.queue, &tail, 2)
    }

    /// Tells the peer that a consumer of its is gone. The versioned layout has no word for it: nothing is sent.
    ///
    /// # Errors
    /// The connection is not open.
    pub fn close_consumer(&mut self, closed: &ConsumerClosed) -> Result<(), UsageError> {
        if self.check_server()? == Layout::Documented {
            self.write_now(Opcode::ConsumerClosed, None, closed);
        }
        Ok(())
    }

    pub(super) fn on_request(&mut self, head: &Head, body: Bytes) {
        let known = Opcode::from_wire(head.opcode, self.config.dialect);
        if let Some((Opcode::Auth, _)) = known
            && self.config.auth != Auth::Absent
        {
            self.on_auth(head, body);
            return;
        }
        if head.flags.has_reserved() {
            self.refuse_frame(head, Violation::ReservedFlags);
            return;
        }
        if let Some((Opcode::Pong, _)) = known {
            self.charge_nuisance();
            return;
        }
        let Some((opcode, numbering)) = known else {
            self.refuse_frame(head, Violation::UnknownOpcode);
            return;
        };
        if opcode == Opcode::Publish {
            match read_publish(body, &self.body_limits()) {
                Err(error) => self.refuse_frame(head, error.into()),
                Ok(publish) => {
                    let reply_to = self.begin(head, Some(opcode), numbering);
                    self.events.push_back(Event::Publish { reply_to, publish });
                }
            }
            return;
        }
        if opcode == Opcode::PublishBatch {
            match read_publish_batch(&body, &self.body_limits()) {
                Err(error) => self.refuse_frame(head, error.into()),
                Ok(batch) => {
                    let reply_to = self.begin(head, Some(opcode), numbering);
                    let event = Event::PublishBatch { reply_to, batch };
                    self.events.push_back(event);
                }
            }
            return;
        }
        match Request::decode(opcode, body, &self.body_limits()) {
            Ok(None) => self.refuse_frame(head, Violation::UnknownOpcode),
            Err(error) => self.refuse_frame(head, error.into()),
            Ok(Some(Request::Ping(ping))) => {
                let reply_to = self.begin(head, Some(opcode), numbering);
                let reply = Reply::Pong(PingResponse { data: ping.data });
                // Cannot fail: the request has just come.
                let _ = self.reply(reply_to, &reply);
                self.charge_nuisance();
            }
            Ok(Some(request)) => {
                let reply_to = self.begin(head, Some(opcode), numbering);
                self.events.push_back(Event::Request { reply_to, request });
            }
        }
    }

    fn on_auth(&mut self, head: &Head, body: Bytes) {
        let reply_to = self.begin(head, Some(Opcode::Auth), Numbering::Own);
        let request = if head.flags.has_reserved() {
            None
        } else {
            AuthRequest::decode(body).ok()
        };
        match request {
            None => {
                let body = auth_response(false, text::AUTH_INVALID);
                self.write_now(Opcode::AuthResponse, reply_to.correlation, &body);
                self.violate(Violation::AuthUndecodable);
            }
            Some(_) if self.config.auth == Auth::Open => {
                self.write_auth_response(&reply_to, true, text::AUTHENTICATED);
                self.charge_nuisance();
            }
            Some(request) => {
                self.auth = Some(reply_to);
                self.state = State::AuthDeciding;
                self.events.push_back(Event::Authenticate {
                    token: Token(request.token),
                });
            }
        }
    }

    fn body_limits(&self) -> BodyLimits {
        let payload_max = self
            .config
            .payload_max(self.layout.unwrap_or(Layout::Documented));
        BodyLimits {
            headers_max: self.config.headers_max,
            batch_messages_max: self.config.batch_messages_max,
            message_size_max: payload_max.saturating_sub(Config::ENVELOPE_SIZE_MAX),
        }
    }

    /// A frame that is answered with an ERROR here.
    fn refuse_frame(&mut self, head: &Head, violation: Violation) {
        let reply_to = self.begin(head, None, Numbering::Own);
        if let Some(code) = violation.code() {
            log::debug!("request refused: {}", violation.text());
            // Cannot fail: the request has just come.
            let _ = self.answer_error(&reply_to, code, violation.text());
        }
        self.charge_nuisance();
    }

    fn charge_nuisance(&mut self) {
        if self.state.is_listening() && !self.nuisance.take(self.now) {
            self.violate(Violation::Nuisance);
        }
    }

    fn begin(&mut self, head: &Head, opcode: Option<Opcode>, numbering: Numbering) -> ReplyTo {
        let seq = match head.correlation {
            Some(_) => {
                self.order.begin_correlated();
                0
            }
            None => self.order.begin(),
        };
        ReplyTo {
            seq,
            correlation: head.correlation,
            opcode,
            numbering,
            is_confirmed: !opcode.is_some_and(Opcode::is_silent)
                || head.flags.contains(Flags::CONFIRM),
        }
    }

    /// Writes an answer, or keeps it until its turn has come.
    fn answer(
        &mut self,
        reply_to: &ReplyTo,
        write: impl FnOnce(&mut BytesMut, Layout),
    ) -> Result<(), UsageError> {
        let layout = self.layout.ok_or(UsageError::NotOpen)?;
        if reply_to.correlation.is_some() {
            self.order.end_correlated();
            write(self.output.buf(), layout);
            return Ok(());
        }
        match self.order.turn(reply_to.seq) {
            None => return Err(UsageError::UnknownRequest),
            Some(Turn::Later) => {
                let mut frame = BytesMut::new();
                write(&mut frame, layout);
                self.order.keep(reply_to.seq, frame.freeze());
            }
            Some(Turn::Now) => {
                write(self.output.buf(), layout);
                self.order.pop();
                while let Some(frame) = self.order.pop_ready() {
                    self.output.push_payload(&frame);
                }
            }
        }
        Ok(())
    }

    fn answer_error(
        &mut self,
        reply_to: &ReplyTo,
        code: ErrorCode,
        text: &str,
    ) -> Result<(), UsageError> {
        let body = error_response(code.number(), text);
        self.answer(reply_to, |buf, layout| {
            let number = Opcode::Error as u8;
            layout.put_frame(buf, number, Flags::default(), reply_to.correlation, &body);
        })
    }

    fn write_auth_response(&mut self, reply_to: &ReplyTo, success: bool, text: &str) {
        let body = auth_response(success, text);
        // Cannot fail: the request is the one that was just taken.
        let _ = self.answer(reply_to, |buf, layout| {
            let number = Opcode::AuthResponse as u8;
            layout.put_frame(buf, number, Flags::default(), reply_to.correlation, &body);
        });
    }

    /// An ERROR out of turn: nothing comes after it.
    pub(super) fn write_error(&mut self, correlation: Option<u32>, code: u32, text: &str) {
        self.write_now(Opcode::Error, correlation, &error_response(code, text));
    }

    pub(super) fn write_now(
        &mut self,
        opcode: Opcode,
        correlation: Option<u32>,
        body: &impl prost::Message,
    ) {
        let layout = self.layout.unwrap_or(Layout::Documented);
        let number = opcode as u8;
        layout.put_frame(
            self.output.buf(),
            number,
            Flags::default(),
            correlation,
            body,
        );
    }

    /// Answers and deliveries may be written.
    fn check_server(&self) -> Result<Layout, UsageError> {
        if self.side != Side::Server {
            return Err(UsageError::WrongSide);
        }
        match (self.state, self.layout) {
            (State::Open | State::AuthDeciding, Some(layout)) => Ok(layout),
            _ => Err(UsageError::NotOpen),
        }
    }

    /// Writes a delivery with its fields in ascending order. Of `tail`, the versioned layout knows the first few.
    fn push_message(
        &mut self,
        opcode: Opcode,
        stored: &Stored<'_>,
        queue: &str,
        tail: &[Tail<'_>],
        versioned_tail: usize,
    ) -> Result<(), UsageError> {
        let layout = self.check_server()?;
        let tail = match layout {
            Layout::Documented => tail,
            Layout::Versioned => &tail[..versioned_tail],
        };
        let content = stored.content();
        let tail_len: usize = tail
            .iter()
            .map(|field| match field {
                Tail::Uint(number, value) => uint_field_len(*number, *value),
                Tail::Text(number, value) => str_field_len(*number, value),
                Tail::Written(fields) => fields.len(),
            })
            .sum();
        let id_field = stored.id_field();
        let lead_len = id_field.len() + str_field_len(QUEUE, queue);
        let body_len = lead_len + content.len() + tail_len;
        if body_len > self.config.payload_max(layout) {
            return Err(UsageError::TooLarge);
        }
        let lead = Lead {
            layout,
            number: opcode.to_wire(Numbering::Shared(self.config.dialect)),
            body_len,
            id_field,
            queue,
        };
        let buf = self.output.buf();
        if content.len() < SLICE_MIN {
            buf.reserve(HEAD_LEN + body_len);
            put_in_one(buf, HEAD_LEN + lead_len, &lead);
            buf.extend_from_slice(content);
        } else {
            put_in_one(buf, HEAD_LEN + lead_len, &lead);
            self.output.push_payload(&stored.content_shared());
        }
        put_in_one(self.output.buf(), tail_len, &Rest(tail));
        Ok(())
    }
}

/// Something that is written in several steps.
trait Put {
    fn put(&self, buf: &mut impl BufMut);
}

/// A PUBLISH_ACK.
struct Acked<'a> {
    layout: Layout,
    number: u8,
    correlation: Option<u32>,
    body_len: usize,
    message_id: &'a [u8],
}

impl Put for Acked<'_> {
    fn put(&self, buf: &mut impl BufMut) {
        let (flags, correlation) = (Flags::default(), self.correlation);
        (self.layout).put_head(buf, self.number, flags, correlation, self.body_len);
        put_text_field(buf, MESSAGE_ID, self.message_id);
    }
}

/// What precedes the content of a delivery.
struct Lead<'a> {
    layout: Layout,
    number: u8,
    body_len: usize,
    /// As it stands in the record.
    id_field: &'a [u8],
    queue: &'a str,
}

impl Put for Lead<'_> {
    fn put(&self, buf: &mut impl BufMut) {
        (self.layout).put_head(buf, self.number, Flags::default(), None, self.body_len);
        buf.put_slice(self.id_field);
        put_str_field(buf, QUEUE, self.queue);
    }
}

/// What follows the content.
struct Rest<'a>(&'a [Tail<'a>]);

impl Put for Rest<'_> {
    fn put(&self, buf: &mut impl BufMut) {
        for field in self.0 {
            match field {
                Tail::Uint(number, value) => put_uint_field(buf, *number, *value),
                Tail::Text(number, value) => put_str_field(buf, *number, value),
                Tail::Written(fields) => buf.put_slice(fields),
            }
        }
    }
}

/// Bytes that are put together before they go into a buffer.
const IN_ONE_MAX: usize = 128;

/// Writes `len_max` bytes or fewer. A growing buffer charges for each step, so what is small comes to it as one.
fn put_in_one(buf: &mut BytesMut, len_max: usize, what: &impl Put) {
    if len_max > IN_ONE_MAX {
        return what.put(buf);
    }
    let mut space = [0; IN_ONE_MAX];
    let mut rest = &mut space[..];
    what.put(&mut rest);
    let len = IN_ONE_MAX - rest.len();
    buf.extend_from_slice(&space[..len]);
}

fn error_response(code: u32, text: &str) -> ErrorResponse {
    ErrorResponse {
        code,
        message: text.to_string(),
    }
}

fn auth_response(success: bool, text: &str) -> AuthResponse {
    AuthResponse {
        success,
        message: text.to_string(),
    }
}
