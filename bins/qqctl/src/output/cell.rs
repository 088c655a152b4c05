//! One value of an answer as a person reads it.

use serde_json::Value;

/// A column of a table: its title, the field that it shows, and how.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// A field, or a path of fields with dots.
    pub(crate) field: &'static str,
    pub(crate) kind: Kind,
}

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As it is; a list by commas.
    Text,
    /// With a space between thousands, to the right.
    Number,
    /// As KiB, MiB and so on, to the right.
    Bytes,
    /// `yes`, or nothing.
    Flag,
}

impl Column {
    pub(crate) const fn new(title: &'static str, field: &'static str, kind: Kind) -> Self {
        Self { title, field, kind }
    }

    /// What this column shows of a row; `-` for what is not there.
    pub(crate) fn show(&self, row: &Value) -> String {
        let value = self
            .field
            .split('.')
            .try_fold(row, |value, field| value.get(field));
        match value {
            None | Some(Value::Null) if self.kind == Kind::Flag => String::new(),
            None | Some(Value::Null) => "-".to_owned(),
            Some(value) => show(self.kind, value),
        }
    }

    pub(crate) fn is_right(&self) -> bool {
        matches!(self.kind, Kind::Number | Kind::Bytes)
    }
}

fn show(kind: Kind, value: &Value) -> String {
    match (kind, value) {
        (Kind::Flag, Value::Bool(is_set)) => if *is_set { "yes" } else { "" }.to_owned(),
        (Kind::Number, Value::Number(number)) => match number.as_u64() {
            Some(whole) => thousands(whole),
            None => plain(value),
        },
        (Kind::Bytes, Value::Number(number)) => number.as_u64().map_or_else(|| plain(value), bytes),
        _ => plain(value),
    }
}

/// A value without its quotes, on one line, safe for a terminal.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(is_set) => if *is_set { "yes" } else { "no" }.to_owned(),
        Value::String(text) => visible(text),
        Value::Array(values)
            if values
                .iter()
                .all(|value| !value.is_object() && !value.is_array()) =>
        {
            values.iter().map(plain).collect::<Vec<_>>().join(", ")
        }
        other => visible(&other.to_string()),
    }
}

/// The text with control characters as escapes: what a peer chose must not steer a terminal or break a line.
pub(crate) fn visible(text: &str) -> String {
    let is_odd = |char: char| {
        char.is_control() || matches!(char, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if is_odd(char) {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
    }
    out
}

/// A number with its thousands apart.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A size in the unit that keeps it short.
pub(crate) fn bytes(count: u64) -> String {
    let mut unit = 0;
    let mut rest = count;
    while rest >= 10 * 1024 && unit < 5 {
        rest /= 1024;
        unit += 1;
    }
    format!(
        "{} {}",
        thousands(rest),
        ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]
    )
}
