//! The opcodes: what each means, who may send it, what answers it.
//!
//! Numbers below 0x50 belong to the first clients. Of these, 0x0A to 0x0E were given out twice, to consumer groups and
//! to streams; a [`Dialect`] says which family is meant. Both families have numbers of their own from 0x50 on, which
//! work in either dialect.

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// A message for a queue or stream.
    Publish = 0x01,
    /// The message was taken.
    PublishAck = 0x02,
    /// Begin to consume, or change how.
    Consume = 0x03,
    /// A delivery.
    Message = 0x04,
    /// A delivery is done with.
    Ack = 0x05,
    /// A delivery failed.
    Nack = 0x06,
    /// A request was refused.
    Error = 0x07,
    /// Keep a delivery for longer.
    ExtendVisibility = 0x08,
    /// Kept.
    ExtendVisibilityAck = 0x09,
    /// A new version of a schema.
    SchemaRegister = 0x10,
    /// What a queue's schema is.
    SchemaGet = 0x11,
    /// A schema.
    SchemaResponse = 0x12,
    /// A request to whoever consumes a queue.
    Call = 0x20,
    /// Their answer.
    CallResponse = 0x21,
    /// All schemas.
    SchemaList = 0x30,
    /// Here they are.
    SchemaListResponse = 0x31,
    /// All queues.
    QueueList = 0x32,
    /// Here they are.
    QueueListResponse = 0x33,
    /// A token.
    Auth = 0x40,
    /// Whether it is right.
    AuthResponse = 0x41,
    /// Make a queue or stream, or check it.
    QueueDeclare = 0x50,
    /// It is there.
    QueueDeclared = 0x51,
    /// Delete a queue or stream.
    QueueDelete = 0x52,
    /// It is gone.
    QueueDeleted = 0x53,
    /// Remove what waits in a queue.
    QueuePurge = 0x54,
    /// It is empty.
    QueuePurged = 0x55,
    /// Counters of a queue.
    QueueStats = 0x56,
    /// Here they are.
    QueueStatsResponse = 0x57,
    /// Read a stream from somewhere.
    Seek = 0x58,
    /// It is read from there.
    SeekAck = 0x59,
    /// Store how far a group has read.
    CommitOffset = 0x5a,
    /// Stored.
    CommitOffsetAck = 0x5b,
    /// An entry of a stream.
    StreamMessage = 0x5c,
    /// Several messages at once.
    PublishBatch = 0x5e,
    /// What became of each.
    PublishBatchAck = 0x5f,
    /// Are you there? From either side.
    Ping = 0x60,
    /// Yes. From either side.
    Pong = 0x61,
    /// A request without an answer of its own succeeded.
    Done = 0x62,
    /// The broker ended a consumer.
    ConsumerClosed = 0x63,
    /// A member of a group is alive.
    Heartbeat = 0x64,
    /// Heard.
    HeartbeatAck = 0x65,
    /// End a consumer.
    Unsubscribe = 0x66,
}

/// Which family has the numbers 0x0A to 0x0E.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Consumer groups: 0x0A HEARTBEAT, 0x0B UNSUBSCRIBE, 0x0C HEARTBEAT_ACK.
    #[default]
    Groups,
    /// Streams: 0x0A SEEK, 0x0B COMMIT_OFFSET, 0x0C SEEK_ACK, 0x0D COMMIT_OFFSET_ACK, 0x0E STREAM_MESSAGE.
    Streams,
}

/// Numbers above this are no opcodes and never will be: a connection that begins with one speaks another protocol.
pub const NUMBER_MAX: u8 = 0x7f;

