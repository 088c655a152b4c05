//! A timer that follows a deadline which moves with every message, without telling the runtime each time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

use qq_runtime::Clock;

/// Wakes its task at the deadline or earlier, never later; the task compares with the clock.
#[derive(Default)]
pub(crate) struct Timer {
    armed: Option<Duration>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Makes sure of a wake-up at `deadline`. While the runtime's own timer is set to an earlier moment nothing is
    /// done: that wake-up leads here again.
    pub(crate) fn arm(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        now: Duration,
        deadline: Duration,
    ) {
        if let Some(armed) = self.armed {
            if now < armed && armed <= deadline {
                return;
            }
            if armed <= deadline && self.poll_sleep(cx).is_pending() {
                return;
            }
        }
        // A deadline that stays in the past would spin; a millisecond bounds that.
        let deadline = deadline.max(now + Duration::from_millis(1));
        self.armed = Some(deadline);
        self.set_sleep(clock, deadline);
        if self.poll_sleep(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    fn set_sleep(&mut self, clock: &Clock, deadline: Duration) {
        let at = clock.instant(deadline).into();
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(at),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(at))),
        }
    }

    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}
