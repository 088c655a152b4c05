//! Message ids for publishers that bring none: 26 characters of Crockford's base 32, of which the first ten are the
//! time, so that ids sort by age.

/// No I, L, O and U, which are taken for other characters.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LEN: usize = 26;
/// Bits of the number that tells the ids of one connection apart.
const COUNTER_BITS: usize = 32;
/// Bits of the number that tells connections apart.
const ORIGIN_BITS: usize = 48;
const DIGIT_BITS: usize = 5;
/// Characters in which the counter stands, wholly or in part.
const COUNTER_DIGITS: usize = COUNTER_BITS.div_ceil(DIGIT_BITS);

/// The characters of an id.
pub(super) type Id = [u8; LEN];

/// Makes ids for one connection.
#[derive(Debug)]
pub(super) struct Ids {
    /// Differs between connections and between runs of the node, as far as 48 bits can.
    origin: u64,
    counter: u32,
    /// The id that was made last, and the moment in it: most ids differ from it in the last characters alone.
    last: Id,
    last_ms: u64,
}

impl Ids {
    /// `seed` differs between runs, `serial` between the connections of one run.
    pub(super) fn new(seed: u64, serial: u64) -> Self {
        Self {
            origin: mix(seed ^ mix(serial)) >> (64 - ORIGIN_BITS),
            counter: 0,
            last: [b'0'; LEN],
            last_ms: u64::MAX,
        }
    }

    /// The next id, for a message that came at this moment.
    pub(super) fn next(&mut self, wall_ms: i64) -> Id {
        let time_ms = u64::try_from(wall_ms).unwrap_or(0) & ((1 << 48) - 1);
        let number = (u128::from(time_ms) << (ORIGIN_BITS + COUNTER_BITS))
            | (u128::from(self.origin) << COUNTER_BITS)
            | u128::from(self.counter);
        let changing = if time_ms == self.last_ms {
            COUNTER_DIGITS
        } else {
            LEN
        };
        self.last_ms = time_ms;
        self.counter = self.counter.wrapping_add(1);
        // The counter's digits lie in the lower half.
        let low = number as u64;
        for at in 0..COUNTER_DIGITS {
            self.last[LEN - 1 - at] = DIGITS[(low >> (DIGIT_BITS * at) & 31) as usize];
        }
        for at in COUNTER_DIGITS..changing {
            let digit = (number >> (DIGIT_BITS * at)) & 31;
            self.last[LEN - 1 - at] = DIGITS[digit as usize];
        }
        self.last
    }
}

/// An id as text.
pub(super) fn text(id: &Id) -> &str {
    std::str::from_utf8(id).expect("the digits are ASCII")
}

/// A bijection in which every bit of the output depends on every bit of the input (the finaliser of SplitMix64).
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::{DIGITS, Ids, text};

    #[test]
    fn ids_tell_messages_connections_and_runs_apart() {
        let mut ids: Vec<String> = Vec::new();
        for (seed, serial) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            let mut source = Ids::new(seed, serial);
            ids.extend((0..100).map(|_| text(&source.next(1_764_460_800_000)).to_owned()));
        }
        // The time in base 32, by hand: 1764460800000 = 1*32^8 + 19*32^7 + 11*32^6 + ...
        assert!(ids.iter().all(|id| id.len() == 26 && id.starts_with("01K")));
        let mut sorted = ids.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), ids.len());
        assert!(ids[..100].is_sorted());
        let later = Ids::new(1, 1).next(1_764_460_800_001);
        assert!(
            text(&later) > ids[0].as_str(),
            "{later:?} sorts behind {}",
            ids[0]
        );
    }

    /// Reads an id back into the number that it stands for.
    fn number(id: &[u8]) -> u128 {
        let digit = |c: &u8| DIGITS.iter().position(|digit| digit == c).expect("a digit");
        id.iter()
            .fold(0, |number, c| number << 5 | digit(c) as u128)
    }

    #[test]
    fn ids_count_on_within_a_moment_and_over_it() {
        let mut source = Ids::new(3, 4);
        let origin = number(&source.next(5)) & !(u128::MAX << 80);
        // Over several digits' ends, and back in time, as a clock may go.
        for n in 1..5_000_u128 {
            let at = [5, 6, 5, 7][n as usize / 1_300];
            let expected = (at as u128) << 80 | (origin + n);
            assert_eq!(number(&source.next(at)), expected, "{n}");
        }
    }
}
