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
    /// The timer of this runtime says so only once, then it is silent for ever.
    is_over: bool,
}

impl front::Sleep for Sleep {
    fn until(at: Instant) -> Self {
        Self {
            inner: Timer::at(at),
            is_over: false,
        }
    }

    fn reset(&mut self, at: Instant) {
        self.inner.set_at(at);
        self.is_over = false;
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.is_over = self.is_over || Pin::new(&mut self.inner).poll(cx).is_ready();
        if self.is_over {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use front::Sleep as _;

    use super::*;

    #[test]
    fn it_stays_over_until_it_is_reset() {
        smol::block_on(async {
            let mut sleep = Sleep::until(Instant::now());
            for _ in 0..3 {
                poll_fn(|cx| sleep.poll_over(cx)).await;
            }
            sleep.reset(Instant::now() + Duration::from_secs(1_000));
            let is_over = poll_fn(|cx| Poll::Ready(sleep.poll_over(cx).is_ready())).await;
            assert!(!is_over);
            sleep.reset(Instant::now());
            poll_fn(|cx| sleep.poll_over(cx)).await;
        });
    }
}
