//! Locks: when a held message returns, whom that is told, and what a late settlement does.

use super::harness::*;
use crate::broker::QueueSpec;
use crate::vocab::{Answer, AskId, Command, ConsumerSpec, DeliveryId, LockSpec, Notice, Outcome};

fn rig_with_lock(lock_ms: u64, max_deliveries: u32) -> Rig {
    let spec = QueueSpec {
        lock_timeout_ms: Some(lock_ms),
        max_deliveries,
        ..QueueSpec::new("q")
    };
    let mut rig = Rig::new(config([spec]));
    rig.produce(A, P, named("q"));
    rig
}

fn sleep(rig: &mut Rig, ms: u64) {
    rig.sleep_ms(ms);
    rig.tick();
}

fn lost(notices: &[Notice]) -> Vec<(u64, u64)> {
    let lost = notices.iter().filter_map(|notice| match notice {
        Notice::LockLost { first, last, .. } => Some((first.0, last.0)),
        _ => None,
    });
    lost.collect()
}

/// VI-01: the first holder is late, the second gives the message back, the third gets it.
#[test]
fn a_late_settlement_changes_nothing() {
    let mut rig = rig_with_lock(1_000, 0);
    rig.publish(A, P, message("m", durable()));
    for (port, conn) in [(C, A), (D, B)] {
        rig.consume(conn, port, consumer(named("q")));
    }
    rig.permit(A, C, 1);
    assert_eq!(rig.delivered(A, C)[0].delivery_count, 0);
    rig.permit(B, D, 1);
    sleep(&mut rig, 999);
    assert!(lost(&rig.told(A)).is_empty() && rig.delivered(B, D).is_empty());
    sleep(&mut rig, 1);
    assert_eq!(lost(&rig.told(A)), [(0, 0)]);
    assert_eq!(rig.delivered(B, D)[0].delivery_count, 1);
    rig.settle(A, C, 0, 0, Outcome::Accepted);
    assert_eq!(rig.broker.counters().messages, 1);
    rig.settle(B, D, 0, 0, failed());
    rig.permit(A, C, 2);
    let third = rig.delivered(A, C);
    assert_eq!((third.len(), third[0].delivery_count), (1, 2));
    rig.settle(B, D, 0, 0, Outcome::Accepted);
    rig.settle(A, C, 1, 1, Outcome::Accepted);
    let counters = rig.broker.counters();
    assert_eq!(
        (counters.messages, counters.unsettled, counters.overdue),
        (0, 0, 1)
    );
}

#[test]
fn messages_return_in_order_and_before_newer_ones() {
    let mut rig = rig_with_lock(50, 0);
    rig.publish_all(A, P, ["0", "1", "2", "3"]);
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 3);
    assert_eq!(rig.texts(B, C), ["0", "1", "2"]);
    rig.settle(B, C, 1, 1, Outcome::Accepted);
    sleep(&mut rig, 50);
    assert_eq!(lost(&rig.told(B)), [(0, 0), (2, 2)]);
    rig.permit(B, C, 9);
    assert_eq!(rig.texts(B, C), ["0", "2", "3"]);
}

#[test]
fn an_extended_lock_holds_and_is_answered() {
    let mut rig = rig_with_lock(1_000, 0);
    rig.publish_all(A, P, ["0", "1"]);
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 2);
    rig.told(B);
    sleep(&mut rig, 900);
    let ask = |rig: &mut Rig, delivery: u64| {
        let command = Command::Extend {
            port: C,
            first: DeliveryId(delivery),
            last: DeliveryId(delivery),
            lock_ms: Some(5_000),
            ask: Some(AskId(delivery)),
        };
        rig.command(B, command);
        let mut told = rig.told(B);
        match told.pop() {
            Some(Notice::Answered { answer, .. }) => *answer,
            other => panic!("{other:?}"),
        }
    };
    let until_ms = rig.now.wall_ms + 5_000;
    assert_eq!(ask(&mut rig, 0), Answer::Extended { until_ms });
    sleep(&mut rig, 100);
    assert_eq!(lost(&rig.told(B)), [(1, 1)]);
    assert!(matches!(ask(&mut rig, 1), Answer::Refused(_)));
    sleep(&mut rig, 4_899);
    assert!(lost(&rig.told(B)).is_empty());
    sleep(&mut rig, 1);
    assert_eq!(lost(&rig.told(B)), [(0, 0)]);
    // An extension of what is over begins nothing.
    rig.command(B, extend(C, 0, 9, None));
    assert_eq!(rig.broker.poll_timeout(), None);
}

