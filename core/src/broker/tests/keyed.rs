//! Ordering keys: one message of a key is out at a time, in order, and nothing waits behind it (CG-03).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::harness::*;
use super::random::Random;
use crate::broker::{Backoff, BrokerConfig, Paging, QueueSpec};
use crate::vocab::{ConsumerSpec, Envelope, Notice, Outcome, Port};

fn with(key: &str, envelope: Envelope) -> Envelope {
    Envelope {
        group_id: Some(Bytes::copy_from_slice(key.as_bytes())),
        ..envelope
    }
}

/// Publishes durable messages named by key and number, such as `a0`.
fn send(rig: &mut Rig, names: &[&str]) {
    let commands = names
        .iter()
        .map(|name| rig.next_publish(A, P, message(name, with(&name[..1], durable()))))
        .collect();
    rig.commands(A, commands);
}

fn rig() -> Rig {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig
}

fn listen(rig: &mut Rig, ports: &[Port]) {
    for port in ports {
        rig.consume(B, *port, consumer(named("q")));
        rig.permit(B, *port, 100);
    }
}

#[test]
fn keys_go_in_parallel_and_each_of_them_in_order() {
    let mut rig = rig();
    listen(&mut rig, &[C]);
    send(&mut rig, &["a0", "a1", "b0", "a2", "c0", "b1"]);
    assert_eq!(rig.texts(B, C), ["a0", "b0", "c0"]);
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    assert_eq!(rig.texts(B, C), ["a1"]);
    rig.settle(B, C, 1, 3, Outcome::Accepted);
    let mut next = rig.texts(B, C);
    next.sort();
    assert_eq!(next, ["a2", "b1"]);
    rig.settle(B, C, 4, 5, Outcome::Accepted);
    send(&mut rig, &["a3"]);
    assert_eq!(rig.texts(B, C), ["a3"]);
}

#[test]
fn order_survives_every_way_to_come_back() {
    for outcome in [Outcome::Released, Outcome::Lost, failed()] {
        let mut rig = rig();
        listen(&mut rig, &[C]);
        send(&mut rig, &["a0", "a1", "b0"]);
        assert_eq!(rig.texts(B, C), ["a0", "b0"]);
        rig.settle(B, C, 0, 0, outcome.clone());
        assert_eq!(rig.texts(B, C), ["a0"], "{outcome:?}");
        rig.settle(B, C, 2, 2, Outcome::Accepted);
        assert_eq!(rig.texts(B, C), ["a1"]);
    }
}

/// The message that others wait for leaves without having been accepted.
#[test]
fn a_key_goes_on_when_its_message_is_rejected_expires_or_is_purged() {
    let mut rig = rig();
    listen(&mut rig, &[C]);
    send(&mut rig, &["a0", "a1", "a2"]);
    rig.settle(B, C, 0, 0, Outcome::Rejected { reason: None });
    assert_eq!(rig.texts(B, C), ["a0", "a1"]);
    rig.broker.purge_queue("q").expect("q");
    rig.flush();
    send(&mut rig, &["a3"]);
    assert!(rig.texts(B, C).is_empty(), "a1 is still out");
    rig.settle(B, C, 1, 1, Outcome::Accepted);
    assert_eq!(rig.texts(B, C), ["a3"]);

    // It came back and expires while it waits, with nobody there.
    let envelope = Envelope {
        ttl_ms: Some(100),
        ..with("k", durable())
    };
    rig.publish(A, P, message("k0", envelope));
    send(&mut rig, &["k1"]);
    assert_eq!(rig.texts(B, C), ["k0"]);
    rig.permit(B, C, 0);
    rig.settle(B, C, 3, 3, Outcome::Released);
    rig.sleep_ms(100);
    rig.tick();
    rig.permit(B, C, 100);
    assert_eq!(rig.texts(B, C), ["k1"]);
}

