//! A timer that follows a deadline which moves with every message, without telling the runtime each time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use smol::Timer as Sleep;

use qq_runtime::Clock;

/// Wakes its task at the deadline or earlier, never later; the task compares with the clock.
#[derive(Default)]
pub(crate) struct Timer {
    armed: Option<Duration>,
    sleep: Option<Sleep>,
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
        let at = clock.instant(deadline);
        match &mut self.sleep {
            Some(sleep) => sleep.set_at(at),
            None => self.sleep = Some(Sleep::at(at)),
        }
    }

    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) => Pin::new(sleep).poll(cx).map(drop),
            None => Poll::Ready(()),
        }
    }
}
