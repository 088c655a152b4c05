//! The exchanges that always exist.

/// Whether an exchange of that name exists. The one without a name routes to the queue that the key names; the others
/// route by bindings, of which there are none yet.
pub(crate) fn is_predeclared(name: &str) -> bool {
    matches!(
        name,
        "" | "amq.direct" | "amq.topic" | "amq.fanout" | "amq.headers"
    )
}
