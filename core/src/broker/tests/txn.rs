//! Transactions: together or not at all, on the wire to the store as well.

use super::harness::*;
use super::paging::paged;
use crate::broker::QueueSpec;
use crate::store::Op;
use crate::vocab::{
    Command, ConnId, DeliveryId, Envelope, Notice, Outcome, Port, Reason, TxnId, Verdict,
};

const T: TxnId = TxnId(1);
const U: TxnId = TxnId(2);

/// Queues `q` and `r`; `r` takes two messages.
fn rig() -> Rig {
    let small = QueueSpec {
        max_length: Some(2),
        ..QueueSpec::new("r")
    };
    let mut rig = Rig::new(paged([QueueSpec::new("q"), small]));
    rig.produce(A, P, named("q"));
    rig.produce(A, D, named("r"));
    rig.told(A);
    rig
}

fn stage(rig: &mut Rig, port: Port, txn: TxnId, name: &str, envelope: Envelope) {
    let Command::Publish {
        port,
        ticket,
        message,
        ..
    } = rig.next_publish(A, port, message(name, envelope))
    else {
        panic!("a publish");
    };
    rig.command(
        A,
        Command::Stage {
            port,
            ticket,
            txn,
            message,
        },
    );
}

fn stage_settle(rig: &mut Rig, conn: ConnId, port: Port, txn: TxnId, range: (u64, u64)) {
    stage_outcome(rig, (conn, port), txn, range, Outcome::Accepted);
}

fn stage_outcome(
    rig: &mut Rig,
    (conn, port): (ConnId, Port),
    txn: TxnId,
    range: (u64, u64),
    outcome: Outcome,
) {
    rig.command(
        conn,
        Command::StageSettle {
            port,
            first: DeliveryId(range.0),
            last: DeliveryId(range.1),
            txn,
            outcome,
        },
    );
}

fn discharge(rig: &mut Rig, conn: ConnId, txn: TxnId, fail: bool) {
    rig.command(conn, Command::Discharge { txn, fail });
}

/// Takes the answers to discharges: what went wrong, if anything.
fn discharged(rig: &mut Rig, conn: ConnId) -> Vec<(TxnId, Option<Reason>)> {
    let told = rig.told(conn);
    told.into_iter()
        .filter_map(|notice| match notice {
            Notice::Discharged { txn, fault } => Some((txn, fault.map(|fault| fault.reason))),
            _ => None,
        })
        .collect()
}

fn take_all(rig: &mut Rig, queue: &str) -> Vec<String> {
    let port = Port(40);
    rig.told(B);
    rig.consume(B, port, consumer(named(queue)));
    rig.permit(B, port, 1_000);
    let texts = rig.texts(B, port);
    rig.close(B, port, false);
    texts
}

#[test]
fn publishes_enter_together_in_one_batch() {
    let mut rig = rig();
    stage(&mut rig, P, T, "1", durable());
    stage(&mut rig, D, T, "2", durable());
    stage(&mut rig, P, T, "3", durable());
    let verdicts = rig.verdicts(A);
    assert_eq!(verdicts.len(), 3);
    assert!(verdicts.iter().all(|one| one.2 == Verdict::Accepted));
    assert!(take_all(&mut rig, "q").is_empty(), "nobody sees them yet");
    assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
    rig.is_instant = false;
    let batches = rig.log.len();
    discharge(&mut rig, A, T, false);
    assert!(discharged(&mut rig, A).is_empty(), "it is not safe yet");
    assert!(take_all(&mut rig, "q").is_empty(), "nor to be seen");
    assert_eq!(rig.log.len(), batches + 1, "one batch holds it all");
    let enqueued = rig.log[batches]
        .ops
        .iter()
        .filter(|op| matches!(op, Op::Enqueued(_)));
    assert_eq!(enqueued.count(), 3);
    rig.persist_one();
    assert_eq!(discharged(&mut rig, A), [(T, None)]);
    rig.is_instant = true;
    assert_eq!(take_all(&mut rig, "q"), ["1", "3"]);
    assert_eq!(take_all(&mut rig, "r"), ["2"]);
}

