//! A store that is late, torn or broken on purpose, the same way for the same seed.

use std::collections::VecDeque;
use std::sync::Arc;

use qq_core::store::{Batch, BatchId, Fetch, Op, Store, StoreError};
use qq_core::vocab::{Message, Seq};

use crate::random::Random;

/// What goes wrong and when. The default: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Repeats a run.
    pub seed: u64,
    /// The answer to a flush is held back for up to so many further flushes, at random.
    pub delay_flushes_max: u32,
    /// The flush of this number (the first is 1) fails, and every later one too. What was submitted since the last
    /// flush reaches the store as a random beginning, whose last batch may be torn.
    pub fail_flush_at: Option<u64>,
    /// The fetch of this number (the first is 1) fails.
    pub fail_fetch_at: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    plan: FaultPlan,
    random: Random,
    /// Submitted since the last flush.
    pending: Vec<Batch>,
    /// Flushed, not told: the flush at which it may be told, and the batch.
    late: VecDeque<(u64, BatchId)>,
    told: Option<BatchId>,
    flushes: u64,
    fetches: u64,
}

impl<S: Store> Faulty<S> {
    /// Wraps a store.
    #[must_use]
    pub fn new(inner: S, plan: FaultPlan) -> Self {
        Self {
            inner,
            plan,
            random: Random::new(plan.seed),
            pending: Vec::new(),
            late: VecDeque::new(),
            told: None,
            flushes: 0,
            fetches: 0,
        }
    }

    /// Whether a flushed batch is held back, so that a driver without new work must flush again to hear of it.
    #[must_use]
    pub fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// The store inside, for instance to recover from it after a failure.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// The power goes: some beginning of what was on its way arrives.
    fn tear(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let whole = self.random.below(pending.len() as u64 + 1) as usize;
        for (index, mut batch) in pending.into_iter().enumerate() {
            if index > whole {
                break;
            }
            if index == whole {
                let kept = self.random.below(batch.ops.len() as u64 + 1) as usize;
                batch.ops.truncate(kept);
            }
            self.inner.submit(batch);
        }
    }
}

impl<S: Store> Store for Faulty<S> {
    fn recover(&mut self, each: &mut dyn FnMut(Op)) -> Result<(), StoreError> {
        self.inner.recover(each)
    }

    fn submit(&mut self, batch: Batch) {
        self.pending.push(batch);
    }

    fn flush(&mut self) -> Result<Option<BatchId>, StoreError> {
        self.flushes += 1;
        if self.plan.fail_flush_at.is_some_and(|at| self.flushes >= at) {
            self.tear();
            return Err(StoreError::fatal(format!(
                "flush {} failed as planned",
                self.flushes
            )));
        }
        let is_new = !self.pending.is_empty();
        for batch in std::mem::take(&mut self.pending) {
            self.inner.submit(batch);
        }
        if let Some(newest) = self.inner.flush()?
            && is_new
        {
            let delay = self
                .random
                .below(u64::from(self.plan.delay_flushes_max) + 1);
            self.late.push_back((self.flushes + delay, newest));
        }
        while let Some((at, batch)) = self.late.front().copied()
            && at <= self.flushes
        {
            self.told = Some(batch);
            self.late.pop_front();
        }
        Ok(self.told)
    }

    fn fetch(&mut self, fetch: &Fetch) -> Result<Vec<(Seq, Arc<Message>)>, StoreError> {
        self.fetches += 1;
        if self.plan.fail_fetch_at == Some(self.fetches) {
            return Err(StoreError::fatal(format!(
                "fetch {} failed as planned",
                self.fetches
            )));
        }
        self.inner.fetch(fetch)
    }

