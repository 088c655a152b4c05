//! Consumers with filters: what they pick, what they leave, and that nobody waits for them.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::harness::*;
use super::paging::{PAGING, paged, paged_and_bodies};
use super::random::Random;
use crate::broker::BrokerConfig;
use crate::filter::{FilterSpec, SectionName};
use crate::route::Datum;
use crate::vocab::{ConsumerSpec, Envelope, Notice, Outcome, Port, Reason, Verdict};

/// A consumer of `q` that wants messages of one subject.
fn wants(subject: &str) -> ConsumerSpec {
    let field = ("subject".to_owned(), Datum::Text(subject.to_owned()));
    ConsumerSpec {
        filter: Some(FilterSpec::Properties(SectionName::Properties, vec![field])),
        ..consumer(named("q"))
    }
}

fn about(subject: &str, durable: bool) -> Envelope {
    Envelope {
        durable,
        subject: Some(Bytes::copy_from_slice(subject.as_bytes())),
        ..Envelope::default()
    }
}

/// Publishes messages with these payloads; those that `every` divides are about `x`, the others about `y`.
fn publish(rig: &mut Rig, numbers: std::ops::Range<usize>, every: usize, durable: bool) {
    let commands = numbers
        .map(|number| {
            let subject = if number % every == 0 { "x" } else { "y" };
            let message = message(&number.to_string(), about(subject, durable));
            rig.next_publish(A, P, message)
        })
        .collect();
    rig.commands(A, commands);
}

fn rig(config: BrokerConfig) -> Rig {
    let mut rig = Rig::new(config);
    rig.produce(A, P, named("q"));
    rig.told(A);
    rig
}

fn plain_rig() -> Rig {
    rig(config([lossy("q")]))
}

fn every(step: usize, range: std::ops::Range<usize>) -> Vec<String> {
    range
        .filter(|n| n % step == 0)
        .map(|n| n.to_string())
        .collect()
}

fn but_every(step: usize, range: std::ops::Range<usize>) -> Vec<String> {
    range
        .filter(|n| n % step != 0)
        .map(|n| n.to_string())
        .collect()
}

/// Lets the broker have the turns that it asks for.
fn turns(rig: &mut Rig) -> usize {
    let mut turns = 0;
    while rig
        .broker
        .poll_timeout()
        .is_some_and(|at| at <= rig.now.mono)
    {
        rig.tick();
        turns += 1;
        assert!(turns < 10_000, "the broker never comes to rest");
    }
    turns
}

#[test]
fn a_filter_picks_and_the_rest_stays_in_order() {
    let mut rig = plain_rig();
    publish(&mut rig, 0..20, 3, false);
    rig.consume(B, C, wants("x"));
    rig.permit(B, C, 3);
    assert_eq!(rig.texts(B, C), ["0", "3", "6"]);
    rig.permit(B, C, 100);
    assert_eq!(rig.texts(B, C), ["9", "12", "15", "18"]);
    publish(&mut rig, 20..25, 3, false);
    assert_eq!(rig.texts(B, C), ["21", "24"]);
    rig.consume(B, D, consumer(named("q")));
    rig.permit(B, D, 100);
    assert_eq!(rig.texts(B, D), but_every(3, 0..25));
    // What the one gives back is the other's as well.
    rig.settle(B, C, 1, 1, Outcome::Released);
    assert_eq!(
        rig.told(B).len(),
        1,
        "one of the two gets it, and it gets it once"
    );
    assert_eq!(rig.broker.counters().unsettled, 25);
}

#[test]
fn what_comes_back_is_found_behind() {
    let mut rig = plain_rig();
    publish(&mut rig, 0..10, 2, false);
    rig.consume(B, D, consumer(named("q")));
    rig.permit(B, D, 10);
    assert_eq!(rig.texts(B, D).len(), 10);
    rig.consume(B, C, wants("x"));
    rig.permit(B, C, 2);
    assert!(rig.texts(B, C).is_empty(), "all are with the other");
    // 5 to 8 come back; 6 and 8 are wanted.
    rig.settle(B, D, 5, 8, failed());
    let got = rig.delivered(B, C);
    assert_eq!(got.iter().map(text).collect::<Vec<_>>(), ["6", "8"]);
    assert!(got.iter().all(|one| one.delivery_count == 1));
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    rig.close(B, C, true);
    rig.settle(B, D, 0, 4, Outcome::Accepted);
    rig.permit(B, D, 100);
    assert_eq!(rig.texts(B, D), ["5", "7", "8"]);
}

