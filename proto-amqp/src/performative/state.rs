//! Delivery states and outcomes (part 3, 3.4; part 4, 4.5).

use alloc::boxed::Box;

use bytes::{BufMut, Bytes, BytesMut};

use super::{AmqpError, descriptor};
use crate::codec::{Field, Fields, ListWriter, Reader, code, composite};
use crate::types::{DecodeError, Described, Map, Value};

const RECEIVED: u64 = 0x23;
const ACCEPTED: u64 = 0x24;
const REJECTED: u64 = 0x25;
const RELEASED: u64 = 0x26;
const MODIFIED: u64 = Modified::DESCRIPTOR;
const DECLARED: u64 = 0x33;
const TRANSACTIONAL: u64 = 0x34;

/// State of a delivery at one end of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum DeliveryState {
    /// How far the message was received (part 3, 3.4.1); no outcome.
    Received {
        /// Section that was being received.
        section_number: u32,
        /// First byte of the section not received.
        section_offset: u64,
    },
    /// Processed (3.4.2).
    Accepted,
    /// Invalid and unprocessable (3.4.3).
    Rejected(Option<Box<AmqpError>>),
    /// Not processed, and as if it had never been sent (3.4.4).
    Released,
    /// Not processed, and changed (3.4.5).
    Modified(Box<Modified>),
    /// A transaction was declared (part 4, 4.5.5).
    Declared {
        /// Its id.
        txn_id: Bytes,
    },
    /// Within a transaction (part 4, 4.5.8).
    Transactional {
        /// The transaction's id.
        txn_id: Bytes,
        /// Outcome that applies when the transaction succeeds.
        outcome: Option<Box<DeliveryState>>,
    },
    /// A state of some extension.
    Other(Box<Described>),
}

composite! {
    /// What is to change in a message that was not processed (part 3, 3.4.5).
    Modified = 0x27, short {
        /// Counts as a failed attempt.
        delivery_failed["delivery-failed"]: default bool = false,
        /// Not to be delivered on this link again.
        undeliverable_here["undeliverable-here"]: default bool = false,
        /// Message annotations to add or replace.
        message_annotations["message-annotations"]: optional Map,
    }
}

/// A state without fields: descriptor and an empty list.
#[inline]
fn put_empty(buf: &mut BytesMut, descriptor: u64) {
    buf.put_slice(&[
        code::DESCRIBED,
        code::SMALLULONG,
        descriptor as u8,
        code::LIST0,
    ]);
}

impl DeliveryState {
    /// Whether it says what becomes of the message, be it when a transaction succeeds: everything but how far it came,
    /// and a transaction without more.
    #[must_use]
    pub fn has_outcome(&self) -> bool {
        match self {
            Self::Received { .. } => false,
            Self::Transactional { outcome, .. } => {
                outcome.as_deref().is_some_and(Self::has_outcome)
            }
            _ => true,
        }
    }

    /// The same state in memory of its own, and its encoded size. One that was read shares the buffer it came in.
    pub(crate) fn detached(&self) -> (Self, usize) {
        let mut buf = BytesMut::new();
        self.write(&mut buf);
        let bytes = buf.freeze();
        let mut reader = Reader::new(&bytes);
        let own = (reader.byte()).and_then(|first| Self::read(first, &mut reader, "state"));
        // What was read once can be read again; should that be wrong, sharing is merely dear.
        (own.unwrap_or_else(|_| self.clone()), bytes.len())
    }

    fn read_received(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = Fields::begin(reader)?;
        let section_number = fields
            .next("section-number")?
            .ok_or(DecodeError::FieldMissing("section-number"))?;
        let section_offset = fields
            .next("section-offset")?
            .ok_or(DecodeError::FieldMissing("section-offset"))?;
        fields.finish()?;
        Ok(Self::Received {
            section_number,
            section_offset,
        })
    }

