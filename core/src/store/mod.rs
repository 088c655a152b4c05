//! The store contract: what a durable change is, and what a store must do with it.
//!
//! *Decide* makes an [`Op`], *apply* executes it, the *gate* withholds every outward effect until the batch that
//! holds it is persisted. Recovery hands the same operations back in the same order.

mod op;

pub use op::{Batch, BatchId, Op, StoredMessage};

use std::sync::Arc;

use crate::vocab::{Message, QueueId, Seq};

/// Asks for bodies that the broker keeps only in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The queue.
    pub queue: QueueId,
    /// First position.
    pub first: Seq,
    /// At most so many messages.
    pub count: u32,
}

/// What a store reports to the broker.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreEvent {
    /// Every batch up to this one is on disk (or as safe as the store makes it).
    Persisted {
        /// The newest such batch.
        upto: BatchId,
    },
    /// The answer to a [`Fetch`].
    Fetched {
        /// The queue.
        queue: QueueId,
        /// Positions and bodies, in order.
        messages: Vec<(Seq, Arc<Message>)>,
    },
    /// The store failed for good: nothing may be confirmed any more.
    Failed {
        /// For people.
        text: String,
    },
}

/// Why a store could not do what it was asked. After `flush` failed, the store is not used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// For people.
    pub text: String,
}

/// Where batches are kept. Calls block; a driver gives the store a thread of its own unless it is [`Store::is_instant`].
pub trait Store: Send {
    /// Hands every kept operation to `each`, in order. Called once, before anything else.
    ///
    /// # Errors
    /// When the data cannot be read or verified; the driver must then refuse to start.
    fn recover(&mut self, each: &mut dyn FnMut(Op)) -> Result<(), StoreError>;

    /// Takes a batch; it need not be safe yet.
    fn submit(&mut self, batch: Batch);

    /// Makes every submitted batch safe and returns the newest.
    ///
    /// # Errors
    /// When that failed; nothing submitted since the last success may be confirmed, and the call is not repeated.
    fn flush(&mut self) -> Result<Option<BatchId>, StoreError>;

    /// Reads bodies.
    ///
    /// # Errors
    /// When a body is missing or damaged; it is never replaced by something else.
    fn fetch(&mut self, fetch: &Fetch) -> Result<Vec<(Seq, Arc<Message>)>, StoreError>;

    /// Whether every call returns at once, so that a driver may call it on the broker's task.
    fn is_instant(&self) -> bool {
        false
    }
}
