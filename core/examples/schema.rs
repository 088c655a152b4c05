//! How long it takes to check a message of 1 KiB with 20 fields, beside building it, and to compile a large schema.

#![allow(
    clippy::disallowed_methods,
    reason = "an example that measures reads the clock"
)]

mod sample;

use std::hint::black_box;
use std::time::Instant;

use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};
use qq_core::schema::{Schema, Source};

const ROUNDS: usize = 40;
const CALLS: u32 = 20_000;

/// Nanoseconds of one call: the fastest of many short rounds.
fn measure(mut call: impl FnMut()) -> f64 {
    (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            (0..CALLS).for_each(|_| call());
            began.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() {
    let (schema, message) = (sample::schema(), sample::message());
    let check = measure(|| {
        schema.check(black_box(&message), false).expect("it is one");
    });
    println!("checking: {check:.0} ns");
    let pool = DescriptorPool::decode(schema.descriptor().clone()).expect("it was compiled");
    let order = pool.get_message_by_name("shop.Order").expect("it is there");
    let build = measure(|| {
        let built = DynamicMessage::decode(order.clone(), black_box(&message[..]));
        black_box(built.expect("it is one").encoded_len());
    });
    println!("building a dynamic message: {build:.0} ns");
    let fields: String = (1..8_000).map(|n| format!("int32 f{n}={n};")).collect();
    let large = Source::Text(format!("syntax=\"proto3\";message M{{{fields}}}"));
    let began = Instant::now();
    Schema::compile(&large, "M").expect("it is one");
    println!("compiling 7,999 fields: {} ms", began.elapsed().as_millis());
}
