//! What senders ask for in annotations, from one peer to the other.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use qq_proto_amqp::performative::DeliveryState;
use qq_proto_amqp::section::{Header, encode_message_annotations};
use qq_proto_amqp::types::{Symbol, Value};

use super::Bench;

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