impl Opcode {
    /// All of them, in the order of their numbers.
    pub const ALL: &'static [Self] = &[
        Self::Publish,
        Self::PublishAck,
        Self::Consume,
        Self::Message,
        Self::Ack,
        Self::Nack,
        Self::Error,
        Self::ExtendVisibility,
        Self::ExtendVisibilityAck,
        Self::SchemaRegister,
        Self::SchemaGet,
        Self::SchemaResponse,
        Self::Call,
        Self::CallResponse,
        Self::SchemaList,
        Self::SchemaListResponse,
        Self::QueueList,
        Self::QueueListResponse,
        Self::Auth,
        Self::AuthResponse,
        Self::QueueDeclare,
        Self::QueueDeclared,
        Self::QueueDelete,
        Self::QueueDeleted,
        Self::QueuePurge,
        Self::QueuePurged,
        Self::QueueStats,
        Self::QueueStatsResponse,
        Self::Seek,
        Self::SeekAck,
        Self::CommitOffset,
        Self::CommitOffsetAck,
        Self::StreamMessage,
        Self::PublishBatch,
        Self::PublishBatchAck,
        Self::Ping,
        Self::Pong,
        Self::Done,
        Self::ConsumerClosed,
        Self::Heartbeat,
        Self::HeartbeatAck,
        Self::Unsubscribe,
    ];

    /// What a number means. The second value is how the answer is numbered: in the family that the number belongs to.
    #[must_use]
    pub const fn from_wire(number: u8, dialect: Dialect) -> Option<(Self, Numbering)> {
        let shared = match (number, dialect) {
            (0x0a, Dialect::Groups) => Self::Heartbeat,
            (0x0b, Dialect::Groups) => Self::Unsubscribe,
            (0x0c, Dialect::Groups) => Self::HeartbeatAck,
            (0x0a, Dialect::Streams) => Self::Seek,
            (0x0b, Dialect::Streams) => Self::CommitOffset,
            (0x0c, Dialect::Streams) => Self::SeekAck,
            (0x0d, Dialect::Streams) => Self::CommitOffsetAck,
            (0x0e, Dialect::Streams) => Self::StreamMessage,
            _ => {
                return match Self::from_own(number) {
                    Some(opcode) => Some((opcode, Numbering::Own)),
                    None => None,
                };
            }
        };
        Some((shared, Numbering::Shared(dialect)))
    }

    const fn from_own(number: u8) -> Option<Self> {
        Some(match number {
            0x01 => Self::Publish,
            0x02 => Self::PublishAck,
            0x03 => Self::Consume,
            0x04 => Self::Message,
            0x05 => Self::Ack,
            0x06 => Self::Nack,
            0x07 => Self::Error,
            0x08 => Self::ExtendVisibility,
            0x09 => Self::ExtendVisibilityAck,
            0x10 => Self::SchemaRegister,
            0x11 => Self::SchemaGet,
            0x12 => Self::SchemaResponse,
            0x20 => Self::Call,
            0x21 => Self::CallResponse,
            0x30 => Self::SchemaList,
            0x31 => Self::SchemaListResponse,
            0x32 => Self::QueueList,
            0x33 => Self::QueueListResponse,
            0x40 => Self::Auth,
            0x41 => Self::AuthResponse,
            0x50 => Self::QueueDeclare,
            0x51 => Self::QueueDeclared,
            0x52 => Self::QueueDelete,
            0x53 => Self::QueueDeleted,
            0x54 => Self::QueuePurge,
            0x55 => Self::QueuePurged,
            0x56 => Self::QueueStats,
            0x57 => Self::QueueStatsResponse,
            0x58 => Self::Seek,
            0x59 => Self::SeekAck,
            0x5a => Self::CommitOffset,
            0x5b => Self::CommitOffsetAck,
            0x5c => Self::StreamMessage,
            0x5e => Self::PublishBatch,
            0x5f => Self::PublishBatchAck,
            0x60 => Self::Ping,
            0x61 => Self::Pong,
            0x62 => Self::Done,
            0x63 => Self::ConsumerClosed,
            0x64 => Self::Heartbeat,
            0x65 => Self::HeartbeatAck,
            0x66 => Self::Unsubscribe,
            _ => return None,
        })
    }

    /// The number on the wire.
    #[must_use]
    pub const fn to_wire(self, numbering: Numbering) -> u8 {
        match (self, numbering) {
            (Self::Heartbeat, Numbering::Shared(Dialect::Groups))
            | (Self::Seek, Numbering::Shared(Dialect::Streams)) => 0x0a,
            (Self::Unsubscribe, Numbering::Shared(Dialect::Groups))
            | (Self::CommitOffset, Numbering::Shared(Dialect::Streams)) => 0x0b,
            (Self::HeartbeatAck, Numbering::Shared(Dialect::Groups))
            | (Self::SeekAck, Numbering::Shared(Dialect::Streams)) => 0x0c,
            (Self::CommitOffsetAck, Numbering::Shared(Dialect::Streams)) => 0x0d,
            (Self::StreamMessage, Numbering::Shared(Dialect::Streams)) => 0x0e,
            _ => self as u8,
        }
    }

    /// What answers it when it succeeds. None: it is no request.
    #[must_use]
    pub const fn reply(self) -> Option<Self> {
        Some(match self {
            Self::Publish => Self::PublishAck,
            Self::Consume | Self::Ack | Self::Nack | Self::Unsubscribe => Self::Done,
            Self::ExtendVisibility => Self::ExtendVisibilityAck,
            Self::SchemaRegister | Self::SchemaGet => Self::SchemaResponse,
            Self::Call => Self::CallResponse,
            Self::SchemaList => Self::SchemaListResponse,
            Self::QueueList => Self::QueueListResponse,
            Self::Auth => Self::AuthResponse,
            Self::QueueDeclare => Self::QueueDeclared,
            Self::QueueDelete => Self::QueueDeleted,
            Self::QueuePurge => Self::QueuePurged,
            Self::QueueStats => Self::QueueStatsResponse,
            Self::Seek => Self::SeekAck,
            Self::CommitOffset => Self::CommitOffsetAck,
            Self::PublishBatch => Self::PublishBatchAck,
            Self::Ping => Self::Pong,
            Self::Heartbeat => Self::HeartbeatAck,
            _ => return None,
        })
    }

    /// A request whose success is only answered where the sender asks for it.
    #[must_use]
    pub const fn is_silent(self) -> bool {
        matches!(self.reply(), Some(Self::Done))
    }
}

