//! Drains (part 2, 2.6.7) of peers whose session window is smaller than their credit.

use std::sync::Arc;

use bytes::Bytes;
use qq_proto_amqp::connection::{Config, Event};

use super::{AmqpConfig, Bench, LoginAnswer, client_config, face_config};

/// The window closes in the middle of the drain, and then output has no room: the face must wait for the peer's flow,
/// not ask the broker again and again within one input.
#[test]
fn a_drain_waits_for_the_window() {
    let config = AmqpConfig {
        permit_slice: 1,
        ..face_config(Arc::new(|_| LoginAnswer::Accepted))
    };
    let mut bench = Bench::with(config);
    let payload = Bytes::from_static(&[0x00, 0x53, 0x75, 0xa0, 1, b'x']);
    for _ in 0..5 {
        bench.publish(&payload);
    }
    let client = bench.connect(Config {
        incoming_window: 1,
        ..client_config()
    });
    let session = bench.clients[client].machine.begin().expect("open");
    bench.settle();
    let link = bench.link((client, session), false);
    let machine = &mut bench.clients[client].machine;
    machine.grant_drain(link, 9).expect("attached");
    bench.settle();
    let events = bench.take_events(client);
    let is_delivery = |event: &&Event| matches!(event, Event::Delivery { .. });
    assert_eq!(events.iter().filter(is_delivery).count(), 5);
    let drained = events.last();
    assert!(
        matches!(
            drained,
            Some(Event::Flow {
                credit: 0,
                drain: true,
                ..
            })
        ),
        "{drained:?}"
    );
}
