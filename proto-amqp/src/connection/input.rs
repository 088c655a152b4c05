//! Bytes in: cuts frames by their size, and leads each to the session that it belongs to.
//!
//! All complete frames of a read are split off at once and walked; a frame costs no allocation here. What waits for
//! the embedder's decision (SASL, open) is held in the machine, because no further read may come to wake it.

use core::ops::Range;
use core::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::handshake::{HEADER_AMQP, HEADER_LEN, HEADER_SASL};
use super::ids::SessionId;
use super::link::incoming::PayloadRef;
use super::session::{Channel, SessionState};
use super::violation::{Scope, Violation};
use super::{Connection, Side, State};
use crate::performative::{End, Performative, SaslPerformative};
use crate::types::DecodeError;

/// Size of the frame header in bytes.
const FRAME_HEADER: usize = 8;
const TYPE_AMQP: u8 = 0;
const TYPE_SASL: u8 = 1;
/// Held input above which reading stops. Together with one more read it bounds what a stranger costs.
const HELD_MAX: usize = 8 * 1024;

/// Frames that came together.
pub(super) struct Chunk {
    pub(super) bytes: Bytes,
    /// Memory that a slice of it keeps alive: the driver's buffer may be far larger than what was read into it.
    pub(super) backing: usize,
}

impl Chunk {
    /// A frame's body by itself, for what is kept longer than its turn: an open's fields live as long as the connection.
    fn own(&self, body: Range<usize>) -> Bytes {
        Bytes::copy_from_slice(self.bytes.get(body).unwrap_or_default())
    }
}

/// A frame inside its chunk.
#[derive(Clone, Copy)]
struct Frame {
    kind: u8,
    channel: u16,
    body: usize,
    end: usize,
}

impl Connection {
    /// Takes what the peer sent. Whole frames are taken out of `input`, an unfinished one stays there for the next
    /// call.
    pub fn handle_input(&mut self, now: Duration, input: &mut BytesMut) {
        self.see(now);
        if input.is_empty() {
            return;
        }
        self.timers.last_received = self.now;
        if !self.held.is_empty() || self.state.is_deciding() {
            self.held.extend_from_slice(input);
            input.clear();
            if self.state.is_deciding() {
                return;
            }
            let mut held = core::mem::take(&mut self.held);
            self.take_frames(&mut held);
            if self.state.is_deciding() {
                self.held = held;
            } else {
                *input = held;
            }
            return;
        }
        self.take_frames(input);
        if self.state.is_deciding() && !input.is_empty() {
            self.held = core::mem::take(input);
        }
    }

