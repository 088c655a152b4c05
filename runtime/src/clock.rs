//! The one place where time is read; everything else is told.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use qq_core::broker::Now;

/// A monotonic clock that counts from its making, with the wall clock beside it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// Starts at zero.
    #[must_use]
    pub fn start() -> Self {
        Self {
            epoch: Instant::now(),
        }
    }

    /// Both clocks at this moment.
    #[must_use]
    pub fn now(&self) -> Now {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Now {
            mono: self.epoch.elapsed(),
            wall_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX),
        }
    }

    /// The system's name for a moment of this clock. A moment beyond what it can name becomes one far away, so that
    /// a peer's largest time-out is no overflow.
    #[must_use]
    pub fn instant(&self, at: Duration) -> Instant {
        const FAR: Duration = Duration::from_secs(365 * 86_400);
        self.epoch + at.min(self.epoch.elapsed() + FAR)
    }
}
