//! Allowances for frames that are legal one by one and a burden in bulk.
//!
//! A [`Bucket`] holds up to `burst` tokens, is refilled by time, and for some uses by progress. Everything is integer
//! arithmetic on milliseconds, so that the same input gives the same answer on every machine.

use core::time::Duration;

/// Thousandths of a token, so that a refill of less than one token a millisecond is not lost.
const MILLI: u64 = 1_000;

/// A token bucket that may be overdrawn by one charge.
#[derive(Debug)]
pub(super) struct Bucket {
    burst_milli: u64,
    rate_per_s: u64,
    used_milli: u64,
    refilled_at: Duration,
}

impl Bucket {
    pub(super) fn new(burst: u32, rate_per_s: u32, now: Duration) -> Self {
        Self {
            burst_milli: u64::from(burst) * MILLI,
            rate_per_s: u64::from(rate_per_s),
            used_milli: 0,
            refilled_at: now,
        }
    }

    /// Takes `tokens`.
    pub(super) fn charge(&mut self, tokens: u32) {
        self.used_milli = self.used_milli.saturating_add(u64::from(tokens) * MILLI);
    }

    /// Gives `tokens` back.
    pub(super) fn credit(&mut self, tokens: u64) {
        self.used_milli = self.used_milli.saturating_sub(tokens.saturating_mul(MILLI));
    }

    /// Whether more was taken than time has paid back. The clock is only read where it matters: below the burst the
    /// answer is no without it.
    pub(super) fn is_overdrawn(&mut self, now: Duration) -> bool {
        if self.used_milli <= self.burst_milli {
            return false;
        }
        let elapsed_ms =
            u64::try_from(now.saturating_sub(self.refilled_at).as_millis()).unwrap_or(u64::MAX);
        self.refilled_at = now;
        self.used_milli = self
            .used_milli
            .saturating_sub(elapsed_ms.saturating_mul(self.rate_per_s));
        self.used_milli > self.burst_milli
    }
}

#[cfg(test)]
mod tests {
    use super::Bucket;
    use core::time::Duration;

    #[test]
    fn burst_then_rate() {
        let mut bucket = Bucket::new(10, 2, Duration::ZERO);
        bucket.charge(10);
        assert!(!bucket.is_overdrawn(Duration::ZERO));
        bucket.charge(1);
        assert!(bucket.is_overdrawn(Duration::ZERO));
        assert!(bucket.is_overdrawn(Duration::from_millis(499)));
        assert!(!bucket.is_overdrawn(Duration::from_millis(500)));
    }

    #[test]
    fn progress_pays_back() {
        let mut bucket = Bucket::new(1, 0, Duration::ZERO);
        bucket.charge(3);
        bucket.credit(2);
        assert!(!bucket.is_overdrawn(Duration::ZERO));
        bucket.credit(u64::MAX);
        bucket.charge(1);
        assert!(!bucket.is_overdrawn(Duration::ZERO));
    }
}
