//! Chance for targets that also choose commands and cuts.

/// A small generator, so that the input alone decides.
pub(crate) struct Dice(pub(crate) u32);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) % sides
    }

    /// Where to cut the next piece off: often tiny, sometimes all.
    pub(crate) fn cut(&mut self, len: usize) -> usize {
        let piece = match self.roll(4) {
            0 => 1 + self.roll(8),
            1 => 1 + self.roll(64),
            _ => 1 + self.roll(1_024),
        };
        len.min(piece as usize)
    }
}
