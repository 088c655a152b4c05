//! Spans of time and sizes as people write them on a command line.

use std::str::FromStr;

/// A span of time: `300s`, `1500ms`, `5m`, `24h`, `7d`. A number alone is refused, as in the configuration file: nobody
/// could say whether it means seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanMs(pub(crate) u64);

/// A size: `4096`, `64KiB`, `1MiB`, `10MB`, in any letter case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for SpanMs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [
            ("ms", 1),
            ("s", 1_000),
            ("m", 60_000),
            ("h", 3_600_000),
            ("d", 86_400_000),
        ];
        read(text, &units).map(Self).ok_or_else(|| {
            "it is a span of time with its unit, such as 1500ms, 300s, 5m, 24h or 7d".to_owned()
        })
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [
            ("", 1),
            ("B", 1),
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("kB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
        ];
        read(text, &units)
            .map(Self)
            .ok_or_else(|| "it is a size such as 4096, 64KiB, 1MiB or 10MB".to_owned())
    }
}

/// A whole number with a unit.
fn read(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text
        .find(|char: char| !char.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    let factor = units
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))?
        .1;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_have_units_and_nothing_is_guessed() {
        let spans = [
            ("0s", 0),
            ("1500ms", 1_500),
            ("300s", 300_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
        ];
        for (text, ms) in spans {
            assert_eq!(text.parse(), Ok(SpanMs(ms)), "{text}");
        }
        let sizes = [
            ("512", 512),
            ("1B", 1),
            ("64KiB", 65_536),
            ("1MiB", 1_048_576),
            ("2GiB", 2_147_483_648),
            ("10MB", 10_000_000),
            ("64kb", 64_000),
            ("1 mib", 1_048_576),
        ];
        for (text, bytes) in sizes {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in [
            "",
            "s",
            "24",
            "0",
            "-1s",
            "1.5h",
            "5seconds",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert!(text.parse::<SpanMs>().is_err(), "{text}");
        }
        for text in [
            "",
            "KiB",
            "-1",
            "1 parsec",
            "1.5MiB",
            "18446744073709551615GiB",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
