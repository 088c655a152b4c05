//! Instruction counts of checking a message of 1 KiB with 20 fields against its schema.
//!
//! `docs/performance.md` says how to run this.

#![allow(
    missing_docs,
    reason = "the macros make public items that nobody reads"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark is a program, and ends as one"
)]

#[path = "../examples/sample/mod.rs"]
mod sample;

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use qq_core::schema::Schema;

fn prepared() -> (Schema, Vec<u8>) {
    (sample::schema(), sample::message())
}

#[library_benchmark]
#[bench::plain(prepared())]
fn check((schema, message): (Schema, Vec<u8>)) -> (Schema, Vec<u8>) {
    let checked = schema.check(black_box(&message), false);
    assert!(checked.is_ok());
    (schema, message)
}

library_benchmark_group!(name = schemas, benchmarks = check);
main!(library_benchmark_groups = schemas);
