//! What consumers send and get: subscriptions, deliveries, acknowledgements, membership of groups.

use alloc::collections::BTreeMap;
use alloc::string::String;

use bytes::Bytes;

/// 0x03 CONSUME. A connection has at most one consumer for each pair of queue and group; consuming again changes it.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ConsumeRequest {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Deliveries without an answer that the consumer may hold. 0: 100.
    #[prost(uint32, tag = "2")]
    pub prefetch: u32,
    /// Seconds after which a delivery without an answer returns to its queue. 0: the queue's own, commonly 30.
    #[prost(uint32, tag = "3")]
    pub visibility_timeout: u32,
    /// The consumer group to join. Absent or empty: none.
    #[prost(string, optional, tag = "4")]
    pub group: Option<String>,
    /// True: a message counts as acknowledged when it is sent.
    #[prost(bool, tag = "50")]
    pub auto_ack: bool,
}

/// 0x04 MESSAGE.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Message {
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
    /// Counts from 1.
    #[prost(uint32, tag = "5")]
    pub attempt: u32,
    /// Milliseconds since the Unix epoch.
    #[prost(int64, tag = "6")]
    pub published_at: i64,
    /// Messages of one key come in order. Empty: none.
    #[prost(string, tag = "7")]
    pub ordering_key: String,
    /// The connection's number for this delivery, from 1. Documented frame only, as are the fields after it.
    #[prost(uint64, tag = "50")]
    pub delivery_id: u64,
    /// The group of the consumer that this is for.
    #[prost(string, tag = "51")]
    pub group: String,
    /// The key that the publisher gave; empty when there was none.
    #[prost(string, tag = "52")]
    pub idempotency_key: String,
}

/// 0x05 ACK.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AckRequest {
    /// A delivery that this connection holds.
    #[prost(string, tag = "1")]
    pub message_id: String,
    /// Instead of message_id: exactly this delivery.
    #[prost(uint64, tag = "50")]
    pub delivery_id: u64,
    /// With delivery_id: all deliveries without an answer from there to this one, inclusive.
    #[prost(uint64, tag = "51")]
    pub delivery_id_last: u64,
}

/// 0x06 NACK.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct NackRequest {
    /// A delivery that this connection holds.
    #[prost(string, tag = "1")]
    pub message_id: String,
    /// True: back to the queue. False: a dead letter at once.
    #[prost(bool, tag = "2")]
    pub requeue: bool,
    /// As in AckRequest.
    #[prost(uint64, tag = "50")]
    pub delivery_id: u64,
    /// As in [`AckRequest`].
    #[prost(uint64, tag = "51")]
    pub delivery_id_last: u64,
}

/// 0x08 EXTEND_VISIBILITY.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ExtendVisibilityRequest {
    /// A delivery that this connection holds.
    #[prost(string, tag = "1")]
    pub message_id: String,
    /// The delivery stays with its consumer for this long from now.
    #[prost(uint32, tag = "2")]
    pub extension_seconds: u32,
    /// Instead of message_id: exactly this delivery.
    #[prost(uint64, tag = "50")]
    pub delivery_id: u64,
}

/// 0x09 EXTEND_VISIBILITY_ACK.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ExtendVisibilityResponse {
    /// Milliseconds since the Unix epoch.
    #[prost(int64, tag = "1")]
    pub new_visible_at: i64,
}

/// 0x0B or 0x66 UNSUBSCRIBE.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct UnsubscribeRequest {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// The consumer group. Absent or empty: none.
    #[prost(string, optional, tag = "2")]
    pub group: Option<String>,
}

/// 0x0A or 0x64 HEARTBEAT: says that this member of a group is alive.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct HeartbeatRequest {
    /// The consumer group.
    #[prost(string, tag = "1")]
    pub group: String,
    /// The queue or stream.
    #[prost(string, tag = "2")]
    pub queue: String,
}

/// 0x0C or 0x65 HEARTBEAT_ACK.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct HeartbeatResponse {}

/// 0x63 CONSUMER_CLOSED: the broker ended a consumer, its queue is gone for example.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ConsumerClosed {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// The consumer group. Absent or empty: none.
    #[prost(string, tag = "2")]
    pub group: String,
    /// Which kind of error, see [`ErrorCode`](crate::error::ErrorCode).
    #[prost(uint32, tag = "3")]
    pub code: u32,
    /// For people, and for clients that compare texts.
    #[prost(string, tag = "4")]
    pub message: String,
}
