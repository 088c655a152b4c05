//! Messages that are held back: by their sender, durably, and by their queue between attempts.

use super::harness::*;
use crate::broker::{Backoff, BrokerConfig, FailurePolicy, Overflow, Paging, QueueSpec};
use crate::vocab::{ConsumerSpec, Delay, Envelope, Outcome, Wishes};

fn delayed(delay: Delay, envelope: Envelope) -> Envelope {
    Envelope {
        wishes: Some(Box::new(Wishes {
            delay: Some(delay),
            dedup_id: None,
        })),
        ..envelope
    }
}

fn soon(ms: u64) -> Envelope {
    delayed(Delay::For(ms), durable())
}

fn pass(rig: &mut Rig, ms: u64) {
    rig.sleep_ms(ms);
    rig.tick();
}

/// A consumer of `q` with permit for all, and what it has so far.
fn listen(rig: &mut Rig) -> Vec<String> {
    let spec = ConsumerSpec {
        settled: true,
        ..consumer(named("q"))
    };
    rig.consume(B, C, spec);
    rig.permit(B, C, u64::MAX);
    rig.texts(B, C)
}

#[test]
fn a_delayed_message_comes_when_it_is_due_and_holds_up_nothing() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    let until = Delay::Until(rig.now.wall_ms + 2_000);
    rig.publish(A, P, message("two", delayed(until, durable())));
    rig.publish(A, P, message("one", soon(1_000)));
    rig.publish(A, P, message("now", durable()));
    let past = Delay::Until(rig.now.wall_ms - 1);
    rig.publish(A, P, message("past", delayed(past, durable())));
    assert_eq!(listen(&mut rig), ["now", "past"]);
    // Never early, and at most a millisecond late.
    pass(&mut rig, 999);
    assert!(rig.texts(B, C).is_empty());
    pass(&mut rig, 2);
    assert_eq!(rig.texts(B, C), ["one"]);
    pass(&mut rig, 998);
    assert!(rig.texts(B, C).is_empty());
    pass(&mut rig, 2);
    assert_eq!(rig.texts(B, C), ["two"]);
    assert_eq!(rig.broker.counters().messages, 0);
    assert_eq!(rig.broker.poll_timeout(), None);
}

/// Nobody consumes meanwhile: what is due stands where it arrived, before what came later.
#[test]
fn a_message_that_was_delayed_stands_at_the_place_of_its_arrival() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    for (text, delay_ms) in [("0", 0), ("1", 900), ("2", 0), ("3", 100), ("4", 0)] {
        rig.publish(A, P, message(text, soon(delay_ms)));
    }
    pass(&mut rig, 1_000);
    assert_eq!(listen(&mut rig), ["0", "1", "2", "3", "4"]);
}

#[test]
fn a_clock_that_is_set_neither_shortens_nor_lengthens_a_delay() {
    for jump_ms in [-1_000_000, 1_000_000] {
        let mut rig = Rig::with_q();
        rig.produce(A, P, named("q"));
        let until = Delay::Until(rig.now.wall_ms + 1_000);
        rig.publish(A, P, message("m", delayed(until, durable())));
        rig.now.wall_ms += jump_ms;
        rig.tick();
        assert!(listen(&mut rig).is_empty());
        pass(&mut rig, 999);
        assert!(rig.texts(B, C).is_empty());
        pass(&mut rig, 2);
        assert_eq!(rig.texts(B, C), ["m"]);
    }
}

#[test]
fn a_restart_keeps_what_is_left_of_a_delay() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("late", soon(5_000)));
    rig.publish(A, P, message("soon", soon(1_000)));
    rig.publish(A, P, message("now", durable()));
    for paging in [None, Some(PAGING)] {
        rig.sleep_ms(1_500);
        let config = BrokerConfig {
            paging,
            ..config([lossy("q")])
        };
        let mut again = rig.restarted(config);
        assert_eq!(listen(&mut again), ["soon", "now"], "{paging:?}");
        let spent_ms = again.now.mono.as_millis() as u64 - 10_000;
        pass(&mut again, 4_999 - spent_ms);
        assert!(again.texts(B, C).is_empty());
        pass(&mut again, 1);
        assert_eq!(again.texts(B, C), ["late"]);
    }
}

/// A clock that was set back before a restart makes no delay longer than it was.
#[test]
fn a_restart_after_the_clock_was_set_back_waits_for_the_delay_once_more_at_most() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("soon", soon(1_000)));
    rig.now.wall_ms -= 3_600_000;
    let mut again = rig.restarted(config([lossy("q")]));
    assert!(listen(&mut again).is_empty());
    pass(&mut again, 999);
    assert!(again.texts(B, C).is_empty());
    pass(&mut again, 1);
    assert_eq!(again.texts(B, C), ["soon"]);
}

