//! What can go wrong, and the exit code that says so.

use std::fmt;

/// Why a command did not do what it was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The broker said no, or its answer makes no sense. Exit code 1.
    Refused(String),
    /// The command line or what it names cannot be used; nothing was sent. Exit code 2.
    Usage(String),
    /// Nobody answers at the address, or not in time. Exit code 3.
    Unreachable(String),
    /// Whoever reads our output has enough. Not an error: exit code 0, nothing said.
    PipeClosed,
}

impl Failure {
    /// The exit code that scripts see.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::PipeClosed => 0,
            Self::Refused(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(text) | Self::Usage(text) | Self::Unreachable(text) => f.write_str(text),
            Self::PipeClosed => Ok(()),
        }
    }
}
