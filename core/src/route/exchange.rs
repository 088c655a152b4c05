//! The exchanges that always exist.

use super::{ExchangeKind, ExchangeSpec};

/// The exchanges with bindings that always exist: they are not declared, changed or deleted.
pub(super) const PREDECLARED: [(&str, ExchangeKind); 4] = [
    ("amq.direct", ExchangeKind::Direct),
    ("amq.topic", ExchangeKind::Topic),
    ("amq.fanout", ExchangeKind::Fanout),
    ("amq.headers", ExchangeKind::Headers),
];

/// Whether an exchange of that name always exists. The one without a name routes to the queue that the key names; the
/// others route by their bindings.
pub(super) fn is_predeclared(name: &str) -> bool {
    name.is_empty() || PREDECLARED.iter().any(|(known, _)| *known == name)
}

/// Definitions of the exchanges that always exist, the one without a name first: for listings.
pub fn predeclared() -> impl Iterator<Item = ExchangeSpec> {
    std::iter::once(("", ExchangeKind::Direct))
        .chain(PREDECLARED)
        .map(|(name, kind)| ExchangeSpec::new(name, kind))
}
