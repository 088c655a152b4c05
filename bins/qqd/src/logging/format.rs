//! The two forms of a line. What peers chose (names, addresses) may be part of a text, so control characters are escaped:
//! nobody can forge a line or move a terminal's cursor.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use env_logger::fmt::Formatter;
use log::Record;

/// `2026-11-30T06:41:00.123Z INFO  qqd: text`
pub(super) fn pretty(out: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    let style = out.default_level_style(record.level());
    let time = out.timestamp_millis();
    let text = escape(&record.args().to_string(), false);
    writeln!(
        out,
        "{time} {style}{:<5}{style:#} {}: {text}",
        record.level(),
        record.target()
    )
}

/// `{"time":"...","level":"INFO","target":"qqd","text":"..."}`
pub(super) fn json(out: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    let time = out.timestamp_millis();
    let target = escape(record.target(), true);
    let text = escape(&record.args().to_string(), true);
    writeln!(
        out,
        "{{\"time\":\"{time}\",\"level\":\"{}\",\"target\":\"{target}\",\"text\":\"{text}\"}}",
        record.level()
    )
}

/// Escapes control characters; for JSON (RFC 8259, section 7) quotes and backslashes as well.
fn escape(text: &str, is_json: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' if is_json => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if c.is_control() => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_leave_its_line() {
        assert_eq!(
            escape("a\nb\u{1b}[0m \"é\" \\", false),
            "a\\u000ab\\u001b[0m \"é\" \\"
        );
        assert_eq!(escape("a\nb \"é\" \\", true), "a\\u000ab \\\"é\\\" \\\\");
    }
}
