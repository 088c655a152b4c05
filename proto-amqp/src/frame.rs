//! Frames (part 2, 2.3): the header in front of every body, and the protocol headers in front of all frames.

use core::fmt;

use bytes::{BufMut, BytesMut};

/// Protocol header of AMQP itself (part 2, 2.2).
pub const PROTOCOL_AMQP: [u8; 8] = *b"AMQP\x00\x01\x00\x00";
/// Protocol header of the TLS layer (part 5, 5.2).
pub const PROTOCOL_TLS: [u8; 8] = *b"AMQP\x02\x01\x00\x00";
/// Protocol header of the SASL layer (part 5, 5.3).
pub const PROTOCOL_SASL: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// Every peer takes frames of this many bytes (part 2, 2.8.19).
pub const FRAME_SIZE_MIN: u32 = 512;
/// Bytes of a frame header.
pub const HEADER_SIZE: usize = 8;
/// Type byte of AMQP frames.
pub const TYPE_AMQP: u8 = 0;
/// Type byte of SASL frames.
pub const TYPE_SASL: u8 = 1;

/// The first eight bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the whole frame, these eight included.
    pub size: u32,
    /// Offset of the body in words of four bytes; above 2 when there is an extended header, which is ignored.
    pub doff: u8,
    /// [`TYPE_AMQP`], [`TYPE_SASL`] or something unknown.
    pub frame_type: u8,
    /// Channel of an AMQP frame; of no meaning in others.
    pub channel: u16,
}

impl FrameHeader {
    /// Offset of the body from the beginning of the frame, in bytes. Never above `size`.
    #[must_use]
    pub const fn body_offset(&self) -> usize {
        self.doff as usize * 4
    }

    /// Whether the frame has no body: a heartbeat.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.body_offset() == self.size as usize
    }
}

/// A frame header that is none. The stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The size does not even cover the header.
    SizeTooSmall(u32),
    /// The size is above the maximum agreed on.
    SizeTooLarge(u32),
    /// The body would begin within the header.
    DoffTooSmall(u8),
    /// The body would begin behind the frame.
    DoffBeyondFrame(u8),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SizeTooSmall(size) => {
                write!(f, "a frame of {size} bytes is smaller than its header")
            }
            Self::SizeTooLarge(size) => write!(f, "a frame of {size} bytes is larger than agreed"),
            Self::DoffTooSmall(doff) => {
                write!(f, "a data offset of {doff} words points into the header")
            }
            Self::DoffBeyondFrame(doff) => {
                write!(f, "a data offset of {doff} words points behind the frame")
            }
        }
    }
}

impl core::error::Error for FrameError {}

/// Reads a frame header; none when fewer than eight bytes are there.
///
/// All is checked as soon as the eight bytes are there, so that nobody waits, or makes room, for a body that cannot
/// be: part 2, 2.3.1 and, for `size_max`, 2.7.1.
///
/// # Errors
/// The rule that the header breaks.
#[inline]
pub fn parse_header(bytes: &[u8], size_max: u32) -> Result<Option<FrameHeader>, FrameError> {
    let Some(&[a, b, c, d, doff, frame_type, e, f]) = bytes.first_chunk::<HEADER_SIZE>() else {
        return Ok(None);
    };
    let size = u32::from_be_bytes([a, b, c, d]);
    if size < HEADER_SIZE as u32 {
        return Err(FrameError::SizeTooSmall(size));
    }
    if size > size_max {
        return Err(FrameError::SizeTooLarge(size));
    }
    if doff < 2 {
        return Err(FrameError::DoffTooSmall(doff));
    }
    if u32::from(doff) * 4 > size {
        return Err(FrameError::DoffBeyondFrame(doff));
    }
    Ok(Some(FrameHeader {
        size,
        doff,
        frame_type,
        channel: u16::from_be_bytes([e, f]),
    }))
}

/// Appends a frame whose body `write` appends, and fills in the size.
///
/// # Panics
/// When the body has 4 GiB or more.
#[inline]
pub fn encode_frame(
    buf: &mut BytesMut,
    channel: u16,
    frame_type: u8,
    write: impl FnOnce(&mut BytesMut),
) {
    let start = buf.len();
    let [e, f] = channel.to_be_bytes();
    buf.put_slice(&[0, 0, 0, 0, 2, frame_type, e, f]);
    write(buf);
    let size = u32::try_from(buf.len() - start).expect("a frame stays below 4 GiB");
    buf[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::{FrameError, FrameHeader, encode_frame, parse_header};
    use bytes::{BufMut, BytesMut};

    #[test]
    fn fr_01_sizes_below_the_header_are_refused() {
        for size in 0..8_u8 {
            let bytes = [0, 0, 0, size, 2, 0, 0, 0];
            assert_eq!(
                parse_header(&bytes, 512),
                Err(FrameError::SizeTooSmall(u32::from(size)))
            );
        }
    }

    #[test]
    fn fr_02_offsets_outside_of_the_frame_are_refused_without_the_body() {
        assert_eq!(
            parse_header(&[0, 0, 0, 12, 4, 0, 0, 0], 512),
            Err(FrameError::DoffBeyondFrame(4))
        );
        assert_eq!(
            parse_header(&[0, 0, 0, 8, 255, 0, 0, 0], 512),
            Err(FrameError::DoffBeyondFrame(255))
        );
        assert_eq!(
            parse_header(&[0, 0, 0, 8, 1, 0, 0, 0], 512),
            Err(FrameError::DoffTooSmall(1))
        );
    }

    #[test]
    fn fr_05_sizes_above_the_maximum_are_refused_without_the_body() {
        let header = [0x7f, 0xff, 0xff, 0xff, 2, 0, 0, 0];
        assert_eq!(
            parse_header(&header, 131_072),
            Err(FrameError::SizeTooLarge(0x7fff_ffff))
        );
        assert_eq!(
            parse_header(&[0xff; 8], u32::MAX - 1),
            Err(FrameError::SizeTooLarge(u32::MAX))
        );
        assert!(parse_header(&[0, 0, 2, 0, 2, 0, 0, 0], 512).is_ok());
        assert_eq!(
            parse_header(&[0, 0, 2, 1, 2, 0, 0, 0], 512),
            Err(FrameError::SizeTooLarge(513))
        );
    }

    #[test]
    fn headers_wait_for_eight_bytes_and_extended_ones_are_legal() {
        let bytes = [0, 0, 0, 12, 3, 1, 0xab, 0xcd];
        for len in 0..8 {
            assert_eq!(parse_header(&bytes[..len], 512), Ok(None));
        }
        let header = FrameHeader {
            size: 12,
            doff: 3,
            frame_type: 1,
            channel: 0xabcd,
        };
        assert_eq!(parse_header(&bytes, 512), Ok(Some(header)));
        assert!(header.is_empty());
        assert_eq!(header.body_offset(), 12);
    }

    #[test]
    fn size_is_filled_in_behind_what_was_there() {
        let mut buf = BytesMut::from(&b"before"[..]);
        encode_frame(&mut buf, 0x0102, 1, |body| body.put_slice(b"body"));
        assert_eq!(&buf[..], b"before\x00\x00\x00\x0c\x02\x01\x01\x02body");
    }
}
