//! How long something took, counted in the buckets that scrapes show.

use std::time::Duration;

/// Upper bounds of the buckets, microseconds: those that Prometheus has by default, and finer ones below, since most of
/// what a broker does takes less than the first of them.
pub const BOUNDS_US: [u64; 14] = [
    100, 500, 1_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// Durations by bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// One for each bound, and one for what took longer.
    buckets: [u64; BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl Histogram {
    /// `count` things took no time that could be measured.
    pub fn note_instant(&mut self, count: u64) {
        self.buckets[0] += count;
    }

    /// `count` things took this time each.
    pub fn note(&mut self, took: Duration, count: u64) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < took_us);
        self.buckets[bucket] += count;
        self.sum_us = self.sum_us.saturating_add(took_us.saturating_mul(count));
    }

    /// Adds what another one counted.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// What they took together, microseconds.
    #[must_use]
    pub const fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// For each bound how many took no longer.
    pub fn up_to(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut sum = 0;
        BOUNDS_US
            .into_iter()
            .zip(self.buckets)
            .map(move |(bound_us, count)| {
                sum += count;
                (bound_us, sum)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_took_up_to_its_bound() {
        let mut histogram = Histogram::default();
        histogram.note_instant(1);
        histogram.note(Duration::from_micros(100), 1);
        histogram.note(Duration::from_micros(101), 2);
        histogram.note(Duration::from_secs(10), 1);
        histogram.note(Duration::from_secs(11), 3);
        let counts: Vec<u64> = histogram.up_to().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5]);
        assert_eq!(histogram.count(), 8);
        assert_eq!(histogram.sum_us(), 100 + 2 * 101 + 10_000_000 + 33_000_000);
        let mut twice = histogram;
        twice.add(&histogram);
        assert_eq!(
            (twice.count(), twice.sum_us()),
            (16, 2 * histogram.sum_us())
        );
    }
}
