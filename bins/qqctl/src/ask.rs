//! Asking before something is lost.

use std::io::{IsTerminal, stderr, stdin};

use crate::failure::Failure;

/// Lets a person who sits at a terminal think again. Scripts say `--force`, or nothing: they are not asked, since nobody
/// would answer.
///
/// # Errors
/// `Refused` when the answer is not yes.
pub(crate) fn confirm(force: bool, what: &str) -> Result<(), Failure> {
    if force || !stdin().is_terminal() || !stderr().is_terminal() {
        return Ok(());
    }
    eprint!("{what}? [y/N] ");
    let mut line = String::new();
    let read = stdin().read_line(&mut line);
    match line.trim() {
        "y" | "Y" | "yes" if read.is_ok() => Ok(()),
        _ => Err(Failure::Refused("nothing was done".to_owned())),
    }
}
