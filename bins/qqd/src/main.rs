//! The broker daemon.
#![forbid(unsafe_code)]
fn main() {}
