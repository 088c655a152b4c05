//! Recovery with paging: no body stays in memory, and none is needed until a consumer comes.

use super::harness::*;
use super::paging::*;
use std::sync::Arc;

use bytes::Bytes;

use crate::broker::{Broker, Now, QueueSpec};
use crate::store::{Op, StoredMessage};
use crate::vocab::{Delivered, Envelope, Outcome, QueueId, Seq};

#[test]
fn recovery_keeps_no_body_and_fetches_when_a_consumer_comes() {
    let mut rig = rig(lossy("q"));
    publish(&mut rig, 0..1_000, &durable());
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 900);
    for (sent, outcome) in [(0, failed()), (1, Outcome::Accepted), (300, failed())] {
        rig.settle(B, C, sent, sent, outcome);
    }
    let noted = Outcome::Modified {
        failed: true,
        undeliverable_here: false,
        annotations: Some(Bytes::from_static(b"note")),
    };
    rig.settle(B, C, 700, 700, noted);
    let mut rig = rig.restarted(paged([]));
    assert_eq!(paged_and_bodies(&rig), (999, 0));
    assert_eq!(
        (rig.broker.counters().bytes, rig.broker.counters().fetches),
        (0, 0)
    );
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 2_000);
    let got: Vec<Delivered> = rig.delivered(B, C);
    let mut expected = numbers(0..1_000);
    expected.remove(1);
    assert_eq!(got.iter().map(text).collect::<Vec<_>>(), expected);
    for one in &got {
        let is_special = [0, 300, 700].contains(&one.seq.0);
        assert_eq!(
            (one.delivery_count, one.first_acquirer),
            (u32::from(is_special), !is_special),
            "{one:?}"
        );
        assert_eq!(one.annotations.is_some(), one.seq == Seq(700));
    }
}

#[test]
fn recovered_times_to_live_run_on_without_bodies() {
    for wall_shift_ms in [0i64, 3_600_000, -3_600_000] {
        let mut rig = rig(QueueSpec {
            message_ttl_ms: Some(10_000),
            ..lossy("q")
        });
        for number in 0..600u64 {
            let ttl_ms = (number % 2 == 0).then_some(5_000);
            let envelope = Envelope {
                ttl_ms,
                ..durable()
            };
            rig.publish(A, P, message(&number.to_string(), envelope));
            rig.sleep_ms(1);
        }
        rig.sleep_ms(400);
        // Now 1,000 ms after the first. The process is down while the wall clock is set.
        let mut rig = {
            rig.now.wall_ms += wall_shift_ms;
            rig.restarted(paged([]))
        };
        rig.tick();
        let left = |rig: &Rig| rig.broker.counters().messages;
        match wall_shift_ms {
            0 => {
                assert_eq!(left(&rig), 600);
                rig.sleep_ms(4_100);
                rig.tick();
                // Lives of 5,000 ms that began in the first 101 ms are over: 51 even numbers.
                assert_eq!(left(&rig), 600 - 51);
                rig.sleep_ms(4_900);
                rig.tick();
                // All even ones are over; the first odd one has the queue's 10,000 ms since 1 ms after the start.
                assert_eq!(left(&rig), 300);
                rig.sleep_ms(1);
                rig.tick();
                assert_eq!(left(&rig), 299);
            }
            ahead if ahead > 0 => {
                assert_eq!(left(&rig), 0, "an hour passed, as far as anybody knows")
            }
            _ => {
                // Nothing lives longer than it was to.
                rig.sleep_ms(4_999);
                rig.tick();
                assert_eq!(left(&rig), 600);
                rig.sleep_ms(1);
                rig.tick();
                assert_eq!(left(&rig), 300);
                rig.sleep_ms(5_000);
                rig.tick();
                assert_eq!(left(&rig), 0);
            }
        }
    }
}

#[test]
fn a_million_recovered_messages_cost_a_few_bytes_each() {
    let mut broker = Broker::new(paged([]));
    let queue = QueueId(1);
    broker.recover(Op::QueueDeclared {
        queue,
        spec: Arc::new(lossy("q")),
    });
    let body = message("a body", durable());
    for seq in 0..1_000_000 {
        broker.recover(Op::Enqueued(StoredMessage {
            message: Arc::clone(&body),
            arrived_at_ms: 0,
            places: smallvec::smallvec![(queue, Seq(seq))],
        }));
    }
    assert_eq!(Arc::strong_count(&body), 1, "no body is kept");
    broker.recovered(Now::default());
    let counters = broker.counters();
    assert_eq!(
        (counters.messages, counters.paged, counters.bytes),
        (1_000_000, 1_000_000, 0)
    );
    let bytes = broker.index_bytes("q");
    assert!(bytes <= 8_000_000, "{bytes} bytes of index");
}