#[test]
fn what_is_rolled_back_never_was() {
    let mut rig = rig();
    stage(&mut rig, P, T, "1", durable());
    stage(&mut rig, P, U, "2", durable());
    discharge(&mut rig, A, T, true);
    discharge(&mut rig, A, U, false);
    assert_eq!(discharged(&mut rig, A), [(T, None), (U, None)]);
    assert_eq!(take_all(&mut rig, "q"), ["2"]);
    assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
}

#[test]
fn one_part_without_room_fails_all_of_it() {
    let mut rig = rig();
    rig.publish(A, D, message("0", durable()));
    stage(&mut rig, P, T, "1", durable());
    stage(&mut rig, D, T, "2", durable());
    stage(&mut rig, D, T, "3", durable());
    rig.told(A);
    let batches = rig.log.len();
    discharge(&mut rig, A, T, false);
    assert_eq!(
        discharged(&mut rig, A),
        [(T, Some(Reason::LimitExceeded))],
        "two of three fit into `r`"
    );
    assert_eq!(rig.log.len(), batches, "nothing was stored");
    assert!(take_all(&mut rig, "q").is_empty());
    assert_eq!(take_all(&mut rig, "r"), ["0"]);
}

#[test]
fn a_refused_message_fails_its_transaction() {
    let mut rig = rig();
    rig.produce(A, C, crate::vocab::Address::Anonymous);
    rig.told(A);
    let lost = Envelope {
        to: Some("nobody".into()),
        ..durable()
    };
    stage(&mut rig, P, T, "1", durable());
    stage(&mut rig, C, T, "2", lost);
    assert_eq!(
        rig.verdicts(A).last().map(|one| one.2.clone()),
        Some(Verdict::Unroutable)
    );
    discharge(&mut rig, A, T, false);
    assert_eq!(discharged(&mut rig, A), [(T, Some(Reason::NotFound))]);
    assert!(take_all(&mut rig, "q").is_empty());
}

#[test]
fn settlements_wait_for_the_discharge() {
    let mut rig = rig();
    for name in ["1", "2", "3"] {
        rig.publish(A, P, message(name, durable()));
    }
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 3);
    assert_eq!(rig.texts(A, C).len(), 3);
    stage_settle(&mut rig, A, C, T, (0, 0));
    stage_settle(&mut rig, A, C, T, (1, 1));
    stage(&mut rig, D, T, "answer", durable());
    assert_eq!(rig.kept.len(), 3);
    discharge(&mut rig, A, T, true);
    assert_eq!(rig.broker.counters().unsettled, 3, "they are still its own");
    stage_settle(&mut rig, A, C, U, (0, 1));
    stage(&mut rig, D, U, "answer", durable());
    rig.told(A);
    discharge(&mut rig, A, U, false);
    assert_eq!(discharged(&mut rig, A), [(U, None)]);
    assert_eq!(rig.broker.counters().unsettled, 1);
    rig.close(A, C, false);
    assert_eq!(take_all(&mut rig, "q"), ["3"]);
    assert_eq!(take_all(&mut rig, "r"), ["answer"]);
}

#[test]
fn a_consumer_that_goes_takes_its_transaction_along() {
    let mut rig = rig();
    rig.publish(A, P, message("1", durable()));
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 1);
    stage_settle(&mut rig, A, C, T, (0, 0));
    stage(&mut rig, D, T, "answer", durable());
    rig.close(A, C, false);
    discharge(&mut rig, A, T, false);
    assert_eq!(discharged(&mut rig, A), [(T, Some(Reason::NotFound))]);
    assert_eq!(take_all(&mut rig, "q"), ["1"]);
    assert!(take_all(&mut rig, "r").is_empty());
}

