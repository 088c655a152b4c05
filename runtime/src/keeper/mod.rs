//! When the store is asked for what: the reads that somebody waits for, one flush for everything that queued up while
//! the disk worked, another try while there is no room, housekeeping when nothing else is to do.
//!
//! It has neither clock nor thread, so its order of work is tested without either; `store.rs` gives it both.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use qq_core::store::{Batch, Fetch, Store, StoreError, StoreEvent, StoreFault};

/// Reads answered before a flush gets its turn. Reads come first because they take microseconds where a flush takes
/// milliseconds, and what they read is safe already; but they must not keep publishers waiting for ever.
const FETCHES_BEFORE_FLUSH_MAX: usize = 8;
/// After how long without work housekeeping begins. Its steps may wait for the disk, and whoever comes in between
/// messages of a slow but steady flow would wait for them too.
const QUIET: Duration = Duration::from_millis(100);
/// How often the room is looked at. A store that did nothing since the last look may have more to tidy up than it knew
/// after its last flush: somebody else can have held its files.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often one step of housekeeping is done however busy the store is: so rarely that it does not show in latencies.
const TEND_EVERY: Duration = Duration::from_secs(10);
/// How long a flush that found no room is left alone, at first and at most. New batches try again at once: there are
/// never many, since the broker keeps few on their way.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// Work that waits.
#[derive(Default)]
pub(crate) struct Jobs {
    pub(crate) batches: Vec<Batch>,
    pub(crate) fetches: Vec<Fetch>,
}

impl Jobs {
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.fetches.is_empty()
    }
}

/// A flush that found no room and is tried again.
#[derive(Clone, Copy)]
struct Retry {
    at: Duration,
    wait: Duration,
}

/// A store and what it is to do next. See the module.
pub(crate) struct Keeper {
    store: Box<dyn Store>,
    /// Something to look at and to tidy up.
    has_disk: bool,
    fetches: VecDeque<Fetch>,
    retry: Option<Retry>,
    /// What the broker was told last about room.
    is_short: bool,
    /// When to look at the room again; none for a store without a disk.
    look_at: Option<Duration>,
    /// When housekeeping goes on, if there is some.
    tend_at: Option<Duration>,
    tended_at: Duration,
    /// Nothing was asked since the last look.
    is_unused: bool,
    failure: Option<StoreError>,
}

impl Keeper {
    /// A store that is recovered already.
    pub(crate) fn new(store: Box<dyn Store>) -> Self {
        let has_disk = !store.is_instant();
        Self {
            store,
            has_disk,
            fetches: VecDeque::new(),
            retry: None,
            is_short: false,
            look_at: has_disk.then_some(Duration::ZERO),
            tend_at: None,
            tended_at: Duration::ZERO,
            is_unused: true,
            failure: None,
        }
    }

    /// Whether every call returns at once.
    pub(crate) fn is_instant(&self) -> bool {
        !self.has_disk
    }

    /// Why nothing is done any more.
    pub(crate) fn failure(&self) -> Option<&StoreError> {
        self.failure.as_ref()
    }

