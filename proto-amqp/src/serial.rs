//! Serial numbers (RFC 1982, 32 bits): transfer-ids, delivery-ids and delivery-counts wrap at 2^32.
//!
//! Two numbers 2^31 apart have no order; here the second counts as behind the first then, so that no question goes
//! without an answer.

/// Whether `a` comes before `b`.
#[inline]
#[must_use]
pub const fn serial_lt(a: u32, b: u32) -> bool {
    let ahead = b.wrapping_sub(a);
    ahead != 0 && ahead < 1 << 31
}

/// Whether `a` comes before `b` or is `b`.
#[inline]
#[must_use]
pub const fn serial_le(a: u32, b: u32) -> bool {
    b.wrapping_sub(a) < 1 << 31
}

/// How far `a` is ahead of `b`; negative when it is behind.
#[inline]
#[must_use]
pub const fn serial_diff(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::{serial_diff, serial_le, serial_lt};

    #[test]
    fn order_holds_across_the_wrap() {
        for start in [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX] {
            for ahead in [1_u32, 2, 1000, 0x7fff_ffff] {
                let later = start.wrapping_add(ahead);
                assert!(
                    serial_lt(start, later) && !serial_lt(later, start),
                    "{start} + {ahead}"
                );
                assert!(
                    serial_le(start, later) && !serial_le(later, start),
                    "{start} + {ahead}"
                );
                assert_eq!(i64::from(serial_diff(later, start)), i64::from(ahead));
                assert_eq!(i64::from(serial_diff(start, later)), -i64::from(ahead));
            }
            assert!(!serial_lt(start, start) && serial_le(start, start));
            assert_eq!(serial_diff(start, start), 0);
        }
    }

    #[test]
    fn numbers_half_the_circle_apart_are_never_before_each_other() {
        assert!(!serial_lt(0, 1 << 31) && !serial_lt(1 << 31, 0));
    }
}
