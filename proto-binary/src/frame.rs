//! Frames in both layouts.
//!
//! The documented layout is `opcode u8, flags u8, length u32, [correlation id u32], payload`; the length counts the
//! payload alone. The versioned layout of the first clients is `length u32, version u8, opcode u8, payload`; the length
//! counts version, opcode and payload. Numbers are big-endian. The first byte of a connection tells the two apart: no
//! opcode is 0, and the length of a legal first frame in the versioned layout begins with 0.

use bytes::{BufMut, BytesMut};

use crate::opcode::NUMBER_MAX;

/// How frames are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Opcode first, with flags and correlation ids.
    #[default]
    Documented,
    /// Length first, with a version byte.
    Versioned,
}

/// The only version there is. It is sent and never checked: the first servers accept any value.
pub const VERSION: u8 = 1;
/// Largest length of a versioned frame, in bytes, whatever else is configured.
pub const VERSIONED_LENGTH_MAX: u32 = 16 * 1024 * 1024;
/// Version and opcode, which a versioned length counts.
const VERSIONED_LENGTH_MIN: u32 = 2;
/// Bytes before the payload in either layout, the correlation id aside.
pub const HEAD_LEN: usize = 6;
pub(crate) const CORRELATION_LEN: usize = 4;

/// Flags of the documented layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// A correlation id precedes the payload.
    pub const CORRELATED: Self = Self(0b01);
    /// An ACK, NACK, CONSUME or UNSUBSCRIBE wants to hear of its success.
    pub const CONFIRM: Self = Self(0b10);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether a bit is set that has no meaning.
    #[must_use]
    pub const fn has_reserved(self) -> bool {
        self.0 & !(Self::CORRELATED.0 | Self::CONFIRM.0) != 0
    }
}

/// What precedes a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// As it stands on the wire; see [`Opcode::from_wire`](crate::opcode::Opcode::from_wire).
    pub opcode: u8,
    /// None set in the versioned layout.
    pub flags: Flags,
    /// The sender's number for a request; comes back in the answer.
    pub correlation: Option<u32>,
    /// Where the payload begins in the frame.
    pub body_at: usize,
    /// Where the frame ends.
    pub end: usize,
}

impl Head {
    /// Bytes of payload.
    #[must_use]
    pub const fn body_len(&self) -> usize {
        self.end - self.body_at
    }
}

/// No frame can be cut: nothing after this point can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A versioned length that leaves no room for version and opcode.
    LengthTooSmall,
    /// A versioned length above 16 MiB.
    LengthTooLarge,
    /// More payload than the receiver takes.
    PayloadTooLarge,
}

impl Layout {
    /// The layout of a connection whose first byte is this. None: it speaks another protocol.
    #[must_use]
    pub const fn detect(first: u8) -> Option<Self> {
        match first {
            0 => Some(Self::Versioned),
            1..=NUMBER_MAX => Some(Self::Documented),
            _ => None,
        }
    }

    /// Reads what precedes a payload. None: not all of it is there yet. A length is judged as soon as it can be read,
    /// before anything is reserved for it.
    ///
    /// # Errors
    /// The length is not one that this receiver takes.
    pub fn parse_head(self, input: &[u8], payload_max: usize) -> Result<Option<Head>, FrameError> {
        match self {
            Self::Documented => parse_documented(input, payload_max),
            Self::Versioned => parse_versioned(input, payload_max),
        }
    }

    /// Writes what precedes a payload of `body_len` bytes. The versioned layout has no place for flags and
    /// correlation.
    ///
    /// # Panics
    /// The payload has 4 GiB or more.
    pub fn put_head(
        self,
        buf: &mut impl BufMut,
        opcode: u8,
        flags: Flags,
        correlation: Option<u32>,
        body_len: usize,
    ) {
        let body_len = u32::try_from(body_len).expect("a payload below 4 GiB");
        match self {
            Self::Documented => {
                let flags = match correlation {
                    Some(_) => flags.with(Flags::CORRELATED),
                    None => Flags(flags.0 & !Flags::CORRELATED.0),
                };
                buf.put_slice(&[opcode, flags.0]);
                buf.put_u32(body_len);
                if let Some(correlation) = correlation {
                    buf.put_u32(correlation);
                }
            }
            Self::Versioned => {
                buf.put_u32(body_len.saturating_add(VERSIONED_LENGTH_MIN));
                buf.put_slice(&[VERSION, opcode]);
            }
        }
    }

    /// Writes a frame around a Protocol Buffers message.
    pub fn put_frame(
        self,
        buf: &mut BytesMut,
        opcode: u8,
        flags: Flags,
        correlation: Option<u32>,
        body: &impl prost::Message,
    ) {
        let body_len = body.encoded_len();
        buf.reserve(HEAD_LEN + CORRELATION_LEN + body_len);
        self.put_head(buf, opcode, flags, correlation, body_len);
        body.encode(buf).expect("the buffer grows");
    }
}

fn parse_documented(input: &[u8], payload_max: usize) -> Result<Option<Head>, FrameError> {
    let Some(start) = input.first_chunk::<HEAD_LEN>() else {
        return Ok(None);
    };
    let [opcode, flags, length @ ..] = *start;
    let flags = Flags(flags);
    let body_len = u32::from_be_bytes(length) as usize;
    if body_len > payload_max {
        return Err(FrameError::PayloadTooLarge);
    }
    let mut body_at = HEAD_LEN;
    let mut correlation = None;
    if flags.contains(Flags::CORRELATED) {
        let Some(id) = input[HEAD_LEN..].first_chunk::<CORRELATION_LEN>() else {
            return Ok(None);
        };
        correlation = Some(u32::from_be_bytes(*id));
        body_at += CORRELATION_LEN;
    }
    Ok(Some(Head {
        opcode,
        flags,
        correlation,
        body_at,
        end: body_at + body_len,
    }))
}

fn parse_versioned(input: &[u8], payload_max: usize) -> Result<Option<Head>, FrameError> {
    let Some(length) = input.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length);
    if length < VERSIONED_LENGTH_MIN {
        return Err(FrameError::LengthTooSmall);
    }
    if length > VERSIONED_LENGTH_MAX {
        return Err(FrameError::LengthTooLarge);
    }
    let body_len = (length - VERSIONED_LENGTH_MIN) as usize;
    if body_len > payload_max {
        return Err(FrameError::PayloadTooLarge);
    }
    // The version, at 4, is not looked at.
    let Some(opcode) = input.get(5) else {
        return Ok(None);
    };
    Ok(Some(Head {
        opcode: *opcode,
        flags: Flags::default(),
        correlation: None,
        body_at: HEAD_LEN,
        end: HEAD_LEN + body_len,
    }))
}
