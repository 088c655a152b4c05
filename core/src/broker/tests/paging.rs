//! Bodies leave memory and come back in time; what cannot come back closes its queue and nothing else.

use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::harness::*;
use crate::broker::{BrokerConfig, Event, Limits, Overflow, Paging, QueueSpec};
use crate::store::{Op, StoreEvent};
use crate::vocab::{
    Command, ConsumerSpec, Delivered, DeliveryId, Envelope, Message, Notice, Outcome, Reason, Seq,
    Verdict,
};

/// A window of 16 messages, in blocks of two.
const PAGING: Paging = Paging {
    window_len: 16,
    window_bytes: 1 << 20,
    cache_bytes: 1 << 20,
};

fn paged(queues: impl IntoIterator<Item = QueueSpec>) -> BrokerConfig {
    BrokerConfig {
        paging: Some(PAGING),
        ..config(queues)
    }
}

/// A queue `q` with producer P of A, and whatever is published.
fn rig(spec: QueueSpec) -> Rig {
    let mut rig = Rig::new(paged([spec]));
    rig.produce(A, P, named("q"));
    rig.told(A);
    rig
}

fn publish(rig: &mut Rig, numbers: std::ops::Range<usize>, envelope: &Envelope) {
    for number in numbers {
        rig.publish(A, P, message(&number.to_string(), envelope.clone()));
    }
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

fn paged_and_bodies(rig: &Rig) -> (usize, usize) {
    let counters = rig.broker.counters();
    assert_eq!(counters.bodies + counters.paged, counters.messages);
    assert_eq!(counters.bytes, rig.broker.counted_bytes());
    (counters.paged, counters.bodies)
}

#[test]
fn a_long_queue_keeps_a_window_and_drains_in_order() {
    let mut rig = rig(QueueSpec::new("q"));
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
    let mut rig = rig(QueueSpec::new("q"));
    publish(&mut rig, 0..500, &durable());
    rig.is_prompt = false;
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 500);
    let mut got = rig.texts(B, C);
    assert!(got.len() <= 16, "{}", got.len());
    while got.len() < 500 {
        assert!((1..=4).contains(&rig.fetches.len()), "{:?}", rig.fetches);
        assert_eq!(rig.broker.counters().fetches, rig.fetches.len());
        assert!(rig.fetches.iter().all(|fetch| fetch.count == 2));
        // The newest first: what is missing before it must still come first.
        let newest = rig.fetches.len() - 1;
        rig.fetch_one(newest);
        got.extend(rig.texts(B, C));
    }
    assert_eq!(got, numbers(0..500));
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
        ..config([QueueSpec::new("q")])
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
        QueueSpec::new("q"),
        QueueSpec {
            durable: false,
            ..QueueSpec::new("v")
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
    let mut rig = rig(QueueSpec::new("q"));
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
    let mut rig = rig(QueueSpec::new("q"));
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
    let mut rig = rig(QueueSpec::new("q"));
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
    let mut rig = rig(QueueSpec::new("q"));
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
        ..QueueSpec::new("q")
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
        ..QueueSpec::new("q")
    });
    rig.is_prompt = false;
    publish(&mut rig, 0..1_000, &durable());
    let counters = rig.broker.queue_counters("q").expect("q exists");
    assert_eq!((counters.messages, counters.waiting), (700, 700));
    assert_eq!(rig.broker.counters().dropped, 300);
    assert_eq!(rig.broker.purge_queue("q"), Ok(700));
    rig.flush();
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
        ..QueueSpec::new("q")
    });
    for _ in 0..100 {
        rig.publish(A, P, message("0123456789", durable()));
    }
    assert!(paged_and_bodies(&rig).0 > 60);
    rig.told(A);
    rig.publish(A, P, message("x", durable()));
    let full = Verdict::Rejected(Reason::LimitExceeded);
    assert_eq!(rig.verdicts(A), [(100, 100, full)]);
}

#[test]
fn answers_for_what_is_gone_are_dropped() {
    let mut rig = rig(QueueSpec::new("q"));
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
        .declare_queue(QueueSpec::new("q"), None)
        .expect("the name is free");
    rig.flush();
    while !rig.fetches.is_empty() {
        rig.fetch_one(0);
    }
    assert_eq!(paged_and_bodies(&rig), (0, 0));
}

