//! What an AMQP receiver hears when it held a message for too long, and how it says that it is still at work.

use std::time::Duration;

use bytes::Bytes;
use qq_proto_amqp::connection::Event;
use qq_proto_amqp::performative::DeliveryState;

use super::super::push_extend;
use super::Bench;
use crate::broker::QueueSpec;
use crate::vocab::{Command, DeliveryId, Port};

const MESSAGE: &[u8] = &[0x00, 0x53, 0x75, 0xa0, 1, b'x'];

fn bench() -> Bench {
    Bench::with_q1(QueueSpec {
        lock_timeout_ms: Some(10_000),
        ..QueueSpec::new("q1")
    })
}

/// Part 2, 2.6.12: a sender may settle by itself. The state says what became of the message (part 3, 3.4.5).
#[test]
fn a_lost_lock_is_settled_by_the_broker_and_a_late_outcome_is_about_nothing() {
    let mut bench = bench();
    bench.publish(&Bytes::from_static(MESSAGE));
    let (client, got) = bench.get();
    bench.pass(Duration::from_millis(9_999));
    assert!(bench.take_events(client).is_empty());
    bench.pass(Duration::from_millis(1));
    let settled = bench.take_events(client).into_iter().find(|event| {
        matches!(event, Event::IncomingSettled { delivery, .. } if *delivery == got.delivery)
    });
    assert!(settled.is_some());
    // The client's machine has forgotten the delivery as well.
    let late = bench.clients[client]
        .machine
        .settle(got.delivery, DeliveryState::Accepted, true);
    assert!(late.is_err());
    let (second, got) = bench.get();
    // A header with delivery-count 1: of its five fields, the first four at their defaults.
    let header = qq_proto_amqp::section::Sections::scan(&got.payload)
        .and_then(|sections| sections.header(&got.payload));
    assert_eq!(
        header.expect("sound").map(|header| header.delivery_count),
        Some(1)
    );
    bench.settle_and_leave(second, &got, DeliveryState::Accepted);
    let numbers = bench.node.broker().queue_counters("q1").expect("q1");
    assert_eq!((numbers.messages, numbers.unsettled), (0, 0));
}

/// Part 3, 3.4.1: `received` is no outcome, and may be said more than once.
#[test]
fn a_receiver_that_says_received_keeps_its_lock() {
    let mut bench = bench();
    bench.publish(&Bytes::from_static(MESSAGE));
    let (client, got) = bench.get();
    for _ in 0..3 {
        bench.pass(Duration::from_secs(9));
        let state = DeliveryState::Received {
            section_number: 0,
            section_offset: 0,
        };
        let machine = &mut bench.clients[client].machine;
        machine
            .settle(got.delivery, state, false)
            .expect("unsettled");
        bench.settle();
        assert!(bench.take_events(client).is_empty());
    }
    bench.pass(Duration::from_secs(9));
    // An outcome still follows, and its own settlement.
    let state = DeliveryState::Modified(Box::default());
    bench.settle_and_leave(client, &got, state);
    let (client, got) = bench.get();
    bench.settle_and_leave(client, &got, DeliveryState::Accepted);
    let numbers = bench.node.broker().queue_counters("q1").expect("q1");
    assert_eq!((numbers.messages, numbers.unsettled), (0, 0));
}

/// One frame about ten thousand deliveries is one command to the broker, not ten thousand.
#[test]
fn received_about_a_range_is_one_command() {
    let ranges = |told: &[(u32, u64)]| -> Vec<(u32, u64, u64)> {
        let mut commands = Vec::new();
        for (port, token) in told {
            push_extend(&mut commands, Port(*port), *token);
        }
        let range = |command: &Command| match command {
            Command::Extend {
                port,
                first: DeliveryId(first),
                last: DeliveryId(last),
                lock_ms: None,
                ask: None,
            } => (port.0, *first, *last),
            other => panic!("{other:?}"),
        };
        commands.iter().map(range).collect()
    };
    let row: Vec<_> = (7..10_007).map(|token| (1, token)).collect();
    assert_eq!(ranges(&row), [(1, 7, 10_006)]);
    let broken = [(1, 1), (1, 2), (1, 4), (2, 5), (2, 5)];
    assert_eq!(
        ranges(&broken),
        [(1, 1, 2), (1, 4, 4), (2, 5, 5), (2, 5, 5)]
    );
}