#[test]
fn a_message_that_a_filter_consumer_refuses_goes_to_others_once() {
    let mut rig = plain_rig();
    publish(&mut rig, 0..6, 2, false);
    rig.consume(B, C, wants("x"));
    rig.permit(B, C, 3);
    assert_eq!(rig.texts(B, C), ["0", "2", "4"]);
    rig.settle(B, C, 1, 1, not_here());
    rig.permit(B, C, 10);
    assert!(rig.texts(B, C).is_empty());
    rig.consume(B, D, consumer(named("q")));
    rig.permit(B, D, 100);
    assert_eq!(rig.texts(B, D), ["1", "2", "3", "5"]);
    let counters = rig.broker.counters();
    assert_eq!((counters.unsettled, counters.messages), (6, 6));
}

#[test]
fn others_are_served_while_a_filter_looks() {
    let mut rig = plain_rig();
    let last = 20_000;
    publish(&mut rig, 1..last + 1, last, false);
    rig.consume(B, C, wants("x"));
    rig.permit(B, C, 1);
    assert!(rig.texts(B, C).is_empty(), "20,000 are too many for a turn");
    rig.consume(B, D, consumer(named("q")));
    rig.permit(B, D, 2);
    assert_eq!(rig.texts(B, D), ["1", "2"], "the other does not wait");
    let turns = turns(&mut rig);
    assert!((8..=20).contains(&turns), "{turns} turns");
    assert_eq!(rig.texts(B, C), [last.to_string()]);
    // What was looked at is not looked at again.
    rig.permit(B, C, 2);
    publish(&mut rig, last + 1..last + 2, last, false);
    assert_eq!(rig.broker.poll_timeout(), None);
}

#[test]
fn many_filters_share_the_turns() {
    let mut rig = plain_rig();
    publish(&mut rig, 1..6_001, 6_000, false);
    let ports: Vec<_> = (1..9).map(Port).collect();
    for port in &ports {
        rig.consume(B, *port, wants("z"));
        rig.permit(B, *port, 1);
    }
    turns(&mut rig);
    rig.publish(A, P, message("z", about("z", false)));
    turns(&mut rig);
    let told = rig.told(B);
    let delivered = told
        .iter()
        .filter(|notice| matches!(notice, Notice::Deliver { .. }));
    assert_eq!(delivered.count(), 1);
}

#[test]
fn a_drain_is_answered_when_all_was_looked_at() {
    let mut rig = plain_rig();
    publish(&mut rig, 1..10_001, 10_000, false);
    rig.consume(B, C, wants("x"));
    rig.told(B);
    rig.drain(B, C, 5);
    assert!(rig.told(B).is_empty(), "it is too early to say");
    turns(&mut rig);
    let told = rig.told(B);
    assert!(
        matches!(
            told[..],
            [Notice::Deliver { .. }, Notice::Drained { sent: 1, .. }]
        ),
        "{told:?}"
    );
}

#[test]
fn a_filter_reads_what_is_away() {
    let mut rig = rig(paged([lossy("q")]));
    for from in (0..3_000).step_by(50) {
        publish(&mut rig, from..from + 50, 100, true);
    }
    let (paged, bodies) = paged_and_bodies(&rig);
    assert!(paged > 2_900 && bodies < 100, "{paged} {bodies}");
    rig.consume(B, C, wants("x"));
    rig.permit(B, C, 100);
    turns(&mut rig);
    assert_eq!(rig.texts(B, C), every(100, 0..3_000));
    let (_, bodies) = paged_and_bodies(&rig);
    assert!(bodies < 700, "{bodies}: the window, a request, what it has");
    // One half comes back and is found again, by the same consumer.
    rig.settle(B, C, 0, 14, Outcome::Released);
    turns(&mut rig);
    assert_eq!(rig.texts(B, C), every(100, 0..1_500));
    rig.settle(B, C, 15, 44, Outcome::Accepted);
    rig.consume(B, D, consumer(named("q")));
    rig.permit(B, D, 4_000);
    turns(&mut rig);
    assert_eq!(rig.texts(B, D), but_every(100, 0..3_000));
    rig.settle(B, D, 0, 4_000, Outcome::Accepted);
    rig.close(B, C, true);
    assert_eq!(rig.broker.counters().bytes, 0);
    assert_eq!(rig.kept.len(), 0);
}

