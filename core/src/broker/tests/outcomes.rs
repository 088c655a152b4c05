//! What the end of an attempt does (AMQP 1.0 part 3, 3.4): cases OU-01 to OU-04, SE-02, SE-03.

use bytes::Bytes;

use super::harness::*;
use crate::broker::QueueCounters;
use crate::vocab::{Outcome, Reason, Verdict};

fn counters(rig: &Rig) -> QueueCounters {
    rig.broker.queue_counters("q").expect("q exists")
}

#[test]
fn ou_01_only_failed_attempts_and_losses_count() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("m", durable()));
    let plain = Outcome::Modified {
        failed: false,
        undeliverable_here: false,
        annotations: None,
    };
    let outcomes = [
        Outcome::Released,
        plain,
        failed(),
        Outcome::Released,
        failed(),
    ];
    rig.consume(B, C, consumer(named("q")));
    let mut counts = Vec::new();
    for (sent, outcome) in outcomes
        .into_iter()
        .chain([Outcome::Lost, Outcome::Accepted])
        .enumerate()
    {
        rig.permit(B, C, sent as u64 + 1);
        let delivered = rig.delivered(B, C);
        assert_eq!(delivered.len(), 1);
        counts.push((delivered[0].delivery_count, delivered[0].first_acquirer));
        rig.settle(B, C, sent as u64, sent as u64, outcome);
    }
    let expected = [
        (0, true),
        (0, false),
        (0, false),
        (1, false),
        (1, false),
        (2, false),
        (3, false),
    ];
    assert_eq!(counts, expected);
    assert_eq!(counters(&rig).messages, 0);
}

#[test]
fn ou_02_undeliverable_here_goes_to_another_consumer_and_never_back() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(A, C, consumer(named("q")));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(A, C, 100);
    rig.publish_all(A, P, ["m0"]);
    assert_eq!(rig.texts(A, C), ["m0"]);
    rig.settle(A, C, 0, 0, not_here());
    assert!(rig.texts(A, C).is_empty(), "it came back to the same link");
    // What follows is not held up by it.
    rig.publish_all(A, P, ["m1"]);
    assert_eq!(rig.texts(A, C), ["m1"]);
    rig.permit(B, C, 1);
    assert_eq!(rig.texts(B, C), ["m0"]);
    // And back once more from B, so that neither may have it: it waits, without harm to others.
    rig.settle(B, C, 0, 0, not_here());
    rig.permit(B, C, 10);
    rig.publish_all(A, P, ["m2", "m3"]);
    let mut others = rig.texts(A, C);
    others.extend(rig.texts(B, C));
    others.sort();
    assert_eq!(others, ["m2", "m3"]);
    assert_eq!(counters(&rig).waiting, 1);
    rig.consume(B, D, consumer(named("q")));
    rig.permit(B, D, 1);
    assert_eq!(rig.texts(B, D), ["m0"]);
}

#[test]
fn a_consumer_that_excluded_itself_still_gets_what_others_excluded() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(A, C, consumer(named("q")));
    rig.consume(B, C, consumer(named("q")));
    rig.publish_all(A, P, ["m0", "m1", "m2"]);
    rig.permit(A, C, 2);
    rig.permit(B, C, 1);
    assert_eq!((rig.texts(A, C).len(), rig.texts(B, C).len()), (2, 1));
    rig.settle(A, C, 0, 1, not_here());
    rig.settle(B, C, 0, 0, not_here());
    rig.permit(A, C, 10);
    assert_eq!(rig.texts(A, C), ["m2"]);
    rig.permit(B, C, 10);
    assert_eq!(rig.texts(B, C), ["m0", "m1"]);
}

#[test]
fn ou_03_rejected_is_never_delivered_again() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 10);
    rig.publish(A, P, message("m", durable()));
    let reason = Some((Bytes::from_static(b"x:bad"), Bytes::from_static(b"no")));
    rig.settle(B, C, 0, 0, Outcome::Rejected { reason });
    assert_eq!(rig.delivered(B, C).len(), 1);
    assert_eq!(
        (
            rig.broker.counters().messages,
            rig.broker.counters().rejected
        ),
        (0, 1)
    );
    assert_eq!(rig.broker.counters().bytes, 0);
}

