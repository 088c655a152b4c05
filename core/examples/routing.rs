//! Measures what a message costs at each kind of exchange: nanoseconds per message, least of several rounds.
//!
//! `cargo run --release -p qq-core --example routing`. Prints only; nothing is asserted about time.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measurement reads the clock"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use qq_core::route::{
    BindingSpec, Datum, ExchangeKind, ExchangeSpec, Exchanges, Headers, NoHeaders, QueueRef,
    Scalar, TableLimits,
};
use qq_core::vocab::QueueId;

/// Many short rounds: the fastest is one that nothing else on the machine interrupted.
const ROUNDS: u32 = 60;
const MESSAGES: usize = 10_000;

struct Listed(Vec<(String, Datum)>);

impl Headers for Listed {
    fn each(&self, each: &mut dyn FnMut(&str, Scalar<'_>)) {
        for (name, value) in &self.0 {
            each(name, value.scalar());
        }
    }
}

/// A table with one exchange `x`.
fn table(kind: ExchangeKind) -> Exchanges {
    let mut table = Exchanges::new(1, TableLimits::default());
    table.apply_declare(Arc::new(ExchangeSpec::new("x", kind)));
    table
}

fn bind(table: &mut Exchanges, queue: u64, spec: BindingSpec) {
    let queue = QueueRef {
        id: QueueId(queue),
        slot: 0,
    };
    table
        .apply_bind(Arc::new(spec), Some((queue, true)))
        .expect("a good binding");
}

/// The fastest of several rounds over the given messages.
fn measure(what: &str, table: &mut Exchanges, messages: &[(String, &dyn Headers)]) {
    let id = table.find("x").expect("declared");
    let mut out = Vec::new();
    let mut least_ns = f64::MAX;
    let mut queues = 0;
    for _ in 0..ROUNDS {
        queues = 0;
        let begin = Instant::now();
        for (key, headers) in messages.iter().cycle().take(MESSAGES) {
            let _ = black_box(table.route(id, black_box(key.as_bytes()), *headers, &mut out));
            queues += out.len();
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let each_ns = begin.elapsed().as_nanos() as f64 / MESSAGES as f64;
        least_ns = least_ns.min(each_ns);
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let fan = queues as f64 / MESSAGES as f64;
    println!("{what:<58} {least_ns:>10.1} ns/message, {fan:.2} queues each");
}

fn keyed(keys: &[String]) -> Vec<(String, &'static dyn Headers)> {
    let headers: &'static dyn Headers = &NoHeaders;
    keys.iter().map(|key| (key.clone(), headers)).collect()
}

/// Keys of five words, the n-th of many.
fn key(n: usize) -> String {
    format!(
        "region{}.site{}.line{}.cell{}.sensor{n}",
        n % 7,
        n % 31,
        n % 101,
        n % 997
    )
}

fn direct(bindings: usize) {
    let mut all = table(ExchangeKind::Direct);
    for n in 0..bindings {
        bind(
            &mut all,
            n as u64,
            BindingSpec::to_queue("x", &format!("q{n}"), &key(n)),
        );
    }
    let keys: Vec<_> = (0..bindings).map(key).collect();
    measure(
        &format!("direct, {bindings} bindings, keys in turn"),
        &mut all,
        &keyed(&keys),
    );
}

/// The n-th pattern of one sort.
type Pattern = fn(usize) -> String;

/// Sorts of patterns, each of which takes the n-th key and hardly any other.
const PATTERNS: [(&str, Pattern); 4] = [
    ("no wildcards", key),
    ("half with * and #", |n| {
        if n % 2 == 1 {
            format!("region{}.*.line{}.#.sensor{n}", n % 7, n % 101)
        } else {
            key(n)
        }
    }),
    ("* first and # within", |n| {
        format!("*.site{}.#.sensor{n}", n % 31)
    }),
    ("# first", |n| format!("#.cell{}.sensor{n}", n % 997)),
];

fn topic(bindings: usize, kind: &str, pattern: Pattern) {
    let mut all = table(ExchangeKind::Topic);
    for n in 0..bindings {
        let spec = BindingSpec::to_queue("x", &format!("q{n}"), &pattern(n));
        bind(&mut all, n as u64, spec);
    }
    let keys: Vec<_> = (0..bindings).map(key).collect();
    measure(
        &format!("topic, {bindings} bindings, {kind}, keys in turn"),
        &mut all,
        &keyed(&keys),
    );
    measure(
        &format!("topic, {bindings} bindings, {kind}, one key"),
        &mut all,
        &keyed(&[key(bindings / 2)]),
    );
}

fn fanout(queues: usize) {
    let mut all = table(ExchangeKind::Fanout);
    for n in 0..queues {
        let spec = BindingSpec::to_queue("x", &format!("q{n}"), "");
        bind(&mut all, n as u64, spec);
    }
    measure(
        &format!("fanout, {queues} queues"),
        &mut all,
        &keyed(&["k".to_owned()]),
    );
}

fn headers(bindings: usize, is_any: bool, values: usize) {
    let mut all = table(ExchangeKind::Headers);
    for n in 0..bindings {
        let mut spec = BindingSpec::to_queue("x", &format!("q{n}"), "");
        let mode = if is_any { "any" } else { "all" };
        spec.arguments.insert("x-match".to_owned(), mode.into());
        let value = i64::try_from(n % values).expect("small");
        spec.arguments
            .insert("tenant".to_owned(), Datum::Int(value));
        spec.arguments
            .insert("kind".to_owned(), format!("k{n}").as_str().into());
        bind(&mut all, n as u64, spec);
    }
    let messages: Vec<_> = (0..bindings)
        .map(|n| {
            let value = i64::try_from(n % values).expect("small");
            Listed(vec![
                ("trace".to_owned(), "0123456789abcdef".into()),
                ("tenant".to_owned(), Datum::Int(value)),
                ("kind".to_owned(), format!("k{n}").as_str().into()),
                ("weight".to_owned(), Datum::Float(0.5)),
            ])
        })
        .collect();
    let messages: Vec<(String, &dyn Headers)> = messages
        .iter()
        .map(|listed| (String::new(), listed as &dyn Headers))
        .collect();
    let mode = if is_any { "any" } else { "all" };
    measure(
        &format!("headers {mode}, {bindings} bindings, {values} values of the first"),
        &mut all,
        &messages,
    );
}

fn main() {
    for bindings in [1, 1_000, 100_000] {
        direct(bindings);
    }
    for bindings in [1, 1_000, 10_000] {
        for (kind, pattern) in PATTERNS {
            topic(bindings, kind, pattern);
        }
    }
    for queues in [1, 10, 1_000] {
        fanout(queues);
    }
    for (is_any, values) in [(false, 1_000), (false, 10), (false, 1), (true, 10)] {
        headers(1_000, is_any, values);
    }
}
