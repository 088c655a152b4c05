//! Tests of what is printed, by what a terminal shows of it.

use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::cell::{Kind, bytes, thousands, visible};
use super::*;

const COLUMNS: &[Column] = &[
    Column::new("NAME", "name", Text),
    Column::new("MESSAGES", "depth", Number),
    Column::new("STATE", "state", Text),
];

/// The columns of the terminal in which a word of a line begins.
fn column(line: &str, word: &str) -> usize {
    line[..line.find(word).expect("it is there")].width()
}

/// 4 wide characters, a combining accent, two emoji, a plain name, and one of 200 characters.
fn names() -> Vec<String> {
    let mut names = [
        "\u{4e2d}\u{6587}\u{961f}\u{5217}",
        "cafe\u{301}",
        "\u{1f600}\u{1f600}",
        "ok",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("x".repeat(200));
    names
}

#[test]
fn cl_01_columns_line_up_by_display_width() {
    let rows: Vec<Value> = names()
        .iter()
        .map(|name| json!({"name": name, "depth": 1_234_567, "state": "running"}))
        .collect();
    for width in [None, Some(80)] {
        let text = table::rows(COLUMNS, &rows, width);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), rows.len() + 1);
        let state = column(lines[0], "STATE");
        for line in &lines[1..] {
            assert_eq!(column(line, "running"), state, "{text}");
            assert!(line.contains("1 234 567"), "{text}");
        }
        if let Some(width) = width {
            assert!(lines.iter().all(|line| line.width() <= width), "{text}");
            assert!(lines[5].contains("xxx\u{2026} "), "{text}");
            assert!(!text.contains(&"x".repeat(200)));
        } else {
            assert!(text.contains(&"x".repeat(200)));
        }
    }
}

#[test]
fn cl_01_json_and_yaml_hold_the_whole_name() {
    for name in names() {
        let value = json!([{ "name": name }]);
        for format in [Format::Json, Format::Pretty] {
            let text = render(format, &value).expect("it can be written");
            assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
        }
        let text = render(Format::Yaml, &value).expect("it can be written");
        assert!(text.contains(&name), "{text}");
    }
    assert_eq!(
        render(Format::Json, &json!({"a": 1})).expect("JSON"),
        "{\"a\":1}\n"
    );
    // Words that YAML would take for something else are quoted.
    let text = render(Format::Yaml, &json!({"a": "yes", "b": "1:2", "c": ""})).expect("YAML");
    for word in ["yes", "1:2"] {
        let quoted = [format!("\"{word}\""), format!("'{word}'")];
        assert!(
            quoted.iter().any(|quoted| text.contains(quoted.as_str())),
            "{text}"
        );
    }
}

#[test]
fn a_table_is_never_narrower_than_can_be_read() {
    let rows = [json!({"name": "a-long-name-of-a-queue", "depth": 1, "state": "running"})];
    let text = table::rows(COLUMNS, &rows, Some(5));
    assert!(text.contains("a-long-\u{2026}"), "{text}");
    assert!(text.contains("running"), "{text}");
}

#[test]
fn what_peers_chose_cannot_steer_the_terminal() {
    let row = json!({"name": "a\u{1b}[2J\nb\u{202e}c", "depth": null});
    let text = table::rows(COLUMNS, &[row], None);
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("a\\u{1b}[2J\\nb\\u{202e}c"), "{text}");
    assert_eq!(visible("plain \u{fc}\u{4e2d}"), "plain \u{fc}\u{4e2d}");
}

#[test]
fn fields_show_names_first_and_what_is_inside() {
    let value = json!({
        "bytes": 5, "name": "q", "settings": {"max_length": null, "durable": true},
        "links": [{"id": "1"}], "alarms": [], "words": ["a", "b"],
    });
    let text = table::fields(&value, None);
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["name", "q"]);
    for line in [
        &["bytes", "5"][..],
        &["settings.max_length", "-"],
        &["settings.durable", "yes"],
        &["links.0.id", "1"],
        &["alarms"],
        &["words", "a,", "b"],
    ] {
        assert!(
            lines.iter().any(|found| found == line),
            "{line:?} in {text}"
        );
    }
}

#[test]
fn numbers_are_for_people() {
    for (number, text) in [
        (0, "0"),
        (999, "999"),
        (1_000, "1 000"),
        (1_234_567, "1 234 567"),
    ] {
        assert_eq!(thousands(number), text);
    }
    for (count, text) in [
        (0, "0 B"),
        (10_239, "10 239 B"),
        (10_240, "10 KiB"),
        (10 << 20, "10 MiB"),
        (u64::MAX, "16 383 PiB"),
    ] {
        assert_eq!(bytes(count), text);
    }
    let flag = Column::new("D", "d", Kind::Flag);
    assert_eq!(flag.show(&json!({"d": true})), "yes");
    assert_eq!(flag.show(&json!({"d": false})), "");
    assert_eq!(flag.show(&json!({})), "");
    let nested = Column::new("P", "totals.published", Number);
    assert_eq!(
        nested.show(&json!({"totals": {"published": 12_000}})),
        "12 000"
    );
    assert_eq!(nested.show(&json!({"totals": null})), "-");
}
