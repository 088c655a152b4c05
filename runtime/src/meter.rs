//! How long a store takes: it is asked through this, which looks at a clock before and after.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use qq_core::admin::Histogram;
use qq_core::store::{Batch, BatchId, Fetch, Op, Store, StoreError};
use qq_core::vocab::{Message, Seq};

/// What a store did since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreTimes {
    /// Commits that made something safe, each with its sync.
    pub commits: Histogram,
    /// Reads of bodies.
    pub fetches: Histogram,
    /// Commits and reads that failed.
    pub failures: u64,
}

/// Where to read it.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<StoreTimes>>);

impl Meter {
    /// What the store did so far.
    #[must_use]
    pub fn times(&self) -> StoreTimes {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, StoreTimes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store behind a meter.
struct Metered {
    store: Box<dyn Store>,
    meter: Meter,
}

/// Puts a meter before a store. One that answers at once has none: the clock would cost more than the store.
#[must_use]
pub fn metered(store: Box<dyn Store>) -> (Box<dyn Store>, Option<Meter>) {
    if store.is_instant() {
        return (store, None);
    }
    let meter = Meter::default();
    let theirs = meter.clone();
    let store = Metered {
        store,
        meter: theirs,
    };
    (Box::new(store), Some(meter))
}

impl Store for Metered {
    fn recover(&mut self, each: &mut dyn FnMut(Op)) -> Result<(), StoreError> {
        self.store.recover(each)
    }

    fn submit(&mut self, batch: Batch) {
        self.store.submit(batch);
    }

    fn flush(&mut self) -> Result<Option<BatchId>, StoreError> {
        let began = Instant::now();
        let flushed = self.store.flush();
        let took = began.elapsed();
        let mut times = self.meter.lock();
        match flushed {
            Ok(Some(_)) => times.commits.note(took, 1),
            Ok(None) => {}
            Err(_) => times.failures += 1,
        }
        flushed
    }

    fn fetch(&mut self, fetch: &Fetch) -> Result<Vec<(Seq, Arc<Message>)>, StoreError> {
        let began = Instant::now();
        let fetched = self.store.fetch(fetch);
        let took = began.elapsed();
        let mut times = self.meter.lock();
        match &fetched {
            Ok(_) => times.fetches.note(took, 1),
            Err(_) => times.failures += 1,
        }
        fetched
    }

    fn tend(&mut self) -> Result<bool, StoreError> {
        self.store.tend()
    }

    fn is_short_of_room(&mut self) -> bool {
        self.store.is_short_of_room()
    }

    fn is_instant(&self) -> bool {
        self.store.is_instant()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes safe what it is given, at first not.
    #[derive(Default)]
    struct Script {
        flushes: Vec<Result<Option<BatchId>, StoreError>>,
    }

    impl Store for Script {
        fn recover(&mut self, _each: &mut dyn FnMut(Op)) -> Result<(), StoreError> {
            Ok(())
        }

        fn submit(&mut self, _batch: Batch) {}

        fn flush(&mut self) -> Result<Option<BatchId>, StoreError> {
            self.flushes.pop().unwrap_or(Ok(None))
        }

        fn fetch(&mut self, _fetch: &Fetch) -> Result<Vec<(Seq, Arc<Message>)>, StoreError> {
            Err(StoreError::damaged("torn"))
        }
    }

    #[test]
    fn commits_that_made_something_safe_are_counted_and_failures_apart() {
        let flushes = vec![Ok(Some(BatchId(1))), Err(StoreError::no_room("full"))];
        let (mut store, meter) = metered(Box::new(Script { flushes }));
        let meter = meter.expect("it has a disk");
        assert!(store.flush().is_err());
        assert_eq!(store.flush(), Ok(Some(BatchId(1))));
        assert_eq!(store.flush(), Ok(None));
        let fetch = Fetch {
            queue: qq_core::vocab::QueueId(1),
            first: Seq(0),
            count: 1,
        };
        assert!(store.fetch(&fetch).is_err());
        let times = meter.times();
        let counts = (times.commits.count(), times.fetches.count(), times.failures);
        assert_eq!(counts, (1, 0, 2));
    }
}
