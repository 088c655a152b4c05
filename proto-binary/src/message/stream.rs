//! What readers of streams send and get.

use alloc::collections::BTreeMap;
use alloc::string::String;

use bytes::Bytes;

/// Where a reader of a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::prost::Enumeration)]
#[repr(i32)]
pub enum SeekPosition {
    /// At the oldest message kept.
    Beginning = 0,
    /// At the next message to be published.
    End = 1,
    /// At a sequence.
    Offset = 2,
    /// At the first message published at or after a time.
    Timestamp = 3,
    /// Any other value too: from the offset that the group committed.
    Committed = 4,
}

/// 0x58 SEEK: begins to read a stream, or goes on from elsewhere.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SeekRequest {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// The named reader. Empty: one of the connection's own.
    #[prost(string, tag = "2")]
    pub consumer_group: String,
    /// Where to begin.
    #[prost(enumeration = "SeekPosition", tag = "3")]
    pub position: i32,
    /// With position OFFSET: the sequence to begin at.
    #[prost(uint64, tag = "4")]
    pub offset: u64,
    /// Milliseconds since the Unix epoch.
    #[prost(int64, tag = "5")]
    pub timestamp: i64,
}

/// 0x59 SEEK_ACK.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SeekResponse {
    /// The next sequence to be delivered.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
}

/// 0x5A COMMIT_OFFSET.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CommitOffsetRequest {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// The named reader. Empty: one of the connection's own.
    #[prost(string, tag = "2")]
    pub consumer_group: String,
    /// All before it is done with.
    #[prost(uint64, tag = "3")]
    pub offset: u64,
}

/// 0x5B COMMIT_OFFSET_ACK.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CommitOffsetResponse {
    /// As committed.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
}

/// 0x5C STREAM_MESSAGE.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamMessage {
    /// The message.
    #[prost(string, tag = "1")]
    pub message_id: String,
    /// The queue or stream.
    #[prost(string, tag = "2")]
    pub queue: String,
    /// The body, opaque to the protocol.
    #[prost(bytes = "bytes", tag = "3")]
    pub payload: Bytes,
    /// Opaque to the protocol.
    #[prost(btree_map = "string, string", tag = "4")]
    pub headers: BTreeMap<String, String>,
    /// Position in the stream, from 1.
    #[prost(uint64, tag = "5")]
    pub sequence: u64,
    /// Milliseconds since the Unix epoch.
    #[prost(int64, tag = "6")]
    pub published_at: i64,
    /// Documented frame only, as are the fields after it.
    #[prost(string, tag = "50")]
    pub ordering_key: String,
    /// The consumer group. Absent or empty: none.
    #[prost(string, tag = "51")]
    pub group: String,
    /// The key that the publisher gave; empty when there was none.
    #[prost(string, tag = "52")]
    pub idempotency_key: String,
}
