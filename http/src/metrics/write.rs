//! How a scrape is written: Prometheus' text format 0.0.4.

use std::fmt::Write as _;
use std::sync::LazyLock;

use qq_core::admin::{BOUNDS_US, Histogram};

/// The bounds of buckets in seconds: they are the same in each of thousands of histograms.
static BOUNDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let seconds = |bound_us: &u64| {
        let mut text = String::new();
        put_seconds(&mut text, *bound_us);
        text
    };
    BOUNDS_US.iter().map(seconds).collect()
});

/// The lines of one histogram; `label` is one with its value, or empty.
pub(super) fn put_histogram(out: &mut String, name: &str, label: &str, histogram: &Histogram) {
    let comma = if label.is_empty() { "" } else { "," };
    let begin = format!("{name}_bucket{{{label}{comma}le=\"");
    for ((_, count), bound) in histogram.up_to().zip(BOUNDS.iter()) {
        out.push_str(&begin);
        out.push_str(bound);
        out.push_str("\"} ");
        put_count(out, count);
    }
    let count = histogram.count();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{begin}+Inf\"}} {count}");
    let labels = if label.is_empty() {
        String::new()
    } else {
        format!("{{{label}}}")
    };
    let _ = write!(out, "{name}_sum{labels} ");
    put_seconds(out, histogram.sum_us());
    let _ = writeln!(out, "\n{name}_count{labels} {count}");
}

/// A value, and the end of the line. Most of a scrape is this, so it goes without the machinery of formatting.
pub(super) fn put_count(out: &mut String, mut count: u64) {
    let mut digits = [b'0'; 20];
    let mut from = digits.len() - 1;
    loop {
        digits[from] = b'0' + u8::try_from(count % 10).unwrap_or(0);
        count /= 10;
        if count == 0 {
            break;
        }
        from -= 1;
    }
    // Digits are ASCII.
    out.push_str(std::str::from_utf8(&digits[from..]).unwrap_or_default());
    out.push('\n');
}

/// Microseconds as seconds, as short as they can be written: bounds are compared as texts.
fn put_seconds(out: &mut String, us: u64) {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    out.push_str(text.trim_end_matches('0').trim_end_matches('.'));
}

/// Milliseconds as seconds, and the end of the line.
pub(super) fn put_ms(out: &mut String, ms: u64) {
    let _ = writeln!(out, "{}.{:03}", ms / 1_000, ms % 1_000);
}

pub(super) fn put_head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A label's value as the format wants it.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mt_01_labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd}\té😀"), "a\\\"b\\\\c\\nd}\té😀");
    }

    #[test]
    fn a_histogram_is_written_with_bounds_in_seconds() {
        let mut histogram = Histogram::default();
        histogram.note_instant(1);
        histogram.note(std::time::Duration::from_micros(1_500), 2);
        histogram.note(std::time::Duration::from_secs(20), 1);
        let mut out = String::new();
        put_histogram(&mut out, "h", "queue=\"q\"", &histogram);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "h_bucket{queue=\"q\",le=\"0.0001\"} 1");
        assert_eq!(lines[3], "h_bucket{queue=\"q\",le=\"0.005\"} 3");
        assert_eq!(lines[10], "h_bucket{queue=\"q\",le=\"1\"} 3");
        assert_eq!(lines[14], "h_bucket{queue=\"q\",le=\"+Inf\"} 4");
        assert_eq!(lines[15], "h_sum{queue=\"q\"} 20.003");
        assert_eq!(lines[16], "h_count{queue=\"q\"} 4");
        out.clear();
        put_histogram(&mut out, "h", "", &histogram);
        assert!(out.starts_with("h_bucket{le=\"0.0001\"} 1\n") && out.ends_with("\nh_count 4\n"));
    }

    #[test]
    fn counts_are_written_as_they_are() {
        for count in [0, 7, 10, 1_234_567_890, u64::MAX] {
            let mut out = String::new();
            put_count(&mut out, count);
            assert_eq!(out, format!("{count}\n"));
        }
    }
}
