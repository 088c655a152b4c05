//! A wake-up of this runtime.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use qq_runtime::front;
use smol::Timer;

/// Sleeps wherever it is polled.
pub(crate) struct Sleep {
    inner: Timer,
}

impl front::Sleep for Sleep {
    fn until(at: Instant) -> Self {
        Self {
            inner: Timer::at(at),
        }
    }

    fn reset(&mut self, at: Instant) {
        self.inner.set_at(at);
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.inner).poll(cx).map(drop)
    }
}
