//! What is wrong with a configuration, as one line that names where, what and the allowed form.

use std::fmt;

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A line of a file; 0 = the file as a whole.
    File { path: String, line: usize },
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line: 0 } => write!(f, "{path}"),
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Where.
    pub(crate) origin: Origin,
    /// What, and what is allowed; one line.
    pub(crate) text: String,
}

impl Problem {
    /// A problem; line breaks in `text` become spaces, so that every problem stays one line.
    pub(crate) fn new(origin: Origin, text: impl AsRef<str>) -> Self {
        let words: Vec<&str> = text.as_ref().split_whitespace().collect();
        Self {
            origin,
            text: words.join(" "),
        }
    }

    /// For sorting: files by line first, then variables by name.
    pub(crate) fn sort_key(&self) -> (usize, String) {
        match &self.origin {
            Origin::File { line, .. } => (*line, String::new()),
            Origin::Variable(name) => (usize::MAX, name.clone()),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.text)
    }
}
