//! Why a message does not have the type that its queue asks for.

/// A message that its queue does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The queue takes only messages with a schema, and has none.
    NoSchema,
    /// The body is not in a form that could be a message of the schema: more than one value, or none.
    NoBody,
    /// The bytes are not a message of the schema.
    Mismatch {
        /// The field, from the root: `lines[2].sku`. Empty: the message itself.
        path: String,
        /// The rule that it breaks, for people.
        what: String,
    },
}

impl Unfit {
    /// The field, from the root; empty where no field is meant.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Mismatch { path, .. } => path,
            Self::NoSchema | Self::NoBody => "",
        }
    }
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSchema => f.write_str("schema required for queue"),
            Self::NoBody => f.write_str("the body must be binary data"),
            Self::Mismatch { path, what } if path.is_empty() => f.write_str(what),
            Self::Mismatch { path, what } => write!(f, "{path}: {what}"),
        }
    }
}
