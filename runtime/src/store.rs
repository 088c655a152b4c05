//! The store behind the broker: called in place when every call returns at once, else on a thread of its own, where
//! everything that queued up while the disk worked is made safe by one flush.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use qq_core::broker::Event;
use qq_core::store::{Batch, Fetch, Store, StoreError, StoreEvent};

use crate::post::{Inbox, Letter};

/// What the broker's task sees of the store.
pub(crate) enum StorePort {
    /// In place.
    Instant(Box<dyn Store>, Jobs),
    /// On a thread; answers come through the inbox.
    Thread(Arc<Desk>, JoinHandle<Result<(), StoreError>>),
}

/// Work that waits.
#[derive(Default)]
pub(crate) struct Jobs {
    pub(crate) batches: Vec<Batch>,
    pub(crate) fetches: Vec<Fetch>,
    is_closed: bool,
}

/// Where the thread finds its work.
#[derive(Default)]
pub(crate) struct Desk {
    jobs: Mutex<Jobs>,
    wake: Condvar,
}

impl StorePort {
    pub(crate) fn start(store: Box<dyn Store>, inbox: Arc<Inbox>) -> std::io::Result<Self> {
        if store.is_instant() {
            return Ok(Self::Instant(store, Jobs::default()));
        }
        let desk = Arc::new(Desk::default());
        let theirs = Arc::clone(&desk);
        let thread = std::thread::Builder::new().name("qq-store".into());
        let run = move || {
            let run = AssertUnwindSafe(|| run_store(store, &theirs, &inbox));
            catch_unwind(run).unwrap_or_else(|_| {
                let text = String::from("the store's thread panicked");
                inbox.push(Letter::Event(Event::Store(StoreEvent::Failed {
                    text: text.clone(),
                })));
                Err(StoreError::fatal(text))
            })
        };
        Ok(Self::Thread(desk, thread.spawn(run)?))
    }

    /// Queues work.
    pub(crate) fn ask(&mut self, ask: impl FnOnce(&mut Jobs)) {
        match self {
            Self::Instant(_, jobs) => ask(jobs),
            Self::Thread(desk, _) => desk.add(ask),
        }
    }

    /// Does the queued work when it is done in place.
    pub(crate) fn answers(&mut self) -> Vec<StoreEvent> {
        match self {
            Self::Instant(store, jobs) if !jobs.is_empty() => {
                work(store.as_mut(), std::mem::take(jobs))
            }
            Self::Instant(..) | Self::Thread(..) => Vec::new(),
        }
    }

    /// Finishes what is queued and makes it safe.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        match self {
            Self::Instant(mut store, _) => store.flush().map(drop),
            Self::Thread(desk, thread) => {
                desk.add(|jobs| jobs.is_closed = true);
                thread
                    .join()
                    .unwrap_or_else(|_| Err(StoreError::fatal("the store's thread died")))
            }
        }
    }
}

impl Jobs {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.fetches.is_empty()
    }
}

impl Desk {
    fn add(&self, ask: impl FnOnce(&mut Jobs)) {
        ask(&mut self.jobs.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }

    fn take(&self) -> Jobs {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut jobs = self
            .wake
            .wait_while(jobs, |jobs| jobs.is_empty() && !jobs.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut jobs)
    }
}

/// One round: everything submitted, one flush, then the reads.
fn work(store: &mut dyn Store, jobs: Jobs) -> Vec<StoreEvent> {
    let mut answers = Vec::new();
    if !jobs.batches.is_empty() {
        for batch in jobs.batches {
            store.submit(batch);
        }
        match store.flush() {
            Ok(upto) => answers.extend(upto.map(|upto| StoreEvent::Persisted { upto })),
            Err(error) => return vec![StoreEvent::Failed { text: error.text }],
        }
    }
    for fetch in jobs.fetches {
        match store.fetch(&fetch) {
            Ok(messages) => answers.push(StoreEvent::Fetched { fetch, messages }),
            Err(error) => answers.push(StoreEvent::Failed { text: error.text }),
        }
    }
    answers
}

fn run_store(mut store: Box<dyn Store>, desk: &Desk, inbox: &Inbox) -> Result<(), StoreError> {
    loop {
        let jobs = desk.take();
        let last = jobs.is_closed;
        for answer in work(store.as_mut(), jobs) {
            let failed = match &answer {
                StoreEvent::Failed { text } => Some(StoreError::fatal(text.clone())),
                _ => None,
            };
            inbox.push(Letter::Event(Event::Store(answer)));
            if let Some(error) = failed {
                return Err(error);
            }
        }
        if last {
            return store.flush().map(drop);
        }
    }
}
