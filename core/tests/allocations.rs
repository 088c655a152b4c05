//! A message on its way through exchanges and filters must not allocate once buffers have grown. Allocations of this
//! thread are counted by the allocator itself.

use std::sync::Arc;

use allocation_counter::measure;
use bytes::{Bytes, BytesMut};
use qq_core::filter::{Filter, FilterSpec, MessageView, SectionName};
use qq_core::route::{
    BindingSpec, Datum, ExchangeKind, ExchangeSpec, Exchanges, QueueRef, Routed, TableLimits,
};
use qq_core::vocab::{Envelope, Format, Message, QueueId};
use qq_proto_amqp::types::{Described, Map, Str, Value};

/// A message with a subject and three application properties.
fn message() -> Message {
    let text = |text: &str| Value::Str(Str::from(text));
    let own: Map = vec![
        (text("region"), text("emea")),
        (text("tenant"), Value::Uint(7)),
        (text("price"), Value::Double(9.5_f64.to_bits())),
    ];
    let mut payload = BytesMut::new();
    for (code, value) in [
        (0x73, Value::List(vec![Value::Ulong(1)])),
        (0x74, Value::Map(own)),
        (0x75, Value::Binary(Bytes::from_static(b"body"))),
    ] {
        let descriptor = Value::Ulong(code);
        Value::Described(Box::new(Described { descriptor, value })).encode(&mut payload);
    }
    Message {
        envelope: Envelope {
            subject: Some(Bytes::from_static(b"a.b.c")),
            ..Envelope::default()
        },
        format: Format::Amqp(0),
        payload: payload.freeze(),
    }
}

/// Bindings of each predeclared exchange: by key, by pattern, by headers, and from one to the others.
fn table() -> Exchanges {
    let mut table = Exchanges::new(1, TableLimits::default());
    let mut entry = ExchangeSpec::new("entry", ExchangeKind::Fanout);
    entry.durable = false;
    table.apply_declare(Arc::new(entry));
    let mut specs = Vec::new();
    for exchange in ["amq.direct", "amq.topic", "amq.fanout", "amq.headers"] {
        specs.push(BindingSpec::to_exchange("entry", exchange, ""));
        for key in ["a.b.c", "a.*.c", "#.c", "other"] {
            let mut spec = BindingSpec::to_queue(exchange, key, key);
            spec.arguments.insert("tenant".to_owned(), Datum::Int(7));
            specs.push(spec);
        }
    }
    for (n, spec) in specs.into_iter().enumerate() {
        let queue = QueueRef {
            id: QueueId(n as u64),
            slot: n,
        };
        assert!(
            table
                .apply_bind(Arc::new(spec), Some((queue, true)))
                .is_some()
        );
    }
    table
}

#[test]
fn routing_allocates_nothing_once_buffers_have_grown() {
    let message = message();
    let mut table = table();
    let entry = table.find("entry").expect("declared");
    let mut out = Vec::new();
    let mut route = || {
        let view = MessageView::new(&message, 0);
        let key = message.envelope.subject.as_deref().unwrap_or_default();
        let info = measure(|| {
            assert_eq!(table.route(entry, key, &view, &mut out), Routed::Queues);
        });
        // One by key, three by patterns, all of the fanout and of the headers exchange.
        assert_eq!(out.len(), 1 + 3 + 4 + 4);
        info.count_total
    };
    assert!(route() > 0, "the buffers grow, and that is counted");
    assert_eq!(route(), 0);
}

/// Allocations of asking a filter once.
fn cost_of(spec: FilterSpec) -> u64 {
    let message = message();
    let filter = Filter::compile(spec).expect("a good filter");
    let mut is_passed = false;
    let info = measure(|| is_passed = filter.is_passed(&MessageView::new(&message, 0)));
    assert!(is_passed, "{filter:?}");
    info.count_total
}

#[test]
fn filters_allocate_nothing() {
    for text in [
        "region = 'emea' AND tenant = 7 AND price BETWEEN 9 AND 10",
        "region LIKE 'em%' AND region NOT LIKE '%x_y%' AND region IN ('amer', 'emea')",
        "JMSType = 'a.b.c' AND amqp.message_id = 1 AND absent IS NULL AND tenant + 1 > 7",
    ] {
        assert_eq!(cost_of(FilterSpec::Selector(text.to_owned())), 0, "{text}");
    }
    let parts = "LEFT(region, 2) = 'em' AND SUBSTRING(region, 2, 1) = 'm' AND UTC() = 0";
    assert_eq!(cost_of(FilterSpec::Sql(parts.to_owned())), 0);
    let fields = vec![
        ("region".to_owned(), Datum::from("&p:em")),
        ("tenant".to_owned(), Datum::Int(7)),
    ];
    assert_eq!(
        cost_of(FilterSpec::Properties(
            SectionName::ApplicationProperties,
            fields
        )),
        0
    );
    let letters = "UPPER(region) = 'EMEA'";
    assert!(
        cost_of(FilterSpec::Sql(letters.to_owned())) > 0,
        "a text in other letters is a new one"
    );
}
