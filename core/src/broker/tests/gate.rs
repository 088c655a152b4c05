//! Nothing leaves before its batch is persisted; nothing volatile waits.

use super::harness::*;
use crate::broker::{Event, QueueSpec};
use crate::store::{BatchId, Op, StoreEvent};
use crate::vocab::{Command, DeliveryId, Envelope, Notice, Outcome, Seq, Verdict};

/// A queue `q` that is safe already, and a store that answers when told.
fn rig() -> Rig {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1_000);
    rig.is_instant = false;
    rig.told(A);
    rig.told(B);
    rig
}

#[test]
fn a_durable_message_is_neither_confirmed_nor_delivered_before_it_is_safe() {
    let mut rig = rig();
    rig.publish(A, P, message("m", durable()));
    assert!(rig.told(A).is_empty() && rig.told(B).is_empty());
    let batch = rig.batches[0].clone();
    assert!(matches!(batch.ops[..], [Op::Enqueued(_)]), "{batch:?}");
    rig.persist_one();
    assert_eq!(rig.verdicts(A), [(0, 0, Verdict::Accepted)]);
    assert_eq!(rig.texts(B, C), ["m"]);
}

#[test]
fn what_is_not_durable_on_either_side_passes_at_once() {
    let mut rig = rig();
    rig.publish(A, P, message("m", Envelope::default()));
    assert_eq!(rig.verdicts(A), [(0, 0, Verdict::Accepted)]);
    assert_eq!(rig.texts(B, C), ["m"]);
    let volatile = QueueSpec {
        durable: false,
        ..lossy("v")
    };
    rig.broker
        .declare_queue(volatile, None)
        .expect("the name is free");
    rig.produce(A, C, named("v"));
    rig.publish(A, C, message("n", durable()));
    assert_eq!(rig.verdicts(A), [(0, 0, Verdict::Accepted)]);
    assert!(rig.batches.is_empty());
}

#[test]
fn a_queue_keeps_its_order_across_the_gate() {
    let mut rig = rig();
    rig.publish(A, P, message("0", durable()));
    rig.publish(A, P, message("1", Envelope::default()));
    assert_eq!(rig.verdicts(A), [(1, 1, Verdict::Accepted)]);
    assert!(rig.told(B).is_empty());
    rig.persist_one();
    assert_eq!(rig.texts(B, C), ["0", "1"]);
}

#[test]
fn sixteen_batches_are_in_flight_and_the_next_grows() {
    let mut rig = rig();
    for _ in 0..20 {
        rig.publish(A, P, message("m", durable()));
    }
    let sizes = |rig: &Rig| -> Vec<usize> { rig.batches.iter().map(|b| b.ops.len()).collect() };
    assert_eq!(sizes(&rig), [1; 16]);
    rig.persist_one();
    assert_eq!(rig.verdicts(A), [(0, 0, Verdict::Accepted)]);
    let mut with_a_long_one = [1; 16];
    with_a_long_one[15] = 4;
    assert_eq!(sizes(&rig), with_a_long_one);
    let ids: Vec<_> = rig.log.iter().map(|batch| batch.id.0).collect();
    assert!(
        ids.windows(2).all(|pair| pair[1] == pair[0] + 1) && ids[0] == 1,
        "{ids:?}"
    );
    // One answer may cover several batches.
    let upto = rig.batches[15].id;
    rig.batches.clear();
    rig.event(Event::Store(StoreEvent::Persisted { upto }));
    let confirmed: u64 = rig
        .verdicts(A)
        .iter()
        .map(|(first, last, _)| last - first + 1)
        .sum();
    assert_eq!(confirmed, 19);
    assert_eq!(rig.delivered(B, C).len(), 20);
}

#[test]
fn confirmations_come_as_runs_even_when_producers_alternate() {
    let mut rig = rig();
    rig.produce(A, D, named("q"));
    rig.told(A);
    let mut commands = Vec::new();
    for _ in 0..4 {
        commands.push(rig.next_publish(A, P, message("m", durable())));
        commands.push(rig.next_publish(A, D, message("n", Envelope::default())));
        commands.push(rig.next_publish(A, D, message("n", durable())));
    }
    rig.commands(A, commands);
    let mut runs: Vec<_> = rig.verdicts(A);
    assert!(
        runs.iter().all(|run| run.0 % 2 == 0 && run.0 == run.1),
        "the volatile ones only: {runs:?}"
    );
    rig.persist_one();
    runs.extend(rig.verdicts(A));
    assert!(runs.contains(&(0, 3, Verdict::Accepted)), "{runs:?}");
    let tickets: u64 = runs.iter().map(|run| run.1 - run.0 + 1).sum();
    assert_eq!(tickets, 12);
}

