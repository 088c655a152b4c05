//! What can be wrong with encoded bytes: one variant per rule.

use core::fmt;

/// Bytes that are not what the standard allows in their place. Nothing was changed by reading them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end within a value, or a size claims more than there is.
    Truncated,
    /// No type has this constructor (part 1, 1.6).
    UnknownConstructor(u8),
    /// A string is not UTF-8 (1.6.20).
    NotUtf8,
    /// A symbol is not ASCII (1.6.21).
    NotAscii,
    /// A boolean byte is neither 0 nor 1 (1.6.2).
    NotBool,
    /// A char is no Unicode scalar value (1.6.16).
    NotScalar,
    /// A map has a key without a value (1.6.23).
    OddMap,
    /// A count and a size of a compound value or array contradict each other.
    CountMismatch,
    /// Values stand in each other deeper than [`NESTING_MAX`](super::NESTING_MAX).
    TooDeep,
    /// Bytes are left where the value should have ended.
    TrailingBytes,
    /// The body of a frame is not a described list.
    NotDescribedList,
    /// The descriptor is none that is known in this place; the numeric code, when it has one.
    UnknownDescriptor(Option<u64>),
    /// A field without which the composite means nothing is absent.
    FieldMissing(&'static str),
    /// A field holds a type that it may not.
    FieldType(&'static str),
    /// A field holds a number outside of its choices.
    FieldRange(&'static str),
    /// A list has more fields than its composite.
    TooManyFields,
    /// A delivery-tag of more than 32 bytes (part 2, 2.8.7) on the link with this handle.
    DeliveryTagTooLong {
        /// The handle of the transfer: the error is the link's alone.
        handle: u32,
    },
    /// An end whose error names no condition. A variant of its own, because what it means is clear all the same.
    EndWithoutCondition,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the bytes end within a value"),
            Self::UnknownConstructor(code) => write!(f, "no type has the constructor 0x{code:02x}"),
            Self::NotUtf8 => f.write_str("a string is not UTF-8"),
            Self::NotAscii => f.write_str("a symbol is not ASCII"),
            Self::NotBool => f.write_str("a boolean is neither 0 nor 1"),
            Self::NotScalar => f.write_str("a char is no Unicode scalar value"),
            Self::OddMap => f.write_str("a map has a key without a value"),
            Self::CountMismatch => f.write_str("a count does not fit the size beside it"),
            Self::TooDeep => write!(f, "values are nested deeper than {}", super::NESTING_MAX),
            Self::TrailingBytes => f.write_str("bytes are left behind the last value"),
            Self::NotDescribedList => f.write_str("a described list was expected"),
            Self::UnknownDescriptor(Some(code)) => {
                write!(f, "the descriptor 0x{code:x} is not known here")
            }
            Self::UnknownDescriptor(None) => f.write_str("the descriptor is not known here"),
            Self::FieldMissing(field) => write!(f, "the field {field} is mandatory and absent"),
            Self::FieldType(field) => write!(f, "the field {field} holds a value of a wrong type"),
            Self::FieldRange(field) => {
                write!(f, "the field {field} holds a value outside of its choices")
            }
            Self::TooManyFields => f.write_str("a list has more fields than its type"),
            Self::DeliveryTagTooLong { .. } => {
                f.write_str("a delivery-tag is longer than 32 bytes")
            }
            Self::EndWithoutCondition => {
                f.write_str("the error of an end names no condition, which is mandatory")
            }
        }
    }
}

impl core::error::Error for DecodeError {}