#[test]
fn a_drain_waits_for_bodies_but_not_for_more() {
    let mut rig = rig(QueueSpec::new("q"));
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
fn browsers_read_everything_beside_the_cursor() {
    let mut rig = rig(QueueSpec::new("q"));
    publish(&mut rig, 0..1_500, &durable());
    let spec = || ConsumerSpec {
        browse: true,
        ..consumer(named("q"))
    };
    rig.consume(B, C, spec());
    rig.consume(B, D, spec());
    rig.permit(B, C, 2_000);
    assert_eq!(rig.texts(B, C), numbers(0..1_500));
    let (paged, bodies) = paged_and_bodies(&rig);
    assert!(bodies <= 33 && paged >= 1_467, "{paged} {bodies}");
    // In steps, while another takes from the front.
    rig.is_prompt = false;
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 10);
    rig.settle(A, C, 0, 9, Outcome::Accepted);
    let mut got: Vec<String> = Vec::new();
    for step in 1..=300 {
        rig.permit(B, D, 5 * step);
        while !rig.fetches.is_empty() {
            rig.fetch_one(0);
        }
        got.extend(rig.texts(B, D));
        assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
    }
    assert_eq!(got, numbers(10..1_500));
    rig.close(B, C, false);
    rig.close(B, D, false);
    assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
}

#[test]
fn a_browser_that_goes_leaves_nothing_behind() {
    let mut rig = rig(QueueSpec::new("q"));
    publish(&mut rig, 0..1_000, &durable());
    let before = rig.broker.counters().bytes;
    let spec = ConsumerSpec {
        browse: true,
        ..consumer(named("q"))
    };
    rig.consume(B, C, spec.clone());
    rig.permit(B, C, 50);
    assert!(
        rig.broker.counters().bytes > before,
        "it holds bodies of its own"
    );
    rig.close(B, C, false);
    assert_eq!(rig.broker.counters().bytes, before);
    rig.is_prompt = false;
    rig.consume(B, D, spec);
    rig.permit(B, D, 50);
    assert_eq!(rig.fetches.len(), 1);
    rig.close(B, D, false);
    rig.fetch_one(0);
    let counters = rig.broker.counters();
    assert_eq!(
        (counters.bytes, counters.fetches, counters.damaged),
        (before, 0, 0)
    );
}

fn closed(rig: &mut Rig) -> Vec<(Reason, String)> {
    rig.told(B)
        .into_iter()
        .filter_map(|notice| match notice {
            Notice::Closed { refusal, .. } | Notice::Refused { refusal, .. } => {
                Some((refusal.reason, refusal.text))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn du_05_a_damaged_queue_closes_to_consumers_and_others_live() {
    type Harm = fn(&mut Rig);
    let harms: [Harm; 4] = [
        |rig| rig.fail_fetch(0),
        |rig| {
            let fetch = &rig.fetches[0];
            let place = (fetch.queue, fetch.first);
            rig.kept.remove(&place);
            rig.fetch_one(0);
        },
        |rig| {
            // Another message in its place.
            let fetch = &rig.fetches[0];
            let place = (fetch.queue, fetch.first);
            rig.kept
                .insert(place, message("quite another one", durable()));
            rig.fetch_one(0);
        },
        |rig| {
            let fetch = rig.fetches.remove(0);
            let messages = Vec::new();
            rig.event(Event::Store(StoreEvent::Fetched { fetch, messages }));
        },
    ];
    for harm in harms {
        for browse in [false, true] {
            let mut rig = Rig::new(paged([QueueSpec::new("q"), QueueSpec::new("other")]));
            rig.produce(A, P, named("q"));
            rig.produce(A, D, named("other"));
            publish(&mut rig, 0..200, &durable());
            rig.is_prompt = false;
            let spec = ConsumerSpec {
                browse,
                ..consumer(named("q"))
            };
            rig.consume(B, C, spec.clone());
            rig.permit(B, C, 200);
            let before = rig.texts(B, C);
            harm(&mut rig);
            let told = closed(&mut rig);
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].0, Reason::Internal);
            assert!(told[0].1.contains("qqd --check-store"), "{told:?}");
            assert!(before.len() <= 32 && before == numbers(0..before.len()));
            // Answers that were on their way change nothing.
            while !rig.fetches.is_empty() {
                rig.fetch_one(0);
            }
            rig.consume(B, C, spec);
            assert_eq!(closed(&mut rig).len(), 1, "no new consumers");
            let counters = rig.broker.counters();
            assert_eq!((counters.damaged, counters.messages), (1, 200));
            assert!(
                rig.broker
                    .queue_counters("q")
                    .is_some_and(|queue| queue.is_damaged)
            );
            // The other queue is as before, and producers of the damaged one may go on.
            rig.is_prompt = true;
            rig.told(A);
            publish(&mut rig, 200..201, &durable());
            for number in 0..200 {
                rig.publish(A, D, message(&number.to_string(), durable()));
            }
            assert!(
                rig.verdicts(A)
                    .iter()
                    .all(|verdict| verdict.2 == Verdict::Accepted)
            );
            rig.consume(B, D, consumer(named("other")));
            rig.permit(B, D, 200);
            assert_eq!(rig.texts(B, D), numbers(0..200));
            rig.broker.delete_queue(rig.now, "q").expect("q exists");
            rig.flush();
            assert_eq!(rig.broker.counters().damaged, 0);
        }
    }
}

#[test]
fn recovery_keeps_no_body_and_fetches_when_a_consumer_comes() {
    let mut rig = rig(QueueSpec::new("q"));
    publish(&mut rig, 0..1_000, &durable());
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 900);
    for (sent, outcome) in [(0, failed()), (1, Outcome::Accepted), (300, failed())] {
        rig.settle(B, C, sent, sent, outcome);
    }
    let noted = Outcome::Modified {
        failed: true,
        undeliverable_here: false,
        annotations: Some(Bytes::from_static(b"note")),
    };
    rig.settle(B, C, 700, 700, noted);
    let mut rig = rig.restarted(paged([]));
    assert_eq!(paged_and_bodies(&rig), (999, 0));
    assert_eq!(
        (rig.broker.counters().bytes, rig.broker.counters().fetches),
        (0, 0)
    );
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 2_000);
    let got: Vec<Delivered> = rig.delivered(B, C);
    let mut expected = numbers(0..1_000);
    expected.remove(1);
    assert_eq!(got.iter().map(text).collect::<Vec<_>>(), expected);
    for one in &got {
        let is_special = [0, 300, 700].contains(&one.seq.0);
        assert_eq!(
            (one.delivery_count, one.first_acquirer),
            (u32::from(is_special), !is_special),
            "{one:?}"
        );
        assert_eq!(one.annotations.is_some(), one.seq == Seq(700));
    }
}

