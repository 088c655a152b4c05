//! Times to live and absolute expiry.

use super::harness::*;
use crate::broker::QueueSpec;
use crate::vocab::{Envelope, Outcome};

fn ttl(ttl_ms: u64) -> Envelope {
    Envelope {
        ttl_ms: Some(ttl_ms),
        ..Envelope::default()
    }
}

fn messages(rig: &Rig) -> usize {
    rig.broker.counters().messages
}

#[test]
fn the_smaller_time_to_live_counts_and_a_timer_removes_without_consumers() {
    let spec = QueueSpec {
        message_ttl_ms: Some(1_000),
        ..lossy("q")
    };
    let mut rig = Rig::new(config([spec]));
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("own", ttl(300)));
    rig.publish(A, P, message("queue", Envelope::default()));
    rig.publish(A, P, message("longer", ttl(5_000)));
    rig.sleep_ms(299);
    rig.tick();
    assert_eq!(messages(&rig), 3);
    rig.sleep_ms(1);
    rig.tick();
    assert_eq!(messages(&rig), 2);
    rig.sleep_ms(699);
    rig.tick();
    assert_eq!(messages(&rig), 2);
    rig.sleep_ms(1);
    rig.tick();
    assert_eq!(
        (
            messages(&rig),
            rig.broker.counters().bytes,
            rig.broker.counters().expired
        ),
        (0, 0, 3)
    );
    assert_eq!(rig.broker.poll_timeout(), None);
}

#[test]
fn expired_messages_are_not_delivered_even_when_the_timer_is_late() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("dead", ttl(10)));
    rig.publish(A, P, message("alive", ttl(100)));
    rig.sleep_ms(40);
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 10);
    let got = rig.delivered(B, C);
    assert_eq!(got.len(), 1);
    assert_eq!((text(&got[0]).as_str(), got[0].ttl_ms), ("alive", Some(60)));
}

#[test]
fn a_held_message_does_not_expire_but_does_when_it_comes_back_late() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 2);
    rig.publish(A, P, message("a", ttl(100)));
    rig.publish(A, P, message("b", ttl(100)));
    rig.sleep_ms(200);
    rig.tick();
    assert_eq!(messages(&rig), 2);
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    assert_eq!((messages(&rig), rig.broker.counters().expired), (1, 0));
    rig.settle(B, C, 1, 1, Outcome::Released);
    rig.permit(B, C, 5);
    rig.tick();
    assert_eq!((messages(&rig), rig.broker.counters().expired), (0, 1));
    assert_eq!(rig.delivered(B, C).len(), 2);
}

#[test]
fn the_wall_clock_moves_no_time_to_live() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("m", ttl(100)));
    rig.now.wall_ms += 3_600_000;
    rig.tick();
    assert_eq!(messages(&rig), 1);
    rig.now.wall_ms -= 7_200_000;
    rig.sleep_ms(100);
    rig.tick();
    assert_eq!(messages(&rig), 0);
}

#[test]
fn absolute_expiry_follows_the_wall_clock() {
    let mut rig = Rig::with_q();
    let until = |ms| Envelope {
        expires_at_ms: Some(ms),
        ..Envelope::default()
    };
    rig.produce(A, P, named("q"));
    let wall_ms = rig.now.wall_ms;
    rig.publish(A, P, message("past", until(wall_ms - 1)));
    rig.publish(A, P, message("now", until(wall_ms)));
    rig.publish(A, P, message("least", until(i64::MIN)));
    assert_eq!((messages(&rig), rig.broker.counters().expired), (0, 3));
    rig.publish(A, P, message("most", until(i64::MAX)));
    rig.publish(A, P, message("soon", until(wall_ms + 500)));
    // The clock is set back just before: it is looked at again later, without spinning.
    rig.sleep_ms(500);
    rig.now.wall_ms -= 400;
    rig.tick();
    assert_eq!(messages(&rig), 2);
    assert!(
        rig.broker
            .poll_timeout()
            .is_some_and(|at| at > rig.now.mono)
    );
    rig.sleep_ms(2_000);
    rig.tick();
    assert_eq!(messages(&rig), 1);
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 5);
    assert_eq!(rig.texts(B, C), ["most"]);
}

#[test]
fn extreme_times_to_live_neither_overflow_nor_stay() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("zero", ttl(0)));
    assert_eq!((messages(&rig), rig.broker.counters().expired), (0, 1));
    rig.publish(A, P, message("ever", ttl(u64::MAX)));
    rig.publish(A, P, message("long", ttl(u64::from(u32::MAX))));
    rig.sleep_ms(1_000_000);
    rig.tick();
    assert_eq!(messages(&rig), 2);
}

#[test]
fn the_timers_of_settled_messages_do_not_pile_up() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, u64::MAX);
    let hour = ttl(3_600_000);
    for sent in 0..5_000 {
        rig.publish(A, P, message("m", hour.clone()));
        rig.settle(B, C, sent, sent, Outcome::Accepted);
    }
    let held = rig.broker.watched_positions("q");
    assert!(held < 200, "{held} positions are still watched");
}

#[test]
fn a_message_released_again_and_again_is_watched_a_few_times_only() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, u64::MAX);
    rig.publish(A, P, message("m", ttl(3_600_000)));
    for sent in 0..5_000 {
        rig.settle(B, C, sent, sent, Outcome::Released);
    }
    assert!(rig.broker.watched_positions("q") < 200);
    rig.close(B, C, true);
    rig.sleep_ms(3_600_000);
    rig.tick();
    assert_eq!(messages(&rig), 0);
}
