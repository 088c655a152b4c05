//! Schemas: which protobuf type the messages of a queue have, and whether they have it.
//!
//! | file | knows |
//! | --- | --- |
//! | `source` | `.proto` text or a descriptor set becomes a [`Schema`] |
//! | `shape` | the flat tables that a schema is compiled to |
//! | `validate` | whether bytes are a message of a schema, in one pass over them |
//! | `unfit` | why they are not |
//! | `compat` | which changes break readers or writers |
//! | `record` | a version as it is stored |
//! | `registry` | subjects, their versions and rules |
//! | `rule` | what a queue asks of its messages, as faces and broker hold it |
//! | `body` | which bytes of a message are the encoded value |
//!
//! A *subject* is the name that versions of a schema are registered under: that of its queue, or another one that the
//! queue names. Compiling costs milliseconds and happens on the task of whoever registers; checking a message costs
//! well below a microsecond per kilobyte and happens on the task of whoever publishes. The broker checks itself only
//! what nobody could check ahead of it: what comes through an exchange, and what was on its way while a schema changed.

mod body;
mod compat;
mod options;
mod record;
mod registry;
mod rule;
mod shape;
mod source;
mod unfit;
mod validate;

#[cfg(test)]
mod tests;

pub use body::body_of;
pub(crate) use body::octets;
pub use compat::{Compatibility, Finding, findings};
pub use record::SchemaVersion;
pub(crate) use registry::Registration;
pub use registry::{Candidate, Registry, RegistryLimits, SchemaRefused, SchemaSummary};
pub use rule::{Active, Rule, SchemaMode, is_exempt};
pub use source::{Fault, SOURCE_BYTES_MAX, Schema, Source};
pub use unfit::Unfit;