#[test]
fn recovered_times_to_live_run_on_without_bodies() {
    for wall_shift_ms in [0i64, 3_600_000, -3_600_000] {
        let mut rig = rig(QueueSpec {
            message_ttl_ms: Some(10_000),
            ..QueueSpec::new("q")
        });
        for number in 0..600u64 {
            let ttl_ms = (number % 2 == 0).then_some(5_000);
            let envelope = Envelope {
                ttl_ms,
                ..durable()
            };
            rig.publish(A, P, message(&number.to_string(), envelope));
            rig.sleep_ms(1);
        }
        rig.sleep_ms(400);
        // Now 1,000 ms after the first. The process is down while the wall clock is set.
        let mut rig = {
            rig.now.wall_ms += wall_shift_ms;
            rig.restarted(paged([]))
        };
        rig.tick();
        let left = |rig: &Rig| rig.broker.counters().messages;
        match wall_shift_ms {
            0 => {
                assert_eq!(left(&rig), 600);
                rig.sleep_ms(4_100);
                rig.tick();
                // Lives of 5,000 ms that began in the first 101 ms are over: 51 even numbers.
                assert_eq!(left(&rig), 600 - 51);
                rig.sleep_ms(4_900);
                rig.tick();
                // All even ones are over; the first odd one has the queue's 10,000 ms since 1 ms after the start.
                assert_eq!(left(&rig), 300);
                rig.sleep_ms(1);
                rig.tick();
                assert_eq!(left(&rig), 299);
            }
            ahead if ahead > 0 => {
                assert_eq!(left(&rig), 0, "an hour passed, as far as anybody knows")
            }
            _ => {
                // Nothing lives longer than it was to.
                rig.sleep_ms(4_999);
                rig.tick();
                assert_eq!(left(&rig), 600);
                rig.sleep_ms(1);
                rig.tick();
                assert_eq!(left(&rig), 300);
                rig.sleep_ms(5_000);
                rig.tick();
                assert_eq!(left(&rig), 0);
            }
        }
    }
}

#[test]
fn a_million_recovered_messages_cost_a_few_bytes_each() {
    let mut broker = crate::broker::Broker::new(paged([]));
    let queue = crate::vocab::QueueId(1);
    broker.recover(Op::QueueDeclared {
        queue,
        spec: Arc::new(QueueSpec::new("q")),
    });
    let body = message("a body", durable());
    for seq in 0..1_000_000 {
        broker.recover(Op::Enqueued(crate::store::StoredMessage {
            message: Arc::clone(&body),
            arrived_at_ms: 0,
            places: smallvec::smallvec![(queue, Seq(seq))],
        }));
    }
    assert_eq!(Arc::strong_count(&body), 1, "no body is kept");
    broker.recovered(crate::broker::Now::default());
    let counters = broker.counters();
    assert_eq!(
        (counters.messages, counters.paged, counters.bytes),
        (1_000_000, 1_000_000, 0)
    );
    let bytes = broker.index_bytes("q");
    assert!(bytes <= 8_000_000, "{bytes} bytes of index");
}

