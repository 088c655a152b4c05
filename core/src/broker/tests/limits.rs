//! Limits: length, bytes, queues, names, memory (MM-02 at the broker).

use super::harness::*;
use crate::broker::{BrokerConfig, Limits, Overflow, QueueSpec};
use crate::vocab::{Envelope, Notice, Outcome, Reason, Verdict};

/// The verdict of the full queue `q`.
fn full() -> Verdict {
    Verdict::Full("q".into())
}

fn pressure(rig: &mut Rig, conn: crate::vocab::ConnId) -> Vec<bool> {
    let told = rig.told(conn);
    told.into_iter()
        .filter_map(|notice| {
            if let Notice::Pressure { on } = notice {
                Some(on)
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn a_full_queue_refuses_and_takes_again_when_there_is_room() {
    for overflow in [Overflow::Reject, Overflow::RejectDlx] {
        let spec = QueueSpec {
            max_length: Some(2),
            overflow,
            ..lossy("q")
        };
        let mut rig = Rig::new(config([spec]));
        rig.produce(A, P, named("q"));
        rig.publish_all(A, P, ["0", "1", "2", "3"]);
        assert_eq!(rig.verdicts(A), [(0, 1, Verdict::Accepted), (2, 3, full())]);
        // What a consumer holds does not count, as it leaves room for new messages in the queue proper.
        rig.consume(B, C, consumer(named("q")));
        rig.permit(B, C, 1);
        rig.publish_all(A, P, ["4", "5"]);
        assert_eq!(rig.verdicts(A), [(4, 4, Verdict::Accepted), (5, 5, full())]);
        rig.settle(B, C, 0, 0, Outcome::Released);
        rig.permit(B, C, 10);
        assert_eq!(rig.texts(B, C), ["0", "0", "1", "4"]);
    }
}

#[test]
fn a_full_queue_drops_its_oldest_when_told_so() {
    let spec = QueueSpec {
        max_length: Some(2),
        overflow: Overflow::DropHead,
        ..lossy("q")
    };
    let mut rig = Rig::new(config([spec]));
    rig.produce(A, P, named("q"));
    rig.publish_all(A, P, ["0", "1", "2", "3"]);
    assert_eq!(rig.verdicts(A), [(0, 3, Verdict::Accepted)]);
    assert_eq!(
        (
            rig.broker.counters().messages,
            rig.broker.counters().dropped
        ),
        (2, 2)
    );
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 10);
    assert_eq!(rig.texts(B, C), ["2", "3"]);
}

#[test]
fn bytes_are_counted_as_payload() {
    for overflow in [Overflow::Reject, Overflow::DropHead] {
        let spec = QueueSpec {
            max_bytes: Some(10),
            overflow,
            ..lossy("q")
        };
        let mut rig = Rig::new(config([spec]));
        rig.produce(A, P, named("q"));
        rig.publish_all(A, P, ["12345", "67890"]);
        assert_eq!(rig.verdicts(A), [(0, 1, Verdict::Accepted)]);
        rig.publish_all(A, P, ["a"]);
        let expected = if overflow == Overflow::Reject {
            full()
        } else {
            Verdict::Accepted
        };
        assert_eq!(rig.verdicts(A), [(2, 2, expected)]);
        // One that can never fit is refused and drops nothing.
        let before = rig.broker.counters().messages;
        rig.publish_all(A, P, ["12345678901"]);
        assert_eq!(rig.verdicts(A), [(3, 3, full())]);
        assert_eq!(rig.broker.counters().messages, before);
    }
}

#[test]
fn memory_pressure_is_told_once_to_connections_with_producers_and_ends_below_seven_eighths() {
    let limits = Limits {
        memory_high_bytes: 1_600,
        memory_max_bytes: 3_200,
        ..Limits::default()
    };
    let mut rig = Rig::new(BrokerConfig {
        limits,
        ..config([lossy("q")])
    });
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    // An empty payload costs 160 bytes.
    rig.publish_all(A, P, [""; 10]);
    assert!(pressure(&mut rig, A).is_empty());
    rig.publish_all(A, P, [""]);
    assert_eq!(pressure(&mut rig, A), [true]);
    rig.publish_all(A, P, [""; 4]);
    assert!(pressure(&mut rig, A).is_empty());
    assert!(pressure(&mut rig, B).is_empty());
    rig.produce(B, P, named("q"));
    assert_eq!(pressure(&mut rig, B), [true]);
    // 15 messages now; 1,400 bytes are seven eighths: 9 are above, 8 below.
    rig.permit(B, C, 15);
    rig.settle(B, C, 0, 5, Outcome::Accepted);
    assert!(pressure(&mut rig, A).is_empty());
    rig.settle(B, C, 6, 6, Outcome::Accepted);
    assert_eq!(
        (pressure(&mut rig, A), pressure(&mut rig, B)),
        (vec![false], vec![false])
    );
}

#[test]
fn above_the_maximum_publishes_are_refused() {
    let limits = Limits {
        memory_high_bytes: 320,
        memory_max_bytes: 480,
        ..Limits::default()
    };
    let mut rig = Rig::new(BrokerConfig {
        limits,
        ..config([lossy("q")])
    });
    rig.produce(A, P, named("q"));
    rig.publish_all(A, P, [""; 5]);
    let full = Verdict::Rejected(Reason::LimitExceeded);
    assert_eq!(rig.verdicts(A), [(0, 2, Verdict::Accepted), (3, 4, full)]);
    assert_eq!(rig.broker.counters().bytes, 480);
    rig.broker.purge_queue("q").expect("q exists");
    rig.publish(A, P, message("", Envelope::default()));
    assert_eq!(rig.verdicts(A), [(5, 5, Verdict::Accepted)]);
}

#[test]
fn queues_and_their_names_are_limited() {
    let limits = Limits {
        queues_max: 2,
        ..Limits::default()
    };
    let mut rig = Rig::new(BrokerConfig {
        limits,
        auto_create_queues: true,
        ..config([lossy("q")])
    });
    let mut refused = |name: &str| {
        rig.consume(A, C, consumer(named(name)));
        match rig.told(A).pop() {
            Some(Notice::Refused { port: C, refusal }) => Some(refusal.reason),
            Some(Notice::ConsumerOpened { .. }) => {
                rig.close(A, C, false);
                None
            }
            other => panic!("{other:?}"),
        }
    };
    for name in [
        "",
        "a\0b",
        "line\n",
        "\u{85}",
        &"x".repeat(256),
        &"ä".repeat(128),
    ] {
        assert_eq!(refused(name), Some(Reason::Invalid), "{name:?}");
    }
    for name in ["amq.mine", "_mine"] {
        assert_eq!(refused(name), Some(Reason::NotFound), "{name:?}");
    }
    assert_eq!(refused(&"ä".repeat(127)), None);
    assert_eq!(refused("third"), Some(Reason::LimitExceeded));
    for (name, reason) in [
        ("amq.x", Reason::NotAllowed),
        ("_x", Reason::NotAllowed),
        ("", Reason::Invalid),
    ] {
        let declared = rig.broker.declare_queue(lossy(name), None);
        assert_eq!(
            declared.map_err(|refusal| refusal.reason),
            Err(reason),
            "{name:?}"
        );
    }
}

#[test]
fn fields_that_no_queue_can_have_are_refused() {
    let mut rig = Rig::with_q();
    let mut declare = |change: fn(&mut QueueSpec)| {
        let mut spec = QueueSpec::new("odd");
        change(&mut spec);
        let refused = rig.broker.declare_queue(spec, None);
        refused.expect_err("it cannot be").reason
    };
    assert_eq!(declare(|spec| spec.max_priority = 33), Reason::Invalid);
    assert_eq!(declare(|spec| spec.expires_ms = Some(0)), Reason::Invalid);
    let inverted = crate::broker::Backoff {
        min_ms: 2,
        max_ms: 1,
        factor: 2,
    };
    let mut spec = QueueSpec::new("odd");
    spec.retry_backoff = Some(inverted);
    assert_eq!(spec.check_fields().unwrap_err().reason, Reason::Invalid);
}

#[test]
fn a_definition_without_the_newer_fields_reads_as_the_defaults() {
    let read: QueueSpec = serde_json::from_str(r#"{"name":"q","max_length":3}"#).unwrap();
    assert_eq!(
        read,
        QueueSpec {
            max_length: Some(3),
            ..QueueSpec::new("q")
        }
    );
    assert_eq!(read.max_deliveries, 5);
}
