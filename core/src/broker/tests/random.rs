//! Repeatable random numbers for walks.

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// A number below `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// An index into something of that length.
    pub(super) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }
}
