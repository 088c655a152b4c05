//! Dead letters: where they go, what they carry, and that they are never lost, doubled or sent round for ever (DL-*).

use bytes::Bytes;

use super::harness::*;
use crate::broker::{BrokerConfig, FailurePolicy, Overflow, Paging, QueueSpec};
use crate::store::Op;
use crate::vocab::{Cause, Delivered, Envelope, Outcome, Port, Reason, Verdict};

const REJECTED: Outcome = Outcome::Rejected { reason: None };

fn waiting(rig: &Rig, name: &str) -> Option<usize> {
    rig.broker
        .queue_counters(name)
        .map(|counters| counters.waiting)
}

fn ttl(ttl_ms: u64) -> Envelope {
    Envelope {
        ttl_ms: Some(ttl_ms),
        ..durable()
    }
}

/// Queue, cause and count of each death.
fn deaths(delivered: &Delivered) -> Vec<(String, Cause, u32)> {
    let deaths = delivered.message.envelope.deaths.as_ref();
    let list = deaths.map_or(&[][..], |deaths| &deaths.list);
    list.iter()
        .map(|death| (death.queue.clone(), death.cause, death.count))
        .collect()
}

fn to(name: &str, target: &str) -> QueueSpec {
    QueueSpec {
        dead_letter_exchange: Some(String::new()),
        dead_letter_routing_key: Some(target.to_owned()),
        ..QueueSpec::new(name)
    }
}

/// One queue `q` as it is by default, a producer, and a consumer with permit.
fn plain() -> Rig {
    let mut rig = Rig::new(config([QueueSpec::new("q")]));
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 100);
    rig
}

#[test]
fn a_rejected_message_waits_in_the_dead_letter_queue_also_after_a_restart() {
    let mut rig = plain();
    rig.publish(A, P, message("m", ttl(5_000)));
    rig.settle(B, C, 0, 0, REJECTED);
    assert_eq!(
        (waiting(&rig, "q"), waiting(&rig, "q.dlq")),
        (Some(0), Some(1))
    );
    let moved = &rig.log.last().expect("it was stored").ops;
    assert!(
        matches!(
            &moved[..],
            [
                Op::Removed { .. },
                Op::QueueDeclared { .. },
                Op::Enqueued(_)
            ]
        ),
        "one batch moves it: {moved:?}"
    );
    let mut rig = rig.restarted(config([QueueSpec::new("q")]));
    rig.sleep_ms(60_000);
    rig.tick();
    rig.consume(B, D, consumer(named("q.dlq")));
    rig.permit(B, D, 10);
    let got = rig.delivered(B, D);
    assert_eq!(got.len(), 1);
    assert_eq!(deaths(&got[0]), [("q".to_owned(), Cause::Rejected, 1)]);
    assert_eq!((got[0].ttl_ms, got[0].delivery_count), (None, 0));
    let history = got[0].message.envelope.deaths.as_ref().unwrap();
    assert_eq!(
        (history.ttl_ms, history.list[0].at_ms),
        (Some(5_000), 1_000_000)
    );
    // What fails in a dead-letter queue itself is dropped when it is rejected, and kept as long as it is not.
    for delivery in 0..20 {
        rig.settle(B, D, delivery, delivery, failed());
        rig.permit(B, D, delivery + 12);
    }
    assert_eq!(rig.broker.counters().messages, 1);
    rig.settle(B, D, 20, 20, REJECTED);
    assert_eq!(
        (rig.broker.counters().messages, rig.broker.counters().bytes),
        (0, 0)
    );
}

#[test]
fn the_last_attempt_is_counted_on_this_queue_and_by_failures_only() {
    let mut rig = plain();
    let envelope = Envelope {
        delivery_count: 9,
        ..durable()
    };
    rig.publish(A, P, message("m", envelope));
    for delivery in 0..4 {
        rig.settle(B, C, delivery, delivery, failed());
    }
    rig.settle(B, C, 4, 4, Outcome::Released);
    assert_eq!(waiting(&rig, "q.dlq"), None);
    let annotated = Outcome::Modified {
        failed: true,
        undeliverable_here: false,
        annotations: Some(Bytes::from_static(b"note")),
    };
    rig.settle(B, C, 5, 5, annotated);
    assert_eq!(rig.delivered(B, C).len(), 6);
    let mut rig = rig.restarted(config([QueueSpec::new("q")]));
    rig.consume(B, D, consumer(named("q.dlq")));
    rig.permit(B, D, 10);
    let got = rig.delivered(B, D);
    assert_eq!(deaths(&got[0]), [("q".to_owned(), Cause::Attempts, 1)]);
    assert_eq!(got[0].annotations.as_deref(), Some(&b"note"[..]));
}