    /// When [`Keeper::turn`] wants to be called although there is no new work. A moment in the past means at once.
    pub(crate) fn wants_turn_at(&self) -> Option<Duration> {
        if self.failure.is_some() {
            return None;
        }
        let waiting = (!self.fetches.is_empty()).then_some(Duration::ZERO);
        let retry = self.retry.map(|retry| retry.at);
        [waiting, retry, self.look_at, self.tend_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// One round of work. A store that panics has failed: what it did last is not known.
    pub(crate) fn turn(&mut self, now: Duration, jobs: Jobs, tell: &mut dyn FnMut(StoreEvent)) {
        if self.failure.is_some() {
            return;
        }
        let turn = AssertUnwindSafe(|| self.poll_turn(now, jobs, tell));
        if catch_unwind(turn).is_err() {
            self.fail(StoreError::fatal("the store panicked"), tell);
        }
    }

    /// Makes everything safe that was submitted. To be called last.
    pub(crate) fn close(mut self) -> Result<(), StoreError> {
        match self.failure {
            Some(error) => Err(error),
            None => catch_unwind(AssertUnwindSafe(|| self.store.flush()))
                .unwrap_or_else(|_| Err(StoreError::fatal("the store panicked")))
                .map(drop),
        }
    }

    fn poll_turn(&mut self, now: Duration, jobs: Jobs, tell: &mut dyn FnMut(StoreEvent)) {
        let mut is_idle = jobs.is_empty() && self.fetches.is_empty();
        self.fetches.extend(jobs.fetches);
        for _ in 0..FETCHES_BEFORE_FLUSH_MAX {
            let Some(fetch) = self.fetches.pop_front() else {
                break;
            };
            self.fetch(fetch, tell);
        }
        let has_new = !jobs.batches.is_empty();
        for batch in jobs.batches {
            self.store.submit(batch);
        }
        if has_new || self.retry.is_some_and(|retry| retry.at <= now) {
            is_idle = false;
            self.flush(now, tell);
        }
        if self.failure.is_some() {
            return;
        }
        if !is_idle {
            self.is_unused = false;
            self.tend_at = self.tend_at.map(|_| now + QUIET);
        }
        let mut is_due = is_idle && self.tend_at.is_some_and(|at| at <= now);
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_at = Some(now + LOOK_EVERY);
            self.look_at_room(tell);
            is_due |= std::mem::replace(&mut self.is_unused, true) && self.has_disk;
        }
        if is_due || (self.has_disk && now >= self.tended_at + TEND_EVERY) {
            self.tended_at = now;
            self.tend(now, tell);
        }
    }

    /// Damage of a body costs its queue, never the broker.
    fn fetch(&mut self, fetch: Fetch, tell: &mut dyn FnMut(StoreEvent)) {
        tell(match self.store.fetch(&fetch) {
            Ok(messages) => StoreEvent::Fetched { fetch, messages },
            Err(error) => StoreEvent::FetchFailed {
                fetch,
                text: error.text,
            },
        });
    }

    fn flush(&mut self, now: Duration, tell: &mut dyn FnMut(StoreEvent)) {
        match self.store.flush() {
            Ok(upto) => {
                if let Some(upto) = upto {
                    tell(StoreEvent::Persisted { upto });
                }
                self.retry = None;
                self.tend_at = self.has_disk.then_some(now + QUIET);
                self.look_at_room(tell);
            }
            Err(error) if error.fault == StoreFault::NoRoom => {
                if self.retry.is_none() {
                    log::warn!("the store has no room: {}; trying again", error.text);
                }
                let wait = self
                    .retry
                    .map_or(RETRY_MIN, |retry| (retry.wait * 2).min(RETRY_MAX));
                let at = now + wait;
                self.retry = Some(Retry { at, wait });
                self.tell_room(true, tell);
            }
            Err(error) => self.fail(error, tell),
        }
    }

    /// While a flush waits for room there is none, whatever the store believes.
    fn look_at_room(&mut self, tell: &mut dyn FnMut(StoreEvent)) {
        let is_short = self.store.is_short_of_room() || self.retry.is_some();
        self.tell_room(is_short, tell);
    }

    fn tell_room(&mut self, is_short: bool, tell: &mut dyn FnMut(StoreEvent)) {
        if self.is_short != is_short {
            self.is_short = is_short;
            tell(StoreEvent::Room { is_short });
        }
        if !self.has_disk {
            // Nobody looks at a store without a disk, unless it said something that must be taken back.
            self.look_at = match (is_short, self.look_at) {
                (true, None) => Some(Duration::ZERO),
                (true, at) => at,
                (false, _) => None,
            };
        }
    }

    fn tend(&mut self, now: Duration, tell: &mut dyn FnMut(StoreEvent)) {
        match self.store.tend() {
            Ok(has_more) => self.tend_at = has_more.then_some(now),
            // Nothing that was submitted is concerned; the next look tries again.
            Err(error) if error.fault == StoreFault::NoRoom => {
                log::debug!("housekeeping of the store: {}", error.text);
                self.tend_at = None;
            }
            Err(error) => self.fail(error, tell),
        }
    }

    fn fail(&mut self, error: StoreError, tell: &mut dyn FnMut(StoreEvent)) {
        tell(StoreEvent::Failed {
            text: error.text.clone(),
        });
        self.fetches.clear();
        self.failure = Some(error);
    }
}