#[test]
fn mm_02_a_full_cache_takes_from_every_queue() {
    let names: Vec<String> = (0..40).map(|number| format!("q{number}")).collect();
    let mut rig = Rig::new(BrokerConfig {
        paging: Some(Paging {
            window_len: 64,
            window_bytes: 1 << 20,
            cache_bytes: 160 * 700,
        }),
        limits: Limits {
            memory_high_bytes: 160 * 2_000,
            memory_max_bytes: 160 * 2_400,
            ..Limits::default()
        },
        ..config(names.iter().map(|name| QueueSpec::new(name.as_str())))
    });
    for (index, name) in names.iter().enumerate() {
        let port = crate::vocab::Port(u32::try_from(index).expect("few"));
        rig.produce(A, port, named(name));
        for _ in 0..200 {
            rig.publish(A, port, message("", durable()));
        }
    }
    let told = rig.told(A);
    assert!(
        !told.iter().any(|notice| matches!(
            notice,
            Notice::Pressure { .. }
                | Notice::Confirm {
                    verdict: Verdict::Rejected(_),
                    ..
                }
        )),
        "paging makes room before anybody is slowed"
    );
    assert_eq!(rig.broker.counters().messages, 8_000);
    // A flush in between looks at some queues at a time.
    for _ in 0..20 {
        rig.flush();
    }
    let (_, bodies) = paged_and_bodies(&rig);
    assert!(bodies <= 700, "{bodies} bodies are above the cache");
}

#[test]
fn a_disk_alarm_takes_credit_and_refuses_what_would_be_stored() {
    let volatile = QueueSpec {
        durable: false,
        ..QueueSpec::new("v")
    };
    let mut rig = Rig::new(paged([QueueSpec::new("q"), volatile]));
    rig.produce(A, P, named("q"));
    rig.produce(B, P, named("v"));
    rig.consume(B, C, consumer(named("q")));
    publish(&mut rig, 0..100, &durable());
    rig.told(A);
    rig.told(B);
    for _ in 0..2 {
        rig.event(Event::Store(StoreEvent::Room { is_short: true }));
    }
    assert_eq!(rig.told(A), [Notice::Pressure { on: true }]);
    assert!(rig.told(B).is_empty(), "nothing of B is stored");
    assert!(rig.broker.counters().is_disk_short);
    assert!(!rig.broker.counters().is_memory_short);
    publish(&mut rig, 100..101, &durable());
    publish(&mut rig, 101..102, &Envelope::default());
    let full = Verdict::Rejected(Reason::LimitExceeded);
    assert_eq!(
        rig.verdicts(A),
        [(100, 100, full), (101, 101, Verdict::Accepted)]
    );
    rig.publish(B, P, message("v", durable()));
    assert_eq!(rig.verdicts(B), [(0, 0, Verdict::Accepted)]);
    // Consumers drain, and their settlements are stored.
    rig.permit(B, C, 50);
    assert_eq!(rig.texts(B, C), numbers(0..50));
    rig.command(
        B,
        Command::Settle {
            port: C,
            first: DeliveryId(0),
            last: DeliveryId(49),
            outcome: Outcome::Accepted,
            confirm: true,
        },
    );
    assert!(
        rig.told(B)
            .iter()
            .any(|notice| matches!(notice, Notice::Settled { .. }))
    );
    assert_eq!(rig.kept.len(), 50);
    rig.event(Event::Store(StoreEvent::Room { is_short: false }));
    assert_eq!(rig.told(A), [Notice::Pressure { on: false }]);
    publish(&mut rig, 102..103, &durable());
    assert_eq!(rig.verdicts(A), [(102, 102, Verdict::Accepted)]);
}

#[test]
fn memory_and_disk_alarms_are_one_to_a_producer() {
    let mut rig = Rig::new(BrokerConfig {
        limits: Limits {
            memory_high_bytes: 1_600,
            memory_max_bytes: 3_200,
            ..Limits::default()
        },
        ..config([QueueSpec::new("q")])
    });
    rig.produce(A, P, named("q"));
    rig.told(A);
    rig.event(Event::Store(StoreEvent::Room { is_short: true }));
    rig.publish_all(A, P, [""; 11]);
    assert!(rig.broker.counters().is_memory_short);
    rig.event(Event::Store(StoreEvent::Room { is_short: false }));
    let pressures = |rig: &mut Rig| -> Vec<bool> {
        rig.told(A)
            .iter()
            .filter_map(|notice| match notice {
                Notice::Pressure { on } => Some(*on),
                _ => None,
            })
            .collect()
    };
    assert_eq!(pressures(&mut rig), [true], "memory is still short");
    rig.broker.purge_queue("q").expect("q exists");
    rig.flush();
    assert_eq!(pressures(&mut rig), [false]);
}