    /// The embedder decided: goes on with what came meanwhile.
    pub(super) fn handle_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let mut held = core::mem::take(&mut self.held);
        self.take_frames(&mut held);
        // The rest of an unfinished frame waits here; the next input joins it.
        self.held = held;
    }

    /// Whether the driver should read on. False while output or held input exceed their bounds.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        match self.state {
            State::Done => false,
            State::Lingering => true,
            _ => {
                // Queued messages do not count: it takes reading to hear of the window or credit that they wait for.
                let has_room = self.output.len() < self.config.unsent_bytes_max;
                has_room && !(self.state.is_deciding() && self.held.len() >= HELD_MAX)
            }
        }
    }

    fn take_frames(&mut self, input: &mut BytesMut) {
        while !input.is_empty() {
            match self.state {
                State::Lingering | State::Done => {
                    self.discard(input);
                    return;
                }
                State::SaslDeciding | State::OpenDeciding => return,
                State::HeaderAwaited | State::AmqpHeaderAwaited => {
                    if !self.take_header(input) {
                        return;
                    }
                    continue;
                }
                _ => {}
            }
            if !self.take_chunk(input) {
                return;
            }
        }
    }

    /// Returns whether a header was there.
    fn take_header(&mut self, input: &mut BytesMut) -> bool {
        if input.len() < HEADER_LEN {
            if !Self::is_header_start(input) {
                let wanted = if self.state == State::HeaderAwaited && self.config.sasl.required {
                    HEADER_SASL
                } else {
                    HEADER_AMQP
                };
                self.refuse_header(wanted, input);
                input.clear();
            }
            return false;
        }
        let header = input.split_to(HEADER_LEN);
        self.on_header(&header);
        true
    }

    /// Splits off all frames that are complete and walks them. Returns whether it makes sense to go on.
    fn take_chunk(&mut self, input: &mut BytesMut) -> bool {
        // Frames before open are taken one by one: each may change what the next bytes mean.
        let is_single = self.state != State::Opened;
        let size_max = if is_single {
            self.config.frame_size_before_open_max
        } else {
            self.config.frame_size_max
        } as usize;
        let mut complete = 0;
        let mut broken = None;
        while let Some(start) = input.get(complete..complete + 4) {
            let size = u32::from_be_bytes([start[0], start[1], start[2], start[3]]) as usize;
            // Judged by the size alone: whoever announces too much need not send it first.
            if size < FRAME_HEADER {
                broken = Some(Violation::FrameSizeBelowHeader);
                break;
            }
            if size > size_max.max(super::FRAME_SIZE_FLOOR) {
                broken = Some(Violation::FrameTooLarge);
                break;
            }
            // A data offset that points past the end is known to be wrong before the body is there.
            if let Some(offset) = input.get(complete + 4)
                && (*offset < 2 || usize::from(*offset) * 4 > size)
            {
                broken = Some(Violation::DataOffset);
                break;
            }
            if size > input.len() - complete {
                break;
            }
            complete += size;
            if is_single {
                break;
            }
        }
        if complete == 0 {
            if let Some(violation) = broken {
                self.violate(violation);
            }
            return broken.is_some();
        }
        let backing = input.capacity();
        let bytes = input.split_to(complete).freeze();
        self.walk(&Chunk { bytes, backing });
        true
    }

    fn walk(&mut self, chunk: &Chunk) {
        let mut at = 0;
        while let Some(start) = chunk.bytes.get(at..at + FRAME_HEADER) {
            if !self.state.is_listening() {
                self.discard(&mut BytesMut::from(&chunk.bytes[at..]));
                return;
            }
            let size = u32::from_be_bytes([start[0], start[1], start[2], start[3]]) as usize;
            let frame = Frame {
                kind: start[5],
                channel: u16::from_be_bytes([start[6], start[7]]),
                body: at + usize::from(start[4]) * 4,
                end: at + size,
            };
            at += size;
            if let Err(violation) = self.on_frame(chunk, frame) {
                self.violate(violation);
            }
        }
    }

    fn on_frame(&mut self, chunk: &Chunk, frame: Frame) -> Result<(), Violation> {
        if matches!(
            self.state,
            State::MechanismsAwaited
                | State::SaslInitAwaited
                | State::SaslResponseAwaited
                | State::OutcomeAwaited
        ) {
            return self.on_sasl_frame(&chunk.own(frame.body..frame.end), frame);
        }
        if frame.kind != TYPE_AMQP {
            return Err(Violation::FrameType);
        }
        if frame.body == frame.end {
            // Part 2, 2.4.5: an empty frame keeps the connection alive and does nothing else.
            self.charge_frame();
            return self.check_progress();
        }
        if self.state == State::OpenAwaited {
            return self.on_frame_before_open(&chunk.own(frame.body..frame.end));
        }
        let (performative, payload_at) =
            match Performative::decode_within(&chunk.bytes, frame.body..frame.end) {
                Ok(decoded) => decoded,
                Err(DecodeError::EndWithoutCondition) => {
                    // Against part 2, 2.8.14, and RabbitMQ's client for Erlang does it. The session is over either way, so
                    // the connection need not be.
                    log::debug!("an end's error names no condition");
                    (Performative::End(End { error: None }), frame.end)
                }
                Err(error) => return self.on_undecodable(frame.channel, error),
            };
        log::trace!("channel {}: {performative:?}", frame.channel);
        self.on_performative(chunk, frame, performative, payload_at)?;
        self.check_progress()
    }

    fn on_performative(
        &mut self,
        chunk: &Chunk,
        frame: Frame,
        performative: Performative,
        payload_at: usize,
    ) -> Result<(), Violation> {
        match performative {
            Performative::Open(_) => return Err(Violation::OpenTwice),
            Performative::Close(close) => {
                self.on_close(close);
                return Ok(());
            }
            Performative::Begin(begin) => return self.on_begin(frame.channel, &begin),
            _ => {}
        }
        let session = match self.channels.get(usize::from(frame.channel)) {
            Some(Channel::Used(session)) => *session,
            Some(Channel::Ended) => return Ok(()),
            _ => return Err(Violation::ChannelNotBegun),
        };
        let is_discarding = self
            .sessions
            .find(session.0)
            .is_none_or(|session| session.state == SessionState::Discarding);
        // Part 2, 2.5.5: after our end everything but the peer's end is discarded.
        if is_discarding && !matches!(performative, Performative::End(_)) {
            self.charge_quarter_frame();
            return Ok(());
        }
        let outcome = match performative {
            Performative::Transfer(transfer) => {
                let payload = PayloadRef::new(chunk, payload_at, frame.end);
                self.on_transfer(session, transfer, payload)
            }
            Performative::Disposition(disposition) => self.on_disposition(session, &disposition),
            Performative::Flow(flow) => self.on_flow(session, &flow),
            Performative::Attach(attach) => self.on_attach(session, attach),
            Performative::Detach(detach) => self.on_detach(session, detach),
            Performative::End(end) => {
                self.on_end(frame.channel, session, end);
                Ok(())
            }
            Performative::Open(_) | Performative::Close(_) | Performative::Begin(_) => Ok(()),
        };
        match outcome {
            Err(violation) if violation.scope() == Scope::Session => {
                log::debug!("session ended: {}", violation.text());
                let error = violation.to_error(&self.config);
                self.end_session(session, Some(error));
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn on_frame_before_open(&mut self, body: &Bytes) -> Result<(), Violation> {
        match Performative::decode(body) {
            Ok((Performative::Open(open), _)) => self.on_open(open),
            Ok((Performative::Close(close), _)) if self.side == Side::Client => {
                self.on_close(close);
                Ok(())
            }
            Ok(_) => Err(Violation::NotOpened),
            Err(error) => Err(undecodable(error)),
        }
    }

    fn on_sasl_frame(&mut self, body: &Bytes, frame: Frame) -> Result<(), Violation> {
        // Part 5, 5.3.1: an empty SASL frame is an irrecoverable error; the channel bytes are ignored.
        if frame.kind != TYPE_SASL || frame.body == frame.end {
            return Err(Violation::FrameType);
        }
        let (performative, _) = SaslPerformative::decode(body).map_err(undecodable)?;
        self.on_sasl(performative)
    }

    /// A body that cannot be read breaks the connection, except where the fault is a field of one link.
    fn on_undecodable(&mut self, channel: u16, error: DecodeError) -> Result<(), Violation> {
        let DecodeError::DeliveryTagTooLong { handle } = error else {
            return Err(undecodable(error));
        };
        let Some(Channel::Used(session)) = self.channels.get(usize::from(channel)).copied() else {
            return Err(Violation::Undecodable);
        };
        self.fail_handle(session, handle, Violation::DeliveryTagTooLong);
        Ok(())
    }

    fn fail_handle(&mut self, session: SessionId, handle: u32, violation: Violation) {
        let Some(known) = self
            .sessions
            .find_mut(session.0)
            .filter(|known| known.state == SessionState::Mapped)
        else {
            return;
        };
        known.next_incoming_id = known.next_incoming_id.wrapping_add(1);
        known.incoming_window -= 1;
        let slot = known.link_in(handle);
        let link = slot
            .and_then(|slot| self.links.at_mut(slot))
            .map(|(key, link)| (key, link.state));
        match link {
            Some((key, state)) if state != super::link::LinkState::DetachSent => {
                self.fail_link(super::ids::LinkId(key), violation);
            }
            Some(_) => {}
            None => self.end_session(
                session,
                Some(Violation::HandleUnattached.to_error(&self.config)),
            ),
        }
    }

    /// After our close nothing counts but the peer's close, which ends the lingering early.
    fn discard(&mut self, input: &mut BytesMut) {
        if self.state == State::Lingering {
            while let Some(frame) = input.get(..FRAME_HEADER) {
                let size = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
                let is_whole = (FRAME_HEADER..=input.len()).contains(&size);
                if !is_whole {
                    if (FRAME_HEADER..=super::FRAME_SIZE_FLOOR).contains(&size) {
                        // It may be the close.
                        return;
                    }
                    break;
                }
                let body = usize::from(frame[4]) * 4;
                let is_close = input
                    .get(body..body + 3)
                    .is_some_and(|descriptor| descriptor == [0x00, 0x53, 0x18]);
                if is_close && self.is_open_sent {
                    self.state.go(State::Done);
                    break;
                }
                input.advance(size);
            }
        }
        input.clear();
    }
}

fn undecodable(error: DecodeError) -> Violation {
    log::debug!("undecodable frame: {error}");
    match error {
        DecodeError::UnknownDescriptor(_) => Violation::UnknownPerformative,
        DecodeError::FieldMissing(_) | DecodeError::EndWithoutCondition => Violation::FieldMissing,
        _ => Violation::Undecodable,
    }
}
