//! Filter sets of AMQP sources, and the filters that are not selectors.

use qq_proto_amqp::types::{Described, Map, Value};

use super::support::{NOW_MS, data, described, is_passed, message, order, symbol, text};
use crate::filter::{
    FILTER_DEPTH_MAX, Filter, FilterError, FilterSet, FilterSpec, MessageView, SectionName,
    TESTS_MAX,
};
use crate::route::Datum;
use crate::vocab::{Envelope, Message};

fn named(name: &str, value: Value) -> Value {
    Value::Described(Box::new(Described {
        descriptor: symbol(name),
        value,
    }))
}

fn read(filters: &[(&str, Value)]) -> Result<FilterSet, FilterError> {
    let map: Map = filters
        .iter()
        .map(|(name, value)| (symbol(name), value.clone()))
        .collect();
    FilterSet::read(&map)
}

/// Whether a message passes one filter.
fn passes(value: &Value, message: &Message) -> bool {
    let set = read(&[("f", value.clone())]).unwrap_or_else(|e| panic!("{value:?}: {e}"));
    assert_eq!(set.effective.len(), 1, "{value:?} is known");
    let spec = set.spec.expect("one filter");
    is_passed(&Filter::compile(spec).expect("checked"), message)
}

fn map(entries: &[(&str, Value)]) -> Value {
    Value::Map(
        entries
            .iter()
            .map(|(name, value)| (symbol(name), value.clone()))
            .collect(),
    )
}

#[test]
fn codes_and_names_mean_the_same() {
    let selector = text("color = 'blue'");
    let fields = map(&[("color", text("blue"))]);
    let header = map(&[("priority", Value::Ubyte(4))]);
    for (code, name, value) in [
        (
            0x0000_468c_0000_0004,
            "apache.org:selector-filter:string",
            selector.clone(),
        ),
        (0x120, "amqp:sql-filter", selector),
        (
            0x0000_468c_0000_0003,
            "apache.org:no-local-filter:list",
            Value::List(vec![]),
        ),
        (0x170, "amqp:header-filter", header),
        (0x174, "amqp:application-properties-filter", fields),
        (0x110, "amqp:true-filter", Value::List(vec![])),
    ] {
        assert!(passes(&described(code, value.clone()), &order()), "{name}");
        assert!(passes(&named(name, value.clone()), &order()), "{name}");
        // Without a descriptor, named by it.
        let set = read(&[(name, value)]).expect(name);
        assert_eq!(set.effective.len(), 1, "{name}");
    }
    assert!(!passes(&described(0x111, Value::List(vec![])), &order()));
}

#[test]
fn all_filters_of_a_set_must_pass() {
    let blue = described(0x0000_468c_0000_0004, text("color = 'blue'"));
    let heavy = described(0x120, text("weight > 9000"));
    let set = read(&[("a", blue.clone()), ("b", heavy)]).expect("both are good");
    assert_eq!(set.effective.len(), 2);
    let filter = Filter::compile(set.spec.expect("two")).expect("checked");
    assert!(!is_passed(&filter, &order()));
    let unknown = named("rabbitmq:stream-offset-spec", text("first"));
    let set = read(&[
        ("a", blue.clone()),
        ("b", unknown.clone()),
        ("c", Value::Null),
    ])
    .expect("unknown is not wrong");
    assert_eq!(set.effective, [(symbol("a"), blue)]);
    assert_eq!(set.unknown, [(symbol("b"), unknown)]);
    assert_eq!(read(&[]).expect("none"), FilterSet::default());
}

#[test]
fn a_wrong_filter_is_named() {
    for value in [
        described(0x120, text("color =")),
        described(0x120, Value::Int(1)),
        described(0x173, Value::Int(1)),
        described(0x173, map(&[("nothing", text("x"))])),
        described(0x173, map(&[("subject", text("&x:y"))])),
        described(0x173, map(&[("subject", Value::List(vec![]))])),
        described(0x100, Value::Int(1)),
        described(0x100, Value::List(vec![Value::Int(1)])),
        described(0x102, Value::Int(1)),
    ] {
        let error = read(&[("mine", value.clone())]).expect_err("wrong");
        assert!(error.text.contains("'mine'"), "{value:?}: {error}");
    }
}

