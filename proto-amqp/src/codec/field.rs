//! Types that a field of a composite may have. Each takes every encoding of its type and no other type: a number of
//! the wrong width is refused, never reinterpreted.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::{BufMut, Bytes, BytesMut};

use super::Reader;
use super::constructor::{code, shape_of};
use super::writer::{put_binary, put_map, put_symbols, put_uint, put_ulong};
use crate::types::{Array, DecodeError, DeliveryTag, Map, Str, Symbol, Value};

/// A value that can stand in a field.
pub(crate) trait Field: Sized {
    /// Reads the data behind `constructor`. `name` is the field's, for errors.
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError>;
    /// Appends constructor and data.
    fn write(&self, buf: &mut BytesMut);
}

impl Field for bool {
    #[inline]
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        match constructor {
            code::TRUE => Ok(true),
            code::FALSE => Ok(false),
            code::BOOLEAN => match reader.byte()? {
                0 => Ok(false),
                1 => Ok(true),
                _ => Err(DecodeError::NotBool),
            },
            _ => Err(DecodeError::FieldType(name)),
        }
    }

    #[inline]
    fn write(&self, buf: &mut BytesMut) {
        buf.put_u8(if *self { code::TRUE } else { code::FALSE });
    }
}

impl Field for u8 {
    #[inline]
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        if constructor == code::UBYTE {
            reader.byte()
        } else {
            Err(DecodeError::FieldType(name))
        }
    }

    #[inline]
    fn write(&self, buf: &mut BytesMut) {
        buf.put_slice(&[code::UBYTE, *self]);
    }
}

impl Field for u16 {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        if constructor == code::USHORT {
            reader.array().map(Self::from_be_bytes)
        } else {
            Err(DecodeError::FieldType(name))
        }
    }

    fn write(&self, buf: &mut BytesMut) {
        buf.put_u8(code::USHORT);
        buf.put_u16(*self);
    }
}

impl Field for u32 {
    #[inline]
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        match constructor {
            code::SMALLUINT => reader.byte().map(Self::from),
            code::UINT0 => Ok(0),
            code::UINT => reader.u32(),
            _ => Err(DecodeError::FieldType(name)),
        }
    }

    #[inline]
    fn write(&self, buf: &mut BytesMut) {
        put_uint(buf, *self);
    }
}

impl Field for u64 {
    #[inline]
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        match constructor {
            code::SMALLULONG => reader.byte().map(Self::from),
            code::ULONG0 => Ok(0),
            code::ULONG => reader.array().map(Self::from_be_bytes),
            _ => Err(DecodeError::FieldType(name)),
        }
    }

    #[inline]
    fn write(&self, buf: &mut BytesMut) {
        put_ulong(buf, *self);
    }
}

/// Timestamps are the only signed fields of the standard's composites.
impl Field for i64 {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        if constructor == code::TIMESTAMP {
            reader.array().map(Self::from_be_bytes)
        } else {
            Err(DecodeError::FieldType(name))
        }
    }

    fn write(&self, buf: &mut BytesMut) {
        buf.put_u8(code::TIMESTAMP);
        buf.put_i64(*self);
    }
}

impl Field for Str {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        if !matches!(constructor, code::STRING8 | code::STRING32) {
            return Err(DecodeError::FieldType(name));
        }
        let len = reader.len(shape_of(constructor)?)?;
        Self::from_utf8(reader.shared(len)?).ok_or(DecodeError::NotUtf8)
    }

    fn write(&self, buf: &mut BytesMut) {
        put_binary(buf, code::STRING8, self.as_bytes());
    }
}

impl Field for Symbol {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        if !matches!(constructor, code::SYMBOL8 | code::SYMBOL32) {
            return Err(DecodeError::FieldType(name));
        }
        let len = reader.len(shape_of(constructor)?)?;
        Self::from_ascii(reader.shared(len)?).ok_or(DecodeError::NotAscii)
    }

    fn write(&self, buf: &mut BytesMut) {
        put_binary(buf, code::SYMBOL8, self.as_bytes());
    }
}

/// A field that may hold several symbols: one symbol counts as an array of one (part 1, 1.4).
impl Field for Vec<Symbol> {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        if matches!(constructor, code::SYMBOL8 | code::SYMBOL32) {
            return Symbol::read(constructor, reader, name).map(|symbol| alloc::vec![symbol]);
        }
        if !matches!(constructor, code::ARRAY8 | code::ARRAY32) {
            return Err(DecodeError::FieldType(name));
        }
        let array = Array::read(constructor, reader)?;
        if array.count == 0 {
            return Ok(Self::new());
        }
        // A symbol takes a byte at least, which `read` has checked: the count is not beyond the bytes.
        if !matches!(&array.constructor[..], [code::SYMBOL8 | code::SYMBOL32]) {
            return Err(DecodeError::FieldType(name));
        }
        array
            .items()
            .map(|item| match item? {
                Value::Symbol(symbol) => Ok(symbol),
                _ => Err(DecodeError::FieldType(name)),
            })
            .collect()
    }

    fn write(&self, buf: &mut BytesMut) {
        put_symbols(buf, self);
    }
}

impl Field for Bytes {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        if !matches!(constructor, code::BINARY8 | code::BINARY32) {
            return Err(DecodeError::FieldType(name));
        }
        let len = reader.len(shape_of(constructor)?)?;
        reader.shared(len)
    }

    fn write(&self, buf: &mut BytesMut) {
        put_binary(buf, code::BINARY8, self);
    }
}

impl Field for DeliveryTag {
    #[inline]
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        let len = match constructor {
            code::BINARY8 => usize::from(reader.byte()?),
            code::BINARY32 => reader.len(shape_of(constructor)?)?,
            _ => return Err(DecodeError::FieldType(name)),
        };
        Self::new(reader.slice(len)?).ok_or(DecodeError::FieldRange(name))
    }

    fn write(&self, buf: &mut BytesMut) {
        put_binary(buf, code::BINARY8, self.as_slice());
    }
}

impl Field for Map {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        if !matches!(constructor, code::MAP8 | code::MAP32) {
            return Err(DecodeError::FieldType(name));
        }
        match Value::read_data(constructor, reader)? {
            Value::Map(map) => Ok(map),
            _ => Err(DecodeError::FieldType(name)),
        }
    }

    fn write(&self, buf: &mut BytesMut) {
        put_map(buf, self);
    }
}

impl Field for Value {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        _name: &'static str,
    ) -> Result<Self, DecodeError> {
        Self::read_data(constructor, reader)
    }

    fn write(&self, buf: &mut BytesMut) {
        self.encode(buf);
    }
}

impl<T: Field> Field for Box<T> {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        T::read(constructor, reader, name).map(Self::new)
    }

    fn write(&self, buf: &mut BytesMut) {
        (**self).write(buf);
    }
}
