//! What PUBLISH and PUBLISH_BATCH carry, and their answers.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

/// 0x01 PUBLISH.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PublishRequest {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// The body, opaque to the protocol.
    #[prost(bytes = "bytes", tag = "2")]
    pub payload: Bytes,
    /// Opaque to the protocol.
    #[prost(btree_map = "string, string", tag = "3")]
    pub headers: BTreeMap<String, String>,
    /// Given by the broker when absent or empty.
    #[prost(string, optional, tag = "4")]
    pub message_id: Option<String>,
    /// A second message with this key in the same queue is refused within the queue's window.
    #[prost(string, optional, tag = "5")]
    pub idempotency_key: Option<String>,
    /// Messages of one key are delivered in order, to one consumer at a time. Empty: none.
    #[prost(string, tag = "6")]
    pub ordering_key: String,
    /// Milliseconds from arrival until the message expires. 0: never.
    #[prost(uint64, tag = "50")]
    pub ttl_ms: u64,
    /// Milliseconds from arrival during which the message is held back. 0: none.
    #[prost(uint64, tag = "51")]
    pub delay_ms: u64,
    /// 0 to 31 in a queue with priorities; higher is earlier.
    #[prost(uint32, optional, tag = "52")]
    pub priority: Option<u32>,
    /// True: the message need not survive a restart, and the answer does not wait for the disk.
    #[prost(bool, tag = "53")]
    pub transient: bool,
}

/// 0x02 PUBLISH_ACK.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PublishResponse {
    /// The id under which the message was taken.
    #[prost(string, tag = "1")]
    pub message_id: String,
}

/// 0x5E PUBLISH_BATCH. Each message stands for itself: some may be taken and others refused.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PublishBatchRequest {
    /// The messages, in order.
    #[prost(message, repeated, tag = "1")]
    pub messages: Vec<PublishRequest>,
}

/// 0x5F PUBLISH_BATCH_ACK.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PublishBatchResponse {
    /// As many as there were messages, in their order.
    #[prost(message, repeated, tag = "1")]
    pub results: Vec<PublishResult>,
}

/// One entry of a list.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PublishResult {
    /// The message; empty when it was refused.
    #[prost(string, tag = "1")]
    pub message_id: String,
    /// 0: taken. Else the code that an ERROR would carry.
    #[prost(uint32, tag = "2")]
    pub code: u32,
    /// For people; empty when it was taken.
    #[prost(string, tag = "3")]
    pub message: String,
}
