//! The durable store: a journal of batches in one SQLite file.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a store touches the disk"
)]
