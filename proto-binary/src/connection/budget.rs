//! An allowance for frames that are legal one by one and a burden in bulk.
//!
//! Integer arithmetic on milliseconds, so that the same input gives the same answer on every machine.

use core::time::Duration;

/// Thousandths of a token, so that a refill of less than one token a millisecond is not lost.
const MILLI: u64 = 1_000;

/// A token bucket.
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

    /// Takes a token. Returns whether there was one, counting what time has paid back.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        self.used_milli = self.used_milli.saturating_add(MILLI);
        if self.used_milli <= self.burst_milli {
            return true;
        }
        let elapsed_ms =
            u64::try_from(now.saturating_sub(self.refilled_at).as_millis()).unwrap_or(u64::MAX);
        self.refilled_at = now;
        let paid_milli = elapsed_ms.saturating_mul(self.rate_per_s);
        self.used_milli = self.used_milli.saturating_sub(paid_milli);
        self.used_milli <= self.burst_milli
    }
}

#[cfg(test)]
mod tests {
    use super::Bucket;
    use core::time::Duration;

    #[test]
    fn burst_then_rate() {
        let at = Duration::from_millis;
        let mut bucket = Bucket::new(3, 2, Duration::ZERO);
        assert!((0..3).all(|_| bucket.take(at(0))));
        assert!(!bucket.take(at(0)));
        // One above the burst is owed: a second pays two, for that one and for the next.
        assert!(bucket.take(at(1_000)));
        assert!(!bucket.take(at(1_000)));
    }
}
