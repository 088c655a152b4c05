//! Bodies leave memory and come back in time; what cannot come back closes its queue and nothing else.

use std::sync::{Arc, Weak};

use super::harness::*;
use crate::broker::{BrokerConfig, Event, Overflow, Paging, QueueSpec};
use crate::store::{Op, StoreEvent};
use crate::vocab::{ConsumerSpec, Envelope, Message, Notice, Outcome, Seq, Verdict};

/// A window of 16 messages, in blocks of two.
pub(super) const PAGING: Paging = Paging {
    window_len: 16,
    window_bytes: 1 << 20,
    cache_bytes: 1 << 20,
};

pub(super) fn paged(queues: impl IntoIterator<Item = QueueSpec>) -> BrokerConfig {
    BrokerConfig {
        paging: Some(PAGING),
        ..config(queues)
    }
}

/// A queue `q` with producer P of A, and whatever is published.
pub(super) fn rig(spec: QueueSpec) -> Rig {
    let mut rig = Rig::new(paged([spec]));
    rig.produce(A, P, named("q"));
    rig.told(A);
    rig
}

pub(super) fn publish(rig: &mut Rig, numbers: std::ops::Range<usize>, envelope: &Envelope) {
    for number in numbers {
        rig.publish(A, P, message(&number.to_string(), envelope.clone()));
    }
}

pub(super) fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

pub(super) fn paged_and_bodies(rig: &Rig) -> (usize, usize) {
    let counters = rig.broker.counters();
    assert_eq!(counters.bodies + counters.paged, counters.messages);
    assert_eq!(counters.bytes, rig.broker.counted_bytes());
    (counters.paged, counters.bodies)
}

#[test]
fn a_long_queue_keeps_a_window_and_drains_in_order() {
    let mut rig = rig(lossy("q"));
    let mut alive: Vec<Weak<Message>> = Vec::new();
    for number in 0..2_000 {
        let one = message(&number.to_string(), durable());
        alive.push(Arc::downgrade(&one));
        rig.publish(A, P, one);
        let bodies = alive.iter().filter(|one| one.strong_count() > 0).count();
        assert!(bodies <= 33, "{bodies} bodies are alive");
    }
    let (paged, bodies) = paged_and_bodies(&rig);
    assert!(bodies <= 33 && paged >= 1_967, "{paged} {bodies}");
    assert!(rig.fetches.is_empty(), "nobody reads");
    rig.consume(B, C, consumer(named("q")));
    for sent in 0..2_000 {
        rig.permit(B, C, sent + 1);
        assert_eq!(rig.texts(B, C), [sent.to_string()]);
        rig.settle(B, C, sent, sent, Outcome::Accepted);
        let (_, bodies) = paged_and_bodies(&rig);
        assert!(bodies <= 33, "{bodies} bodies are in memory");
    }
    assert_eq!(paged_and_bodies(&rig), (0, 0));
    assert_eq!((rig.broker.counters().bytes, rig.kept.len()), (0, 0));
}

#[test]
fn several_requests_are_on_their_way_and_each_is_bounded() {
    let mut rig = rig(lossy("q"));
    publish(&mut rig, 0..500, &durable());
    rig.is_prompt = false;
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 500);
    let mut got = rig.texts(B, C);
    assert!(got.len() <= 16, "{}", got.len());
    let mut most = 0;
    while got.len() < 500 {
        most = most.max(rig.fetches.len());
        assert!((1..=4).contains(&rig.fetches.len()), "{:?}", rig.fetches);
        assert_eq!(rig.broker.counters().fetches, rig.fetches.len());
        assert!(rig.fetches.iter().all(|fetch| fetch.count == 2));
        // The newest first: what is missing before it must still come first.
        let newest = rig.fetches.len() - 1;
        rig.fetch_one(newest);
        got.extend(rig.texts(B, C));
    }
    assert_eq!(got, numbers(0..500));
    assert_eq!(most, 4, "one after another is slow");
    assert_eq!(rig.broker.counters().unsettled, 500);
}

