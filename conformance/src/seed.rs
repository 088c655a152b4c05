//! Numbers that look random and come again with the same seed.

/// A generator (SplitMix64); print [`Seed::number`] before use so that a run can be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    /// State; at the start the seed itself.
    pub number: u64,
}

impl Seed {
    /// From a number.
    pub fn new(number: u64) -> Self {
        Self { number }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.number = self.number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.number;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// A number from 0 to 1.
    pub fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of a list, unless that is empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        if list.is_empty() {
            return None;
        }
        list.get(self.below(list.len() as u64) as usize)
    }
}
