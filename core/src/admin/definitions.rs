//! A whole topology as one value.

use serde::{Deserialize, Serialize};

use crate::broker::{GroupSpec, QueueSpec};
use crate::route::{BindingSpec, ExchangeSpec};
use crate::schema::Candidate;

/// Everything that was declared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definitions {
    /// Of this format: 1.
    pub version: u32,
    /// Queues, by name.
    #[serde(default)]
    pub queues: Vec<QueueSpec>,
    /// Exchanges, by name.
    #[serde(default)]
    pub exchanges: Vec<ExchangeSpec>,
    /// Bindings.
    #[serde(default)]
    pub bindings: Vec<BindingSpec>,
    /// Consumer groups; each begins with what comes after it was made.
    #[serde(default)]
    pub groups: Vec<GroupSpec>,
    /// Schemas, compiled where they come in. As values they have the form of the interface that they came by.
    #[serde(skip)]
    pub schemas: Vec<Candidate>,
}

/// How many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Queues.
    pub queues: u64,
    /// Exchanges.
    pub exchanges: u64,
    /// Bindings.
    pub bindings: u64,
    /// Consumer groups.
    pub groups: u64,
    /// Schemas.
    pub schemas: u64,
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Were missing.
    pub created: Counted,
    /// Were there.
    pub unchanged: Counted,
}
