//! Message ids for publishers that bring none: 26 characters of Crockford's base 32, of which the first ten are the
//! time, so that ids sort by age.

/// No I, L, O and U, which are taken for other characters.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LEN: usize = 26;
/// Bits of the number that tells the ids of one connection apart.
const COUNTER_BITS: u32 = 32;
/// Bits of the number that tells connections apart.
const ORIGIN_BITS: u32 = 48;

/// Makes ids for one connection.
#[derive(Debug)]
pub(super) struct Ids {
    /// Differs between connections and between runs of the node, as far as 48 bits can.
    origin: u64,
    counter: u32,
}

impl Ids {
    /// `seed` differs between runs, `serial` between the connections of one run.
    pub(super) fn new(seed: u64, serial: u64) -> Self {
        Self {
            origin: mix(seed ^ mix(serial)) >> (64 - ORIGIN_BITS),
            counter: 0,
        }
    }

    /// The next id, for a message that came at this moment.
    pub(super) fn next(&mut self, wall_ms: i64) -> String {
        let time = u128::from(u64::try_from(wall_ms).unwrap_or(0) & ((1 << 48) - 1));
        let number = (time << (ORIGIN_BITS + COUNTER_BITS))
            | (u128::from(self.origin) << COUNTER_BITS)
            | u128::from(self.counter);
        self.counter = self.counter.wrapping_add(1);
        let mut text = String::with_capacity(LEN);
        for at in (0..LEN).rev() {
            let digit = (number >> (5 * at)) & 31;
            text.push(char::from(DIGITS[digit as usize]));
        }
        text
    }
}

/// A bijection in which every bit of the output depends on every bit of the input (the finaliser of SplitMix64).
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::Ids;

    #[test]
    fn ids_tell_messages_connections_and_runs_apart() {
        let mut ids: Vec<String> = Vec::new();
        for (seed, serial) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            let mut source = Ids::new(seed, serial);
            ids.extend((0..100).map(|_| source.next(1_764_460_800_000)));
        }
        // The time in base 32, by hand: 1764460800000 = 1*32^8 + 19*32^7 + 11*32^6 + ...
        assert!(ids.iter().all(|id| id.len() == 26 && id.starts_with("01K")));
        let mut sorted = ids.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), ids.len());
        assert!(ids[..100].is_sorted());
        let later = Ids::new(1, 1).next(1_764_460_800_001);
        assert!(later > ids[0], "{later} sorts behind {}", ids[0]);
    }
}
