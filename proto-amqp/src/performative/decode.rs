//! The body of a frame: one performative, and behind a transfer its payload (part 2, 2.3.2).

use alloc::boxed::Box;
use core::ops::Range;

use bytes::{Bytes, BytesMut};

use super::descriptor::code_of_symbol;
use super::disposition::{Outcome, Plain};
use super::{Attach, Begin, Close, DeliveryState, Detach, Disposition, End, Flow, Open, Transfer};
use crate::codec::{Reader, code};
use crate::types::DecodeError;

/// One performative. Large and rare ones are boxed, to keep the frequent ones cheap to move.
#[derive(Clone, Debug, PartialEq)]
pub enum Performative {
    /// Negotiates a connection.
    Open(Box<Open>),
    /// Begins a session.
    Begin(Box<Begin>),
    /// Attaches a link.
    Attach(Box<Attach>),
    /// Updates windows and credit.
    Flow(Flow),
    /// Carries a message or a piece of it.
    Transfer(Transfer),
    /// Tells what became of deliveries.
    Disposition(Disposition),
    /// Takes a link off its session.
    Detach(Detach),
    /// Ends a session.
    End(End),
    /// Ends a connection.
    Close(Close),
}

impl Performative {
    /// Reads the body of a frame and tells where the payload begins.
    ///
    /// # Errors
    /// The first rule that the bytes break. Bytes behind any performative but a transfer are an error too.
    #[inline]
    pub fn decode(body: &Bytes) -> Result<(Self, usize), DecodeError> {
        Self::decode_within(body, 0..body.len())
    }

    /// As [`decode`](Self::decode), for a body in a buffer of many frames: no slice is made of it, which would cost a
    /// pair of reference counts for every frame. The position of the payload counts from the front of the buffer.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    #[inline]
    pub fn decode_within(buffer: &Bytes, body: Range<usize>) -> Result<(Self, usize), DecodeError> {
        let mut reader = Reader::within(buffer, body.start, body.end);
        if reader.byte()? != code::DESCRIBED {
            return Err(DecodeError::NotDescribedList);
        }
        let found = reader.descriptor(code_of_symbol)?;
        let performative = match found {
            Some(Transfer::DESCRIPTOR) => {
                let transfer = Transfer::read_fields(&mut reader)?;
                return Ok((Self::Transfer(transfer), reader.at()));
            }
            Some(Disposition::DESCRIPTOR) => return Self::decode_disposition(reader),
            Some(Flow::DESCRIPTOR) => Self::Flow(Flow::read_fields(&mut reader)?),
            Some(Attach::DESCRIPTOR) => Self::Attach(Box::new(Attach::read_fields(&mut reader)?)),
            Some(Detach::DESCRIPTOR) => Self::Detach(Detach::read_fields(&mut reader)?),
            Some(Begin::DESCRIPTOR) => Self::Begin(Box::new(Begin::read_fields(&mut reader)?)),
            Some(End::DESCRIPTOR) => {
                let end = End::read_fields(&mut reader).map_err(|error| match error {
                    DecodeError::FieldMissing("condition") => DecodeError::EndWithoutCondition,
                    other => other,
                })?;
                Self::End(end)
            }
            Some(Open::DESCRIPTOR) => Self::Open(Box::new(Open::read_fields(&mut reader)?)),
            Some(Close::DESCRIPTOR) => Self::Close(Close::read_fields(&mut reader)?),
            _ => return Err(DecodeError::UnknownDescriptor(found)),
        };
        reader.finish()?;
        Ok((performative, reader.at()))
    }

    /// A function of its own, so that the value is made where the caller wants it.
    #[inline(never)]
    fn decode_disposition(mut reader: Reader<'_>) -> Result<(Self, usize), DecodeError> {
        let Some(plain) = Plain::read(&mut reader) else {
            let disposition = Disposition::read_fields(&mut reader)?;
            reader.finish()?;
            return Ok((Self::Disposition(disposition), reader.at()));
        };
        reader.finish()?;
        let at = reader.at();
        Ok(match plain.outcome {
            Outcome::Accepted => (
                Self::Disposition(plain.with(Some(DeliveryState::Accepted))),
                at,
            ),
            Outcome::Released => (
                Self::Disposition(plain.with(Some(DeliveryState::Released))),
                at,
            ),
            Outcome::Absent => (Self::Disposition(plain.with(None)), at),
        })
    }

    /// Appends the encoded form.
    pub fn encode(&self, buf: &mut BytesMut) {
        match self {
            Self::Open(open) => open.encode(buf),
            Self::Begin(begin) => begin.encode(buf),
            Self::Attach(attach) => attach.encode(buf),
            Self::Flow(flow) => flow.encode(buf),
            Self::Transfer(transfer) => transfer.encode(buf),
            Self::Disposition(disposition) => disposition.encode(buf),
            Self::Detach(detach) => detach.encode(buf),
            Self::End(end) => end.encode(buf),
            Self::Close(close) => close.encode(buf),
        }
    }
}
