//! What is done with a store instead of serving it: checking, salvaging, copying, restoring.

use std::process::ExitCode;

use crate::args::Task;
use crate::complain;
use crate::config::Config;

/// Does it and reports on standard output.
pub(crate) fn maintain(task: Task<'_>, config: &Config) -> ExitCode {
    let backend = config.storage.backend.0;
    complain([format!(
        "{task:?}: [storage] backend = {backend:?} keeps nothing that could be worked on"
    )])
}
