//! The switch that ends a run; thrown from a signal thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

/// Shared by the binary and the run; clones are the same switch.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    level: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
}

impl Shutdown {
    /// Not yet thrown.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the drain; a second call ends its grace at once. Never blocks for long.
    pub fn trigger(&self) {
        self.inner.level.fetch_add(1, Ordering::SeqCst);
        let wakers = std::mem::take(&mut *self.wakers());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How often it was thrown. The task is woken by the next time.
    pub fn poll_level(&self, cx: &Context<'_>) -> usize {
        let mut wakers = self.wakers();
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        // Read under the lock: a trigger that is not seen here finds the waker.
        self.inner.level.load(Ordering::SeqCst)
    }

    fn wakers(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.inner
            .wakers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
