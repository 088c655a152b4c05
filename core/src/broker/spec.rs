//! What can be declared, and the limits that hold for all of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::route::{BindingSpec, ExchangeSpec};
use crate::schema::{Compatibility, RegistryLimits, SchemaMode};

/// The node of management over AMQP; no queue can have its name.
pub const MANAGEMENT_NODE: &str = "$management";

/// What a full queue does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// Refuses the new message.
    #[default]
    Reject,
    /// Drops the oldest message.
    DropHead,
    /// Sends the new message to the dead-letter exchange.
    RejectDlx,
}

/// What becomes of a message that was tried too often, that a consumer rejected, or whose time is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailurePolicy {
    /// It becomes a dead letter.
    #[default]
    Dlq,
    /// It is dropped.
    Drop,
    /// It is tried for ever; when it is rejected or expires, it becomes a dead letter.
    Infinite,
}

/// How the wait between attempts grows: from `min_ms`, times `factor` with each, up to `max_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    /// The wait after the first failed attempt, milliseconds.
    pub min_ms: u64,
    /// The longest wait, milliseconds.
    pub max_ms: u64,
    /// By how much it grows.
    pub factor: u32,
}

impl Default for Backoff {
    /// From a second to a minute, doubled each time.
    fn default() -> Self {
        Self {
            min_ms: 1_000,
            max_ms: 60_000,
            factor: 2,
        }
    }
}

/// A consumer group: a named set of consumers of a queue that shares one copy of every message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// The queue whose messages it gets.
    pub queue: String,
    /// Its name, 1 to 255 bytes of UTF-8 without control characters.
    pub name: String,
}

/// What a name of the queues' namespace stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueKind {
    /// Each message goes to one consumer and then leaves.
    #[default]
    Queue,
    /// Messages stay, in the order in which they came; every reader gets all of them.
    Stream,
}

/// Levels of priority that a queue can have.
pub const PRIORITY_LEVELS_MAX: u8 = 32;

/// The definition of a queue. Two declarations are the same when these are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// 1 to 255 bytes of UTF-8 without control characters.
    pub name: String,
    /// A queue or a stream. Of the fields below, a stream has `durable`, `max_length`, `max_bytes` and `max_age_ms` alone.
    #[serde(default)]
    pub kind: QueueKind,
    /// Survives a restart.
    #[serde(default = "yes")]
    pub durable: bool,
    /// Only for the connection that made it.
    #[serde(default)]
    pub exclusive: bool,
    /// Deleted with its last consumer.
    #[serde(default)]
    pub auto_delete: bool,
    /// Messages expire after so many milliseconds.
    #[serde(default)]
    pub message_ttl_ms: Option<u64>,
    /// At most so many messages.
    #[serde(default)]
    pub max_length: Option<u64>,
    /// At most so many bytes of payload.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// A stream drops messages that arrived longer ago, milliseconds; at least 1.
    #[serde(default)]
    pub max_age_ms: Option<u64>,
    /// What happens when it is full. A stream always drops its oldest messages.
    #[serde(default)]
    pub overflow: Overflow,
    /// Deleted when it had no consumer and was not declared for so many milliseconds; at least 1.
    #[serde(default)]
    pub expires_ms: Option<u64>,
    /// Strict levels of priority, up to [`PRIORITY_LEVELS_MAX`]; 0 = first come, first served.
    #[serde(default)]
    pub max_priority: u8,
    /// Failed attempts on this queue after which the failure policy applies; 0 = no limit.
    #[serde(default = "deliveries_max")]
    pub max_deliveries: u32,
    /// What becomes of messages that cannot be consumed.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// Where dead letters go; none = to the queue `<name>.dlq`, which is made when it is needed.
    #[serde(default)]
    pub dead_letter_exchange: Option<String>,
    /// The routing key of dead letters; none = the one that they came with.
    #[serde(default)]
    pub dead_letter_routing_key: Option<String>,
    /// How long a message waits after a failed attempt; none = not at all.
    #[serde(default)]
    pub retry_backoff: Option<Backoff>,
    /// How long a consumer may hold a message, milliseconds; none = as long as it likes.
    #[serde(default)]
    pub lock_timeout_ms: Option<u64>,
    /// One consumer at a time.
    #[serde(default)]
    pub single_active_consumer: bool,
    /// How long duplicates are recognised, milliseconds.
    #[serde(default = "dedup_window_ms")]
    pub dedup_window_ms: u64,
    /// The subject whose schema its messages have; none = that of its own name.
    #[serde(default)]
    pub schema: Option<String>,
    /// Whether messages may do without a schema; none = as the broker's configuration says.
    #[serde(default)]
    pub schema_mode: Option<SchemaMode>,
    /// Once it has consumer groups, they alone get its messages.
    #[serde(default)]
    pub groups_only: bool,
    /// Only of the queue that a consumer group is; the broker sets it.
    #[serde(default)]
    pub group_of: Option<Box<GroupSpec>>,
}

