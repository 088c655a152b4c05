//! The codes and the fixed texts of ERROR.
//!
//! Codes 1 to 9 and their texts are those of the first clients, some of which compare texts: they never change. Codes
//! from 50 on are ours.

use core::fmt;

/// What went wrong, as a number that programs can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum ErrorCode {
    /// No such operation, or not from this side.
    UnknownOpcode = 1,
    /// The payload or the flags cannot be read, or contradict the rules.
    InvalidRequest = 2,
    /// The broker could not do it now: queue full, memory short, duplicate, store failed.
    Failed = 3,
    /// No such delivery, member, consumer or stream.
    NotFound = 4,
    /// The message does not fit the queue's schema.
    SchemaMismatch = 5,
    /// The schema cannot be registered.
    SchemaRefused = 6,
    /// There is no schema, and one is asked for or required.
    SchemaMissing = 7,
    /// Nobody answered the call in time.
    CallTimeout = 8,
    /// Authentication is missing; also sent by nodes that may not decide.
    Unauthorized = 9,
    /// No such queue.
    QueueNotFound = 50,
    /// The queue exists with other settings.
    Conflict = 51,
    /// Not for this peer.
    NotAllowed = 52,
    /// The message, or an answer, is larger than a frame may be.
    TooLarge = 53,
    /// In use, by others or at all.
    InUse = 54,
    /// The broker is going down.
    ShuttingDown = 55,
}

impl ErrorCode {
    /// All of them, in the order of their numbers.
    pub const ALL: &'static [Self] = &[
        Self::UnknownOpcode,
        Self::InvalidRequest,
        Self::Failed,
        Self::NotFound,
        Self::SchemaMismatch,
        Self::SchemaRefused,
        Self::SchemaMissing,
        Self::CallTimeout,
        Self::Unauthorized,
        Self::QueueNotFound,
        Self::Conflict,
        Self::NotAllowed,
        Self::TooLarge,
        Self::InUse,
        Self::ShuttingDown,
    ];

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The code of a number; none for those that nobody defined.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.number() == number)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// Texts that clients compare, beside those of [`Violation`](crate::connection::Violation).
pub mod text {
    /// With code 3.
    pub const QUEUE_FULL: &str = "queue is full";
    /// With code 3.
    pub const MEMORY_PRESSURE: &str = "memory pressure: server under load, try again later";
    /// With code 3, followed by the key.
    pub const DUPLICATE_PREFIX: &str = "duplicate message: ";
    /// With code 4.
    pub const MESSAGE_NOT_FOUND: &str = "message not found";
    /// With code 4.
    pub const MEMBER_NOT_FOUND: &str = "group member not found";
    /// With code 4.
    pub const CONSUMER_NOT_FOUND: &str = "consumer not found";
    /// With code 4.
    pub const STREAM_NOT_FOUND: &str = "stream queue not found";
    /// With code 5, followed by what the decoder says.
    pub const SCHEMA_MISMATCH_PREFIX: &str =
        "schema validation failed: message validation failed: ";
    /// Why a schema was not registered comes behind it.
    pub const SCHEMA_REFUSED_PREFIX: &str = "schema registration failed: ";
    /// With code 6.
    pub const SCHEMA_INVALID: &str = "schema registration failed: invalid descriptor";
    /// With code 6.
    pub const SCHEMA_TYPE_UNKNOWN: &str =
        "schema registration failed: message type not found in descriptor";
    /// With code 7.
    pub const SCHEMA_NOT_FOUND: &str = "schema not found";
    /// With code 7.
    pub const SCHEMA_REQUIRED: &str = "schema required for queue";
    /// With code 8.
    pub const CALL_TIMEOUT: &str = "call timeout";
    /// In AUTH_RESPONSE.
    pub const AUTHENTICATED: &str = "authenticated";
    /// In AUTH_RESPONSE.
    pub const TOKEN_INVALID: &str = "invalid token";
    /// In AUTH_RESPONSE.
    pub const AUTH_INVALID: &str = "invalid auth request";
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn numbers_name_one_code_each() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_number(code.number()), Some(*code));
        }
        let known = (0..100).filter(|number| ErrorCode::from_number(*number).is_some());
        assert_eq!(known.count(), 15);
        assert_eq!(ErrorCode::from_number(0), None);
    }
}