#[test]
fn se_03_what_is_settled_or_unknown_is_ignored() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    rig.publish_all(A, P, ["m0", "m1"]);
    rig.permit(B, C, 2);
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    rig.settle(B, C, 0, 0, Outcome::Rejected { reason: None });
    rig.settle(B, C, 77, 77, Outcome::Released);
    let after = QueueCounters {
        messages: 1,
        bodies: 1,
        waiting: 0,
        unsettled: 1,
        consumers: 1,
        producers: 1,
        ..QueueCounters::default()
    };
    assert_eq!(counters(&rig), after);
    rig.settle(B, C, 0, 200, Outcome::Released);
    rig.settle(B, C, 0, 200, failed());
    let after = QueueCounters {
        messages: 1,
        bodies: 1,
        waiting: 1,
        unsettled: 0,
        consumers: 1,
        producers: 1,
        ..QueueCounters::default()
    };
    assert_eq!(counters(&rig), after);
    assert_eq!(rig.broker.counters().rejected, 0);
    assert_eq!(rig.delivered(B, C).len(), 2);
    rig.permit(B, C, 3);
    assert_eq!(rig.delivered(B, C)[0].delivery_count, 0);
    // A port that is no consumer, and one that never was.
    rig.settle(A, P, 0, 10, Outcome::Accepted);
    rig.settle(A, D, 0, 10, Outcome::Accepted);
    assert_eq!(counters(&rig).messages, 1);
}

#[test]
fn se_02_huge_and_reversed_ranges_touch_what_is_unsettled_and_no_more() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    rig.publish_all(A, P, ["m0", "m1", "m2"]);
    rig.permit(B, C, 3);
    rig.settle(B, C, 2, 1, Outcome::Accepted);
    rig.settle(B, C, u64::MAX, 0, Outcome::Released);
    assert_eq!(counters(&rig).unsettled, 3);
    for _ in 0..10_000 {
        rig.settle(B, C, 1, u64::MAX, Outcome::Accepted);
    }
    assert_eq!((counters(&rig).unsettled, counters(&rig).messages), (1, 1));
    rig.settle(B, C, 0, u64::MAX, Outcome::Released);
    assert_eq!((counters(&rig).unsettled, counters(&rig).waiting), (0, 1));
}

#[test]
fn annotations_stay_until_newer_ones_replace_them() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    rig.publish_all(A, P, ["m"]);
    let annotated = |text: &'static str| Outcome::Modified {
        failed: false,
        undeliverable_here: false,
        annotations: Some(Bytes::from_static(text.as_bytes())),
    };
    let mut seen = Vec::new();
    for (sent, outcome) in [
        annotated("one"),
        Outcome::Released,
        failed(),
        annotated("two"),
        Outcome::Accepted,
    ]
    .into_iter()
    .enumerate()
    {
        rig.permit(B, C, sent as u64 + 1);
        seen.extend(
            rig.delivered(B, C)
                .into_iter()
                .map(|delivered| delivered.annotations),
        );
        rig.settle(B, C, sent as u64, sent as u64, outcome);
    }
    let text = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    assert_eq!(
        seen,
        [None, text("one"), text("one"), text("one"), text("two")]
    );
}

#[test]
fn a_close_ends_attempts_with_the_default_outcome_a_loss_counts_them() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.publish_all(A, P, ["m"]);
    let mut counts = Vec::new();
    for (default_outcome, lost) in [
        (Outcome::Released, false),
        (failed(), false),
        (Outcome::Released, true),
        (Outcome::Accepted, true),
    ] {
        rig.consume(
            B,
            C,
            crate::vocab::ConsumerSpec {
                default_outcome,
                ..consumer(named("q"))
            },
        );
        rig.permit(B, C, 1);
        counts.extend(
            rig.delivered(B, C)
                .into_iter()
                .map(|delivered| delivered.delivery_count),
        );
        rig.close(B, C, lost);
    }
    assert_eq!(counts, [0, 0, 1, 2]);
    let accepting = crate::vocab::ConsumerSpec {
        default_outcome: Outcome::Accepted,
        ..consumer(named("q"))
    };
    rig.consume(B, C, accepting);
    rig.permit(B, C, 1);
    assert_eq!(rig.delivered(B, C)[0].delivery_count, 3);
    rig.close(B, C, false);
    assert_eq!(counters(&rig).messages, 0);
}

#[test]
fn ou_07_accepted_means_that_it_is_in_a_queue() {
    let mut rig = Rig::with_q();
    let exchange = |name: &str| crate::vocab::Address::Exchange {
        name: name.to_owned(),
        key: None,
    };
    rig.produce(A, P, exchange("amq.topic"));
    rig.publish_all(A, P, ["m"]);
    assert_eq!(rig.verdicts(A), [(0, 0, Verdict::Unroutable)]);
    rig.produce(A, C, named("q"));
    rig.broker.delete_queue(rig.now, "q").expect("q exists");
    rig.flush();
    let told = rig.told(A);
    assert!(
        matches!(told.last(), Some(crate::vocab::Notice::Closed { port: C, refusal }) if refusal.reason == Reason::Deleted),
        "{told:?}"
    );
    rig.publish_all(A, C, ["m"]);
    assert!(rig.told(A).is_empty());
    assert_eq!(rig.broker.counters().messages, 0);
}
