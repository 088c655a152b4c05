//! Constructors of the primitive types (part 1, 1.6): the one table of codes and of how long their data is.

use crate::types::DecodeError;

/// Constructor codes by the standard's names.
pub(crate) mod code {
    pub(crate) const DESCRIBED: u8 = 0x00;
    pub(crate) const NULL: u8 = 0x40;
    pub(crate) const TRUE: u8 = 0x41;
    pub(crate) const FALSE: u8 = 0x42;
    pub(crate) const UINT0: u8 = 0x43;
    pub(crate) const ULONG0: u8 = 0x44;
    pub(crate) const LIST0: u8 = 0x45;
    pub(crate) const UBYTE: u8 = 0x50;
    pub(crate) const BYTE: u8 = 0x51;
    pub(crate) const SMALLUINT: u8 = 0x52;
    pub(crate) const SMALLULONG: u8 = 0x53;
    pub(crate) const SMALLINT: u8 = 0x54;
    pub(crate) const SMALLLONG: u8 = 0x55;
    pub(crate) const BOOLEAN: u8 = 0x56;
    pub(crate) const USHORT: u8 = 0x60;
    pub(crate) const SHORT: u8 = 0x61;
    pub(crate) const UINT: u8 = 0x70;
    pub(crate) const INT: u8 = 0x71;
    pub(crate) const FLOAT: u8 = 0x72;
    pub(crate) const CHAR: u8 = 0x73;
    pub(crate) const DECIMAL32: u8 = 0x74;
    pub(crate) const ULONG: u8 = 0x80;
    pub(crate) const LONG: u8 = 0x81;
    pub(crate) const DOUBLE: u8 = 0x82;
    pub(crate) const TIMESTAMP: u8 = 0x83;
    pub(crate) const DECIMAL64: u8 = 0x84;
    pub(crate) const DECIMAL128: u8 = 0x94;
    pub(crate) const UUID: u8 = 0x98;
    pub(crate) const BINARY8: u8 = 0xa0;
    pub(crate) const STRING8: u8 = 0xa1;
    pub(crate) const SYMBOL8: u8 = 0xa3;
    pub(crate) const BINARY32: u8 = 0xb0;
    pub(crate) const STRING32: u8 = 0xb1;
    pub(crate) const SYMBOL32: u8 = 0xb3;
    pub(crate) const LIST8: u8 = 0xc0;
    pub(crate) const MAP8: u8 = 0xc1;
    pub(crate) const LIST32: u8 = 0xd0;
    pub(crate) const MAP32: u8 = 0xd1;
    pub(crate) const ARRAY8: u8 = 0xe0;
    pub(crate) const ARRAY32: u8 = 0xf0;
}

/// How the data behind a constructor is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// This many bytes.
    Fixed(u8),
    /// One byte says how many bytes follow it.
    Sized8,
    /// Four bytes say how many bytes follow them.
    Sized32,
}

/// The shape of a primitive type. Codes that no type has are an error, though their category would tell a length.
pub(crate) const fn shape_of(constructor: u8) -> Result<Shape, DecodeError> {
    Ok(match constructor {
        0x40..=0x45 => Shape::Fixed(0),
        0x50..=0x56 => Shape::Fixed(1),
        0x60 | 0x61 => Shape::Fixed(2),
        0x70..=0x74 => Shape::Fixed(4),
        0x80..=0x84 => Shape::Fixed(8),
        0x94 | 0x98 => Shape::Fixed(16),
        0xa0 | 0xa1 | 0xa3 | 0xc0 | 0xc1 | 0xe0 => Shape::Sized8,
        0xb0 | 0xb1 | 0xb3 | 0xd0 | 0xd1 | 0xf0 => Shape::Sized32,
        _ => return Err(DecodeError::UnknownConstructor(constructor)),
    })
}