    fn read_transactional(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = Fields::begin(reader)?;
        let txn_id = fields
            .next("txn-id")?
            .ok_or(DecodeError::FieldMissing("txn-id"))?;
        let outcome = fields.next("outcome")?;
        fields.finish()?;
        Ok(Self::Transactional { txn_id, outcome })
    }

    fn read_rejected(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = Fields::begin(reader)?;
        let error = fields.next("error")?;
        fields.finish()?;
        Ok(Self::Rejected(error))
    }

    fn read_declared(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = Fields::begin(reader)?;
        let txn_id = fields
            .next("txn-id")?
            .ok_or(DecodeError::FieldMissing("txn-id"))?;
        fields.finish()?;
        Ok(Self::Declared { txn_id })
    }

    /// Any state in any form.
    #[inline(never)]
    fn read_any(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        let start = reader.at();
        // The descriptor counts as a level, as it does for any described value.
        reader.enter()?;
        let found = descriptor::read(constructor, reader, name)?;
        let state = match found {
            Some(ACCEPTED) => {
                Fields::begin(reader)?.finish()?;
                Self::Accepted
            }
            Some(RELEASED) => {
                Fields::begin(reader)?.finish()?;
                Self::Released
            }
            _ => Self::read_full(found, start, reader)?,
        };
        reader.leave();
        Ok(state)
    }

    /// States that have something to read. `start` is where the descriptor began.
    fn read_full(
        found: Option<u64>,
        start: usize,
        reader: &mut Reader<'_>,
    ) -> Result<Self, DecodeError> {
        match found {
            Some(MODIFIED) => {
                Modified::read_fields(reader).map(|modified| Self::Modified(Box::new(modified)))
            }
            Some(RECEIVED) => Self::read_received(reader),
            Some(REJECTED) => Self::read_rejected(reader),
            Some(DECLARED) => Self::read_declared(reader),
            Some(TRANSACTIONAL) => Self::read_transactional(reader),
            _ => {
                // Extensions are kept as they are. The descriptor is read once more, as a value this time; the level
                // that the caller counted for it is given back meanwhile.
                reader.go_back_to(start);
                reader.leave();
                let value = Value::read_data(code::DESCRIBED, reader)?;
                reader.enter()?;
                match value {
                    Value::Described(described) => Ok(Self::Other(described)),
                    _ => Err(DecodeError::NotDescribedList),
                }
            }
        }
    }
}

impl Field for DeliveryState {
    #[inline]
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        if constructor == code::DESCRIBED {
            // Nearly every state that ever comes is one of two, in four bytes.
            if reader.skip_exactly([code::SMALLULONG, ACCEPTED as u8, code::LIST0]) {
                return Ok(Self::Accepted);
            }
            if reader.skip_exactly([code::SMALLULONG, RELEASED as u8, code::LIST0]) {
                return Ok(Self::Released);
            }
        }
        Self::read_any(constructor, reader, name)
    }

    #[inline]
    fn write(&self, buf: &mut BytesMut) {
        match self {
            Self::Accepted => put_empty(buf, ACCEPTED),
            Self::Released => put_empty(buf, RELEASED),
            Self::Modified(modified) => modified.encode(buf),
            Self::Rejected(error) => {
                let mut list = ListWriter::begin(buf, REJECTED as u8);
                list.field(error.as_ref());
                list.short();
            }
            Self::Received {
                section_number,
                section_offset,
            } => {
                let mut list = ListWriter::begin(buf, RECEIVED as u8);
                list.field(Some(section_number));
                list.field(Some(section_offset));
                list.short();
            }
            Self::Declared { txn_id } => {
                let mut list = ListWriter::begin(buf, DECLARED as u8);
                list.field(Some(txn_id));
                list.short();
            }
            Self::Transactional { txn_id, outcome } => {
                let mut list = ListWriter::begin(buf, TRANSACTIONAL as u8);
                list.field(Some(txn_id));
                list.field(outcome.as_ref());
                list.short();
            }
            Self::Other(described) => {
                buf.put_u8(code::DESCRIBED);
                described.descriptor.encode(buf);
                described.value.encode(buf);
            }
        }
    }
}
