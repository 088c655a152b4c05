//! What can be wrong with the sections of a message.

use core::fmt;

use crate::types::{DecodeError, Symbol};

/// Bytes that are no message. The error belongs to the delivery or, at most, to its link; session and connection live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SectionError {
    /// A section cannot be decoded.
    Decode(DecodeError),
    /// What stands where a section should is no described value.
    NotASection,
    /// A described value whose descriptor names no section; the numeric code, when it has one.
    UnknownSection(Option<u64>),
    /// A section holds a type that it may not.
    WrongType(&'static str),
    /// A section comes behind one that it should precede.
    OutOfOrder(&'static str),
    /// A section comes a second time that may come once.
    Repeated(&'static str),
    /// Data, sequences and values are mixed in the body.
    MixedBody,
    /// The message has no body (part 3, 3.2: at least one body section is required).
    NoBody,
    /// The message has more sections than [`SECTIONS_MAX`](super::SECTIONS_MAX).
    TooManySections,
    /// The key of an annotation is neither a symbol nor an ulong (3.2.10), or that of an application property no
    /// string (3.2.5).
    KeyType(&'static str),
    /// The key of an annotation is reserved for the standard and means nothing here (3.2.10).
    ReservedKey(Symbol),
    /// The key of an annotation is a number, and all numbers are reserved (3.2.10).
    ReservedNumber(u64),
}

impl SectionError {
    /// Whether the message is well-formed and asks for something that is not implemented, as opposed to being
    /// undecodable.
    #[must_use]
    pub const fn is_not_implemented(&self) -> bool {
        matches!(self, Self::ReservedKey(_) | Self::ReservedNumber(_))
    }
}

impl From<DecodeError> for SectionError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

/// Characters of a peer's key that are repeated in an error text.
const KEY_SHOWN_MAX: usize = 64;

impl fmt::Display for SectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => write!(f, "a section cannot be decoded: {error}"),
            Self::NotASection => f.write_str("the message holds something that is no section"),
            Self::UnknownSection(Some(code)) => {
                write!(f, "the message holds an unknown section 0x{code:x}")
            }
            Self::UnknownSection(None) => f.write_str("the message holds an unknown section"),
            Self::WrongType(section) => write!(f, "the section {section} holds a wrong type"),
            Self::OutOfOrder(section) => write!(f, "the section {section} is out of order"),
            Self::Repeated(section) => write!(f, "the section {section} comes twice"),
            Self::MixedBody => f.write_str("the body mixes data, sequences and values"),
            Self::NoBody => f.write_str("the message has no body section"),
            Self::TooManySections => write!(
                f,
                "the message has more than {} sections",
                super::SECTIONS_MAX
            ),
            Self::KeyType(section) => write!(f, "a key in the section {section} has a wrong type"),
            Self::ReservedKey(key) => {
                let shown = key.as_str();
                write!(
                    f,
                    "the annotation key {} is reserved; own keys begin with x-",
                    &shown[..shown.len().min(KEY_SHOWN_MAX)]
                )
            }
            Self::ReservedNumber(key) => write!(
                f,
                "the annotation key {key} is reserved, as all numbers are"
            ),
        }
    }
}

impl core::error::Error for SectionError {}