#[test]
fn a_batch_wakes_a_queue_once_whichever_way_messages_came() {
    let mut rig = rig();
    let spec = QueueSpec {
        dead_letter_routing_key: Some("q".into()),
        message_ttl_ms: Some(0),
        ..QueueSpec::new("r")
    };
    rig.broker.declare_queue(spec, None).expect("it is new");
    rig.produce(A, D, named("r"));
    rig.broker
        .declare_queue(QueueSpec::new("s"), None)
        .expect("it is new");
    rig.produce(B, P, named("s"));
    for _ in 0..16 {
        rig.publish(A, P, message("m", durable()));
    }
    assert_eq!(rig.batches.len(), 16, "the next batch stays open");
    for _ in 0..10 {
        rig.publish(A, P, message("m", durable()));
        // It is expired when it comes, and a dead letter in `q`.
        rig.publish(A, D, message("m", durable()));
        rig.publish(B, P, message("m", durable()));
    }
    assert_eq!(rig.broker.gate.woken_len(), 2);
    while !rig.batches.is_empty() {
        rig.persist_one();
    }
    rig.permit(B, C, 100);
    assert_eq!(rig.delivered(B, C).len(), 36);
}

#[test]
fn equal_verdicts_of_one_inbox_are_one_notice() {
    let mut rig = rig();
    rig.produce(A, D, named("q"));
    rig.told(A);
    let mut commands = Vec::new();
    for _ in 0..100 {
        commands.push(rig.next_publish(A, P, message("m", Envelope::default())));
        commands.push(rig.next_publish(A, D, message("n", Envelope::default())));
    }
    rig.commands(A, commands);
    assert_eq!(
        rig.verdicts(A),
        [(0, 99, Verdict::Accepted), (0, 99, Verdict::Accepted)]
    );
}

#[test]
fn a_settlement_is_told_when_it_is_durable() {
    let mut rig = rig();
    rig.publish(A, P, message("d", durable()));
    rig.persist_one();
    rig.publish(A, P, message("v", Envelope::default()));
    rig.told(B);
    let settle = |delivery| Command::Settle {
        port: C,
        first: DeliveryId(delivery),
        last: DeliveryId(delivery),
        outcome: Outcome::Accepted,
        confirm: true,
    };
    let settled = |delivery| Notice::Settled {
        port: C,
        first: DeliveryId(delivery),
        last: DeliveryId(delivery),
    };
    rig.command(B, settle(1));
    assert_eq!(rig.told(B), [settled(1)], "nothing was to be stored");
    rig.command(B, settle(0));
    assert!(rig.told(B).is_empty());
    // Asked again while the first is on its way: neither is answered early.
    rig.command(B, settle(0));
    assert!(rig.told(B).is_empty());
    let ops = &rig.batches[0].ops;
    assert!(
        matches!(ops[..], [Op::Removed { seq: Seq(0), .. }]),
        "{ops:?}"
    );
    rig.persist_one();
    assert_eq!(rig.told(B), [settled(0), settled(0)]);
}

#[test]
fn every_end_of_a_durable_message_is_an_operation_and_no_other_is() {
    let mut rig = rig();
    rig.is_instant = true;
    let plain = Outcome::Modified {
        failed: false,
        undeliverable_here: true,
        annotations: None,
    };
    let outcomes = [
        Outcome::Released,
        plain,
        failed(),
        Outcome::Lost,
        Outcome::Rejected { reason: None },
    ];
    let mut ops = Vec::new();
    for (sent, outcome) in outcomes.into_iter().enumerate() {
        rig.publish(A, P, message("m", durable()));
        rig.log.clear();
        rig.permit(B, C, 0);
        rig.settle(B, C, sent as u64, sent as u64, outcome);
        ops.push(
            rig.log
                .iter()
                .flat_map(|batch| batch.ops.clone())
                .collect::<Vec<_>>(),
        );
        rig.broker.purge_queue("q").expect("q exists");
        rig.flush();
        rig.permit(B, C, 100);
    }
    assert!(ops[0].is_empty() && ops[1].is_empty(), "{ops:?}");
    for counted in &ops[2..4] {
        assert!(
            matches!(
                counted[..],
                [Op::Returned {
                    delivery_count: 1,
                    ..
                }]
            ),
            "{ops:?}"
        );
    }
    assert!(matches!(ops[4][..], [Op::Removed { .. }]), "{ops:?}");
}