#[test]
fn large_bodies_count_by_bytes() {
    let mut rig = Rig::new(BrokerConfig {
        paging: Some(Paging {
            window_len: 1_000,
            window_bytes: 8_000,
            cache_bytes: 1 << 20,
        }),
        ..config([lossy("q")])
    });
    rig.produce(A, P, named("q"));
    let text = "x".repeat(3_000);
    for _ in 0..50 {
        rig.publish(A, P, message(&text, durable()));
        assert!(rig.broker.counters().bytes <= 20_000);
    }
    rig.is_prompt = false;
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 50);
    let mut got = rig.texts(B, C).len();
    while got < 50 {
        // One is more than a block, and asked for all the same.
        assert!(rig.fetches.iter().all(|fetch| fetch.count == 1));
        rig.fetch_one(0);
        got += rig.texts(B, C).len();
    }
}

#[test]
fn nothing_leaves_before_it_is_safe_or_when_the_store_does_not_know_it() {
    let mut rig = Rig::new(paged([
        lossy("q"),
        QueueSpec {
            durable: false,
            ..lossy("v")
        },
    ]));
    rig.produce(A, P, named("q"));
    rig.produce(A, D, named("v"));
    rig.is_instant = false;
    publish(&mut rig, 0..100, &durable());
    assert_eq!(paged_and_bodies(&rig), (0, 100));
    rig.persist_one();
    assert_eq!(paged_and_bodies(&rig).0, 0, "one is safe, in the window");
    rig.is_instant = true;
    rig.flush();
    rig.event(Event::Store(StoreEvent::Room { is_short: false }));
    let (paged, _) = paged_and_bodies(&rig);
    assert_eq!(paged, 84);
    for _ in 0..300 {
        rig.publish(A, D, message("v", durable()));
        rig.publish(A, P, message("t", Envelope::default()));
    }
    assert_eq!(paged_and_bodies(&rig), (84, 616));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1_000);
    let got = rig.texts(B, C);
    assert_eq!(got[..100], numbers(0..100));
    assert!(got.len() == 400 && got[100..].iter().all(|text| text == "t"));
}

#[test]
fn without_paging_nothing_leaves() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    for _ in 0..5_000 {
        rig.publish(A, P, message("m", durable()));
    }
    assert_eq!(rig.broker.counters().paged, 0);
}

#[test]
fn transient_messages_between_stored_ones_keep_their_place() {
    let mut rig = rig(lossy("q"));
    for number in 0..1_000 {
        let envelope = if number % 7 == 3 {
            Envelope::default()
        } else {
            durable()
        };
        rig.publish(A, P, message(&number.to_string(), envelope));
    }
    let (paged, bodies) = paged_and_bodies(&rig);
    assert!(paged > 800 && bodies < 200, "{paged} {bodies}");
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1_000);
    assert_eq!(rig.texts(B, C), numbers(0..1_000));
}

#[test]
fn what_comes_back_leaves_again_and_returns_in_order() {
    let mut rig = rig(lossy("q"));
    publish(&mut rig, 0..600, &durable());
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 400);
    assert_eq!(rig.texts(B, C), numbers(0..400));
    rig.settle(B, C, 0, 399, Outcome::Released);
    let (_, bodies) = paged_and_bodies(&rig);
    assert!(bodies <= 33, "{bodies} bodies stay after the release");
    rig.permit(B, C, 1_000);
    assert_eq!(rig.texts(B, C), numbers(0..600));
}

