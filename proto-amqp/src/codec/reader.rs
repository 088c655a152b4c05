//! A cursor over one buffer. It only ever moves forward, so reading costs no more than the bytes there are.

use bytes::Bytes;

use super::constructor::{Shape, code, shape_of};
use crate::types::{DecodeError, NESTING_MAX};

/// Reads a shared buffer from front to back; what it hands out as [`Bytes`] are slices of it.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    source: &'a Bytes,
    data: &'a [u8],
    at: usize,
    depth: u8,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(source: &'a Bytes) -> Self {
        Self {
            source,
            data: source,
            at: 0,
            depth: 0,
        }
    }

    /// Reads a part of a buffer; positions count from the buffer's front. A part that goes beyond the end ends there.
    #[inline]
    pub(crate) fn within(source: &'a Bytes, start: usize, end: usize) -> Self {
        let end = end.min(source.len());
        Self {
            source,
            data: &source[..end],
            at: start.min(end),
            depth: 0,
        }
    }

    /// Starts further on. `at` beyond the end reads as an empty rest.
    #[inline]
    pub(crate) fn starting_at(source: &'a Bytes, at: usize) -> Self {
        Self {
            source,
            data: source,
            at: at.min(source.len()),
            depth: 0,
        }
    }

    /// Position from the front of the buffer.
    #[inline]
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// Goes back to a position passed before. For the one place where a descriptor turns out to be unknown.
    pub(crate) fn go_back_to(&mut self, at: usize) {
        debug_assert!(at <= self.at);
        self.at = at;
    }

    /// Bytes not read yet.
    #[inline]
    pub(crate) const fn left(&self) -> usize {
        self.data.len() - self.at
    }

    /// Checks that nothing is left.
    #[inline]
    pub(crate) const fn finish(&self) -> Result<(), DecodeError> {
        if self.left() > 0 {
            Err(DecodeError::TrailingBytes)
        } else {
            Ok(())
        }
    }

    /// Goes one level deeper into nested values.
    #[inline]
    pub(crate) const fn enter(&mut self) -> Result<(), DecodeError> {
        if self.depth >= NESTING_MAX {
            return Err(DecodeError::TooDeep);
        }
        self.depth += 1;
        Ok(())
    }

    /// Comes back from [`enter`](Self::enter).
    #[inline]
    pub(crate) const fn leave(&mut self) {
        self.depth -= 1;
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.data.get(self.at).ok_or(DecodeError::Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    /// The next byte, which stays to be read.
    #[inline]
    pub(crate) fn peek(&self) -> Result<u8, DecodeError> {
        self.data
            .get(self.at)
            .copied()
            .ok_or(DecodeError::Truncated)
    }

    /// Passes the bytes expected, or nothing when others come.
    #[inline]
    pub(crate) fn skip_exactly<const N: usize>(&mut self, expected: [u8; N]) -> bool {
        let is_there = self.data[self.at..].first_chunk::<N>() == Some(&expected);
        if is_there {
            self.at += N;
        }
        is_there
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let bytes = *self.data[self.at..]
            .first_chunk::<N>()
            .ok_or(DecodeError::Truncated)?;
        self.at += N;
        Ok(bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn slice(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.data[self.at..];
        if len > rest.len() {
            return Err(DecodeError::Truncated);
        }
        self.at += len;
        Ok(&rest[..len])
    }

    pub(crate) fn shared(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        let start = self.at;
        self.slice(len)?;
        Ok(self.source.slice(start..self.at))
    }

    /// What lies between two positions already passed.
    pub(crate) fn passed(&self, start: usize, end: usize) -> Bytes {
        self.source.slice(start..end)
    }

    /// Length in front of a variable-width or compound value.
    #[inline]
    pub(crate) fn len(&mut self, shape: Shape) -> Result<usize, DecodeError> {
        match shape {
            Shape::Fixed(width) => Ok(usize::from(width)),
            Shape::Sized8 => self.byte().map(usize::from),
            // usize has 32 bits at least wherever there is an allocator worth the name; saturating keeps it honest.
            Shape::Sized32 => self
                .u32()
                .map(|len| usize::try_from(len).unwrap_or(usize::MAX)),
        }
    }

    /// Count and end of a list or map whose constructor was read.
    ///
    /// Each item takes a byte at least, so a count above the bytes left is refused before anything is done for it.
    #[inline]
    pub(crate) fn compound(&mut self, constructor: u8) -> Result<(u32, usize), DecodeError> {
        let (count, end) = self.counted(constructor)?;
        if count as usize > end - self.at {
            return Err(DecodeError::CountMismatch);
        }
        Ok((count, end))
    }

    /// Count and end of a list, map or array whose constructor was read.
    #[inline]
    pub(crate) fn counted(&mut self, constructor: u8) -> Result<(u32, usize), DecodeError> {
        let (count, end) = match constructor {
            code::LIST0 => return Ok((0, self.at)),
            code::LIST8 | code::MAP8 | code::ARRAY8 => {
                let [size, count] = self.array()?;
                (
                    u32::from(count),
                    (self.at - 1).saturating_add(usize::from(size)),
                )
            }
            _ => {
                let size = self.len(Shape::Sized32)?;
                let start = self.at;
                (self.u32()?, start.saturating_add(size))
            }
        };
        if end > self.data.len() {
            return Err(DecodeError::Truncated);
        }
        if end < self.at {
            return Err(DecodeError::CountMismatch);
        }
        Ok((count, end))
    }

    /// Passes the data behind a constructor without a look into it.
    #[inline]
    pub(crate) fn skip_data(&mut self, constructor: u8) -> Result<(), DecodeError> {
        let len = self.len(shape_of(constructor)?)?;
        self.slice(len).map(|_| ())
    }

    /// The data of a variable-width value whose constructor was read.
    #[inline]
    pub(crate) fn sized(&mut self, constructor: u8) -> Result<&'a [u8], DecodeError> {
        let len = self.len(shape_of(constructor)?)?;
        self.slice(len)
    }

    /// Passes one value, described or not.
    pub(crate) fn skip_value(&mut self) -> Result<(), DecodeError> {
        let constructor = self.byte()?;
        self.skip_rest(constructor)
    }

    /// Passes what is left of a value whose constructor was read.
    pub(crate) fn skip_rest(&mut self, constructor: u8) -> Result<(), DecodeError> {
        if constructor != code::DESCRIBED {
            return self.skip_data(constructor);
        }
        self.enter()?;
        self.skip_value()?;
        self.skip_value()?;
        self.leave();
        Ok(())
    }

    /// The numeric code of a descriptor whose introducing zero was read. A symbol stands for the code that `named`
    /// finds for it. Whatever else it is, it is passed and has no code.
    #[inline]
    pub(crate) fn descriptor(
        &mut self,
        named: fn(&[u8]) -> Option<u64>,
    ) -> Result<Option<u64>, DecodeError> {
        let constructor = self.byte()?;
        Ok(match constructor {
            code::SMALLULONG => Some(u64::from(self.byte()?)),
            code::ULONG => Some(u64::from_be_bytes(self.array()?)),
            code::ULONG0 => Some(0),
            code::SYMBOL8 | code::SYMBOL32 => named(self.sized(constructor)?),
            _ => {
                self.skip_rest(constructor)?;
                None
            }
        })
    }
}
