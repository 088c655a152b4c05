//! Keeps `docs/configuration.md` true: the table of keys there must be what the code says.

use super::Config;
use super::key::{Key, variable};
use super::stream::Stream;
use super::topology::{Binding, Exchange, Queue};

const PAGE: &str = include_str!("../../../../docs/configuration.md");

fn rows(heading: &str, table: &str, keys: Vec<Key<'_>>) -> String {
    let mut text = format!(
        "### `{heading}`\n\n| key | default | allowed | meaning |\n| --- | --- | --- | --- |\n"
    );
    for key in keys {
        let default = key
            .slot
            .show()
            .map_or_else(|| "not set".to_owned(), |value| format!("`{value}`"));
        let later = if key.is_later {
            " *(not available yet)*"
        } else {
            ""
        };
        let name = match table {
            "" => format!("`{}`", key.name),
            section => format!("`{}` `{}`", key.name, variable(section, key.name)),
        };
        text.push_str(&format!(
            "| {name} | {default} | {} | {}{later} |\n",
            key.slot.allowed(),
            key.help
        ));
    }
    text
}

fn reference() -> String {
    let mut config = Config::default();
    let mut parts: Vec<String> = config
        .sections()
        .into_iter()
        .map(|section| rows(&format!("[{}]", section.name), section.name, section.keys))
        .collect();
    parts.push(rows(
        "[[queue]]",
        "",
        Queue::new(&Config::default().defaults).keys(),
    ));
    parts.push(rows("[[stream]]", "", Stream::default().keys()));
    parts.push(rows("[[exchange]]", "", Exchange::default().keys()));
    parts.push(rows("[[binding]]", "", Binding::default().keys()));
    parts.join("\n")
}

#[test]
fn the_reference_page_says_what_the_code_does() {
    let begin = "<!-- reference: begin -->\n";
    let written = PAGE
        .split_once(begin)
        .and_then(|(_, rest)| rest.split_once("<!-- reference: end -->"));
    let written = written.map(|(table, _)| table.trim()).unwrap_or_default();
    let expected = reference();
    assert!(
        written == expected.trim(),
        "docs/configuration.md: between the reference marks must stand exactly:\n{expected}"
    );
}
