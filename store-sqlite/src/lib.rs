//! The durable store: a journal of batches in one SQLite file.
//!
//! **Layout.** Each flush adds a row to the table `journal`: the messages of all queues that came since the last one,
//! and which older messages left or were returned. Queues are rows of the table `definition`. A row whose messages have
//! all left is deleted whole; one that is mostly dead is written anew by housekeeping. One table row per message would
//! cost an update of a tree per message and per settlement; this costs one per batch.
//!
//! **Promises.** When a flush returns, everything submitted before is on disk ([`StoreConfig::sync_writes`]). What is
//! read is what was written: every message, row and definition has a checksum, rows are numbered without gaps, and a
//! separate row says what all others add up to, so lost, repeated, swapped and stale rows are found out when the store
//! is opened, and damaged messages when they are read. A store that is damaged refuses to open; [`check`] says what is
//! wrong and [`salvage`] keeps what can be verified.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a store touches the disk"
)]

mod config;
mod definition;
mod fault;
mod fetch;
mod gone;
mod index;
mod keys;
mod lock;
mod plan;
mod ranges;
mod recover;
mod report;
mod room;
mod row;
mod schema;
mod state;
mod store;
mod survey;
mod tend;
mod topology;
mod upkeep;
mod walscan;

pub use config::StoreConfig;
pub use report::{Lost, Report};
pub use schema::FORMAT;
pub use store::SqliteStore;
pub use upkeep::{backup, check, restore, salvage};