/// They wait, so they count: limits hold for them, a purge takes them, and the oldest is dropped first.
#[test]
fn delayed_messages_are_messages_that_wait() {
    let spec = QueueSpec {
        max_length: Some(2),
        ..lossy("q")
    };
    let mut rig = Rig::new(config([spec.clone()]));
    rig.produce(A, P, named("q"));
    for _ in 0..3 {
        rig.publish(A, P, message("m", soon(1_000)));
    }
    let counters = rig.broker.queue_counters("q").expect("q");
    assert_eq!(
        (counters.messages, counters.waiting, counters.unsettled),
        (2, 2, 0)
    );
    assert_eq!(rig.broker.purge_queue("q"), Ok(2));
    rig.flush();
    assert_eq!(rig.broker.counters().bytes, 0);
    pass(&mut rig, 2_000);
    assert!(listen(&mut rig).is_empty());

    let spec = QueueSpec {
        overflow: Overflow::DropHead,
        ..spec
    };
    let mut rig = Rig::new(config([spec]));
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("0", soon(1_000)));
    rig.publish(A, P, message("1", durable()));
    rig.publish(A, P, message("2", durable()));
    assert_eq!(listen(&mut rig), ["1", "2"]);
}

#[test]
fn a_message_whose_life_ends_before_its_delay_is_a_dead_letter_in_time() {
    let mut rig = Rig::new(config([QueueSpec::new("q")]));
    rig.produce(A, P, named("q"));
    let envelope = Envelope {
        ttl_ms: Some(500),
        ..soon(1_000)
    };
    rig.publish(A, P, message("m", envelope));
    pass(&mut rig, 500);
    let letters = rig.broker.queue_counters("q.dlq").expect("it was made");
    assert_eq!(letters.waiting, 1);
    // The letter is not delayed again.
    rig.consume(B, C, consumer(named("q.dlq")));
    rig.permit(B, C, 1);
    assert_eq!(rig.texts(B, C), ["m"]);
}

#[test]
fn the_wait_between_attempts_grows_and_newer_messages_do_not_wait() {
    let spec = QueueSpec {
        retry_backoff: Some(Backoff {
            min_ms: 100,
            max_ms: 250,
            factor: 2,
        }),
        ..lossy("q")
    };
    let mut rig = Rig::new(config([spec]));
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("m", durable()));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1);
    assert_eq!(rig.texts(B, C), ["m"]);
    for (attempt, wait_ms) in [(0, 100), (1, 200), (2, 250), (3, 250)] {
        rig.settle(B, C, attempt, attempt, failed());
        rig.permit(B, C, attempt + 2);
        pass(&mut rig, wait_ms - 1);
        assert!(rig.texts(B, C).is_empty(), "attempt {attempt}");
        pass(&mut rig, 2);
        let again = rig.delivered(B, C);
        assert_eq!(again.len(), 1);
        assert_eq!(u64::from(again[0].delivery_count), attempt + 1);
    }
    // What is released was not tried: it comes back at once.
    rig.settle(B, C, 4, 4, Outcome::Released);
    rig.permit(B, C, 6);
    assert_eq!(rig.texts(B, C), ["m"]);
    rig.settle(B, C, 5, 5, Outcome::Lost);
    rig.publish(A, P, message("newer", durable()));
    rig.permit(B, C, 7);
    assert_eq!(rig.texts(B, C), ["newer"]);
}

const PAGING: Paging = Paging {
    window_len: 16,
    window_bytes: 1 << 20,
    cache_bytes: 1 << 30,
};

/// Ten thousand messages that wait for later keep a share of bodies in memory, also when all are due at once and nobody
/// reads, and come out complete and in order.
#[test]
fn bodies_of_delayed_messages_leave_memory() {
    const COUNT: usize = 10_000;
    let spec = QueueSpec {
        failure_policy: FailurePolicy::Drop,
        ..QueueSpec::new("q")
    };
    let with_paging = || BrokerConfig {
        paging: Some(PAGING),
        ..config([spec.clone()])
    };
    let mut rig = Rig::new(with_paging());
    rig.produce(A, P, named("q"));
    let texts: Vec<String> = (0..COUNT).map(|number| number.to_string()).collect();
    let commands = texts
        .iter()
        .map(|text| rig.next_publish(A, P, message(text, soon(60_000))))
        .collect();
    rig.commands(A, commands);
    let bodies = |rig: &Rig| rig.broker.counters().bodies;
    assert!(bodies(&rig) <= PAGING.window_len, "{}", bodies(&rig));
    assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
    pass(&mut rig, 60_001);
    assert!(bodies(&rig) <= PAGING.window_len, "{}", bodies(&rig));
    let mut got = Vec::new();
    rig.consume(B, C, consumer(named("q")));
    while got.len() < COUNT {
        let before = got.len() as u64;
        rig.permit(B, C, before + 10);
        let texts = rig.texts(B, C);
        assert!(!texts.is_empty(), "stuck after {before}");
        got.extend(texts);
        rig.settle(B, C, before, u64::MAX, Outcome::Accepted);
        // One request of bodies at a time, beyond the window.
        assert!(bodies(&rig) <= PAGING.window_len + 256, "{}", bodies(&rig));
    }
    // Those whose bodies had stayed come first; the others follow in order.
    let numbers = |text: &String| text.parse::<usize>().expect("a number");
    let mut sorted: Vec<usize> = got.iter().map(numbers).collect();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..COUNT));
    assert_eq!(rig.broker.counters().messages, 0);
    assert_eq!((rig.broker.counters().bytes, bodies(&rig)), (0, 0));
    // And the same after a restart, where no body was in memory ever.
    let mut rig = rig.restarted(with_paging());
    assert!(listen(&mut rig).is_empty());
}
