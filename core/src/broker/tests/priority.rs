//! Strict priorities, and the order of what comes back within each (PO-*).

use std::cmp::Reverse;

use super::harness::*;
use super::random::Random;
use crate::broker::{Overflow, QueueSpec};
use crate::vocab::{Envelope, Outcome};

/// A delivery: which consumer has it under which number, and its place in the model.
type Held = (usize, u64, (Reverse<u8>, u64, Vec<usize>));

fn levels(max_priority: u8) -> QueueSpec {
    QueueSpec {
        max_priority,
        ..lossy("q")
    }
}

fn with(priority: u8) -> Envelope {
    Envelope {
        priority,
        has_priority: true,
        ..durable()
    }
}

fn rig(spec: QueueSpec, priorities: &[u8]) -> Rig {
    let mut rig = Rig::new(config([spec]));
    rig.produce(A, P, named("q"));
    for (number, priority) in priorities.iter().enumerate() {
        rig.publish(A, P, message(&number.to_string(), with(*priority)));
    }
    rig
}

#[test]
fn po_02_a_higher_priority_comes_first_whether_a_consumer_waits_or_not() {
    let mut rig = Rig::new(config([levels(9)]));
    rig.consume(B, C, consumer(named("q")));
    rig.produce(A, P, named("q"));
    for priority in [1, 9, 5, 200, 5] {
        rig.publish(A, P, message(&priority.to_string(), with(priority)));
    }
    rig.permit(B, C, 10);
    // What is above the highest counts as the highest.
    assert_eq!(rig.texts(B, C), ["9", "200", "5", "5", "1"]);
}

#[test]
fn a_queue_without_levels_does_not_look_at_priorities() {
    let mut rig = rig(lossy("q"), &[1, 9, 5]);
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 10);
    assert_eq!(rig.texts(B, C), ["0", "1", "2"]);
}

#[test]
fn po_01_what_comes_back_stands_where_it_stood_also_after_a_restart() {
    let order = ["1", "3", "0", "2", "4"];
    let mut rig = rig(levels(3), &[1, 3, 1, 3, 0]);
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 5);
    assert_eq!(rig.texts(B, C), order);
    for delivery in [4, 0, 3, 1, 2] {
        rig.settle(B, C, delivery, delivery, Outcome::Released);
    }
    rig.permit(B, C, 10);
    assert_eq!(rig.texts(B, C), order);
    let mut rig = rig.restarted(config([levels(3)]));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 10);
    assert_eq!(rig.texts(B, C), order);
}

#[test]
fn a_full_queue_drops_the_oldest_of_the_lowest_priority() {
    let spec = QueueSpec {
        max_length: Some(3),
        overflow: Overflow::DropHead,
        ..levels(5)
    };
    let mut rig = rig(spec, &[2, 1, 1, 5, 0, 3]);
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 10);
    assert_eq!(rig.texts(B, C), ["3", "5", "0"]);
}

/// Against a sorted list: publishes, deliveries to two consumers, releases and exclusions at random.
#[test]
fn walks_deliver_the_best_message_that_waits() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut rig = Rig::new(config([levels(4)]));
        rig.produce(A, P, named("q"));
        rig.consume(A, C, consumer(named("q")));
        rig.consume(B, C, consumer(named("q")));
        // Priority (reversed) and number of what waits; whom each must not go to.
        let mut list: Vec<(Reverse<u8>, u64, Vec<usize>)> = Vec::new();
        let mut held: Vec<Held> = Vec::new();
        let (mut published, mut sent) = (0u64, [0u64; 2]);
        for _ in 0..300 {
            match random.below(4) {
                0 | 1 => {
                    let priority = random.below(6) as u8;
                    rig.publish(A, P, message(&published.to_string(), with(priority)));
                    list.push((Reverse(priority.min(4)), published, Vec::new()));
                    published += 1;
                }
                2 => {
                    let who = random.index(2);
                    let conn = [A, B][who];
                    sent[who] += 1;
                    rig.permit(conn, C, sent[who]);
                    list.sort();
                    let best = list.iter().position(|(.., not)| !not.contains(&who));
                    let got = rig.texts(conn, C);
                    let expected = best.map(|at| list.remove(at));
                    let names: Vec<String> =
                        expected.iter().map(|(_, n, _)| n.to_string()).collect();
                    assert_eq!(got, names, "seed {seed}");
                    match expected {
                        Some(found) => held.push((who, sent[who] - 1, found)),
                        None => {
                            sent[who] -= 1;
                            rig.permit(conn, C, sent[who]);
                        }
                    }
                }
                _ if !held.is_empty() => {
                    let at = random.index(held.len());
                    let (who, delivery, mut found) = held.remove(at);
                    let outcome = match random.below(4) {
                        0 => Outcome::Accepted,
                        1 if !found.2.contains(&who) => {
                            found.2.push(who);
                            not_here()
                        }
                        _ => Outcome::Released,
                    };
                    if outcome != Outcome::Accepted {
                        list.push(found);
                    }
                    rig.settle([A, B][who], C, delivery, delivery, outcome);
                }
                _ => {}
            }
        }
        assert_eq!(
            rig.broker.counters().messages,
            list.len() + held.len(),
            "seed {seed}"
        );
    }
}
