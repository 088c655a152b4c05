//! Restricted types: numbers and booleans that stand for a choice.

use bytes::BytesMut;

use crate::codec::{Field, Reader};
use crate::types::DecodeError;

/// Which end of a link is meant (part 2, 2.8.1). On the wire a boolean: the receiver is true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// The end that messages come from.
    #[default]
    Sender,
    /// The end that messages go to.
    Receiver,
}

/// How the sender settles (part 2, 2.8.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SndSettleMode {
    /// Every delivery is sent unsettled.
    Unsettled,
    /// Every delivery is sent settled.
    Settled,
    /// Some are, some are not.
    #[default]
    Mixed,
}

/// How the receiver settles (part 2, 2.8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RcvSettleMode {
    /// The receiver settles at once.
    #[default]
    First,
    /// The receiver settles after the sender did.
    Second,
}

impl Field for Role {
    #[inline]
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        Ok(if bool::read(constructor, reader, name)? {
            Self::Receiver
        } else {
            Self::Sender
        })
    }

    #[inline]
    fn write(&self, buf: &mut BytesMut) {
        (*self == Self::Receiver).write(buf);
    }
}

impl Field for SndSettleMode {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        match u8::read(constructor, reader, name)? {
            0 => Ok(Self::Unsettled),
            1 => Ok(Self::Settled),
            2 => Ok(Self::Mixed),
            _ => Err(DecodeError::FieldRange(name)),
        }
    }

    fn write(&self, buf: &mut BytesMut) {
        (*self as u8).write(buf);
    }
}

impl Field for RcvSettleMode {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        match u8::read(constructor, reader, name)? {
            0 => Ok(Self::First),
            1 => Ok(Self::Second),
            _ => Err(DecodeError::FieldRange(name)),
        }
    }

    fn write(&self, buf: &mut BytesMut) {
        (*self as u8).write(buf);
    }
}
