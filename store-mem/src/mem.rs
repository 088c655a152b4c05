//! The memory store: every batch is as safe as it will ever be when it is submitted, and nothing is kept of it, since
//! the broker itself holds all that a process without a disk can offer.

use std::sync::Arc;

use qq_core::store::{Batch, BatchId, Fetch, Op, Store, StoreError};
use qq_core::vocab::{Message, Seq};

/// See the module.
#[derive(Debug, Default)]
pub struct MemStore {
    newest: Option<BatchId>,
}

impl MemStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Store for MemStore {
    fn recover(&mut self, _each: &mut dyn FnMut(Op)) -> Result<(), StoreError> {
        Ok(())
    }

    fn submit(&mut self, batch: Batch) {
        self.newest = Some(batch.id);
    }

    fn flush(&mut self) -> Result<Option<BatchId>, StoreError> {
        Ok(self.newest)
    }

    fn fetch(&mut self, fetch: &Fetch) -> Result<Vec<(Seq, Arc<Message>)>, StoreError> {
        Err(StoreError::fatal(format!(
            "the memory store keeps no bodies, but {} of queue {} from position {} were asked for",
            fetch.count, fetch.queue.0, fetch.first.0
        )))
    }

    fn is_instant(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qq_core::vocab::QueueId;

    #[test]
    fn a_flush_names_the_newest_batch_and_recovery_gives_nothing() {
        let mut store = MemStore::new();
        assert_eq!(store.flush(), Ok(None));
        for id in 1..=3 {
            store.submit(Batch {
                id: BatchId(id),
                ops: vec![Op::QueueDeleted { queue: QueueId(id) }],
            });
        }
        assert_eq!(store.flush(), Ok(Some(BatchId(3))));
        let mut ops = 0;
        assert_eq!(store.recover(&mut |_| ops += 1), Ok(()));
        assert_eq!(ops, 0);
        assert!(store.is_instant());
    }

    #[test]
    fn a_body_is_an_error_and_never_made_up() {
        let fetch = Fetch {
            queue: QueueId(4),
            first: Seq(9),
            count: 2,
        };
        let error = MemStore::new().fetch(&fetch).expect_err("nothing is kept");
        assert!(
            error.text.contains("queue 4") && error.text.contains("position 9"),
            "{}",
            error.text
        );
    }
}
