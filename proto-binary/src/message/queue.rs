//! What the operations on whole queues carry, and their answers.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// 0x32 QUEUE_LIST.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueueListRequest {}

/// 0x33 QUEUE_LIST_RESPONSE.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueueListResponse {
    /// By name.
    #[prost(message, repeated, tag = "1")]
    pub queues: Vec<QueueInfo>,
}

/// One entry of a list.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueueInfo {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Messages that wait.
    #[prost(uint32, tag = "2")]
    pub message_count: u32,
    /// Messages that are with consumers.
    #[prost(uint32, tag = "3")]
    pub in_flight_count: u32,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::prost::Enumeration)]
#[repr(i32)]
pub enum QueueKind {
    /// Reading removes.
    Queue = 0,
    /// A log: reading does not remove.
    Stream = 1,
}

/// What happens to a message that finds its queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::prost::Enumeration)]
#[repr(i32)]
pub enum Overflow {
    /// The broker's default.
    Unspecified = 0,
    /// It is refused.
    Reject = 1,
    /// The oldest makes room.
    DropHead = 2,
    /// It is refused and becomes a dead letter.
    RejectDlx = 3,
}

/// What happens to a message that failed too often or was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::prost::Enumeration)]
#[repr(i32)]
pub enum FailurePolicy {
    /// The broker's default.
    Unspecified = 0,
    /// It becomes a dead letter.
    Dlq = 1,
    /// It is deleted.
    Drop = 2,
    /// It is tried again for ever.
    Infinite = 3,
}

/// 0x50 QUEUE_DECLARE. What is absent, 0 or unspecified takes the broker's default.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueueDeclareRequest {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Queue or stream.
    #[prost(enumeration = "QueueKind", tag = "2")]
    pub kind: i32,
    /// Absent: true.
    #[prost(bool, optional, tag = "3")]
    pub durable: Option<bool>,
    /// For this connection only; deleted with it.
    #[prost(bool, tag = "4")]
    pub exclusive: bool,
    /// Deleted when its last consumer goes.
    #[prost(bool, tag = "5")]
    pub auto_delete: bool,
    /// Milliseconds without use after which the queue is deleted.
    #[prost(uint64, tag = "6")]
    pub expires_ms: u64,
    /// Milliseconds that a message is kept at most.
    #[prost(uint64, tag = "7")]
    pub message_ttl_ms: u64,
    /// Messages that may wait.
    #[prost(uint64, tag = "8")]
    pub length_max: u64,
    /// Bytes that may wait.
    #[prost(uint64, tag = "9")]
    pub bytes_max: u64,
    /// What happens to a message that finds the queue full.
    #[prost(enumeration = "Overflow", tag = "10")]
    pub overflow: i32,
    /// Number of priorities, up to 32. 0: no priorities.
    #[prost(uint32, tag = "11")]
    pub priority_max: u32,
    /// Attempts before the failure policy applies.
    #[prost(uint32, optional, tag = "12")]
    pub deliveries_max: Option<u32>,
    /// What happens to a message that failed too often or was rejected.
    #[prost(enumeration = "FailurePolicy", tag = "13")]
    pub failure_policy: i32,
    /// Where dead letters go. Empty: to the queue named as this one with `.dlq` behind it.
    #[prost(string, tag = "14")]
    pub dead_letter_exchange: String,
    /// Routing key of dead letters.
    #[prost(string, tag = "15")]
    pub dead_letter_routing_key: String,
    /// Milliseconds before the first new attempt.
    #[prost(uint64, tag = "16")]
    pub retry_backoff_min_ms: u64,
    /// Milliseconds before a new attempt at most.
    #[prost(uint64, tag = "17")]
    pub retry_backoff_max_ms: u64,
    /// In hundredths: 200 doubles the wait each time.
    #[prost(uint32, tag = "18")]
    pub retry_backoff_factor_percent: u32,
    /// The visibility timeout of consumers that name none.
    #[prost(uint64, tag = "19")]
    pub lock_timeout_ms: u64,
    /// One consumer gets everything, the others stand by.
    #[prost(bool, tag = "20")]
    pub single_active_consumer: bool,
    /// Milliseconds for which idempotency keys are remembered.
    #[prost(uint64, optional, tag = "21")]
    pub dedup_window_ms: Option<u64>,
    /// Streams: how long entries are kept.
    #[prost(uint64, tag = "22")]
    pub age_max_ms: u64,
    /// True: only ask whether it exists.
    #[prost(bool, tag = "23")]
    pub passive: bool,
    /// Further settings by name, such as x-max-length.
    #[prost(btree_map = "string, string", tag = "24")]
    pub arguments: BTreeMap<String, String>,
}

/// 0x51 QUEUE_DECLARED.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueueDeclareResponse {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// False: it was there already, with the same settings.
    #[prost(bool, tag = "2")]
    pub created: bool,
    /// Messages that wait.
    #[prost(uint64, tag = "3")]
    pub message_count: u64,
    /// Consumers at the moment.
    #[prost(uint32, tag = "4")]
    pub consumer_count: u32,
}

/// 0x52 QUEUE_DELETE.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueueDeleteRequest {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Refuse when it has consumers.
    #[prost(bool, tag = "2")]
    pub if_unused: bool,
    /// Refuse when it holds messages.
    #[prost(bool, tag = "3")]
    pub if_empty: bool,
}

/// 0x53 QUEUE_DELETED.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueueDeleteResponse {
    /// Messages that went with it.
    #[prost(uint64, tag = "1")]
    pub message_count: u64,
}

/// 0x54 QUEUE_PURGE: removes what waits; what is with consumers stays.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueuePurgeRequest {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
}

/// 0x55 QUEUE_PURGED.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueuePurgeResponse {
    /// Messages that were removed.
    #[prost(uint64, tag = "1")]
    pub message_count: u64,
}

/// 0x56 QUEUE_STATS.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueueStatsRequest {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
}

/// 0x57 QUEUE_STATS_RESPONSE. Totals count since the broker started.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueueStatsResponse {
    /// The queue or stream.
    #[prost(string, tag = "1")]
    pub queue: String,
    /// Queue or stream.
    #[prost(enumeration = "QueueKind", tag = "2")]
    pub kind: i32,
    /// Messages that wait.
    #[prost(uint64, tag = "3")]
    pub message_count: u64,
    /// Messages that are with consumers.
    #[prost(uint64, tag = "4")]
    pub in_flight_count: u64,
    /// Consumers at the moment.
    #[prost(uint32, tag = "5")]
    pub consumer_count: u32,
    /// Bytes that wait.
    #[prost(uint64, tag = "6")]
    pub bytes: u64,
    /// Messages taken.
    #[prost(uint64, tag = "7")]
    pub published_total: u64,
    /// Attempts begun.
    #[prost(uint64, tag = "8")]
    pub delivered_total: u64,
    /// Messages acknowledged.
    #[prost(uint64, tag = "9")]
    pub acked_total: u64,
    /// Attempts that ended with a return to the queue.
    #[prost(uint64, tag = "10")]
    pub requeued_total: u64,
    /// Messages that became dead letters.
    #[prost(uint64, tag = "11")]
    pub dead_lettered_total: u64,
    /// Messages that expired.
    #[prost(uint64, tag = "12")]
    pub expired_total: u64,
    /// Streams: the oldest sequence kept and the one that the next message gets.
    #[prost(uint64, tag = "13")]
    pub first_sequence: u64,
    /// Streams: the sequence that the next message gets.
    #[prost(uint64, tag = "14")]
    pub next_sequence: u64,
}