#[test]
fn a_consumer_may_ask_for_another_time_and_change_it() {
    let mut rig = rig_with_lock(1_000, 0);
    rig.publish_all(A, P, ["0", "1"]);
    let lock = LockSpec {
        asked_ms: Some(10_000),
        fallback_ms: Some(1),
    };
    let spec = ConsumerSpec {
        lock,
        ..consumer(named("q"))
    };
    rig.consume(B, C, spec);
    rig.permit(B, C, 1);
    let lock = LockSpec {
        asked_ms: None,
        fallback_ms: Some(1),
    };
    rig.command(B, Command::Relock { port: C, lock });
    rig.permit(B, C, 2);
    rig.told(B);
    // The second one has the time of the queue, which goes before that of the protocol.
    sleep(&mut rig, 999);
    assert!(lost(&rig.told(B)).is_empty());
    sleep(&mut rig, 1);
    assert_eq!(lost(&rig.told(B)), [(1, 1)]);
    sleep(&mut rig, 9_000);
    assert_eq!(lost(&rig.told(B)), [(0, 0)]);
}

#[test]
fn the_wall_clock_does_not_matter_and_the_attempts_count() {
    let mut rig = rig_with_lock(1_000, 2);
    rig.publish(A, P, message("m", durable()));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 9);
    rig.now.wall_ms += 1_000_000_000;
    rig.tick();
    assert!(lost(&rig.told(B)).is_empty());
    rig.now.wall_ms -= 2_000_000_000;
    sleep(&mut rig, 1_000);
    assert_eq!(lost(&rig.told(B)), [(0, 0)]);
    sleep(&mut rig, 1_000);
    // The second attempt was the last one: it is a dead letter.
    let counters = rig.broker.queue_counters("q.dlq").expect("it was made");
    assert_eq!(
        (counters.messages, rig.broker.counters().dead_lettered),
        (1, 1)
    );
    assert_eq!(rig.broker.poll_timeout(), None);
}

/// VI-06: nobody holds anything after a restart; what the old process gave out comes again.
#[test]
fn a_restart_ends_all_locks() {
    let mut rig = rig_with_lock(60_000, 0);
    rig.publish(A, P, message("m", durable()));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1);
    assert_eq!(rig.texts(B, C), ["m"]);
    let mut rig = rig.restarted(config([]));
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1);
    assert_eq!(rig.texts(B, C), ["m"]);
}

/// A closed consumer leaves no timer behind, and its slot's next owner none of its locks.
#[test]
fn a_consumer_that_goes_takes_its_locks_with_it() {
    let mut rig = rig_with_lock(1_000, 0);
    rig.publish_all(A, P, ["0"]);
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1);
    sleep(&mut rig, 500);
    rig.close(B, C, false);
    assert_eq!(rig.broker.poll_timeout(), None);
    rig.consume(B, D, consumer(named("q")));
    rig.permit(B, D, 1);
    sleep(&mut rig, 999);
    assert!(lost(&rig.told(B)).is_empty());
    sleep(&mut rig, 1);
    assert_eq!(lost(&rig.told(B)), [(0, 0)]);
}

/// VI-03: who is silent and stays connected holds nothing beyond its time, however much it is.
#[test]
fn a_silent_consumer_loses_all_that_it_holds_in_time() {
    const GROUPS: u64 = 100;
    const OF_GROUP: u64 = 100;
    let mut rig = rig_with_lock(1_000, 0);
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, GROUPS * OF_GROUP);
    for _ in 0..GROUPS {
        rig.publish_all(A, P, (0..OF_GROUP).map(|_| "m"));
        rig.sleep_ms(1);
    }
    assert_eq!(rig.delivered(A, C).len() as u64, GROUPS * OF_GROUP);
    rig.consume(B, D, consumer(named("q")));
    rig.permit(B, D, GROUPS * OF_GROUP);
    // The first group was given out when the clock showed 0, the last at 99 ms.
    rig.sleep_ms(1_000 - GROUPS - 1);
    for clock_ms in 999..1_200 {
        rig.run_timers();
        let next = rig.broker.poll_timeout();
        assert!(
            next.is_none_or(|at| at > rig.now.mono),
            "{clock_ms}: {next:?}"
        );
        let groups = (clock_ms + 1_u64).saturating_sub(1_000).min(GROUPS);
        let counters = rig.broker.queue_counters("q").expect("it is there");
        assert_eq!(counters.unsettled as u64, GROUPS * OF_GROUP, "{clock_ms}");
        let lost_now: u64 = lost(&rig.told(A))
            .iter()
            .map(|(first, last)| last - first + 1)
            .sum();
        let is_edge = (1_000..1_100).contains(&clock_ms);
        assert_eq!(lost_now, if is_edge { OF_GROUP } else { 0 }, "{clock_ms}");
        let delivered = rig.delivered(B, D);
        assert_eq!(delivered.len() as u64, lost_now, "{clock_ms}");
        assert!(delivered.iter().all(|one| one.delivery_count == 1));
        assert_eq!(
            rig.broker.counters().overdue,
            groups * OF_GROUP,
            "{clock_ms}"
        );
        rig.sleep_ms(1);
    }
    rig.settle(B, D, 0, GROUPS * OF_GROUP - 1, Outcome::Accepted);
    let counters = rig.broker.counters();
    assert_eq!((counters.messages, counters.unsettled), (0, 0));
}
