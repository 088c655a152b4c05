//! Durable changes: the log that a store keeps, recovery replays and followers apply.

use std::sync::Arc;

use crate::broker::QueueSpec;
use crate::route::{BindingSpec, ExchangeSpec};
use crate::schema::SchemaVersion;
use crate::vocab::{Message, QueueId, Seq};

/// The number of a batch: counts up by one from 1 in the life of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// A message with the positions it takes in its queues: its body is stored once.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMessage {
    /// The message.
    pub message: Arc<Message>,
    /// Wall clock at arrival, milliseconds since the Unix epoch.
    pub arrived_at_ms: i64,
    /// Where it stands.
    pub places: smallvec::SmallVec<[(QueueId, Seq); 1]>,
}

/// That a queue took a message with a key, for which it has a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenKey {
    /// The queue.
    pub queue: QueueId,
    /// The key.
    pub key: bytes::Bytes,
    /// Wall clock then, milliseconds since the Unix epoch.
    pub seen_at_ms: i64,
    /// End of the window by the same clock; the key may be forgotten then.
    pub until_ms: i64,
}

/// One durable change.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A queue exists from now on.
    QueueDeclared {
        /// Its id, never reused.
        queue: QueueId,
        /// What it is.
        spec: Arc<QueueSpec>,
    },
    /// A queue and all its messages are gone, and what bindings of it are left.
    QueueDeleted {
        /// Which.
        queue: QueueId,
    },
    /// An exchange exists from now on.
    ExchangeDeclared {
        /// What it is; its name is its identity.
        spec: Arc<ExchangeSpec>,
    },
    /// An exchange is gone, and what bindings of it are left.
    ExchangeDeleted {
        /// Its name.
        name: String,
    },
    /// A binding exists from now on. Both its ends were declared before.
    Bound {
        /// The whole of it, which is its identity.
        spec: Arc<BindingSpec>,
    },
    /// A binding is gone.
    Unbound {
        /// Which.
        spec: Arc<BindingSpec>,
    },
    /// A version of a schema exists from now on.
    SchemaRegistered {
        /// The whole of it; subject and version are its identity.
        record: Arc<SchemaVersion>,
    },
    /// A version of a schema is gone.
    SchemaForgotten {
        /// Its subject.
        subject: String,
        /// Its number.
        version: u32,
    },
    /// A message entered its queues.
    Enqueued(StoredMessage),
    /// Queues took messages with these keys: in the batch of the messages.
    Keyed {
        /// One when it is made; in recovery as many as the store likes.
        keys: Vec<SeenKey>,
    },
    /// All positions of a queue below this one are taken. Only in recovery, where messages that came and went are left out.
    Counted {
        /// The queue.
        queue: QueueId,
        /// The next free position, perhaps.
        next: Seq,
    },
    /// Messages left a queue for good: neighbours in one operation, so that a purge of millions is a small one.
    Removed {
        /// The queue.
        queue: QueueId,
        /// The first position.
        seq: Seq,
        /// So many positions from there on, each of which had a message; at least one.
        count: u64,
    },
    /// A named reader of a stream came so far, or its name is forgotten.
    OffsetStored {
        /// The stream.
        queue: QueueId,
        /// The reader's name.
        reader: String,
        /// The position that it goes on at; none: forget it.
        next: Option<Seq>,
    },
    /// An attempt failed, or a consumer changed annotations.
    Returned {
        /// The queue.
        queue: QueueId,
        /// Its position.
        seq: Seq,
        /// Failed attempts so far.
        delivery_count: u32,
        /// All annotations that consumers added so far, encoded in the message's format.
        annotations: Option<bytes::Bytes>,
    },
}

/// Changes that are persisted together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Its number.
    pub id: BatchId,
    /// The changes, in order.
    pub ops: Vec<Op>,
}
