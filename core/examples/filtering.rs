//! Measures what a filter costs a message: nanoseconds per message, least of several rounds.
//!
//! `cargo run --release -p qq-core --example filtering`. Prints only; nothing is asserted about time.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measurement reads the clock"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use qq_core::filter::{Filter, FilterSpec, MessageView, SectionName};
use qq_core::route::{
    BindingSpec, Datum, ExchangeKind, ExchangeSpec, Exchanges, QueueRef, TableLimits,
};
use qq_core::vocab::{Envelope, Format, Message, QueueId};
use qq_proto_amqp::types::{Described, Map, Str, Value};

/// Many short rounds: the fastest is one that nothing else on the machine interrupted.
const ROUNDS: u32 = 60;
const MESSAGES: usize = 10_000;

fn section(code: u64, value: Value, payload: &mut BytesMut) {
    let descriptor = Value::Ulong(code);
    Value::Described(Box::new(Described { descriptor, value })).encode(payload);
}

/// The n-th message: properties with a subject, six application properties, a body of 100 bytes.
fn message(n: usize) -> Message {
    let text = |text: &str| Value::Str(Str::from(text));
    let mut payload = BytesMut::new();
    let properties = vec![
        Value::Ulong(n as u64),
        Value::Null,
        text("orders"),
        text("order.created"),
    ];
    section(0x73, Value::List(properties), &mut payload);
    let own: Map = vec![
        (text("trace"), text("0123456789abcdef")),
        (
            text("tenant"),
            Value::Uint(u32::try_from(n % 1_000).expect("small")),
        ),
        (text("region"), text("emea")),
        (text("price"), Value::Double(9.5_f64.to_bits())),
        (text("premium"), Value::Bool(n.is_multiple_of(2))),
        (text("kind"), text(&format!("k{}", n % 1_000))),
    ];
    section(0x74, Value::Map(own), &mut payload);
    section(
        0x75,
        Value::Binary(Bytes::from_static(&[7; 100])),
        &mut payload,
    );
    Message {
        envelope: Envelope {
            subject: Some(Bytes::from_static(b"order.created")),
            ..Envelope::default()
        },
        format: Format::Amqp(0),
        payload: payload.freeze(),
    }
}

/// The fastest of several rounds; `each` says whether a message counts.
fn measure(what: &str, messages: &[Message], mut each: impl FnMut(&Message) -> bool) {
    let mut least_ns = f64::MAX;
    let mut passed = 0;
    for _ in 0..ROUNDS {
        passed = 0;
        let begin = Instant::now();
        for message in messages.iter().cycle().take(MESSAGES) {
            passed += usize::from(each(black_box(message)));
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let each_ns = begin.elapsed().as_nanos() as f64 / MESSAGES as f64;
        least_ns = least_ns.min(each_ns);
    }
    println!("{what:<72} {least_ns:>8.1} ns/message, {passed} of {MESSAGES} pass");
}

fn filter(spec: FilterSpec, messages: &[Message]) {
    let what = match &spec {
        FilterSpec::Selector(text) | FilterSpec::Sql(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let filter = Filter::compile(spec).expect("a good filter");
    let what: String = what.chars().take(70).collect();
    measure(&what, messages, |message| {
        filter.is_passed(&MessageView::new(message, 0))
    });
}

/// A headers exchange over encoded messages, half of its bindings with one criterion in common.
fn headers(bindings: usize, messages: &[Message]) {
    let mut table = Exchanges::new(1, TableLimits::default());
    table.apply_declare(Arc::new(ExchangeSpec::new("x", ExchangeKind::Headers)));
    for n in 0..bindings {
        let mut spec = BindingSpec::to_queue("x", &format!("q{n}"), "");
        let tenant = i64::try_from(n).expect("small");
        let second = if n % 2 == 0 {
            ("region", Datum::from("emea"))
        } else {
            ("kind", Datum::from(format!("k{n}").as_str()))
        };
        spec.arguments
            .insert("tenant".to_owned(), Datum::Int(tenant));
        spec.arguments.insert(second.0.to_owned(), second.1);
        let queue = QueueRef {
            id: QueueId(n as u64),
            slot: n,
        };
        table
            .apply_bind(Arc::new(spec), Some((queue, true)))
            .expect("a good binding");
    }
    let id = table.find("x").expect("declared");
    let mut out = Vec::new();
    measure(
        &format!("headers exchange with {bindings} bindings"),
        messages,
        |message| {
            let view = MessageView::new(message, 0);
            let _ = table.route(id, b"", &view, &mut out);
            !out.is_empty()
        },
    );
}

fn main() {
    let messages: Vec<_> = (0..1_000).map(message).collect();
    for text in [
        "tenant = 7",
        "kind = 'k7'",
        "JMSType LIKE 'order%' AND region IN ('amer', 'emea') AND price BETWEEN 5 AND 10",
    ] {
        filter(FilterSpec::Selector(text.to_owned()), &messages);
    }
    filter(
        FilterSpec::Sql(
            "p.subject = 'order.created' AND (price >= 99.99 OR premium = TRUE)".to_owned(),
        ),
        &messages,
    );
    filter(
        FilterSpec::Properties(
            SectionName::ApplicationProperties,
            vec![("tenant".to_owned(), Datum::Int(7))],
        ),
        &messages,
    );
    for bindings in [1, 1_000] {
        headers(bindings, &messages);
    }
}
