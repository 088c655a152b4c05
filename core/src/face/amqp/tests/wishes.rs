//! What senders ask for in annotations, from one peer to the other.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use qq_proto_amqp::connection::Event;
use qq_proto_amqp::performative::DeliveryState;
use qq_proto_amqp::section::{Header, encode_message_annotations};
use qq_proto_amqp::types::{Str, Symbol, Value};

use super::Bench;
use crate::broker::QueueSpec;

/// A durable message with one annotation.
fn message(key: &'static str, value: Value) -> Bytes {
    let mut buf = BytesMut::new();
    let header = Header {
        durable: true,
        ..Header::default()
    };
    header.encode(&mut buf);
    let key = Value::Symbol(Symbol::from_static(key));
    encode_message_annotations(&vec![(key, value)], &mut buf);
    buf.put_slice(&[0x00, 0x53, 0x75, 0xa0, 1, b'x']);
    buf.freeze()
}

#[test]
fn a_delayed_message_is_accepted_at_once_and_delivered_when_it_is_due() {
    for is_restarted in [false, true] {
        let mut bench = Bench::new();
        let payload = message("x-opt-delivery-delay", Value::Uint(20_000));
        bench.publish(&payload);
        if is_restarted {
            bench = bench.restart();
        }
        let peer = bench.session();
        let link = bench.link(peer, false);
        let machine = &mut bench.clients[peer.0].machine;
        machine.grant(link, 1).expect("attached");
        bench.settle();
        bench.pass(Duration::from_millis(19_999));
        assert!(bench.got(peer.0).is_none());
        bench.pass(Duration::from_millis(2));
        let got = bench.got(peer.0).expect("it is due");
        // Its annotation is still there.
        assert!(
            got.payload
                .windows(20)
                .any(|part| part == b"x-opt-delivery-delay")
        );
        bench.settle_and_leave(peer.0, &got, DeliveryState::Accepted);
    }
}

/// A duplicate is accepted, also by the next process, and is not there a second time.
#[test]
fn a_duplicate_is_accepted_and_goes_nowhere() {
    let mut bench = Bench::new();
    let payload = message("x-opt-dedup-id", Value::Str(Str::from_static("order-7")));
    bench.publish(&payload);
    bench.publish(&payload);
    let mut bench = bench.restart();
    bench.publish(&payload);
    let numbers = bench.node.broker().queue_counters("q1").expect("q1");
    assert_eq!(numbers.messages, 1);
}

/// What a receiver heard of its activity since the last look.
fn activity(bench: &mut Bench, client: usize) -> Vec<bool> {
    let events = bench.take_events(client).into_iter();
    let told = events.filter_map(|event| match event {
        Event::LinkState { properties, .. } => Some(properties),
        _ => None,
    });
    told.map(|properties| match &properties[..] {
        [(Value::Symbol(name), Value::Bool(is_active))] if name.as_str() == "rabbitmq:active" => {
            *is_active
        }
        other => panic!("{other:?}"),
    })
    .collect()
}

#[test]
fn a_receiver_hears_whether_it_is_the_active_one() {
    let mut bench = Bench::with_q1(QueueSpec {
        single_active_consumer: true,
        ..QueueSpec::new("q1")
    });
    let first = bench.session();
    // Another container, for links of one name and container are one link.
    let second = bench.connect(super::Config {
        container_id: Str::from_static("other"),
        ..super::client_config()
    });
    let session = bench.clients[second].machine.begin().expect("open");
    bench.settle();
    let second = (second, session);
    bench.link(first, false);
    bench.link(second, false);
    assert_eq!(activity(&mut bench, first.0), [true]);
    assert_eq!(activity(&mut bench, second.0), [false]);
    bench.clients[first.0].machine.close(None);
    bench.settle();
    assert_eq!(activity(&mut bench, second.0), [true]);
}
