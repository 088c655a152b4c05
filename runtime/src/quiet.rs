//! Warnings that peers can provoke, at most one a second.

use std::time::Duration;

const EVERY: Duration = Duration::from_secs(1);

/// One source of warnings.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    until: Duration,
    silenced: u64,
}

impl Quiet {
    /// Logs, or counts what is not logged.
    pub(crate) fn warn(&mut self, now: Duration, text: &str) {
        if now < self.until {
            self.silenced += 1;
            return;
        }
        log::warn!("{text} ({} more of this kind before)", self.silenced);
        *self = Self {
            until: now + EVERY,
            silenced: 0,
        };
    }
}
