//! Keys: a name, a place for the value, and a sentence about it. One list per section serves reading files, reading the
//! environment, printing and the reference page, so that none of them can miss a key.

use super::setting::Setting;

/// One key of a section, with the place where its value is kept.
pub(crate) struct Key<'a> {
    pub(crate) name: &'static str,
    pub(crate) slot: &'a mut dyn Setting,
    /// For the reference; begins in lower case, no full stop.
    pub(crate) help: &'static str,
    /// Accepted and checked, but without effect in this build.
    pub(crate) is_later: bool,
}

impl<'a> Key<'a> {
    /// A key that has its effect.
    pub(crate) fn new(name: &'static str, slot: &'a mut dyn Setting, help: &'static str) -> Self {
        Self {
            name,
            slot,
            help,
            is_later: false,
        }
    }

    /// A key whose feature this build does not have.
    pub(crate) fn later(name: &'static str, slot: &'a mut dyn Setting, help: &'static str) -> Self {
        Self {
            name,
            slot,
            help,
            is_later: true,
        }
    }
}

/// One section: a name and its keys.
pub(crate) struct Section<'a> {
    pub(crate) name: &'static str,
    pub(crate) keys: Vec<Key<'a>>,
}

/// The environment variable of a key.
pub(crate) fn variable(section: &str, key: &str) -> String {
    format!("QQ_{}_{}", section.to_uppercase(), key.to_uppercase())
}