#[test]
fn a_browser_with_a_filter_sees_what_it_wants() {
    let mut rig = rig(paged([lossy("q")]));
    for from in (0..3_000).step_by(50) {
        publish(&mut rig, from..from + 50, 250, true);
    }
    let spec = ConsumerSpec {
        browse: true,
        ..wants("x")
    };
    rig.consume(B, C, spec);
    rig.drain(B, C, 100);
    turns(&mut rig);
    let told = rig.told(B);
    let count = told
        .iter()
        .filter(|notice| matches!(notice, Notice::Deliver { .. }))
        .count();
    assert_eq!(count, 12);
    assert!(matches!(
        told.last(),
        Some(Notice::Drained { sent: 12, .. })
    ));
    assert_eq!(rig.broker.counters().messages, 3_000);
    rig.close(B, C, true);
    assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
}

#[test]
fn nothing_is_picked_before_it_is_safe() {
    let mut rig = plain_rig();
    rig.consume(B, C, wants("x"));
    rig.permit(B, C, 5);
    rig.told(B);
    rig.is_instant = false;
    publish(&mut rig, 0..1, 1, true);
    publish(&mut rig, 1..2, 1, false);
    assert!(rig.told(B).is_empty());
    rig.persist_one();
    assert_eq!(rig.texts(B, C), ["0", "1"]);
    // A counted failure is safe before the next attempt.
    rig.settle(B, C, 0, 0, failed());
    assert!(rig.told(B).is_empty());
    rig.persist_one();
    let got = rig.delivered(B, C);
    assert_eq!((text(&got[0]).as_str(), got[0].delivery_count), ("0", 1));
}

#[test]
fn no_local_leaves_out_what_the_own_connection_sends() {
    let mut rig = rig(paged([lossy("q")]));
    let spec = ConsumerSpec {
        filter: Some(FilterSpec::NoLocal),
        ..consumer(named("q"))
    };
    rig.consume(A, C, spec.clone());
    rig.consume(B, C, spec);
    rig.permit(A, C, 10);
    rig.permit(B, C, 10);
    publish(&mut rig, 0..4, 1, false);
    assert!(rig.texts(A, C).is_empty());
    assert_eq!(rig.texts(B, C), ["0", "1", "2", "3"]);
    // Bodies that left memory are known by their publishers all the same.
    rig.close(B, C, true);
    publish(&mut rig, 4..500, 1, true);
    turns(&mut rig);
    assert!(rig.texts(A, C).is_empty());
    assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
}

#[test]
fn a_filter_that_is_none_is_refused() {
    let mut rig = plain_rig();
    let spec = ConsumerSpec {
        filter: Some(FilterSpec::Selector("color =".to_owned())),
        ..consumer(named("q"))
    };
    rig.consume(B, C, spec);
    let told = rig.told(B);
    assert!(
        matches!(&told[..], [Notice::Refused { refusal, .. }] if refusal.reason == Reason::Invalid),
        "{told:?}"
    );
    rig.consume(B, C, wants("x"));
    assert!(matches!(rig.told(B)[..], [Notice::ConsumerOpened { .. }]));
}

/// Consumers with and without filters in a random walk: each message is with one consumer at a time, one that wants it,
/// and in the end every message was accepted once.
#[test]
fn a_walk_with_filters() {
    for seed in 0..60 {
        walk(seed);
    }
}

fn walk(seed: u64) {
    let mut random = Random(seed);
    let mut rig = rig(BrokerConfig {
        paging: seed.is_multiple_of(2).then_some(PAGING),
        ..config([lossy("q")])
    });
    let subjects = ["a", "b", "c"];
    let ports: Vec<_> = (1..6).map(Port).collect();
    let mut limits = BTreeMap::new();
    for (index, port) in ports.iter().enumerate() {
        let spec = match subjects.get(index) {
            Some(subject) => wants(subject),
            None => consumer(named("q")),
        };
        rig.consume(B, *port, spec);
        limits.insert(*port, 0u64);
    }
    let mut held: BTreeMap<String, (Port, u64)> = BTreeMap::new();
    let mut published: BTreeMap<String, usize> = BTreeMap::new();
    let mut accepted: BTreeMap<String, usize> = BTreeMap::new();
    for step in 0..600 {
        match random.below(10) {
            0..=3 => {
                for part in 0..=random.below(20) {
                    let name = format!("{step}-{part}");
                    let subject = random.below(4) as usize;
                    let of = subjects.get(subject).copied().unwrap_or("d");
                    let is_durable = random.below(4) > 0;
                    rig.publish(A, P, message(&name, about(of, is_durable)));
                    published.insert(name, subject);
                }
            }
            4 | 5 => {
                let port = ports[random.below(5) as usize];
                let limit = limits.entry(port).or_default();
                *limit += random.below(8);
                let limit = *limit;
                rig.permit(B, port, limit);
            }
            _ => end_one(&mut rig, &mut random, &mut held, &mut accepted),
        }
        turns(&mut rig);
        take(&mut rig, seed, &mut held, &published);
        assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
    }
    let accepted = accept_the_rest(&mut rig, &ports, accepted);
    assert_eq!(rig.broker.counters().messages, 0, "seed {seed}");
    assert_eq!(rig.broker.counters().bytes, 0, "seed {seed}");
    assert_eq!(accepted.len(), published.len(), "seed {seed}");
    assert!(accepted.values().all(|times| *times == 1), "seed {seed}");
}

