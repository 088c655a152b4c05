//! Arrays, kept encoded.

use bytes::{BufMut, Bytes, BytesMut};

use super::{DecodeError, Symbol, Value};
use crate::codec::{code, compound_len, put_compound, put_symbols};

/// Values of one type (part 1, 1.6.24) as they came: one constructor, then the data of each element.
///
/// Elements are decoded one by one when they are asked for. A count of 2^31 elements that take no bytes costs what its
/// ten bytes on the wire cost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Array {
    /// Constructor of every element, with its descriptor if it has one.
    pub(crate) constructor: Bytes,
    pub(crate) count: u32,
    pub(crate) data: Bytes,
}

impl Array {
    /// An array of symbols.
    ///
    /// # Errors
    /// None that well-formed symbols could cause; the encoded form is read back to be sure.
    pub fn of_symbols(symbols: &[Symbol]) -> Result<Self, DecodeError> {
        let mut buf = BytesMut::new();
        put_symbols(&mut buf, symbols);
        match Value::decode(&buf.freeze())? {
            (Value::Array(array), _) => Ok(array),
            _ => Err(DecodeError::CountMismatch),
        }
    }

    /// Number of elements. A peer's word: with elements of no bytes it can be anything, so make no room by it.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Constructor of the elements, with its descriptor if it has one.
    #[must_use]
    pub const fn constructor(&self) -> &Bytes {
        &self.constructor
    }

    /// Data of all elements.
    #[must_use]
    pub const fn data(&self) -> &Bytes {
        &self.data
    }

    /// Decodes the elements one after the other.
    #[must_use]
    pub const fn items(&self) -> ArrayItems<'_> {
        ArrayItems {
            array: self,
            left: self.count,
            at: 0,
        }
    }

    pub(crate) fn encoded_len(&self) -> usize {
        compound_len(
            self.count as usize,
            self.constructor.len() + self.data.len(),
        )
    }

    pub(crate) fn encode(&self, buf: &mut BytesMut) {
        put_compound(
            buf,
            code::ARRAY8,
            self.count as usize,
            self.constructor.len() + self.data.len(),
        );
        buf.put_slice(&self.constructor);
        buf.put_slice(&self.data);
    }
}

impl Default for Array {
    /// An empty array of nulls.
    fn default() -> Self {
        Self {
            constructor: Bytes::from_static(&[code::NULL]),
            count: 0,
            data: Bytes::new(),
        }
    }
}

/// Decodes the elements of an array one after the other.
#[derive(Clone, Debug)]
pub struct ArrayItems<'a> {
    pub(super) array: &'a Array,
    pub(super) left: u32,
    pub(super) at: usize,
}
