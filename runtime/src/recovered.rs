//! A broker as its store left it: the only kind that a run takes, so that no run forgets what was stored.

use std::time::Duration;

use qq_core::broker::Broker;
use qq_core::store::{Store, StoreError};

use crate::clock::Clock;

/// A broker with everything that its store kept, and the store.
pub struct Recovered {
    pub(crate) broker: Broker,
    pub(crate) store: Box<dyn Store>,
    /// Messages that were found.
    pub messages: usize,
    /// Queues that exist now: those that were found and those that are configured.
    pub queues: usize,
    /// How long it took.
    pub took: Duration,
}

impl Recovered {
    /// Replays the store into a new broker.
    ///
    /// # Errors
    /// When the store cannot be read or verified: nothing may be served then.
    pub fn new(
        mut broker: Broker,
        mut store: Box<dyn Store>,
        clock: &Clock,
    ) -> Result<Self, StoreError> {
        let begin = clock.now().mono;
        store.recover(&mut |op| broker.recover(op))?;
        let now = clock.now();
        broker.recovered(now);
        let counters = broker.counters();
        Ok(Self {
            broker,
            store,
            messages: counters.messages,
            queues: counters.queues,
            took: now.mono.saturating_sub(begin),
        })
    }
}
