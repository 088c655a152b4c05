//! What the store kept is what there is after a restart.

use bytes::Bytes;

use super::harness::*;
use crate::broker::{BrokerConfig, QueueSpec};
use crate::store::{BatchId, Op};
use crate::vocab::{Envelope, Outcome, QueueId, Seq};

fn read(rig: &mut Rig) -> Vec<(String, u32)> {
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 1_000);
    rig.delivered(A, C)
        .iter()
        .map(|delivered| (text(delivered), delivered.delivery_count))
        .collect()
}

#[test]
fn messages_positions_counts_and_annotations_come_back() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    for number in 0..6 {
        rig.publish(A, P, message(&number.to_string(), durable()));
        rig.publish(A, P, message("volatile", Envelope::default()));
    }
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 7);
    let annotations = Some(Bytes::from_static(b"note"));
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    rig.settle(
        B,
        C,
        2,
        2,
        Outcome::Modified {
            failed: true,
            undeliverable_here: false,
            annotations,
        },
    );
    rig.settle(B, C, 4, 4, Outcome::Lost);
    rig.settle(B, C, 6, 6, Outcome::Rejected { reason: None });
    let mut rig = rig.restarted(config([lossy("q")]));
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 1_000);
    let got = rig.delivered(A, C);
    let seen: Vec<_> = got
        .iter()
        .map(|one| (text(one), one.delivery_count, one.annotations.clone()))
        .collect();
    let plain = |number: &str, count| (number.to_owned(), count, None);
    let noted = ("1".to_owned(), 1, Some(Bytes::from_static(b"note")));
    assert_eq!(seen, [noted, plain("2", 1), plain("4", 0), plain("5", 0)]);
    assert_eq!(rig.broker.counters().queues, 1);
    // New positions are above all that were ever stored.
    let newest = got.iter().map(|one| one.seq).max();
    rig.produce(A, P, named("q"));
    rig.publish_all(A, P, ["new"]);
    assert!(rig.delivered(A, C)[0].seq > newest.expect("four came back"));
    rig.settle(A, C, 0, 100, Outcome::Accepted);
    assert_eq!(
        (rig.broker.counters().messages, rig.broker.counters().bytes),
        (0, 0)
    );
}

#[test]
fn what_was_not_persisted_is_not_there_and_was_not_confirmed() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.is_instant = false;
    rig.told(A);
    for number in 0..4 {
        rig.publish(A, P, message(&number.to_string(), durable()));
    }
    rig.persist_one();
    let confirmed: u64 = rig.verdicts(A).iter().map(|run| run.1 - run.0 + 1).sum();
    assert_eq!(confirmed, 1);
    assert_eq!(
        read(&mut rig.restarted(config([lossy("q")]))),
        [("0".to_owned(), 0)]
    );
}

#[test]
fn queues_that_were_made_and_deleted_stay_so() {
    let auto = || BrokerConfig {
        auto_create_queues: true,
        ..config([])
    };
    let mut rig = Rig::new(auto());
    rig.produce(A, P, named("kept"));
    rig.produce(A, C, named("deleted"));
    rig.publish(A, C, message("m", durable()));
    rig.broker
        .delete_queue(rig.now, "deleted")
        .expect("it exists");
    rig.broker
        .declare_queue(
            QueueSpec {
                durable: false,
                ..lossy("volatile")
            },
            None,
        )
        .expect("free");
    rig.flush();
    let mut rig = rig.restarted(auto());
    let counters = rig.broker.counters();
    assert_eq!(
        (counters.queues, counters.messages, counters.bytes),
        (1, 0, 0)
    );
    assert!(rig.broker.queue_counters("kept").is_some());
    // Ids are never given twice, so operations on a deleted queue cannot meet a new one.
    let id = rig
        .broker
        .declare_queue(lossy("new"), None)
        .expect("the name is free");
    assert!(id > QueueId(2), "{id:?}");
}

#[test]
fn times_to_live_run_on_through_a_restart() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    let ttl = |ttl_ms| Envelope {
        ttl_ms: Some(ttl_ms),
        durable: true,
        ..Envelope::default()
    };
    rig.publish(A, P, message("short", ttl(100)));
    rig.publish(A, P, message("long", ttl(1_000)));
    rig.sleep_ms(500);
    let mut rig = rig.restarted(config([lossy("q")]));
    assert!(
        rig.broker
            .poll_timeout()
            .is_some_and(|at| at <= rig.now.mono)
    );
    rig.tick();
    assert_eq!(
        (
            rig.broker.counters().messages,
            rig.broker.counters().expired
        ),
        (1, 1)
    );
    rig.sleep_ms(501);
    rig.tick();
    assert_eq!(rig.broker.counters().messages, 0);
    // The removals are stored as well.
    assert_eq!(
        rig.log
            .iter()
            .flat_map(|batch| &batch.ops)
            .filter(|op| matches!(op, Op::Removed { .. }))
            .count(),
        2
    );
}

#[test]
fn operations_that_make_no_sense_harm_nothing() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("m", durable()));
    let mut doubled = rig.restarted(config([]));
    for op in rig.log.iter().flat_map(|batch| batch.ops.clone()) {
        doubled.broker.recover(op);
    }
    doubled
        .broker
        .recover(Op::QueueDeleted { queue: QueueId(77) });
    doubled.broker.recover(Op::Removed {
        queue: QueueId(77),
        seq: Seq(1),
        count: 1,
    });
    assert_eq!(rig.log[0].id, BatchId(1));
    assert_eq!(read(&mut doubled), [("m".to_owned(), 0)]);
}

#[test]
fn a_configuration_that_cannot_be_is_found_before_the_start() {
    assert_eq!(config([lossy("q"), lossy("q")]).check(), Ok(()));
    for bad in [
        config([lossy("")]),
        config([lossy("amq.x")]),
        config([QueueSpec {
            exclusive: true,
            ..lossy("q")
        }]),
        config([
            lossy("q"),
            QueueSpec {
                durable: false,
                ..lossy("q")
            },
        ]),
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
}

#[test]
fn a_position_whose_message_the_store_forgot_is_not_given_again() {
    let mut rig = Rig::with_q();
    let queue = rig
        .broker
        .declare_queue(lossy("q"), None)
        .expect("it exists");
    rig.broker.recover(Op::Removed {
        queue,
        seq: Seq(40),
        count: 2,
    });
    rig.produce(A, P, named("q"));
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 1);
    rig.publish_all(A, P, ["m"]);
    assert_eq!(rig.delivered(A, C)[0].seq, Seq(42));
}