#[test]
fn a_producer_may_go_before_the_discharge() {
    let mut rig = rig();
    stage(&mut rig, P, T, "1", durable());
    rig.close(A, P, false);
    discharge(&mut rig, A, T, false);
    assert_eq!(discharged(&mut rig, A), [(T, None)]);
    assert_eq!(take_all(&mut rig, "q"), ["1"]);
}

#[test]
fn a_queue_that_goes_fails_the_transaction() {
    let mut rig = rig();
    stage(&mut rig, P, T, "1", durable());
    stage(&mut rig, D, T, "2", durable());
    rig.broker.delete_queue(rig.now, "q").expect("it exists");
    rig.flush();
    discharge(&mut rig, A, T, false);
    assert_eq!(discharged(&mut rig, A), [(T, Some(Reason::Deleted))]);
    assert!(take_all(&mut rig, "r").is_empty());
}

#[test]
fn a_connection_that_goes_leaves_nothing() {
    let mut rig = rig();
    stage(&mut rig, P, T, "1", durable());
    assert!(rig.broker.counters().bytes > 0);
    rig.event(crate::broker::Event::Disconnected { conn: A });
    assert_eq!(rig.broker.counters().bytes, 0);
    assert!(take_all(&mut rig, "q").is_empty());
}

#[test]
fn a_crash_before_the_answer_keeps_all_or_nothing() {
    for is_persisted in [false, true] {
        let mut rig = rig();
        rig.publish(A, P, message("old", durable()));
        rig.consume(A, C, consumer(named("q")));
        rig.permit(A, C, 1);
        stage_settle(&mut rig, A, C, T, (0, 0));
        stage(&mut rig, P, T, "new", durable());
        stage(&mut rig, D, T, "other", durable());
        rig.is_instant = false;
        discharge(&mut rig, A, T, false);
        if is_persisted {
            rig.persist_one();
        }
        let mut after = rig.restarted(paged([]));
        let (of_q, of_r) = (take_all(&mut after, "q"), take_all(&mut after, "r"));
        if is_persisted {
            assert_eq!(
                (of_q.join(","), of_r.join(",")),
                ("new".into(), "other".into())
            );
        } else {
            assert_eq!(
                (of_q.join(","), of_r.join(",")),
                ("old".into(), String::new())
            );
        }
    }
}

#[test]
fn a_transaction_cannot_take_all_memory() {
    let mut config = paged([QueueSpec::new("q")]);
    config.limits.memory_max_bytes = 10_000;
    let mut rig = Rig::new(config);
    rig.produce(A, P, named("q"));
    rig.told(A);
    let large = "x".repeat(4_000);
    for _ in 0..3 {
        stage(&mut rig, P, T, &large, durable());
    }
    let refused = (2, 2, Verdict::Rejected(Reason::LimitExceeded));
    assert_eq!(rig.verdicts(A).last(), Some(&refused));
    discharge(&mut rig, A, T, false);
    assert_eq!(discharged(&mut rig, A), [(T, Some(Reason::LimitExceeded))]);
    assert_eq!(rig.broker.counters().bytes, 0);
}

#[test]
fn a_transaction_has_so_many_parts_at_most() {
    for is_settled in [false, true] {
        let mut config = paged([QueueSpec::new("q")]);
        config.limits.txn_parts_max = 2;
        let mut rig = Rig::new(config);
        rig.produce(A, P, named("q"));
        for text in ["a", "b", "c"] {
            rig.publish(A, P, message(text, durable()));
        }
        rig.consume(A, C, consumer(named("q")));
        rig.permit(A, C, 3);
        rig.told(A);
        // Two ranges with a gap between them are two parts.
        stage_settle(&mut rig, A, C, T, (0, 0));
        stage_settle(&mut rig, A, C, T, (2, 2));
        if is_settled {
            stage_settle(&mut rig, A, C, T, (1, 1));
        } else {
            stage(&mut rig, P, T, "one too many", durable());
            let refused = (3, 3, Verdict::Rejected(Reason::LimitExceeded));
            assert_eq!(rig.verdicts(A), [refused]);
        }
        discharge(&mut rig, A, T, false);
        assert_eq!(discharged(&mut rig, A), [(T, Some(Reason::LimitExceeded))]);
        assert_eq!(rig.broker.counters().unsettled, 3, "nothing is settled");
    }
}

