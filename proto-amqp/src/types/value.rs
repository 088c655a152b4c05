//! One AMQP value of any type.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;

use super::{Array, Map, Str, Symbol};

/// Any AMQP value (part 1, 1.6).
///
/// Floating point numbers are kept as their bits: values compare and travel bit by bit, NaN payloads included. Two
/// values are equal when they encode equally, so a float and a double are never equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// Unsigned, 8 bits.
    Ubyte(u8),
    /// Unsigned, 16 bits.
    Ushort(u16),
    /// Unsigned, 32 bits.
    Uint(u32),
    /// Unsigned, 64 bits.
    Ulong(u64),
    /// Signed, 8 bits.
    Byte(i8),
    /// Signed, 16 bits.
    Short(i16),
    /// Signed, 32 bits.
    Int(i32),
    /// Signed, 64 bits.
    Long(i64),
    /// The bits of an IEEE 754 binary32.
    Float(u32),
    /// The bits of an IEEE 754 binary64.
    Double(u64),
    /// IEEE 754 decimal32, big-endian.
    Decimal32([u8; 4]),
    /// IEEE 754 decimal64, big-endian.
    Decimal64([u8; 8]),
    /// IEEE 754 decimal128, big-endian.
    Decimal128([u8; 16]),
    /// A Unicode scalar value.
    Char(char),
    /// Milliseconds since 1970-01-01T00:00:00Z; any 64-bit number may come.
    Timestamp(i64),
    /// RFC 4122 uuid.
    Uuid([u8; 16]),
    /// Octets.
    Binary(Bytes),
    /// UTF-8 text.
    Str(Str),
    /// ASCII name from a constrained domain.
    Symbol(Symbol),
    /// Values in a row.
    List(Vec<Value>),
    /// Pairs of key and value, in the order in which they came.
    Map(Map),
    /// Values of one type, kept encoded.
    Array(Array),
    /// A value with a descriptor.
    Described(Box<Described>),
}

/// A value with a descriptor that says what it means (part 1, 1.5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Described {
    /// A symbol or an ulong where the standard has a say.
    pub descriptor: Value,
    /// The value described.
    pub value: Value,
}