/// Ends one attempt in some way; consumers with filters may refuse a message for good.
fn end_one(
    rig: &mut Rig,
    random: &mut Random,
    held: &mut BTreeMap<String, (Port, u64)>,
    accepted: &mut BTreeMap<String, usize>,
) {
    if held.is_empty() {
        return;
    }
    let index = random.index(held.len());
    let name = held.keys().nth(index).expect("below the length").clone();
    let (port, delivery) = held.remove(&name).expect("it is there");
    let outcome = match random.below(5) {
        0 => Outcome::Released,
        1 => failed(),
        2 if port.0 <= 3 => not_here(),
        _ => {
            *accepted.entry(name).or_default() += 1;
            Outcome::Accepted
        }
    };
    rig.settle(B, port, delivery, delivery, outcome);
}

/// A consumer without a filter gets what is left.
fn accept_the_rest(
    rig: &mut Rig,
    ports: &[Port],
    mut accepted: BTreeMap<String, usize>,
) -> BTreeMap<String, usize> {
    let last = Port(9);
    rig.consume(B, last, consumer(named("q")));
    rig.permit(B, last, 100_000);
    turns(rig);
    for port in ports {
        rig.close(B, *port, false);
    }
    for notice in rig.told(B) {
        if let Notice::Deliver { port, delivered } = notice
            && port == last
        {
            let delivery = delivered.delivery.0;
            rig.settle(B, last, delivery, delivery, Outcome::Accepted);
            *accepted.entry(text(&delivered)).or_default() += 1;
        }
    }
    accepted
}

fn take(
    rig: &mut Rig,
    seed: u64,
    held: &mut BTreeMap<String, (Port, u64)>,
    published: &BTreeMap<String, usize>,
) {
    for notice in rig.told(B) {
        if let Notice::Deliver { port, delivered } = notice {
            let name = text(&delivered);
            let subject = published[&name];
            let wanted = port.0 as usize - 1;
            assert!(
                wanted >= 3 || subject == wanted,
                "seed {seed}: {name} is unwanted"
            );
            let before = held.insert(name, (port, delivered.delivery.0));
            assert_eq!(before, None, "seed {seed}: held twice");
        }
    }
    for verdict in rig.verdicts(A) {
        assert_eq!(verdict.2, Verdict::Accepted, "seed {seed}");
    }
}

/// What came back has lost its body to the store in part: while one is fetched, none that is behind it comes before it.
#[test]
fn what_is_here_waits_for_what_is_away() {
    let mut rig = rig(paged([lossy("q")]));
    publish(&mut rig, 0..50, 1, true);
    // This one is not with the store, so that its body stays.
    publish(&mut rig, 50..51, 1, false);
    publish(&mut rig, 51..100, 1, true);
    rig.consume(B, C, wants("x"));
    rig.permit(B, C, 100);
    turns(&mut rig);
    assert_eq!(rig.texts(B, C), every(1, 0..100));
    rig.settle(B, C, 0, 99, Outcome::Released);
    turns(&mut rig);
    let (away, _) = paged_and_bodies(&rig);
    assert!(away > 30, "{away}: bodies left");
    rig.is_prompt = false;
    rig.permit(B, C, 200);
    for number in 100..110 {
        publish(&mut rig, number..number + 1, 1_000, true);
    }
    let early = rig.texts(B, C);
    assert_eq!(early, every(1, 0..early.len()), "nothing is passed over");
    rig.is_prompt = true;
    while !rig.fetches.is_empty() {
        rig.fetch_one(0);
    }
    turns(&mut rig);
    let rest = rig.texts(B, C);
    assert_eq!(rest, every(1, early.len()..100));
}