/// A wait between attempts, or a consumer that wants it no more, holds the key and not the others.
#[test]
fn a_key_waits_for_the_next_attempt() {
    let spec = QueueSpec {
        retry_backoff: Some(Backoff {
            min_ms: 1_000,
            max_ms: 1_000,
            factor: 1,
        }),
        ..lossy("q")
    };
    let mut rig = Rig::new(config([spec]));
    rig.produce(A, P, named("q"));
    listen(&mut rig, &[C]);
    send(&mut rig, &["a0", "a1", "b0"]);
    rig.settle(B, C, 0, 0, failed());
    rig.sleep_ms(999);
    rig.tick();
    assert_eq!(rig.texts(B, C), ["a0", "b0"]);
    rig.sleep_ms(2);
    rig.tick();
    assert_eq!(rig.texts(B, C), ["a0"]);
    rig.settle(B, C, 2, 2, not_here());
    assert!(rig.texts(B, C).is_empty());
    listen(&mut rig, &[D]);
    assert_eq!(rig.texts(B, D), ["a0"]);
}

#[test]
fn consumers_that_settle_by_themselves_and_filters_keep_the_order() {
    let mut rig = rig();
    let spec = ConsumerSpec {
        settled: true,
        ..consumer(named("q"))
    };
    rig.consume(B, C, spec);
    rig.permit(B, C, 100);
    send(&mut rig, &["a0", "a1", "a2"]);
    assert_eq!(rig.texts(B, C), ["a0", "a1", "a2"]);
    listen(&mut rig, &[D]);
    rig.permit(B, C, 0);
    send(&mut rig, &["a3", "a4"]);
    assert_eq!(rig.texts(B, D), ["a3"]);
    rig.permit(B, C, 100);
    assert!(rig.texts(B, C).is_empty());
    rig.settle(B, D, 0, 0, Outcome::Accepted);
    let told = rig.told(B);
    assert!(matches!(told[..], [Notice::Deliver { .. }]), "{told:?}");
}

/// A drain is answered when what is next was delivered, also where its body has to be fetched beside the queue.
#[test]
fn a_drain_waits_for_the_body_of_a_message_whose_key_became_free() {
    let mut rig = Rig::new(super::paging::paged([lossy("q")]));
    rig.produce(A, P, named("q"));
    for _ in 0..50 {
        send(&mut rig, &["a1", "a2"]);
    }
    rig.consume(B, C, consumer(named("q")));
    // The first is out, and all others are set aside; the bodies of most of them leave memory.
    rig.permit(B, C, 2);
    rig.told(B);
    rig.is_prompt = false;
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    rig.drain(B, C, 3);
    assert!(rig.told(B).is_empty(), "the second message is not here yet");
    assert!(!rig.fetches.is_empty());
    rig.is_prompt = true;
    rig.flush();
    let told = rig.told(B);
    assert!(matches!(
        &told[..],
        [Notice::Deliver { .. }, Notice::Drained { port: C, sent: 2 }]
    ));
}

/// What a consumer wants never again holds up no body that has to be fetched for it.
#[test]
fn what_is_kept_from_a_consumer_does_not_keep_the_next_of_a_key_from_it() {
    let mut rig = Rig::new(super::paging::paged([lossy("q")]));
    rig.produce(A, P, named("q"));
    super::paging::publish(&mut rig, 0..40, &durable());
    for _ in 0..50 {
        send(&mut rig, &["a1", "a2"]);
    }
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 100);
    assert_eq!(rig.texts(B, C).len(), 41, "all but those behind a1");
    let never = Outcome::Modified {
        failed: false,
        undeliverable_here: true,
        annotations: None,
    };
    rig.settle(B, C, 0, 39, never);
    rig.settle(B, C, 40, 40, Outcome::Accepted);
    assert_eq!(rig.texts(B, C), ["a2"]);
    rig.settle(B, C, 41, 41, Outcome::Accepted);
    rig.drain(B, C, 100);
    let told = rig.told(B);
    assert!(matches!(
        &told[..],
        [
            Notice::Deliver { .. },
            Notice::Drained { port: C, sent: 43 }
        ]
    ));
}

