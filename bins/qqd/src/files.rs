//! The limit of open files: every connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, as far as an administrator allows us anyway. What cannot be raised stays;
/// the runtime then admits fewer connections.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        log::warn!(
            "the limit of open files stays at {:?}: {error}",
            limit.current
        );
    }
}