fn yes() -> bool {
    true
}

fn deliveries_max() -> u32 {
    5
}

fn dedup_window_ms() -> u64 {
    300_000
}

impl QueueSpec {
    /// A durable queue without limits.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: QueueKind::Queue,
            durable: true,
            exclusive: false,
            auto_delete: false,
            message_ttl_ms: None,
            max_length: None,
            max_bytes: None,
            max_age_ms: None,
            overflow: Overflow::Reject,
            expires_ms: None,
            max_priority: 0,
            max_deliveries: deliveries_max(),
            failure_policy: FailurePolicy::default(),
            dead_letter_exchange: None,
            dead_letter_routing_key: None,
            retry_backoff: None,
            lock_timeout_ms: None,
            single_active_consumer: false,
            dedup_window_ms: dedup_window_ms(),
            schema: None,
            schema_mode: None,
            groups_only: false,
            group_of: None,
        }
    }
}

impl QueueSpec {
    /// A durable stream that keeps everything.
    #[must_use]
    pub fn stream(name: impl Into<String>) -> Self {
        Self {
            kind: QueueKind::Stream,
            ..Self::new(name)
        }
    }

    /// Whether it is a stream.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.kind == QueueKind::Stream
    }
}

impl Default for QueueSpec {
    /// [`QueueSpec::new`] without a name, which is to be filled in.
    fn default() -> Self {
        Self::new("")
    }
}

/// Bounds of the broker itself; those of a connection are its face's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queues of the node.
    pub queues_max: usize,
    /// Exchanges of the node, those that always exist included.
    pub exchanges_max: usize,
    /// Bindings of the node.
    pub bindings_max: usize,
    /// Keys that all queues together remember messages by, to know duplicates.
    pub dedup_keys_max: usize,
    /// Bytes of queued messages (see `Message::cost`) above which publishers get no new credit.
    pub memory_high_bytes: usize,
    /// Bytes of queued messages above which publishes are refused.
    pub memory_max_bytes: usize,
    /// Messages and settlements of one transaction.
    pub txn_parts_max: usize,
    /// Bytes that its messages may cost, once for each queue that they go to.
    pub txn_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queues_max: 10_000,
            exchanges_max: 10_000,
            bindings_max: 1_000_000,
            dedup_keys_max: 1_000_000,
            memory_high_bytes: 1 << 30,
            memory_max_bytes: (1 << 30) + (1 << 28),
            txn_parts_max: 65_536,
            txn_bytes_max: 64 << 20,
        }
    }
}

/// How many bodies a broker keeps in memory when its store can give them back.
///
/// The numbers are aims, not walls: what the store does not have (transient messages, and durable ones until they are
/// safe) stays in memory, and so does what consumers hold; `Limits` bounds the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// Messages of one queue that are kept ready ahead of its consumers. A queue with less than twice as many in memory
    /// is left alone.
    pub window_len: usize,
    /// The same in bytes of payload.
    pub window_bytes: usize,
    /// Bytes of all queued messages in memory (see `Message::cost`) above which every queue gets an eighth of its window.
    pub cache_bytes: usize,
}

impl Default for Paging {
    fn default() -> Self {
        Self {
            window_len: 2_048,
            window_bytes: 4 << 20,
            cache_bytes: 64 << 20,
        }
    }
}

/// Everything a broker is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerConfig {
    /// Bounds.
    pub limits: Limits,
    /// Queues that exist from the start.
    pub queues: Vec<QueueSpec>,
    /// Exchanges that exist from the start.
    pub exchanges: Vec<ExchangeSpec>,
    /// Bindings that exist from the start.
    pub bindings: Vec<BindingSpec>,
    /// Consumer groups that exist from the start; their queues stand above.
    pub groups: Vec<GroupSpec>,
    /// Make a queue for an unknown name on attach.
    pub auto_create_queues: bool,
    /// Names with one of these beginnings are never made on attach.
    pub auto_create_except: Vec<String>,
    /// What a queue made on attach is like; its name is that of the address, and it is never exclusive.
    pub auto_create_spec: QueueSpec,
    /// Leave bodies that the store keeps to the store while they are far from their turn. Only for a store whose
    /// `Store::fetch` gives back what it was given; none keeps every body in memory.
    pub paging: Option<Paging>,
    /// Whether messages may do without a schema, where a queue does not say.
    pub schema_mode: SchemaMode,
    /// What schemas are held to, where a registration does not say.
    pub schema_compatibility: Compatibility,
    /// Bounds of all schemas.
    pub schema_limits: RegistryLimits,
    /// How long a settlement that nobody waits for may wait for company before it is persisted. A crash meanwhile gives
    /// the message out again, as one a moment earlier would have. Zero: not at all.
    pub linger: Duration,
    /// Seed of the hash maps: any number, other in every run except when a run is to be repeated.
    pub hash_seed: u64,
}