/// CG-03, small and exact: consumers come and go with what they hold, and of each key the messages are done in order,
/// one at a time, until all are done. Also where hardly any body is in memory.
#[test]
fn a_random_walk_keeps_the_order_of_each_key() {
    for seed in 0..20 {
        println!("seed {seed}");
        let paging = (seed % 2 == 1).then_some(Paging {
            window_len: 8,
            window_bytes: 1_000,
            cache_bytes: 1 << 30,
        });
        walk(Random(seed), paging);
    }
}

const KEYS: u64 = 5;
const EACH: u64 = 80;

/// Takes what the consumers were given: of each key the next message, and never two at once.
fn hear(rig: &mut Rig, next: &BTreeMap<u64, u64>, held: &mut BTreeMap<(Port, u64), (u64, u64)>) {
    for notice in rig.told(B) {
        let Notice::Deliver { port, delivered } = notice else {
            continue;
        };
        let text = text(&delivered);
        let (key, number) = text.split_once(' ').expect("key and number");
        let (key, number) = (
            key.parse().expect("a key"),
            number.parse().expect("a number"),
        );
        assert!(
            held.values().all(|(other, _)| *other != key),
            "key {key} is out twice"
        );
        assert_eq!(next.get(&key).copied().unwrap_or(0), number, "of key {key}");
        held.insert((port, delivered.delivery.0), (key, number));
    }
}

fn walk(mut random: Random, paging: Option<Paging>) {
    let mut rig = Rig::new(BrokerConfig {
        paging,
        ..config([lossy("q")])
    });
    rig.produce(A, P, named("q"));
    // Of each key: the number that is next. Deliveries that are held, by port and number.
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    let mut sent: BTreeMap<u64, u64> = BTreeMap::new();
    let mut held: BTreeMap<(Port, u64), (u64, u64)> = BTreeMap::new();
    let mut ports: Vec<Port> = Vec::new();
    let (mut port_next, mut done) = (10, 0);
    while done < KEYS * EACH {
        match random.below(10) {
            0..=2 => {
                let mut commands = Vec::new();
                for _ in 0..random.below(30) {
                    let key = random.below(KEYS);
                    let number = sent.entry(key).or_default();
                    if *number < EACH {
                        let envelope = with(&key.to_string(), durable());
                        let text = message(&format!("{key} {number}"), envelope);
                        commands.push(rig.next_publish(A, P, text));
                        *number += 1;
                    }
                }
                rig.commands(A, commands);
            }
            3 if ports.len() < 4 => {
                ports.push(Port(port_next));
                listen(&mut rig, &[Port(port_next)]);
                port_next += 1;
            }
            4 if !ports.is_empty() => {
                let port = ports.swap_remove(random.index(ports.len()));
                rig.close(B, port, random.below(2) == 0);
                held.retain(|(holder, _), _| *holder != port);
            }
            _ if !held.is_empty() => {
                let index = random.index(held.len());
                let (&(port, delivery), &(key, number)) = held.iter().nth(index).expect("held");
                held.remove(&(port, delivery));
                let outcome = match random.below(4) {
                    0 => Outcome::Released,
                    1 => failed(),
                    _ => {
                        *next.entry(key).or_default() = number + 1;
                        done += 1;
                        Outcome::Accepted
                    }
                };
                rig.settle(B, port, delivery, delivery, outcome);
                rig.permit(B, port, u64::MAX);
            }
            _ => {}
        }
        hear(&mut rig, &next, &mut held);
        // Nothing is held up: of each key with messages left, one is out.
        if !ports.is_empty() {
            for (key, sent) in &sent {
                let is_done = next.get(key).copied().unwrap_or(0) == *sent;
                let is_out = held.values().any(|(other, _)| other == key);
                assert!(is_done != is_out, "key {key}: done {is_done}, out {is_out}");
            }
        }
    }
    let counters = rig.broker.counters();
    assert_eq!((counters.messages, counters.bytes), (0, 0));
    assert_eq!(rig.broker.keys_in_use("q"), 0);
}
