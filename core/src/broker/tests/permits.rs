//! Permits: never a delivery beyond one, never a stall below it (LF-01 to LF-06 at the broker), turns, drain.

use super::harness::*;
use crate::vocab::{Command, Notice, Outcome};

fn rig_with(messages: usize) -> Rig {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    let payloads: Vec<_> = (0..messages).map(|number| number.to_string()).collect();
    rig.publish_all(A, P, payloads.iter().map(String::as_str));
    rig
}

fn drained(rig: &mut Rig) -> Vec<(usize, u64)> {
    let told = rig.told(B);
    let mut deliveries = 0;
    let mut found = Vec::new();
    for notice in told {
        match notice {
            Notice::Deliver { .. } => deliveries += 1,
            Notice::Drained { sent, .. } => found.push((deliveries, sent)),
            _ => {}
        }
    }
    found
}

#[test]
fn nothing_comes_without_a_permit() {
    let mut rig = rig_with(5);
    rig.consume(B, C, consumer(named("q")));
    assert!(rig.texts(B, C).is_empty());
    rig.permit(B, C, 0);
    assert!(rig.texts(B, C).is_empty());
}

#[test]
fn lf_02_deliveries_meet_every_permit_exactly() {
    let mut rig = rig_with(0);
    let mut random = 5u64;
    let mut below = |bound: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    rig.consume(B, C, consumer(named("q")));
    rig.consume(B, D, consumer(named("q")));
    // Per port: sent, limit, settled.
    let mut ports = [(C, 0u64, 0u64, 0u64), (D, 0, 0, 0)];
    let mut published = 0u64;
    for _ in 0..2_000 {
        match below(4) {
            0 => {
                rig.publish_all(A, P, ["x"; 7]);
                published += 7;
            }
            1 => {
                let (port, _, _, settled) = &mut ports[below(2) as usize];
                rig.settle(B, *port, *settled, *settled + 1, Outcome::Accepted);
                *settled += 2;
            }
            _ => {
                let (port, sent, limit, _) = &mut ports[below(2) as usize];
                *limit = *sent + below(20);
                rig.permit(B, *port, *limit);
            }
        }
        for notice in rig.told(B) {
            if let Notice::Deliver { port, delivered } = notice {
                let entry = ports
                    .iter_mut()
                    .find(|entry| entry.0 == port)
                    .expect("a port of ours");
                assert_eq!(delivered.delivery.0, entry.1);
                entry.1 += 1;
                assert!(entry.1 <= entry.2, "{entry:?}");
            }
        }
        let sent: u64 = ports.iter().map(|entry| entry.1).sum();
        let is_open = ports.iter().any(|entry| entry.1 < entry.2);
        assert!(
            !is_open || sent == published,
            "a stall: {ports:?}, {published} published"
        );
    }
    assert!(published > 1_000);
}

#[test]
fn consumers_with_permit_take_turns() {
    let mut rig = rig_with(0);
    rig.consume(A, C, consumer(named("q")));
    rig.consume(B, C, consumer(named("q")));
    rig.consume(B, D, consumer(named("q")));
    rig.permit(A, C, 4);
    rig.permit(B, C, 2);
    rig.publish_all(A, P, ["0", "1", "2", "3", "4", "5", "6"]);
    assert_eq!(rig.texts(A, C), ["0", "2", "4", "5"]);
    let told = rig.delivered(B, C);
    assert_eq!(told.iter().map(text).collect::<Vec<_>>(), ["1", "3"]);
    // The turn goes on where it stopped; one message at a time does not always hit the same.
    rig.permit(A, C, 100);
    rig.permit(B, C, 100);
    rig.permit(B, D, 100);
    rig.told(A);
    rig.told(B);
    let mut counts = [0; 3];
    for _ in 0..30 {
        rig.publish_all(A, P, ["x"]);
        counts[0] += rig.delivered(A, C).len();
        for notice in rig.told(B) {
            if let Notice::Deliver { port, .. } = notice {
                counts[if port == C { 1 } else { 2 }] += 1;
            }
        }
    }
    assert_eq!(counts, [10, 10, 10]);
}

#[test]
fn lf_06_a_permit_can_be_lowered() {
    let mut rig = rig_with(0);
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 100);
    rig.publish_all(A, P, ["0", "1"]);
    rig.permit(B, C, 2);
    rig.publish_all(A, P, ["2"]);
    assert_eq!(rig.texts(B, C), ["0", "1"]);
    // Below what was sent already, which is not undone.
    rig.permit(B, C, 1);
    rig.permit(B, C, 3);
    assert_eq!(rig.texts(B, C), ["2"]);
}

#[test]
fn lf_04_drain_of_an_empty_queue_is_answered_once_and_uses_the_permit_up() {
    let mut rig = rig_with(0);
    rig.consume(B, C, consumer(named("q")));
    rig.drain(B, C, 10);
    assert_eq!(drained(&mut rig), [(0, 0)]);
    rig.publish_all(A, P, ["0"]);
    assert!(rig.told(B).is_empty());
    rig.permit(B, C, 1);
    assert_eq!(rig.texts(B, C), ["0"]);
}

#[test]
fn lf_05_drain_answers_behind_the_deliveries() {
    let mut rig = rig_with(5);
    rig.consume(B, C, consumer(named("q")));
    rig.drain(B, C, 3);
    assert_eq!(drained(&mut rig), [(3, 3)]);
    rig.drain(B, C, 10);
    assert_eq!(drained(&mut rig), [(2, 5)]);
    // The permit is used up already: there still is an answer.
    rig.drain(B, C, 5);
    assert_eq!(drained(&mut rig), [(0, 5)]);
}

#[test]
fn a_permit_right_behind_a_drain_is_not_swallowed_by_it() {
    let mut rig = rig_with(3);
    rig.consume(B, C, consumer(named("q")));
    let permit = |limit, drain| Command::Permit {
        port: C,
        limit,
        drain,
    };
    rig.commands(B, vec![permit(2, true), permit(3, false)]);
    let told: Vec<_> = rig
        .told(B)
        .into_iter()
        .filter_map(|notice| match notice {
            Notice::Deliver { .. } => Some("message"),
            Notice::Drained { .. } => Some("drained"),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["message", "message", "drained", "message"]);
}

#[test]
fn settled_consumers_leave_nothing_unsettled() {
    let mut rig = rig_with(3);
    rig.consume(
        B,
        C,
        crate::vocab::ConsumerSpec {
            settled: true,
            ..consumer(named("q"))
        },
    );
    rig.permit(B, C, 2);
    assert_eq!(rig.texts(B, C), ["0", "1"]);
    let counters = rig.broker.queue_counters("q").expect("q exists");
    assert_eq!((counters.messages, counters.unsettled), (1, 0));
    rig.close(B, C, true);
    assert_eq!(rig.broker.counters().messages, 1);
}

#[test]
fn a_consumer_that_goes_in_the_middle_of_a_drain_is_not_answered() {
    let mut rig = rig_with(0);
    rig.consume(B, C, consumer(named("q")));
    rig.told(B);
    let drain = Command::Permit {
        port: C,
        limit: 5,
        drain: true,
    };
    let close = Command::Close {
        port: C,
        forget: true,
        lost: false,
    };
    rig.commands(B, vec![drain, close]);
    rig.publish_all(A, P, ["m"]);
    assert!(rig.told(B).is_empty());
}
