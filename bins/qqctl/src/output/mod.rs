//! What commands print: tables for people, JSON and YAML for programs.
//!
//! Everything goes to standard output in one piece at the end, so that a command that fails has printed nothing that
//! could be taken for its result. Remarks and progress go to standard error.

mod cell;
mod table;

use std::io::{ErrorKind, IsTerminal, Write, stdout};

use serde_json::Value;

use crate::client::Answer;
use crate::failure::Failure;

pub(crate) use cell::Kind::{Bytes, Flag, Number, Text};
pub(crate) use cell::{Column, bytes, plain, thousands, visible};

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// JSON on one line.
    Json,
    /// YAML.
    Yaml,
    /// JSON with line breaks.
    Pretty,
}

impl Format {
    pub(crate) const NAMES: [&str; 4] = ["table", "json", "yaml", "pretty"];
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "table" => Ok(Self::Table),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "pretty" => Ok(Self::Pretty),
            _ => Err(format!("it is one of {}", Self::NAMES.join(", "))),
        }
    }
}

/// How and where to print.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Output {
    pub(crate) format: Format,
    /// Print the body of the answer as it came, whatever the format says.
    pub(crate) raw: bool,
}

impl Output {
    /// Prints a list, one row per element.
    pub(crate) fn list(self, answer: &Answer, columns: &[Column]) -> Result<(), Failure> {
        self.list_as(answer, columns, |_| {})
    }

    /// The same, with something done to each row first.
    pub(crate) fn list_as(
        self,
        answer: &Answer,
        columns: &[Column],
        prepare: impl Fn(&mut Value),
    ) -> Result<(), Failure> {
        if self.raw || self.format != Format::Table {
            return self.data(answer);
        }
        let Some(rows) = answer.json.as_array() else {
            return Err(Failure::Refused(
                "the broker answered with something that is no list".to_owned(),
            ));
        };
        let mut rows = rows.clone();
        rows.iter_mut().for_each(prepare);
        print(&table::rows(columns, &rows, self.width()))?;
        if let Some(total) = answer.total.filter(|total| *total > rows.len() as u64) {
            eprintln!(
                "{} of {total}: --limit and --offset show others",
                rows.len()
            );
        }
        Ok(())
    }

    /// Prints one thing, one field per line.
    pub(crate) fn fields(self, answer: &Answer) -> Result<(), Failure> {
        if self.raw || self.format != Format::Table {
            return self.data(answer);
        }
        print(&table::fields(&answer.json, self.width()))
    }

    /// Says what was done in a sentence; programs get the answer.
    pub(crate) fn done(self, answer: &Answer, sentence: &str) -> Result<(), Failure> {
        if self.raw || self.format != Format::Table {
            return self.data(answer);
        }
        print(&format!("{sentence}\n"))
    }

    /// A text for people; programs get the answer.
    pub(crate) fn text(self, answer: &Answer, text: &str) -> Result<(), Failure> {
        if self.raw || self.format != Format::Table {
            return self.data(answer);
        }
        print(text)
    }

    fn data(self, answer: &Answer) -> Result<(), Failure> {
        if self.raw {
            return print(&answer.raw);
        }
        print(&render(self.format, &answer.json)?)
    }

    /// Columns of the terminal; none when the output goes elsewhere, where nothing is cut.
    fn width(self) -> Option<usize> {
        if !stdout().is_terminal() {
            return None;
        }
        let asked = std::env::var("COLUMNS")
            .ok()
            .and_then(|text| text.parse().ok());
        asked.or_else(|| {
            let size = rustix::termios::tcgetwinsize(stdout()).ok()?;
            (size.ws_col > 0).then_some(usize::from(size.ws_col))
        })
    }
}

/// A value in one of the formats for programs.
fn render(format: Format, json: &Value) -> Result<String, Failure> {
    let text = match format {
        Format::Table | Format::Json => json.to_string(),
        Format::Pretty => format!("{json:#}"),
        Format::Yaml => serde_saphyr::to_string(json).map_err(|error| {
            Failure::Refused(format!("the answer cannot be written as YAML: {error}"))
        })?,
    };
    Ok(if text.ends_with('\n') {
        text
    } else {
        text + "\n"
    })
}

/// Writes to standard output; a reader that went away is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::PipeClosed,
        _ => Failure::Refused(format!("the output cannot be written: {error}")),
    })
}

#[cfg(test)]
mod tests;
