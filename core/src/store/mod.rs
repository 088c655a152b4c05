//! The store contract: what a durable change is, and what a store must do with it.
//!
//! *Decide* makes an [`Op`], *apply* executes it, the *gate* withholds every outward effect until the batch that
//! holds it is persisted. Recovery hands the same operations back in the same order.

pub mod codec;
mod op;

pub use op::{Batch, BatchId, Op, SeenKey, StoredMessage};

use std::sync::Arc;

use crate::vocab::{Message, QueueId, Seq};

/// Asks for bodies that the broker keeps only in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The queue.
    pub queue: QueueId,
    /// First position.
    pub first: Seq,
    /// So many positions, whether there is a message at each of them or not.
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
        /// What was asked for.
        fetch: Fetch,
        /// Positions and bodies, in order: everything that the store keeps in the range.
        messages: Vec<(Seq, Arc<Message>)>,
    },
    /// The other answer to a [`Fetch`]: bodies are damaged or cannot be read. Other queues are not affected.
    FetchFailed {
        /// What was asked for.
        fetch: Fetch,
        /// For people.
        text: String,
    },
    /// The disk gets full, or is well again. Told when it changes.
    Room {
        /// New durable messages are to be refused.
        is_short: bool,
    },
    /// The store failed for good: nothing may be confirmed any more.
    Failed {
        /// For people.
        text: String,
    },
}

/// What kind of trouble a store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// No room is left, or a write failed before anything was said to be safe. Nothing is lost: what was submitted is
    /// kept and the next flush tries it again.
    NoRoom,
    /// What is on disk is not what was written.
    Damaged,
    /// Nothing may be confirmed any more, and the store is not used again.
    Fatal,
}

/// Why a store could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// What follows from it.
    pub fault: StoreFault,
    /// For people.
    pub text: String,
}

impl StoreError {
    /// After this the store is not used again.
    #[must_use]
    pub fn fatal(text: impl Into<String>) -> Self {
        Self {
            fault: StoreFault::Fatal,
            text: text.into(),
        }
    }

    /// Data that cannot be trusted.
    #[must_use]
    pub fn damaged(text: impl Into<String>) -> Self {
        Self {
            fault: StoreFault::Damaged,
            text: text.into(),
        }
    }

    /// Nothing is lost, but nothing new is safe either.
    #[must_use]
    pub fn no_room(text: impl Into<String>) -> Self {
        Self {
            fault: StoreFault::NoRoom,
            text: text.into(),
        }
    }
}

/// Where batches are kept. Calls block; a driver gives the store a thread of its own unless it is [`Store::is_instant`].
pub trait Store: Send {
    /// Hands every kept operation to `each`, in an order that gives the same state as the order in which they were
    /// submitted. Operations that cancel each out may be left out; then [`Op::Counted`] keeps their positions taken.
    /// Called once, before anything else.
    ///
    /// # Errors
    /// When the data cannot be read or verified; the driver must then refuse to start.
    fn recover(&mut self, each: &mut dyn FnMut(Op)) -> Result<(), StoreError>;

    /// Takes a batch; it need not be safe yet.
    fn submit(&mut self, batch: Batch);

    /// Makes every submitted batch safe and returns the newest.
    ///
    /// # Errors
    /// [`StoreFault::NoRoom`]: nothing since the last success may be confirmed yet; the call is to be repeated after a
    /// while. Any other: nothing since the last success may ever be confirmed, and the call is not repeated.
    fn flush(&mut self) -> Result<Option<BatchId>, StoreError>;

    /// Reads bodies of batches that are safe.
    ///
    /// # Errors
    /// When a body is missing or damaged; it is never replaced by something else.
    fn fetch(&mut self, fetch: &Fetch) -> Result<Vec<(Seq, Arc<Message>)>, StoreError>;

    /// One small step of housekeeping (give space back, shorten the journal), called when nothing else waits; says
    /// whether there is more to do.
    ///
    /// # Errors
    /// As [`Store::flush`].
    fn tend(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Whether room for new messages gets short. Called after flushes and at least every second.
    fn is_short_of_room(&mut self) -> bool {
        false
    }

    /// Whether every call returns at once, so that a driver may call it on the broker's task.
    fn is_instant(&self) -> bool {
        false
    }
}
