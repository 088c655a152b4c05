//! A timer that follows a deadline which moves with every message, without telling the front end each time.

use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::Clock;
use crate::front::Sleep;

/// Wakes its task at the deadline or earlier, never later; the task compares with the clock.
pub struct Timer<S> {
    armed: Option<Duration>,
    sleep: Option<S>,
}

impl<S> Default for Timer<S> {
    fn default() -> Self {
        Self {
            armed: None,
            sleep: None,
        }
    }
}

impl<S: Sleep> Timer<S> {
    /// Makes sure of a wake-up at `deadline`. While the front end's own timer is set to an earlier moment nothing is
    /// done: that wake-up leads here again.
    pub fn arm(&mut self, cx: &mut Context<'_>, clock: &Clock, now: Duration, deadline: Duration) {
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
        let at = clock.instant(deadline);
        match &mut self.sleep {
            Some(sleep) => sleep.reset(at),
            None => self.sleep = Some(S::until(at)),
        }
        if self.poll_sleep(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) => sleep.poll_over(cx),
            None => Poll::Ready(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};
    use std::time::Instant;

    use super::*;

    thread_local! {
        /// What the fake sleeps take for the present.
        static PRESENT: Rc<Cell<Option<Instant>>> = Rc::default();
    }

    /// Over when the present says so; counts nothing, wakes nobody.
    struct Fake(Instant);

    impl Sleep for Fake {
        fn until(at: Instant) -> Self {
            Self(at)
        }
        fn reset(&mut self, at: Instant) {
            self.0 = at;
        }
        fn poll_over(&mut self, _: &mut Context<'_>) -> Poll<()> {
            let present = PRESENT.with(|present| present.get());
            match present.is_some_and(|present| self.0 <= present) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The present is not the `now` that the task was told at the beginning of its turn: it may have been held up.
    #[test]
    fn a_task_that_is_held_up_keeps_its_deadlines() {
        let clock = Clock::start();
        let set = |at: Duration| PRESENT.with(|present| present.set(Some(clock.instant(at))));
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let cx = &mut Context::from_waker(&waker);
        let woken = || count.0.swap(0, Ordering::SeqCst);
        let mut timer = Timer::<Fake>::default();

        set(ms(10));
        timer.arm(cx, &clock, ms(10), ms(20));
        assert_eq!(woken(), 0);
        // It wants 22, but it is 50 already when the sleep is asked: the task must run again at once.
        set(ms(50));
        timer.arm(cx, &clock, ms(21), ms(22));
        assert_eq!(woken(), 1);
        timer.arm(cx, &clock, ms(50), ms(60));
        assert_eq!(woken(), 0);
        let sleep = timer.sleep.as_ref().expect("armed");
        assert_eq!(sleep.0, clock.instant(ms(60)));
    }

    #[test]
    fn only_earlier_deadlines_are_told_to_the_front_end() {
        let clock = Clock::start();
        let cx = &mut Context::from_waker(Waker::noop());
        let mut timer = Timer::<Fake>::default();
        for (now, deadline, slept) in [
            (0, 100, 100),
            (1, 200, 100),
            (2, 50, 50),
            (49, 300, 50),
            (50, 300, 300),
        ] {
            PRESENT.with(|present| present.set(Some(clock.instant(ms(now)))));
            timer.arm(cx, &clock, ms(now), ms(deadline));
            let sleep = timer.sleep.as_ref().expect("armed");
            assert_eq!(sleep.0, clock.instant(ms(slept)), "at {now}");
        }
    }
}
