//! Fuzz targets as plain functions of the bytes of an input. `cargo test` replays the committed corpora through them on
//! stable Rust; `fuzz/cargo-fuzz` wraps them for a fuzzer.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the replay of corpora reads files"
)]

pub mod binary_connection;
pub mod binary_frames;
pub mod connection;
mod dice;
pub mod frames;
pub mod http;
pub mod node;
pub mod schema;
pub mod sections;
pub mod selector;
pub mod types;
