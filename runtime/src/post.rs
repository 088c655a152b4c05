//! Hand-over between tasks in batches: a list behind a lock, and a wake-up only when the list was empty.
//!
//! Nothing here bounds the lists; windows and permits of the protocol do.

use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use qq_core::broker::Event;
use qq_core::vocab::{ConnId, Notice, Refusal};

/// What arrives at the broker's task.
pub(crate) enum Letter {
    /// A connection passed its hand-shake; its notices go there.
    Join(ConnId, Arc<Mailbox>),
    /// For the broker.
    Event(Event),
    /// A connection is gone.
    Leave(ConnId),
}

/// What arrives at a connection's task.
pub(crate) enum Mail {
    /// From the broker.
    Notices(Vec<Notice>),
    /// Close politely.
    Shutdown(Refusal),
    /// Close at once: others need the place.
    Evict,
}

/// The broker's task reads it.
pub(crate) type Inbox = Post<Letter>;
/// A connection's task reads it.
pub(crate) type Mailbox = Post<Mail>;

/// A list with one reader.
pub(crate) struct Post<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    items: Vec<T>,
    waker: Option<Waker>,
}

impl<T> Default for Post<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Post<T> {
    /// Empty.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                items: Vec::new(),
                waker: None,
            }),
        }
    }

    /// Appends, and wakes the reader when it had nothing.
    pub(crate) fn push(&self, item: T) {
        let mut state = self.lock();
        state.items.push(item);
        let waker = if state.items.len() == 1 {
            state.waker.take()
        } else {
            None
        };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Swaps the list with an empty one and asks to be woken by the next item.
    pub(crate) fn poll_take(&self, cx: &Context<'_>, into: &mut Vec<T>) {
        debug_assert!(into.is_empty());
        let mut state = self.lock();
        std::mem::swap(&mut state.items, into);
        match &state.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => state.waker = Some(cx.waker().clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
