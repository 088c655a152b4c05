//! Sizes and durations: numbers with a unit, never guessed.

use std::time::Duration;

use jiff::SignedDuration;

use super::raw::Raw;
use super::setting::{Setting, toml_text};

/// Bytes within bounds: a number, or a text with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    value: u64,
    min: u64,
    max: u64,
}

const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

impl Size {
    pub(crate) const fn new(value: u64, min: u64, max: u64) -> Self {
        assert!(min <= value && value <= max);
        Self { value, min, max }
    }

    pub(crate) const fn value(self) -> u64 {
        self.value
    }

    /// The value in a type that its upper bound fits.
    ///
    /// # Panics
    /// When the bound does not fit: a mistake in this crate, which a test of `serve` looks for.
    pub(crate) fn to<T: TryFrom<u64>>(self) -> T {
        T::try_from(self.value)
            .ok()
            .expect("the upper bound of a size fits its use")
    }
}

/// Reads `4096`, `"4096"`, `"64KiB"`, `"1 MB"`. No sign, no fraction.
pub(crate) fn parse_size(raw: Raw<'_>) -> Option<u64> {
    if let Some(number) = raw.integer() {
        return u64::try_from(number).ok();
    }
    let text = raw.text()?.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    let factor = if unit.is_empty() {
        1
    } else {
        UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))?
            .1
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A size in the largest binary unit that shows it exactly.
pub(crate) fn show_size(bytes: u64) -> String {
    for (unit, factor) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes != 0 && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    bytes.to_string()
}

impl Setting for Size {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        let value = parse_size(raw).ok_or(())?;
        if !(self.min..=self.max).contains(&value) {
            return Err(());
        }
        self.value = value;
        Ok(())
    }

    fn allowed(&self) -> String {
        format!(
            "a size from {} to {}, in bytes or with a unit such as \"64KiB\" or \"1MiB\"",
            show_size(self.min),
            show_size(self.max)
        )
    }

    fn show(&self) -> Option<String> {
        let text = show_size(self.value);
        Some(if text.bytes().all(|b| b.is_ascii_digit()) {
            text
        } else {
            toml_text(&text)
        })
    }
}

/// A duration within bounds, in whole milliseconds. 0 means "off" where the bounds say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    ms: u64,
    min_ms: u64,
    max_ms: u64,
    can_be_off: bool,
}

impl Span {
    pub(crate) const fn new(ms: u64, min_ms: u64, max_ms: u64) -> Self {
        assert!(min_ms <= ms && ms <= max_ms);
        Self {
            ms,
            min_ms,
            max_ms,
            can_be_off: false,
        }
    }

    /// "0s" switches off what the duration measures.
    pub(crate) const fn or_off(mut self) -> Self {
        self.can_be_off = true;
        self
    }

    pub(crate) const fn ms(self) -> u64 {
        self.ms
    }

    pub(crate) const fn duration(self) -> Duration {
        Duration::from_millis(self.ms)
    }

    /// The milliseconds in a type that the upper bound fits.
    ///
    /// # Panics
    /// When the bound does not fit: a mistake in this crate, which a test of `serve` looks for.
    pub(crate) fn to<T: TryFrom<u64>>(self) -> T {
        T::try_from(self.ms)
            .ok()
            .expect("the upper bound of a duration fits its use")
    }
}

/// Reads "300s", "1500ms", "5m", "1h 30m", "1.5h": always with a unit, never negative, whole milliseconds.
pub(crate) fn parse_span_ms(raw: Raw<'_>) -> Option<u64> {
    let text = raw.text()?;
    let span: SignedDuration = text.parse().ok()?;
    if span.subsec_nanos() % 1_000_000 != 0 {
        return None;
    }
    u64::try_from(span.as_millis()).ok()
}

/// A duration in the first of hours, seconds and milliseconds that shows it exactly.
pub(crate) fn show_span(ms: u64) -> String {
    if ms != 0 && ms.is_multiple_of(3_600_000) {
        format!("{}h", ms / 3_600_000)
    } else if ms.is_multiple_of(1_000) {
        format!("{}s", ms / 1_000)
    } else {
        format!("{ms}ms")
    }
}

impl Setting for Span {
    fn read(&mut self, raw: Raw<'_>) -> Result<(), ()> {
        let ms = parse_span_ms(raw).ok_or(())?;
        let is_off = self.can_be_off && ms == 0;
        if !is_off && !(self.min_ms..=self.max_ms).contains(&ms) {
            return Err(());
        }
        self.ms = ms;
        Ok(())
    }

    fn allowed(&self) -> String {
        format!(
            "a duration from {} to {} with a unit, such as \"300s\", \"1500ms\" or \"5m\"{}",
            show_span(self.min_ms),
            show_span(self.max_ms),
            if self.can_be_off {
                ", or \"0s\" for none"
            } else {
                ""
            }
        )
    }

    fn show(&self) -> Option<String> {
        Some(toml_text(&show_span(self.ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("512", Some(512)),
            ("1MiB", Some(1_048_576)),
            ("1 mib", Some(1_048_576)),
            ("2GB", Some(2_000_000_000)),
            ("64kb", Some(64_000)),
            ("-1", None),
            ("1.5MiB", None),
            ("MiB", None),
            ("", None),
            ("1 parsec", None),
            ("99999999999999999999", None),
            ("18446744073709551615GiB", None),
        ] {
            assert_eq!(parse_size(Raw::Text(text)), bytes, "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_as_they_can_be_read() {
        for bytes in [
            0,
            1,
            511,
            512,
            1_024,
            131_072,
            1_048_576,
            3 << 30,
            1_000_000,
            u64::MAX,
        ] {
            assert_eq!(parse_size(Raw::Text(&show_size(bytes))), Some(bytes));
        }
        assert_eq!(show_size(131_072), "128KiB");
    }

    #[test]
    fn durations_are_shown_as_they_can_be_read() {
        for ms in [
            0, 1, 999, 1_000, 1_500, 300_000, 3_600_000, 5_400_000, 86_400_000,
        ] {
            assert_eq!(parse_span_ms(Raw::Text(&show_span(ms))), Some(ms));
        }
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, ms) in [
            ("300s", Some(300_000)),
            ("1500ms", Some(1_500)),
            ("5m", Some(300_000)),
            ("1.5h", Some(5_400_000)),
            ("1h 30m", Some(5_400_000)),
            ("5seconds", Some(5_000)),
            ("0s", Some(0)),
            ("300", None),
            ("-1s", None),
            ("", None),
            ("1us", None),
            ("s", None),
            ("soon", None),
        ] {
            assert_eq!(parse_span_ms(Raw::Text(text)), ms, "{text}");
        }
    }
}
