//! Every rule that a peer can break, and what each costs it.
//!
//! One variant is one rule. The tables below, from variant to code and text and from variant to the end of the
//! connection, are the only place where a broken rule meets the wire.

use crate::error::{ErrorCode, text};
use crate::frame::FrameError;
use crate::request::BodyError;

/// A rule that the peer broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Violation {
    // Frames: nothing is answered, because nothing can be trusted.
    /// The first byte belongs to another protocol.
    FirstByte,
    /// A versioned length below 2.
    LengthTooSmall,
    /// A versioned length above 16 MiB.
    LengthTooLarge,
    /// A payload above the limit of the layout, or of the time before authentication.
    PayloadTooLarge,
    // Authentication
    /// Something else came before AUTH.
    AuthRequired,
    /// The AUTH that came cannot be read.
    AuthUndecodable,
    /// No AUTH came in time.
    AuthDeadline,
    // Time and amount
    /// Not a byte came in time.
    FirstBytesDeadline,
    /// Nothing came for longer than the idle time-out.
    IdleTimeout,
    /// A frame began and did not go on.
    FrameStalled,
    /// Our output is not taken.
    SlowReader,
    /// Too many frames that only cost us.
    Nuisance,
    // Toward a client
    /// An answer that belongs to no request, or not to this one.
    UnexpectedReply,
    /// An answer or a delivery that cannot be read.
    ReplyUndecodable,
    // Requests: answered, and the connection goes on.
    /// No such operation, or not from a client.
    UnknownOpcode,
    /// A flag is set that has no meaning.
    ReservedFlags,
    /// The payload cannot be read.
    Undecodable,
    /// The request names no queue.
    QueueMissing,
    /// A message has too many headers.
    TooManyHeaders,
    /// A batch has too many messages.
    TooManyMessages,
    /// A message would not fit a MESSAGE frame.
    MessageTooLarge,
}

impl Violation {
    /// Whether the connection ends by it.
    #[must_use]
    pub const fn is_fatal(self) -> bool {
        !matches!(
            self,
            Self::UnknownOpcode
                | Self::ReservedFlags
                | Self::Undecodable
                | Self::QueueMissing
                | Self::TooManyHeaders
                | Self::TooManyMessages
                | Self::MessageTooLarge
        )
    }

    /// The code of the ERROR that it is answered with. None: it is not answered with an ERROR.
    #[must_use]
    pub const fn code(self) -> Option<ErrorCode> {
        match self {
            Self::UnknownOpcode => Some(ErrorCode::UnknownOpcode),
            Self::ReservedFlags
            | Self::Undecodable
            | Self::QueueMissing
            | Self::TooManyHeaders
            | Self::TooManyMessages => Some(ErrorCode::InvalidRequest),
            Self::MessageTooLarge => Some(ErrorCode::TooLarge),
            Self::AuthRequired => Some(ErrorCode::Unauthorized),
            _ => None,
        }
    }

    /// What it is called, on the wire where it is answered and in logs.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::FirstByte => "the first byte belongs to another protocol",
            Self::LengthTooSmall => "a frame's length is below 2",
            Self::LengthTooLarge => "a frame's length is above 16 MiB",
            Self::PayloadTooLarge => "a payload is larger than the limit",
            Self::AuthRequired => "authentication required",
            Self::AuthUndecodable => text::AUTH_INVALID,
            Self::FirstBytesDeadline => "nothing came in time",
            Self::AuthDeadline => "no authentication came in time",
            Self::IdleTimeout => "nothing came for longer than the idle time-out",
            Self::FrameStalled => "a frame began and did not go on",
            Self::SlowReader => "the peer does not take what is sent to it",
            Self::Nuisance => "too many unreadable or empty requests",
            Self::UnexpectedReply => "an answer belongs to no request",
            Self::ReplyUndecodable => "an answer cannot be read",
            Self::UnknownOpcode => "unknown opcode",
            Self::ReservedFlags => "invalid request: a reserved flag is set",
            Self::Undecodable => "invalid request",
            Self::QueueMissing => "invalid request: the name of the queue is missing",
            Self::TooManyHeaders => "invalid request: too many headers",
            Self::TooManyMessages => "invalid request: too many messages in a batch",
            Self::MessageTooLarge => "message too large",
        }
    }
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Violation {}

impl From<FrameError> for Violation {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::LengthTooSmall => Self::LengthTooSmall,
            FrameError::LengthTooLarge => Self::LengthTooLarge,
            FrameError::PayloadTooLarge => Self::PayloadTooLarge,
        }
    }
}

impl From<BodyError> for Violation {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Undecodable => Self::Undecodable,
            BodyError::QueueMissing => Self::QueueMissing,
            BodyError::TooManyHeaders => Self::TooManyHeaders,
            BodyError::TooManyMessages => Self::TooManyMessages,
            BodyError::MessageTooLarge => Self::MessageTooLarge,
        }
    }
}
