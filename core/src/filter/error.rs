//! What can be wrong with a filter: said once, when it is compiled; evaluation cannot fail.

use std::fmt;

/// A filter that cannot be used. Nothing was changed by trying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Where in the text of a selector, in characters from 1; none for filters that have no text.
    pub column: Option<usize>,
    /// What is wrong, for people.
    pub text: String,
}

impl FilterError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            column: None,
            text: text.into(),
        }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            Some(column) => write!(f, "at character {column}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl std::error::Error for FilterError {}
