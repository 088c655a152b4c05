//! The simulator's only source of chance: numbers from a seed, the same on every machine and in every version.

use crate::seed::Seed;

/// Streams for different purposes are forked, so that one more draw here changes nothing there.
#[derive(Clone, Debug)]
pub(super) struct Random(Seed);

impl Random {
    /// A stream of its own for a purpose, which does not depend on what was drawn here.
    #[must_use]
    pub(super) fn fork(seed: u64, purpose: u64, index: u64) -> Self {
        let mut of_purpose = Seed::new(seed ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03));
        let mut of_index = Seed::new(of_purpose.draw() ^ index.wrapping_mul(0x8cb9_2ba7_2f3d_8dd7));
        Self(Seed::new(of_index.draw()))
    }

    /// The next number.
    pub(super) fn draw(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `bound`; 0 when that is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let drawn = self.draw();
        if bound == 0 { 0 } else { drawn % bound }
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True so many times in a thousand.
    pub(super) fn is_lucky(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// An index into a list that is not empty.
    pub(super) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// One of several choices, each as likely as its weight says.
    pub(super) fn weighted<T: Copy>(&mut self, choices: &[(u64, T)]) -> Option<T> {
        let total = choices.iter().map(|(weight, _)| *weight).sum();
        let mut drawn = self.below(total);
        for (weight, choice) in choices {
            if drawn < *weight {
                return Some(*choice);
            }
            drawn -= *weight;
        }
        None
    }
}
