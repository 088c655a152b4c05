//! Instruction counts of routing: one message through an exchange of each kind with 1,000 bindings, 10 of which match.
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

use std::hint::black_box;
use std::sync::Arc;

use gungraun::{library_benchmark, library_benchmark_group, main};
use qq_core::route::{
    BindingSpec, ExchangeId, Exchanges, NoHeaders, QueueRef, Routed, TableLimits,
};
use qq_core::vocab::QueueId;

const BINDINGS: usize = 1_000;
const MATCHES: usize = 10;
const KEY: &str = "eu.orders.created";

struct Bench {
    table: Exchanges,
    exchange: ExchangeId,
    out: Vec<QueueRef>,
}

/// Every hundredth binding has the key, or a pattern for it; the others have keys of their own.
fn bound_to(exchange: &'static str, matching: &[&str]) -> Bench {
    let mut table = Exchanges::new(7, TableLimits::default());
    for n in 0..BINDINGS {
        let key = if n % (BINDINGS / MATCHES) == 0 {
            matching[n % matching.len()].to_owned()
        } else {
            format!("eu.orders.{n}")
        };
        let queue = format!("q{n}");
        let spec = BindingSpec::to_queue(exchange, &queue, &key);
        let target = QueueRef {
            id: QueueId(n as u64 + 1),
            slot: n,
        };
        table
            .apply_bind(Arc::new(spec), Some((target, true)))
            .expect("the exchange is there");
    }
    let exchange = table.find(exchange).expect("predeclared");
    let mut bench = Bench {
        table,
        exchange,
        out: Vec::with_capacity(BINDINGS),
    };
    // Buffers of the table grow with the first message.
    assert!(route_once(&mut bench) >= MATCHES);
    bench
}

fn route_once(bench: &mut Bench) -> usize {
    let routed = bench.table.route(
        bench.exchange,
        black_box(KEY.as_bytes()),
        &NoHeaders,
        &mut bench.out,
    );
    assert_eq!(routed, Routed::Queues);
    bench.out.len()
}

#[library_benchmark]
#[bench::direct(bound_to("amq.direct", &[KEY]))]
#[bench::topic(bound_to("amq.topic", &["eu.*.created", "eu.#", KEY]))]
#[bench::fanout(bound_to("amq.fanout", &[""]))]
fn route(mut bench: Bench) -> (Bench, usize) {
    let found = route_once(&mut bench);
    (bench, found)
}

library_benchmark_group!(name = routes, benchmarks = [route]);

main!(library_benchmark_groups = routes);