#[test]
fn lost_consumers_use_attempts_up_as_well_and_policies_differ() {
    for policy in [
        FailurePolicy::Dlq,
        FailurePolicy::Drop,
        FailurePolicy::Infinite,
    ] {
        let spec = QueueSpec {
            failure_policy: policy,
            max_deliveries: 2,
            ..QueueSpec::new("q")
        };
        let mut rig = Rig::new(config([spec]));
        rig.produce(A, P, named("q"));
        rig.publish(A, P, message("m", durable()));
        for _ in 0..3 {
            rig.consume(B, C, consumer(named("q")));
            rig.permit(B, C, 1);
            rig.close(B, C, true);
        }
        let expected = match policy {
            FailurePolicy::Dlq => (Some(0), Some(1)),
            FailurePolicy::Drop => (Some(0), None),
            FailurePolicy::Infinite => (Some(1), None),
        };
        assert_eq!((waiting(&rig, "q"), waiting(&rig, "q.dlq")), expected);
    }
}

#[test]
fn dl_05_messages_expire_into_the_dead_letter_queue_without_traffic_or_consumers() {
    let queues = || config([to("q", "dead"), lossy("dead")]);
    let mut rig = Rig::new(queues());
    rig.produce(A, P, named("q"));
    for number in 0..10 {
        rig.publish(A, P, message(&number.to_string(), ttl(1_000)));
    }
    let mut rig = rig.restarted(queues());
    rig.sleep_ms(1_001);
    rig.tick();
    assert_eq!(
        (waiting(&rig, "q"), waiting(&rig, "dead")),
        (Some(0), Some(10))
    );
    rig.consume(B, C, consumer(named("dead")));
    rig.permit(B, C, 20);
    let got = rig.delivered(B, C);
    let texts: Vec<String> = got.iter().map(text).collect();
    assert_eq!(texts, (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(deaths(&got[9]), [("q".to_owned(), Cause::Expired, 1)]);
}

#[test]
fn a_message_that_is_over_when_it_comes_is_a_dead_letter_at_once() {
    let mut rig = plain();
    rig.is_instant = false;
    rig.publish(A, P, message("m", ttl(0)));
    // Confirmed when the dead letter is safe.
    assert_eq!(rig.verdicts(A), []);
    rig.persist_one();
    assert_eq!(rig.verdicts(A), [(0, 0, Verdict::Accepted)]);
    assert_eq!(
        (waiting(&rig, "q"), waiting(&rig, "q.dlq")),
        (Some(0), Some(1))
    );
}

#[test]
fn dl_01_a_cycle_that_a_consumer_drives_goes_on() {
    let retry = QueueSpec {
        message_ttl_ms: Some(200),
        ..to("retry", "work")
    };
    let mut rig = Rig::new(config([to("work", "retry"), retry]));
    rig.produce(A, P, named("work"));
    rig.consume(B, C, consumer(named("work")));
    rig.permit(B, C, 100);
    rig.publish(A, P, message("m", durable()));
    for round in 0..5 {
        rig.settle(B, C, round, round, REJECTED);
        rig.sleep_ms(201);
        rig.tick();
        let got = rig.delivered(B, C);
        let rounds = u32::try_from(round).unwrap() + 1;
        let newest = got.last().expect("it comes again");
        let expected = [
            ("retry".to_owned(), Cause::Expired, rounds),
            ("work".to_owned(), Cause::Rejected, rounds),
        ];
        assert_eq!(deaths(newest), expected);
    }
}

#[test]
fn dl_02_a_ring_without_a_consumer_ends_after_one_round() {
    let expiring = |name, target, ms| QueueSpec {
        message_ttl_ms: Some(ms),
        ..to(name, target)
    };
    for own_ttl in [0, 50] {
        let queues = [
            expiring("self", "self", own_ttl),
            expiring("qa", "qb", 10),
            expiring("qb", "qa", 10),
        ];
        let mut rig = Rig::new(config(queues));
        rig.produce(A, P, named("self"));
        rig.produce(A, D, named("qa"));
        rig.publish(A, P, message("m", durable()));
        rig.publish(A, D, message("m", durable()));
        for _ in 0..10 {
            rig.sleep_ms(60);
            rig.tick();
        }
        let counters = rig.broker.counters();
        assert_eq!((counters.messages, counters.dropped), (0, 2));
        assert_eq!((rig.broker.poll_timeout(), rig.kept.len()), (None, 0));
    }
}

#[test]
fn a_full_queue_takes_dead_letters_and_a_missing_one_loses_none() {
    let full = QueueSpec {
        max_length: Some(1),
        ..lossy("full")
    };
    let mut rig = Rig::new(config([to("q", "full"), full, to("r", "missing")]));
    rig.produce(A, P, named("q"));
    rig.produce(A, D, named("r"));
    for _ in 0..3 {
        rig.publish(A, P, message("m", ttl(5)));
        rig.publish(A, D, message("m", ttl(5)));
    }
    rig.sleep_ms(10);
    rig.tick();
    assert_eq!(
        (waiting(&rig, "full"), waiting(&rig, "r.dlq")),
        (Some(3), Some(3))
    );
}

#[test]
fn overflow_makes_dead_letters_where_that_is_asked_for() {
    let full = |overflow, spec: QueueSpec| QueueSpec {
        max_length: Some(2),
        overflow,
        ..spec
    };
    let cases = [
        (
            full(Overflow::DropHead, to("q", "dead")),
            1,
            Verdict::Accepted,
        ),
        (
            full(Overflow::DropHead, QueueSpec::new("q")),
            0,
            Verdict::Accepted,
        ),
        (
            full(Overflow::RejectDlx, to("q", "dead")),
            1,
            Verdict::Full("q".into()),
        ),
        (
            full(Overflow::Reject, to("q", "dead")),
            0,
            Verdict::Full("q".into()),
        ),
    ];
    for (spec, dead, verdict) in cases {
        let takes_oldest = spec.overflow == Overflow::DropHead;
        let mut rig = Rig::new(config([spec, lossy("dead")]));
        rig.produce(A, P, named("q"));
        for number in 0..3 {
            rig.publish(A, P, message(&number.to_string(), durable()));
        }
        assert_eq!(
            rig.verdicts(A).last().map(|last| last.2.clone()),
            Some(verdict)
        );
        assert_eq!(
            (waiting(&rig, "q"), waiting(&rig, "dead")),
            (Some(2), Some(dead))
        );
        rig.consume(B, C, consumer(named("dead")));
        rig.permit(B, C, 9);
        let expected = if takes_oldest { "0" } else { "2" };
        assert!(rig.texts(B, C).iter().all(|text| text == expected));
    }
}

#[test]
fn what_is_paged_out_becomes_a_dead_letter_too() {
    let queues = || BrokerConfig {
        paging: Some(Paging {
            window_len: 8,
            window_bytes: 4_096,
            cache_bytes: 1 << 20,
        }),
        ..config([to("q", "dead"), lossy("dead")])
    };
    let mut rig = Rig::new(queues());
    rig.produce(A, P, named("q"));
    for number in 0..1_000 {
        rig.publish(A, P, message(&number.to_string(), ttl(1_000)));
    }
    assert!(rig.broker.queue_counters("q").unwrap().paged > 900);
    rig.sleep_ms(1_001);
    rig.tick();
    assert_eq!(
        (waiting(&rig, "q"), waiting(&rig, "dead")),
        (Some(0), Some(1_000))
    );
    assert_eq!(rig.kept.len(), 1_000);
    let mut rig = rig.restarted(queues());
    rig.consume(B, C, consumer(named("dead")));
    rig.permit(B, C, 2_000);
    let mut numbers: Vec<u32> = rig
        .texts(B, C)
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_target_and_the_policy_that_drops_exclude_each_other() {
    let mut rig = Rig::with_q();
    let spec = QueueSpec {
        failure_policy: FailurePolicy::Drop,
        ..to("odd", "dead")
    };
    let refused = rig.broker.declare_queue(spec, None).unwrap_err();
    assert_eq!(refused.reason, Reason::Invalid);
}

/// Two full queues that each send to the other what falls out of them: what a publish sets off is as long as both, and
/// must not be as deep.
#[test]
fn queues_that_overflow_into_each_other_come_to_an_end() {
    const LENGTH: usize = 20_000;
    let full = |name, target| QueueSpec {
        max_length: Some(LENGTH as u64),
        overflow: Overflow::DropHead,
        ..to(name, target)
    };
    let mut rig = Rig::new(config([full("a", "b"), full("b", "a")]));
    for (port, name) in [(P, "a"), (Port(7), "b")] {
        rig.produce(A, port, named(name));
        for number in 0..LENGTH {
            rig.publish(A, port, message(&number.to_string(), Envelope::default()));
        }
    }
    assert_eq!(
        (waiting(&rig, "a"), waiting(&rig, "b")),
        (Some(LENGTH), Some(LENGTH))
    );
    rig.publish(A, P, message("last", Envelope::default()));
    assert_eq!(
        (waiting(&rig, "a"), waiting(&rig, "b")),
        (Some(LENGTH), Some(LENGTH))
    );
    assert!(rig.broker.counters().dropped > 0);
}

/// Neither a time to live nor a moment of expiry goes on in the queue of dead letters, also after a restart.
#[test]
fn dl_03_a_dead_letter_outlives_what_its_message_expired_by() {
    let mut rig = Rig::new(config([QueueSpec::new("q")]));
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("ttl", ttl(200)));
    let moment = Envelope {
        expires_at_ms: Some(rig.now.wall_ms + 100),
        ..durable()
    };
    rig.publish(A, P, message("moment", moment));
    let past = Envelope {
        expires_at_ms: Some(rig.now.wall_ms - 1),
        ..durable()
    };
    rig.publish(A, P, message("past", past));
    rig.sleep_ms(5_000);
    rig.run_timers();
    assert_eq!(waiting(&rig, "q"), Some(0));
    let mut rig = rig.restarted(config([QueueSpec::new("q")]));
    rig.sleep_ms(5_000);
    rig.run_timers();
    rig.consume(B, C, consumer(named("q.dlq")));
    rig.permit(B, C, 10);
    let mut texts = Vec::new();
    for letter in rig.delivered(B, C) {
        assert_eq!(letter.ttl_ms, None);
        assert_eq!(deaths(&letter), [("q".to_owned(), Cause::Expired, 1)]);
        texts.push(text(&letter));
    }
    texts.sort();
    assert_eq!(texts, ["moment", "past", "ttl"]);
}
