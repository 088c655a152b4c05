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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use front::Sleep as _;
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn it_stays_over_until_it_is_reset() {
        let runtime = Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
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