#[test]
fn expired_messages_leave_without_their_bodies_and_are_never_delivered() {
    let mut rig = rig(lossy("q"));
    rig.is_prompt = false;
    let ttl = |ttl_ms| Envelope {
        ttl_ms: Some(ttl_ms),
        ..durable()
    };
    for number in 0..900u64 {
        // Three interleaved lives, and one in a hundred for ever.
        let envelope = match number {
            number if number % 100 == 50 => durable(),
            number => ttl(1_000 * (1 + number % 3)),
        };
        rig.publish(A, P, message(&number.to_string(), envelope));
    }
    rig.sleep_ms(999);
    rig.tick();
    assert_eq!(rig.broker.counters().messages, 900);
    rig.sleep_ms(1);
    rig.tick();
    let left = |rig: &Rig, third: u64| {
        let expected = (0..900).filter(|number| number % 100 == 50 || number % 3 > third);
        assert_eq!(rig.broker.counters().messages, expected.count());
    };
    left(&rig, 0);
    rig.sleep_ms(1_000);
    rig.tick();
    left(&rig, 1);
    assert!(rig.fetches.is_empty(), "an end needs no body");
    rig.sleep_ms(1_000);
    // The timer is late: the consumer comes first.
    rig.is_prompt = true;
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1_000);
    let expected: Vec<String> = (0..9).map(|block| (100 * block + 50).to_string()).collect();
    assert_eq!(rig.texts(B, C), expected);
    rig.tick();
    assert_eq!(rig.broker.counters().expired, 891);
    assert_eq!(rig.kept.len(), 9);
}

#[test]
fn absolute_expiry_works_without_bodies() {
    let mut rig = rig(lossy("q"));
    let until = |ms| Envelope {
        expires_at_ms: Some(ms),
        ..durable()
    };
    let wall_ms = rig.now.wall_ms;
    publish(&mut rig, 0..300, &until(wall_ms + 500));
    publish(&mut rig, 300..600, &until(i64::MAX));
    rig.sleep_ms(500);
    rig.now.wall_ms -= 400;
    rig.tick();
    assert_eq!(
        rig.broker.counters().messages,
        600,
        "the clock was set back"
    );
    assert!(rig.broker.poll_timeout() > Some(rig.now.mono));
    rig.sleep_ms(2_000);
    rig.tick();
    assert_eq!(rig.broker.counters().messages, 300);
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1_000);
    assert_eq!(rig.texts(B, C), numbers(300..600));
}

#[test]
fn many_deaths_at_once_come_in_batches() {
    let mut rig = rig(QueueSpec {
        message_ttl_ms: Some(1_000),
        ..lossy("q")
    });
    for _ in 0..25 {
        let commands = (0..1_000)
            .map(|_| rig.next_publish(A, P, message("m", durable())))
            .collect();
        rig.commands(A, commands);
    }
    rig.sleep_ms(1_000);
    let mut rounds = 0;
    while rig.broker.counters().messages > 0 {
        let before = rig.log.len();
        rig.tick();
        rounds += 1;
        let removed: usize = rig.log[before..].iter().map(|batch| batch.ops.len()).sum();
        assert!((1..11_000).contains(&removed), "{removed}");
    }
    assert!(rounds >= 3);
}

#[test]
fn purge_overflow_and_deletion_need_no_bodies() {
    let mut rig = rig(QueueSpec {
        max_length: Some(700),
        overflow: Overflow::DropHead,
        ..lossy("q")
    });
    rig.is_prompt = false;
    publish(&mut rig, 0..1_000, &durable());
    let counters = rig.broker.queue_counters("q").expect("q exists");
    assert_eq!((counters.messages, counters.waiting), (700, 700));
    assert_eq!(rig.broker.counters().dropped, 300);
    let before = rig.log.len();
    assert_eq!(rig.broker.purge_queue("q"), Ok(700));
    rig.flush();
    // However long the queue was: what leaves together is one operation.
    assert!(
        matches!(
            rig.log[before].ops[..],
            [Op::Removed {
                seq: Seq(300),
                count: 700,
                ..
            }]
        ),
        "{:?}",
        rig.log[before]
    );
    assert_eq!(paged_and_bodies(&rig), (0, 0));
    assert!(rig.kept.is_empty());
    publish(&mut rig, 0..400, &durable());
    assert!(paged_and_bodies(&rig).0 > 300);
    rig.is_prompt = true;
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 200);
    assert_eq!(rig.texts(B, C), numbers(0..200));
    assert_eq!(rig.broker.delete_queue(rig.now, "q"), Ok(400));
    rig.flush();
    assert_eq!(paged_and_bodies(&rig), (0, 0));
    assert_eq!(rig.broker.counters().bytes, 0);
}