    fn is_instant(&self) -> bool {
        self.inner.is_instant() && self.plan.delay_flushes_max == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qq_core::vocab::QueueId;

    /// Keeps what it was given.
    #[derive(Debug, Default)]
    struct Log(Vec<Batch>);

    impl Store for Log {
        fn recover(&mut self, each: &mut dyn FnMut(Op)) -> Result<(), StoreError> {
            self.0
                .iter()
                .flat_map(|batch| batch.ops.clone())
                .for_each(each);
            Ok(())
        }
        fn submit(&mut self, batch: Batch) {
            self.0.push(batch);
        }
        fn flush(&mut self) -> Result<Option<BatchId>, StoreError> {
            Ok(self.0.last().map(|batch| batch.id))
        }
        fn fetch(&mut self, _: &Fetch) -> Result<Vec<(Seq, Arc<Message>)>, StoreError> {
            Ok(Vec::new())
        }
        fn is_instant(&self) -> bool {
            true
        }
    }

    fn batch(id: u64, ops: u64) -> Batch {
        let ops = (0..ops)
            .map(|op| Op::QueueDeleted {
                queue: QueueId(id * 100 + op),
            })
            .collect();
        Batch {
            id: BatchId(id),
            ops,
        }
    }

    #[test]
    fn without_a_plan_it_is_the_store_inside() {
        let mut store = Faulty::new(Log::default(), FaultPlan::default());
        assert_eq!(store.flush(), Ok(None));
        store.submit(batch(1, 2));
        assert_eq!(store.flush(), Ok(Some(BatchId(1))));
        assert_eq!(store.flush(), Ok(Some(BatchId(1))));
        assert!(store.is_instant());
        assert_eq!(store.into_inner().0, [batch(1, 2)]);
    }

    #[test]
    fn late_answers_come_in_order_and_at_last_and_alike_for_a_seed() {
        let run = |seed| {
            let plan = FaultPlan {
                seed,
                delay_flushes_max: 5,
                ..FaultPlan::default()
            };
            let mut store = Faulty::new(Log::default(), plan);
            let mut told = Vec::new();
            for id in 1..=20 {
                store.submit(batch(id, 1));
                told.push(store.flush().expect("no failure is planned"));
            }
            for _ in 0..5 {
                told.push(store.flush().expect("no failure is planned"));
            }
            assert!(!store.has_late() && !store.is_instant());
            told
        };
        let told = run(3);
        assert_eq!(told, run(3));
        assert_eq!(told.last(), Some(&Some(BatchId(20))));
        assert!(told.is_sorted(), "{told:?}");
        let prompt: Vec<_> = (1..=20).map(|id| Some(BatchId(id))).collect();
        assert_ne!(told[..20], prompt[..], "nothing was late");
        assert!(
            (4..20).any(|seed| run(seed) != told),
            "the seed changes nothing"
        );
    }

    #[test]
    fn a_failed_flush_leaves_a_beginning_and_never_succeeds_again() {
        let (mut torn, mut lost, mut kept) = (0, 0, 0);
        for seed in 0..64 {
            let plan = FaultPlan {
                seed,
                fail_flush_at: Some(2),
                ..FaultPlan::default()
            };
            let mut store = Faulty::new(Log::default(), plan);
            store.submit(batch(1, 3));
            assert_eq!(store.flush(), Ok(Some(BatchId(1))));
            store.submit(batch(2, 3));
            store.submit(batch(3, 3));
            assert!(store.flush().is_err() && store.flush().is_err());
            let mut ops = Vec::new();
            store
                .recover(&mut |op| ops.push(op))
                .expect("the log can be read");
            let all: Vec<Op> = (1..=3).flat_map(|id| batch(id, 3).ops).collect();
            assert!(
                ops.len() >= 3 && all.starts_with(&ops),
                "seed {seed}: {ops:?}"
            );
            match ops.len() {
                3 => lost += 1,
                9 => kept += 1,
                _ => torn += 1,
            }
        }
        assert!(
            torn > 0 && lost > 0 && kept > 0,
            "torn {torn}, lost {lost}, kept {kept}"
        );
    }

    #[test]
    fn one_fetch_fails() {
        let plan = FaultPlan {
            fail_fetch_at: Some(2),
            ..FaultPlan::default()
        };
        let mut store = Faulty::new(Log::default(), plan);
        let fetch = Fetch {
            queue: QueueId(1),
            first: Seq(0),
            count: 1,
        };
        assert!(store.fetch(&fetch).is_ok());
        assert!(store.fetch(&fetch).is_err());
        assert!(store.fetch(&fetch).is_ok());
    }
}