/// Its face has not heard that the sender is gone, so nobody is told that the message went nowhere.
#[test]
fn a_message_of_a_sender_that_is_gone_fails_its_transaction() {
    let mut rig = rig();
    stage(&mut rig, D, T, "1", durable());
    rig.close(A, P, false);
    stage(&mut rig, P, T, "2", durable());
    discharge(&mut rig, A, T, false);
    assert_eq!(discharged(&mut rig, A), [(T, Some(Reason::NotFound))]);
    assert!(take_all(&mut rig, "r").is_empty());
}

#[test]
fn a_delivery_that_was_settled_meanwhile_fails_its_transaction() {
    let mut rig = rig();
    rig.publish(A, P, message("1", durable()));
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 1);
    stage_settle(&mut rig, A, C, T, (0, 0));
    rig.settle(A, C, 0, 0, Outcome::Released);
    rig.told(A);
    discharge(&mut rig, A, T, false);
    assert_eq!(discharged(&mut rig, A), [(T, Some(Reason::NotFound))]);
}

/// A rejected message becomes a dead letter in the same batch in which the rest takes effect.
#[test]
fn dead_letters_are_part_of_the_batch() {
    let with_grave = QueueSpec {
        dead_letter_routing_key: Some("dead".to_owned()),
        ..QueueSpec::new("q")
    };
    let mut rig = Rig::new(paged([
        with_grave,
        QueueSpec::new("r"),
        QueueSpec::new("dead"),
    ]));
    rig.produce(A, P, named("q"));
    rig.produce(A, D, named("r"));
    rig.publish(A, P, message("bad", durable()));
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 1);
    rig.told(A);
    let rejected = Outcome::Rejected { reason: None };
    stage_outcome(&mut rig, (A, C), T, (0, 0), rejected);
    stage(&mut rig, D, T, "report", durable());
    assert!(take_all(&mut rig, "dead").is_empty());
    let batches = rig.log.len();
    discharge(&mut rig, A, T, false);
    assert_eq!(discharged(&mut rig, A), [(T, None)]);
    assert_eq!(rig.log.len(), batches + 1);
    assert_eq!(take_all(&mut rig, "dead"), ["bad"]);
    assert_eq!(take_all(&mut rig, "r"), ["report"]);
    assert!(take_all(&mut rig, "q").is_empty());
}

#[test]
fn a_fanout_enters_all_its_queues_or_fails_with_the_first_that_goes() {
    for is_deleted in [false, true] {
        let mut config = paged(["a", "b"].map(QueueSpec::new));
        config.bindings = ["a", "b"]
            .map(|queue| crate::route::BindingSpec::to_queue("amq.fanout", queue, ""))
            .to_vec();
        let mut rig = Rig::new(config);
        rig.produce(A, P, named("amq.fanout"));
        rig.told(A);
        stage(&mut rig, P, T, "m", durable());
        if is_deleted {
            rig.broker.delete_queue(rig.now, "b").expect("it exists");
            rig.flush();
        }
        discharge(&mut rig, A, T, false);
        let fault = is_deleted.then_some(Reason::Deleted);
        assert_eq!(discharged(&mut rig, A), [(T, fault)]);
        assert_eq!(take_all(&mut rig, "a").is_empty(), is_deleted);
        assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
    }
}

/// More than the window of the queue: bodies leave memory and come back as those of other messages do.
#[test]
fn a_large_transaction_is_paged_out_and_read_in_order() {
    let mut rig = rig();
    for number in 0..300 {
        stage(&mut rig, P, T, &number.to_string(), durable());
    }
    discharge(&mut rig, A, T, false);
    assert_eq!(discharged(&mut rig, A), [(T, None)]);
    assert!(rig.broker.counters().paged > 200);
    let numbers: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    assert_eq!(take_all(&mut rig, "q"), numbers);
}