#[test]
fn limits_of_the_queue_count_what_is_away() {
    let mut rig = rig(QueueSpec {
        max_bytes: Some(1_000),
        ..lossy("q")
    });
    for _ in 0..100 {
        rig.publish(A, P, message("0123456789", durable()));
    }
    assert!(paged_and_bodies(&rig).0 > 60);
    rig.told(A);
    rig.publish(A, P, message("x", durable()));
    assert_eq!(rig.verdicts(A), [(100, 100, Verdict::Full("q".into()))]);
}

#[test]
fn answers_for_what_is_gone_are_dropped() {
    let mut rig = rig(lossy("q"));
    publish(&mut rig, 0..300, &durable());
    rig.is_prompt = false;
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1_000);
    rig.told(B);
    assert!(!rig.fetches.is_empty());
    rig.broker.purge_queue("q").expect("q exists");
    rig.flush();
    publish(&mut rig, 300..301, &durable());
    assert_eq!(rig.texts(B, C), ["300"]);
    while !rig.fetches.is_empty() {
        rig.fetch_one(0);
    }
    assert!(!rig.broker.queue_counters("q").expect("q exists").is_damaged);
    assert_eq!(rig.broker.counters().messages, 17);
    // And for a queue that was made anew under the same name.
    rig.permit(B, C, 0);
    publish(&mut rig, 0..300, &durable());
    rig.permit(B, C, 1_000);
    assert!(!rig.fetches.is_empty());
    rig.broker.delete_queue(rig.now, "q").expect("q exists");
    rig.broker
        .declare_queue(lossy("q"), None)
        .expect("the name is free");
    rig.flush();
    while !rig.fetches.is_empty() {
        rig.fetch_one(0);
    }
    assert_eq!(paged_and_bodies(&rig), (0, 0));
}

#[test]
fn a_drain_waits_for_bodies_but_not_for_more() {
    let mut rig = rig(lossy("q"));
    publish(&mut rig, 0..100, &durable());
    let mut rig = rig.restarted(paged([]));
    rig.is_prompt = false;
    let browser = ConsumerSpec {
        browse: true,
        ..consumer(named("q"))
    };
    rig.consume(B, D, browser);
    rig.told(B);
    rig.drain(B, D, 3);
    assert!(rig.told(B).is_empty());
    rig.fetch_one(0);
    let told = rig.told(B);
    assert_eq!(told.len(), 4);
    assert_eq!(told[3], Notice::Drained { port: D, sent: 3 });
    rig.consume(B, C, consumer(named("q")));
    rig.told(B);
    rig.drain(B, C, 200);
    assert!(
        !rig.told(B)
            .iter()
            .any(|notice| matches!(notice, Notice::Drained { .. })),
        "a hundred messages are there"
    );
    rig.is_prompt = true;
    rig.flush();
    let told = rig.told(B);
    assert_eq!(told.last(), Some(&Notice::Drained { port: C, sent: 100 }));
}

#[test]
fn a_drain_that_waits_for_a_body_is_answered_when_a_newer_permit_comes() {
    let mut rig = rig(lossy("q"));
    publish(&mut rig, 0..100, &durable());
    let mut rig = rig.restarted(paged([]));
    rig.is_prompt = false;
    rig.consume(B, C, consumer(named("q")));
    let drained = |told: Vec<Notice>| {
        let all = told.into_iter();
        all.filter(|notice| matches!(notice, Notice::Drained { .. }))
            .count()
    };
    rig.drain(B, C, 60);
    let before = drained(rig.told(B));
    rig.drain(B, C, 100);
    let mut answers = before + drained(rig.told(B));
    assert_eq!(answers, 1, "the older request");
    rig.is_prompt = true;
    rig.flush();
    answers += drained(rig.told(B));
    assert_eq!(answers, 2, "one answer each");
}
