//! A wake-up of this runtime.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use qq_runtime::front;

/// Sleeps on the IO thread that it was made on.
pub(crate) struct Sleep {
    inner: Pin<Box<tokio::time::Sleep>>,
}

impl front::Sleep for Sleep {
    fn until(at: Instant) -> Self {
        Self {
            inner: Box::pin(tokio::time::sleep_until(at.into())),
        }
    }

    fn reset(&mut self, at: Instant) {
        self.inner.as_mut().reset(at.into());
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.inner.as_mut().poll(cx)
    }
}
