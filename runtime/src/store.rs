//! The store behind the broker: called in place when every call returns at once, else on a thread of its own.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use qq_core::broker::Event;
use qq_core::store::{Store, StoreError, StoreEvent};

use crate::clock::Clock;
use crate::keeper::{Jobs, Keeper};
use crate::post::{Inbox, Letter};

/// What the broker's task sees of the store.
pub(crate) enum StorePort {
    /// In place.
    Instant(Box<Keeper>, Jobs),
    /// On a thread; answers come through the inbox.
    Thread(Arc<Desk>, JoinHandle<Result<(), StoreError>>),
}

/// Where the thread finds its work.
#[derive(Default)]
pub(crate) struct Desk {
    pile: Mutex<Pile>,
    wake: Condvar,
}

#[derive(Default)]
struct Pile {
    jobs: Jobs,
    is_closed: bool,
}

impl StorePort {
    pub(crate) fn start(
        store: Box<dyn Store>,
        inbox: Arc<Inbox>,
        clock: Clock,
    ) -> std::io::Result<Self> {
        let keeper = Keeper::new(store);
        if keeper.is_instant() {
            return Ok(Self::Instant(Box::new(keeper), Jobs::default()));
        }
        let desk = Arc::new(Desk::default());
        let theirs = Arc::clone(&desk);
        let thread = std::thread::Builder::new().name("qq-store".into());
        let thread = thread.spawn(move || run_keeper(keeper, &theirs, &inbox, clock))?;
        Ok(Self::Thread(desk, thread))
    }

    /// Whether answers come later.
    pub(crate) fn has_thread(&self) -> bool {
        matches!(self, Self::Thread(..))
    }

    /// Queues work.
    pub(crate) fn ask(&mut self, ask: impl FnOnce(&mut Jobs)) {
        match self {
            Self::Instant(_, jobs) => ask(jobs),
            Self::Thread(desk, _) => desk.change(|pile| ask(&mut pile.jobs)),
        }
    }

    /// When [`StorePort::answers`] wants to be called although nothing was asked.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        match self {
            Self::Instant(keeper, _) => keeper.wants_turn_at(),
            Self::Thread(..) => None,
        }
    }

    /// Does the queued work when it is done in place.
    pub(crate) fn answers(&mut self, now: Duration) -> Vec<StoreEvent> {
        let mut answers = Vec::new();
        if let Self::Instant(keeper, jobs) = self
            && (!jobs.is_empty() || keeper.wants_turn_at().is_some_and(|at| at <= now))
        {
            keeper.turn(now, std::mem::take(jobs), &mut |answer| {
                answers.push(answer)
            });
        }
        answers
    }

    /// Finishes what is queued and makes it safe.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        match self {
            Self::Instant(keeper, _) => keeper.close(),
            Self::Thread(desk, thread) => {
                desk.change(|pile| pile.is_closed = true);
                thread
                    .join()
                    .unwrap_or_else(|_| Err(StoreError::fatal("the store's thread died")))
            }
        }
    }
}

impl Desk {
    fn change(&self, change: impl FnOnce(&mut Pile)) {
        change(&mut self.pile());
        self.wake.notify_one();
    }

    /// Everything that waits, at the latest at `until`.
    fn take(&self, clock: Clock, until: Option<Duration>) -> Pile {
        let mut pile = self.pile();
        while pile.jobs.is_empty() && !pile.is_closed {
            let Some(until) = until else {
                pile = self.wake.wait(pile).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_sub(clock.now().mono);
            if left.is_zero() {
                break;
            }
            let waited = self.wake.wait_timeout(pile, left);
            pile = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Pile {
            jobs: std::mem::take(&mut pile.jobs),
            is_closed: pile.is_closed,
        }
    }

    fn pile(&self) -> MutexGuard<'_, Pile> {
        self.pile.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run_keeper(
    mut keeper: Keeper,
    desk: &Desk,
    inbox: &Inbox,
    clock: Clock,
) -> Result<(), StoreError> {
    loop {
        let pile = desk.take(clock, keeper.wants_turn_at());
        // Every answer goes out at once: the broker works on it while the next is made.
        keeper.turn(clock.now().mono, pile.jobs, &mut |answer| {
            inbox.push(Letter::Event(Event::Store(answer)));
        });
        if pile.is_closed || keeper.failure().is_some() {
            return keeper.close();
        }
    }
}
