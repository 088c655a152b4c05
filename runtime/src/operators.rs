//! Requests of operators to the broker, from threads that may wait: the same for every runtime.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use qq_core::admin::{Reply, Request};
use qq_core::broker::Event;

use crate::post::{Inbox, Letter};

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// No broker runs, or not any more.
    Down,
    /// The broker did not answer in time. It may still execute the request.
    Late,
}

/// Where threads put their requests.
#[derive(Default)]
pub struct Operators {
    state: Mutex<State>,
    /// A broker came or went.
    changed: Condvar,
    /// Connections that a limit kept out, since the start.
    kept_out: AtomicU64,
}

#[derive(Default)]
struct State {
    inbox: Option<Arc<Inbox>>,
    is_over: bool,
    next: u64,
    waiting: HashMap<u64, SyncSender<Reply>>,
}

impl Operators {
    /// Asks the broker and waits for its answer; when no broker runs yet, for that as well.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub fn ask(&self, request: Request, patience: Duration) -> Result<Reply, Unanswered> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let request = Box::new(request);
        let ticket = {
            let is_early = |state: &mut State| state.inbox.is_none() && !state.is_over;
            let waited = self
                .changed
                .wait_timeout_while(self.lock(), patience, is_early);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let inbox = Arc::clone(state.inbox.as_ref().ok_or(Unanswered::Down)?);
            let ticket = state.next;
            state.next += 1;
            state.waiting.insert(ticket, sender);
            inbox.push(Letter::Event(Event::Admin { ticket, request }));
            ticket
        };
        receiver.recv_timeout(patience).map_err(|error| {
            self.lock().waiting.remove(&ticket);
            match error {
                RecvTimeoutError::Timeout => Unanswered::Late,
                RecvTimeoutError::Disconnected => Unanswered::Down,
            }
        })
    }

    /// Connections that a limit kept out, since the start.
    pub fn kept_out(&self) -> u64 {
        self.kept_out.load(Ordering::Relaxed)
    }

    /// A limit kept a connection out.
    pub(crate) fn note_kept_out(&self) {
        self.kept_out.fetch_add(1, Ordering::Relaxed);
    }

    /// A broker runs behind this inbox from now on.
    pub(crate) fn connect(&self, inbox: Arc<Inbox>) {
        self.lock().inbox = Some(inbox);
        self.changed.notify_all();
    }

    /// The broker is gone: nobody is answered any more.
    pub(crate) fn disconnect(&self) {
        *self.lock() = State {
            is_over: true,
            ..State::default()
        };
        self.changed.notify_all();
    }

    /// The broker answers. Who went away does not hear it.
    pub(crate) fn answer(&self, ticket: u64, reply: Reply) {
        if let Some(sender) = self.lock().waiting.remove(&ticket) {
            // It has room for one.
            let _ = sender.try_send(reply);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
