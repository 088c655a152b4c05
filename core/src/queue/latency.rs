//! How long publishers of a queue wait until their messages are safe.

use std::collections::VecDeque;
use std::time::Duration;

use crate::admin::Histogram;
use crate::store::BatchId;

/// Runs that wait for the store; beyond it a message counts as one of the run before it.
const RUNS_MAX: usize = 64;

/// Messages that came at one moment and wait for one batch.
#[derive(Debug)]
struct Run {
    batch: BatchId,
    since: Duration,
    count: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    /// Messages that waited for nothing.
    instant: u64,
    /// Made with the first message that waits, and no memory is kept for runs that are over: there may be a great many
    /// queues that are seldom used.
    told: Option<Box<Histogram>>,
    runs: VecDeque<Run>,
}

impl Latency {
    /// A message that waits for nothing was taken.
    #[inline]
    pub(crate) fn at_once(&mut self) {
        self.instant += 1;
    }

    /// A message was taken that waits for a batch.
    #[inline]
    pub(crate) fn begin(&mut self, batch: BatchId, now: Duration) {
        let len = self.runs.len();
        if let Some(last) = self.runs.back_mut()
            && (last.batch == batch && last.since == now || len >= RUNS_MAX)
        {
            last.batch = batch;
            last.count += 1;
            return;
        }
        self.runs.push_back(Run {
            batch,
            since: now,
            count: 1,
        });
    }

    /// Everything up to a batch is safe.
    pub(crate) fn end(&mut self, upto: BatchId, now: Duration) {
        while let Some(run) = self.runs.pop_front_if(|run| run.batch <= upto) {
            let told = self.told.get_or_insert_default();
            told.note(now.saturating_sub(run.since), run.count);
        }
        if self.runs.is_empty() {
            self.runs = VecDeque::new();
        }
    }

    /// What is known so far.
    pub(crate) fn histogram(&self) -> Histogram {
        let mut told = self.told.as_deref().copied().unwrap_or_default();
        told.note_instant(self.instant);
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_message_takes_until_its_batch_is_safe() {
        let mut latency = Latency::default();
        latency.at_once();
        latency.begin(BatchId(1), ms(10));
        latency.begin(BatchId(1), ms(10));
        latency.begin(BatchId(1), ms(12));
        latency.begin(BatchId(2), ms(12));
        latency.end(BatchId(1), ms(14));
        assert_eq!(latency.histogram().count(), 4);
        assert_eq!(latency.histogram().sum_us(), 4_000 + 4_000 + 2_000);
        latency.end(BatchId(2), ms(20));
        assert_eq!(latency.histogram().sum_us(), 10_000 + 8_000);
    }

    #[test]
    fn a_store_that_is_silent_costs_no_more_than_so_many_runs() {
        let mut latency = Latency::default();
        for at in 0..10 * RUNS_MAX as u64 {
            latency.begin(BatchId(at), ms(at));
        }
        assert_eq!(latency.runs.len(), RUNS_MAX);
        latency.end(BatchId(u64::MAX), ms(1_000));
        assert_eq!(latency.histogram().count(), 10 * RUNS_MAX as u64);
    }
}