#[test]
fn filters_combine() {
    let yes = || described(0x120, text("color = 'blue'"));
    let no = || described(0x120, text("color = 'red'"));
    let unknown = || described(0x120, text("absent = 1"));
    let list = |code: u64, filters: Vec<Value>| described(code, Value::List(filters));
    for (value, expected) in [
        (list(0x100, vec![yes(), yes()]), true),
        (list(0x100, vec![yes(), no()]), false),
        (list(0x100, vec![]), true),
        (list(0x101, vec![no(), yes()]), true),
        (list(0x101, vec![no(), unknown()]), false),
        (list(0x101, vec![]), false),
        (described(0x102, no()), true),
        (described(0x102, yes()), false),
        (described(0x102, list(0x101, vec![no(), no()])), true),
    ] {
        assert_eq!(passes(&value, &order()), expected, "{value:?}");
    }
    let set = read(&[("f", list(0x100, vec![yes(), described(0x999, text("x"))]))])
        .expect("a part is unknown");
    assert_eq!(set.effective, []);
    assert_eq!(set.unknown.len(), 1);
}

#[test]
fn property_filters() {
    let properties = Value::List(vec![
        Value::Ulong(7),
        Value::Binary(bytes::Bytes::from_static(b"John")),
        text("to"),
        text("Order.created"),
        Value::Null,
        Value::Null,
        symbol("text/plain"),
    ]);
    let own = Value::Map(vec![
        (text("region"), text("emea")),
        (text("amount"), Value::Double(3.0_f64.to_bits())),
        (text("odd"), text("&x")),
    ]);
    let envelope = Envelope {
        to: Some("to".into()),
        subject: Some("Order.created".into()),
        ..Envelope::default()
    };
    let message = message(envelope, &[(0x73, properties), (0x74, own), data()]);
    for (code, fields, expected) in [
        (0x173, vec![("subject", text("Order.created"))], true),
        (0x173, vec![("subject", symbol("Order.created"))], true),
        (0x173, vec![("subject", text("Order"))], false),
        (0x173, vec![("subject", text("&p:Order"))], true),
        (0x173, vec![("subject", text("&s:created"))], true),
        (0x173, vec![("subject", text("&s:Order"))], false),
        (0x173, vec![("subject", text("&p:"))], true),
        (0x173, vec![("message-id", Value::Int(7))], true),
        (0x173, vec![("message-id", text("7"))], false),
        (0x173, vec![("message-id", text("&p:7"))], false),
        (0x173, vec![("user-id", text("&p:Jo"))], true),
        (
            0x173,
            vec![("user-id", Value::Binary(bytes::Bytes::from_static(b"John")))],
            true,
        ),
        (0x173, vec![("content-type", text("text/plain"))], true),
        (0x173, vec![("content-type", Value::Null)], true),
        (0x173, vec![("reply-to", Value::Null)], false),
        (0x173, vec![("reply-to", text("x"))], false),
        (
            0x173,
            vec![("subject", text("&p:Order")), ("to", text("other"))],
            false,
        ),
        (0x173, vec![], true),
        (0x174, vec![("region", text("emea"))], true),
        (
            0x174,
            vec![("region", text("emea")), ("x", Value::Int(1))],
            false,
        ),
        (0x174, vec![("amount", Value::Ubyte(3))], true),
        (0x174, vec![("amount", text("3"))], false),
        (0x174, vec![("odd", text("&&x"))], true),
        (0x174, vec![("odd", text("&s:x"))], true),
    ] {
        let value = described(code, map(&fields));
        assert_eq!(passes(&value, &message), expected, "{value:?}");
    }
}

#[test]
fn no_local_passes_what_others_published() {
    let filter = Filter::compile(FilterSpec::NoLocal).expect("no text");
    let order = order();
    assert!(filter.is_passed(&MessageView::new(&order, NOW_MS)));
    let own = MessageView::new(&order, NOW_MS).local(true);
    assert!(!filter.is_passed(&own));
}

#[test]
fn specs_can_be_stored_and_are_bounded() {
    let spec = FilterSpec::All(vec![
        FilterSpec::Selector("a = 1".to_owned()),
        FilterSpec::Not(Box::new(FilterSpec::Properties(
            SectionName::Properties,
            vec![("subject".to_owned(), Datum::from("x"))],
        ))),
        FilterSpec::Always(true),
    ]);
    let stored = serde_json::to_string(&spec).expect("plain data");
    let back: FilterSpec = serde_json::from_str(&stored).expect(&stored);
    assert_eq!(back, spec);
    assert_eq!(Filter::compile(back).expect("good").spec(), &spec);

    let mut deep = FilterSpec::Always(true);
    for _ in 1..FILTER_DEPTH_MAX {
        deep = FilterSpec::Not(Box::new(deep));
    }
    assert!(Filter::compile(deep.clone()).is_ok());
    assert!(Filter::compile(FilterSpec::Not(Box::new(deep))).is_err());
    let many = |count| FilterSpec::Any(vec![FilterSpec::NoLocal; count]);
    assert!(Filter::compile(many(TESTS_MAX - 1)).is_ok());
    assert!(Filter::compile(many(TESTS_MAX)).is_err());
}
