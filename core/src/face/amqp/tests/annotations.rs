//! Annotations that consumers add with `modified` (part 3, 3.4.5): merged over the message's own and those of earlier
//! consumers, newest first, through restarts.

use bytes::{BufMut, Bytes, BytesMut};
use qq_proto_amqp::performative::{DeliveryState, Modified};
use qq_proto_amqp::section::{Header, Sections, encode_message_annotations};
use qq_proto_amqp::types::{Map, Str, Symbol, Value};

use super::{Bench, Got};

fn symbol(key: &'static str) -> Value {
    Value::Symbol(Symbol::from_static(key))
}

fn text(value: &str) -> Value {
    Value::Str(Str::from(value))
}

/// Annotations of symbols and strings.
fn map(pairs: &[(&'static str, &'static str)]) -> Map {
    pairs
        .iter()
        .map(|(key, value)| (symbol(key), text(value)))
        .collect()
}

/// A message with one data section `x`.
fn message(durable: bool, annotations: &Map) -> Bytes {
    let mut buf = BytesMut::new();
    if durable {
        let header = Header {
            durable,
            ..Header::default()
        };
        header.encode(&mut buf);
    }
    if !annotations.is_empty() {
        encode_message_annotations(annotations, &mut buf);
    }
    buf.put_slice(&[0x00, 0x53, 0x75, 0xa0, 1, b'x']);
    buf.freeze()
}

fn modified(annotations: Map) -> DeliveryState {
    DeliveryState::Modified(Box::new(Modified {
        delivery_failed: false,
        undeliverable_here: false,
        message_annotations: Some(annotations),
    }))
}

/// The message annotations of a delivery, sorted by key, as text.
fn annotations_of(got: &Got) -> Vec<(String, String)> {
    let sections = Sections::scan(&got.payload).expect("a message");
    sections
        .check_annotations(&got.payload)
        .expect("legal annotations");
    let Some(range) = sections.message_annotations else {
        return Vec::new();
    };
    let value = got.payload.slice(range.value);
    let Ok((Value::Map(map), _)) = Value::decode(&value) else {
        panic!("annotations are a map");
    };
    let mut pairs: Vec<_> = map
        .iter()
        .map(|(key, value)| match (key, value) {
            (Value::Symbol(key), Value::Str(value)) => {
                (key.as_str().to_owned(), value.as_str().to_owned())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    pairs.sort();
    pairs
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Three consumers in a row, with a restart between each of them.
fn through_consumers(durable: bool, mut next: impl FnMut(Bench) -> Bench) {
    let mut bench = Bench::new();
    bench.publish(&message(
        durable,
        &map(&[("x-opt-m", "publisher"), ("x-opt-n", "publisher")]),
    ));
    let (client, got) = bench.get();
    assert_eq!(
        annotations_of(&got),
        owned(&[("x-opt-m", "publisher"), ("x-opt-n", "publisher")])
    );
    let first = map(&[("x-opt-a", "first"), ("x-opt-n", "first")]);
    bench.settle_and_leave(client, &got, modified(first));

    let mut bench = next(bench);
    let (client, got) = bench.get();
    assert_eq!(
        annotations_of(&got),
        owned(&[
            ("x-opt-a", "first"),
            ("x-opt-m", "publisher"),
            ("x-opt-n", "first")
        ])
    );
    let second = map(&[("x-opt-b", "second"), ("x-opt-a", "second")]);
    bench.settle_and_leave(client, &got, modified(second));

    let mut bench = next(bench);
    let (client, got) = bench.get();
    let all = owned(&[
        ("x-opt-a", "second"),
        ("x-opt-b", "second"),
        ("x-opt-m", "publisher"),
        ("x-opt-n", "first"),
    ]);
    assert_eq!(annotations_of(&got), all);
    // Neither a modified without annotations nor a release takes any away.
    let empty = DeliveryState::Modified(Box::default());
    bench.settle_and_leave(client, &got, empty);
    let mut bench = next(bench);
    let (client, got) = bench.get();
    bench.settle_and_leave(client, &got, DeliveryState::Released);
    let mut bench = next(bench);
    let (_, got) = bench.get();
    assert_eq!(annotations_of(&got), all);
}

#[test]
fn ou_06_later_consumers_add_to_what_earlier_ones_added() {
    through_consumers(false, |bench| bench);
    through_consumers(true, |bench| bench);
}

#[test]
fn ou_06_annotations_of_all_consumers_survive_restarts() {
    through_consumers(true, Bench::restart);
}

/// Part 3, 3.2.10: what is not a symbol with `x-` in front is reserved; the next receiver would refuse the message.
#[test]
fn qu_14_keys_that_no_message_may_carry_are_left_out_and_strings_become_symbols() {
    let mut bench = Bench::new();
    bench.publish(&message(false, &Map::new()));
    let (client, got) = bench.get();
    let added = vec![
        (text("x-opt-s"), text("proton")),
        (symbol("reserved"), text("no")),
        (Value::Ulong(7), text("no")),
        (Value::Uint(7), text("no")),
        (symbol("x-opt-d"), text("older")),
        (symbol("x-opt-d"), text("newer")),
    ];
    bench.settle_and_leave(client, &got, modified(added));
    let (_, got) = bench.get();
    assert_eq!(
        annotations_of(&got),
        owned(&[("x-opt-d", "newer"), ("x-opt-s", "proton")])
    );
}

/// A message that goes round and round must not grow without bound: 32 KiB of additions, and 256 keys.
#[test]
fn additions_are_bounded() {
    let mut bench = Bench::new();
    bench.publish(&message(false, &Map::new()));
    let names: Vec<&'static str> = vec!["x-opt-0", "x-opt-1", "x-opt-2", "x-opt-3"];
    for name in &names {
        let (client, got) = bench.get();
        let added = vec![(symbol(name), text(&"v".repeat(10_000)))];
        bench.settle_and_leave(client, &got, modified(added));
    }
    let (client, got) = bench.get();
    let kept: Vec<String> = annotations_of(&got)
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(kept, ["x-opt-0", "x-opt-1", "x-opt-2"]);
    let many = (0..257)
        .map(|n| {
            let name = Symbol::new(&format!("x-opt-{n}")).expect("ascii");
            (Value::Symbol(name), text("many"))
        })
        .collect();
    bench.settle_and_leave(client, &got, modified(many));
    let (_, got) = bench.get();
    assert_eq!(annotations_of(&got).len(), 3);
}

/// Old keys keep their place, new ones follow, and the last of equal new ones counts.
#[test]
fn a_merge_keeps_the_order_of_the_wire() {
    let base: Map = (0..20_000_u32)
        .map(|n| (Value::Uint(n), Value::Null))
        .collect();
    let added = vec![
        (Value::Uint(19_999), Value::Bool(true)),
        (Value::Uint(20_000), Value::Bool(false)),
        (Value::Uint(19_999), Value::Bool(false)),
    ];
    let merged = super::super::outcome::merge(base, &added);
    assert_eq!(merged.len(), 20_001);
    assert_eq!(merged[19_999].1, Value::Bool(false));
    assert_eq!(merged[20_000].0, Value::Uint(20_000));
}
