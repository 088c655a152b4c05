//! Tells people that the disk holds everything up: nothing else would, since clients only see that confirmations are late.

use std::time::Duration;

use qq_core::store::BatchId;

/// How long a batch may be on its way before that is worth a line.
const PATIENCE: Duration = Duration::from_secs(5);

/// Watches the batches that are with the store.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The newest batch that was given, until it is safe.
    newest: Option<BatchId>,
    /// Since when nothing more was made safe.
    since: Duration,
    is_reported: bool,
}

impl Watch {
    /// The store was given a batch.
    pub(crate) fn on_persist(&mut self, now: Duration, batch: BatchId) {
        if self.newest.is_none() {
            self.since = now;
        }
        self.newest = Some(batch);
    }

    /// The store made batches safe.
    pub(crate) fn on_persisted(&mut self, now: Duration, upto: BatchId) {
        if std::mem::take(&mut self.is_reported) {
            let took = now.saturating_sub(self.since).as_millis();
            log::warn!("the store goes on after {took} ms");
        }
        self.since = now;
        self.newest = self.newest.filter(|newest| *newest > upto);
    }

    /// When [`Watch::handle_timeout`] has something to say.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        let is_waiting = self.newest.is_some() && !self.is_reported;
        is_waiting.then(|| self.since + PATIENCE)
    }

    /// Says it, once for each time that the store stands still.
    pub(crate) fn handle_timeout(&mut self, now: Duration) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.is_reported = true;
            log::warn!(
                "the store has made nothing safe for {} s: confirmations wait for the disk",
                now.saturating_sub(self.since).as_secs()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_store_that_stands_still_is_reported_once() {
        let mut watch = Watch::default();
        assert_eq!(watch.poll_timeout(), None);
        watch.on_persist(at(1), BatchId(1));
        watch.on_persist(at(3), BatchId(2));
        assert_eq!(watch.poll_timeout(), Some(at(6)));
        watch.handle_timeout(at(5));
        assert!(!watch.is_reported);
        watch.handle_timeout(at(6));
        assert!(watch.is_reported);
        assert_eq!(watch.poll_timeout(), None);
        // It moves again: the second batch has as long as the first had.
        watch.on_persisted(at(9), BatchId(1));
        assert_eq!(watch.poll_timeout(), Some(at(14)));
        watch.on_persisted(at(10), BatchId(2));
        assert_eq!(watch.poll_timeout(), None);
    }

    #[test]
    fn a_busy_store_is_not_a_slow_one() {
        let mut watch = Watch::default();
        for second in 0..100 {
            watch.on_persist(at(second), BatchId(second + 1));
            watch.on_persisted(at(second), BatchId(second));
            assert_eq!(watch.poll_timeout(), Some(at(second + 5)));
        }
    }
}