#[test]
fn a_counted_attempt_is_safe_before_the_next_one() {
    let mut rig = rig();
    rig.publish(A, P, message("m", durable()));
    rig.persist_one();
    assert_eq!(rig.delivered(B, C).len(), 1);
    rig.settle(B, C, 0, 0, failed());
    assert!(rig.delivered(B, C).is_empty());
    rig.persist_one();
    assert_eq!(rig.delivered(B, C)[0].delivery_count, 1);
}

#[test]
fn after_a_failure_nothing_is_told_any_more() {
    let mut rig = rig();
    rig.publish(A, P, message("0", durable()));
    rig.publish(A, P, message("1", durable()));
    rig.event(Event::Store(StoreEvent::Failed {
        text: "no space".to_owned(),
    }));
    assert_eq!(rig.failures, ["no space"]);
    rig.event(Event::Store(StoreEvent::Persisted { upto: BatchId(100) }));
    rig.publish(A, P, message("2", durable()));
    rig.publish(A, P, message("3", Envelope::default()));
    rig.event(Event::Store(StoreEvent::Failed {
        text: "again".to_owned(),
    }));
    assert!(rig.told(A).is_empty() && rig.told(B).is_empty());
    assert_eq!(rig.failures.len(), 1);
}

#[test]
fn a_confirmation_for_a_connection_that_is_gone_reaches_nobody_else() {
    let mut rig = rig();
    rig.publish(A, P, message("0", durable()));
    rig.event(Event::Disconnected { conn: A });
    let successor = crate::vocab::ConnId(9);
    rig.connect(successor);
    rig.persist_one();
    assert!(rig.told(successor).is_empty() && rig.told(A).is_empty());
    assert_eq!(rig.texts(B, C), ["0"]);
}

#[test]
fn op_03_a_draining_broker_delivers_nothing_and_finishes_the_rest() {
    let mut rig = rig();
    rig.publish(A, P, message("0", durable()));
    rig.persist_one();
    rig.told(A);
    assert_eq!(rig.texts(B, C), ["0"]);
    assert!(!rig.broker.is_drained());
    rig.broker.drain();
    rig.publish(A, P, message("1", durable()));
    rig.publish(A, P, message("2", Envelope::default()));
    assert_eq!(rig.verdicts(A), [(2, 2, Verdict::Accepted)]);
    rig.persist_one();
    assert_eq!(rig.verdicts(A), [(1, 1, Verdict::Accepted)]);
    rig.drain(B, C, 2_000);
    assert_eq!(rig.told(B), [Notice::Drained { port: C, sent: 1 }]);
    assert!(!rig.broker.is_drained(), "a delivery is unsettled");
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    assert!(
        !rig.broker.is_drained(),
        "the settlement waits for the store"
    );
    rig.persist_one();
    assert!(rig.broker.is_drained());
    assert!(rig.told(B).is_empty());
}

#[test]
fn a_settlement_asked_for_twice_waits_for_the_batch_of_the_first() {
    let mut rig = rig();
    rig.publish(A, P, message("0", durable()));
    rig.persist_one();
    rig.publish(A, P, message("1", durable()));
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    rig.told(B);
    assert_eq!(rig.batches.len(), 2);
    let (first, last) = (DeliveryId(0), DeliveryId(0));
    rig.command(
        B,
        Command::Settle {
            port: C,
            first,
            last,
            outcome: Outcome::Accepted,
            confirm: true,
        },
    );
    rig.permit(B, C, 0);
    rig.persist_one();
    let settled = |told: Vec<Notice>| {
        told.contains(&Notice::Settled {
            port: C,
            first,
            last,
        })
    };
    assert!(
        !settled(rig.told(B)),
        "the settlement is in the second batch"
    );
    rig.persist_one();
    assert!(settled(rig.told(B)));
}