/// Which number an opcode has that has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// The one from 0x50 on.
    Own,
    /// The one between 0x0A and 0x0E, where the dialect gives it one; else its own.
    Shared(Dialect),
}

#[cfg(test)]
mod tests {
    use super::{Dialect, NUMBER_MAX, Numbering, Opcode};

    #[test]
    fn numbers_and_names_agree_both_ways() {
        for dialect in [Dialect::Groups, Dialect::Streams] {
            for number in 0..=u8::MAX {
                match Opcode::from_wire(number, dialect) {
                    Some((opcode, numbering)) => {
                        assert_eq!(opcode.to_wire(numbering), number);
                        assert!(number <= NUMBER_MAX);
                    }
                    None => assert!(!Opcode::ALL.iter().any(|opcode| *opcode as u8 == number)),
                }
            }
            for opcode in Opcode::ALL {
                let own = Opcode::from_wire(*opcode as u8, dialect);
                assert_eq!(own, Some((*opcode, Numbering::Own)));
            }
        }
    }

    #[test]
    fn the_shared_numbers_follow_the_dialect() {
        let of = |number, dialect| Opcode::from_wire(number, dialect).map(|found| found.0);
        assert_eq!(of(0x0a, Dialect::Groups), Some(Opcode::Heartbeat));
        assert_eq!(of(0x0b, Dialect::Groups), Some(Opcode::Unsubscribe));
        assert_eq!(of(0x0c, Dialect::Groups), Some(Opcode::HeartbeatAck));
        assert_eq!(of(0x0d, Dialect::Groups), None);
        assert_eq!(of(0x0e, Dialect::Groups), None);
        assert_eq!(of(0x0a, Dialect::Streams), Some(Opcode::Seek));
        assert_eq!(of(0x0b, Dialect::Streams), Some(Opcode::CommitOffset));
        assert_eq!(of(0x0c, Dialect::Streams), Some(Opcode::SeekAck));
        assert_eq!(of(0x0d, Dialect::Streams), Some(Opcode::CommitOffsetAck));
        assert_eq!(of(0x0e, Dialect::Streams), Some(Opcode::StreamMessage));
    }

    #[test]
    fn answers_are_no_requests() {
        for opcode in Opcode::ALL {
            if let Some(reply) = opcode.reply() {
                assert_eq!(reply.reply(), None, "{opcode:?}");
            }
        }
        let silent = Opcode::ALL.iter().filter(|opcode| opcode.is_silent());
        assert_eq!(silent.count(), 4);
    }
}
