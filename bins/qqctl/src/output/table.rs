//! Tables by display width, without borders: easy to read, and to take apart with other tools.
//!
//! Wide characters count two columns and combining ones none. On a terminal the widest columns are cut, with a mark, so
//! that a row stays on its line; elsewhere nothing is cut.

use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::cell::{Column, plain};

/// Between columns.
const GAP: usize = 2;
/// No column is cut below this.
const WIDTH_MIN: usize = 8;
/// What shows that a value goes on.
const MARK: char = '…';

/// A row per element under the titles of the columns.
pub(super) fn rows(columns: &[Column], rows: &[Value], width_max: Option<usize>) -> String {
    let titles = columns
        .iter()
        .map(|column| column.title.to_owned())
        .collect();
    let mut lines: Vec<Vec<String>> = vec![titles];
    lines.extend(
        rows.iter()
            .map(|row| columns.iter().map(|column| column.show(row)).collect()),
    );
    let right: Vec<bool> = columns.iter().map(Column::is_right).collect();
    lay_out(&lines, &right, width_max)
}

/// A field and its value per line; fields of fields by dots, lists of things one per line.
pub(super) fn fields(value: &Value, width_max: Option<usize>) -> String {
    let mut lines = Vec::new();
    flatten("", value, &mut lines);
    lay_out(&lines, &[false, false], width_max)
}

fn flatten(path: &str, value: &Value, lines: &mut Vec<Vec<String>>) {
    let below = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            // What a thing is called comes first.
            let is_name = |name: &str| matches!(name, "name" | "id");
            let (first, rest): (Vec<_>, Vec<_>) =
                fields.iter().partition(|(name, _)| is_name(name));
            for (name, value) in first.into_iter().chain(rest) {
                flatten(&below(name), value, lines);
            }
        }
        Value::Array(values)
            if values
                .iter()
                .any(|value| value.is_object() || value.is_array()) =>
        {
            for (at, value) in values.iter().enumerate() {
                flatten(&below(&at.to_string()), value, lines);
            }
        }
        other => lines.push(vec![path.to_owned(), plain(other)]),
    }
}

fn lay_out(lines: &[Vec<String>], right: &[bool], width_max: Option<usize>) -> String {
    let mut widths = vec![0; right.len()];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.width());
        }
    }
    if let Some(max) = width_max {
        narrow(&mut widths, max);
    }
    let mut out = String::new();
    for line in lines {
        let mut row = String::new();
        for ((cell, width), is_right) in line.iter().zip(&widths).zip(right) {
            if !row.is_empty() {
                row.push_str(&" ".repeat(GAP));
            }
            let cell = cut(cell, *width);
            let padding = " ".repeat(width.saturating_sub(cell.width()));
            if *is_right {
                row.push_str(&padding);
                row.push_str(&cell);
            } else {
                row.push_str(&cell);
                row.push_str(&padding);
            }
        }
        out.push_str(row.trim_end());
        out.push('\n');
    }
    out
}

/// Takes from the widest column until all fit, or until none can give any more.
fn narrow(widths: &mut [usize], max: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(max);
    while over > 0 {
        let Some(widest) = widths
            .iter_mut()
            .max_by_key(|width| **width)
            .filter(|width| **width > WIDTH_MIN)
        else {
            return;
        };
        *widest -= 1;
        over -= 1;
    }
}

/// The text in at most `width` columns.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for char in text.chars() {
        used += char.width().unwrap_or(0);
        if used > width {
            break;
        }
        out.push(char);
    }
    out.push(MARK);
    out
}
