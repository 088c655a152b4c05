//! What a face can ask about queues as a whole, and what it is answered.

use std::sync::Arc;

use super::Refusal;
use crate::broker::QueueSpec;
use crate::schema::{Candidate, SchemaRefused, SchemaSummary, SchemaVersion};

/// A face's number for one question. Chosen by the face; the broker only hands it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// A question or an order about queues.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Make a queue, or find it with the same settings. Answered by [`Answer::Declared`].
    Declare {
        /// The settings. An exclusive queue belongs to the connection that asks.
        spec: QueueSpec,
    },
    /// Find a queue, whatever its settings. Answered by [`Answer::Declared`].
    Find {
        /// The queue.
        name: String,
    },
    /// Delete a queue with its messages. Answered by [`Answer::Deleted`].
    Delete {
        /// The queue.
        name: String,
        /// Only when it has no consumers.
        if_unused: bool,
        /// Only when it has no messages.
        if_empty: bool,
    },
    /// Remove the messages that no consumer has. Answered by [`Answer::Purged`].
    Purge {
        /// The queue.
        name: String,
    },
    /// Store how far a reader of a stream came. Answered by [`Answer::OffsetStored`] or [`Answer::NoStream`].
    StoreOffset {
        /// The stream.
        name: String,
        /// The reader's name.
        reader: String,
        /// The position that it goes on at.
        next: u64,
        /// The name is the connection's own: the position is kept in memory and goes with the connection.
        is_own: bool,
    },
    /// Name all queues. Answered by [`Answer::Listed`].
    List,
    /// The numbers of one queue. Answered by [`Answer::Numbers`].
    Numbers {
        /// The queue.
        name: String,
    },
    /// Make a version of a schema. Answered by [`Answer::SchemaRegistered`] or [`Answer::SchemaRefused`].
    SchemaRegister {
        /// What it is.
        candidate: Candidate,
    },
    /// A version of a schema. Answered by [`Answer::Schema`].
    SchemaFind {
        /// The subject.
        subject: String,
        /// The version; 0 = the newest.
        version: u32,
    },
    /// Name all subjects. Answered by [`Answer::Schemas`].
    SchemaList,
}

/// The numbers of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueNumbers {
    /// Its name.
    pub name: String,
    /// It is a stream: nothing is held, and what is kept counts as waiting.
    pub is_stream: bool,
    /// Messages that no consumer has.
    pub waiting: u64,
    /// Messages that consumers hold.
    pub held: u64,
    /// Open consumers.
    pub consumers: u32,
    /// Bytes of payload of the messages that wait.
    pub bytes: u64,
    /// The position that the next message gets. Positions count from 0, so this is how many there ever were.
    pub next_position: u64,
    /// The oldest position that is kept; the next one when none is.
    pub first_position: u64,
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The queue is there.
    Declared {
        /// It was made for this question.
        is_new: bool,
        /// Its numbers.
        numbers: QueueNumbers,
    },
    /// The queue is gone.
    Deleted {
        /// Messages that went with it.
        messages: u64,
    },
    /// The queue holds no more than consumers have.
    Purged {
        /// Messages that were removed.
        messages: u64,
    },
    /// The position is stored.
    OffsetStored {
        /// As asked.
        next: u64,
    },
    /// There is no stream of that name.
    NoStream,
    /// All queues, by the bytes of their names.
    Listed(Vec<QueueNumbers>),
    /// One queue.
    Numbers(QueueNumbers),
    /// Deliveries may be held for longer.
    Extended {
        /// Until then, milliseconds since the Unix epoch.
        until_ms: i64,
    },
    /// The version is there.
    SchemaRegistered(Arc<SchemaVersion>),
    /// Nothing was registered.
    SchemaRefused(SchemaRefused),
    /// The version that was asked for, if it exists.
    Schema(Option<Arc<SchemaVersion>>),
    /// All subjects, by the bytes of their names.
    Schemas(Vec<SchemaSummary>),
    /// The queue exists with other settings; the text names the setting.
    Conflict(Refusal),
    /// The queue has consumers or messages and must not.
    InUse(Refusal),
    /// It cannot be.
    Refused(Refusal),
}
