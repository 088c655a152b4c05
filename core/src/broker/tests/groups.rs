//! Consumer groups: one copy of each message per group, progress of the group and not of its members.

use super::harness::*;
use super::paging::numbers;
use crate::broker::{BrokerConfig, GroupSpec, QueueSpec};
use crate::vocab::{Address, ConsumerSpec, Envelope, Notice, Outcome, Reason};

fn member(group: &str) -> ConsumerSpec {
    consumer(Address::Group {
        queue: "q".to_owned(),
        name: group.to_owned(),
        may_make_queue: false,
    })
}

fn rig_with_groups(groups: &[&str]) -> Rig {
    let groups = groups.iter().map(|name| GroupSpec {
        queue: "q".to_owned(),
        name: (*name).to_owned(),
    });
    let mut rig = Rig::new(BrokerConfig {
        groups: groups.collect(),
        ..config([QueueSpec::new("q")])
    });
    rig.produce(A, P, named("q"));
    rig
}

fn publish(rig: &mut Rig, range: std::ops::Range<u64>) {
    for number in range {
        rig.publish(A, P, message(&number.to_string(), durable()));
    }
}

fn count(rig: &Rig, name: &str) -> usize {
    rig.broker
        .queue_counters(name)
        .map_or(0, |queue| queue.messages)
}

/// CG-01.
#[test]
fn progress_belongs_to_the_group_and_survives_members_and_restarts() {
    let mut rig = rig_with_groups(&["g"]);
    publish(&mut rig, 0..200);
    rig.consume(B, C, member("g"));
    rig.permit(B, C, 100);
    assert_eq!(rig.texts(B, C), numbers(0..100));
    rig.settle(B, C, 0, 99, Outcome::Accepted);
    rig.close(B, C, false);
    rig.consume(B, D, member("h"));
    let mut rig = rig.restarted(config([]));
    rig.consume(B, C, member("g"));
    rig.permit(B, C, 1_000);
    assert_eq!(rig.texts(B, C), numbers(100..200));
    rig.settle(B, C, 0, 99, Outcome::Accepted);
    // A group begins with what comes after it was made.
    rig.produce(A, P, named("q"));
    publish(&mut rig, 200..203);
    assert_eq!(rig.texts(B, C), numbers(200..203));
    rig.consume(B, D, member("h"));
    rig.permit(B, D, 1_000);
    assert_eq!(rig.texts(B, D), numbers(200..203));
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 1_000);
    assert_eq!(
        rig.texts(A, C),
        numbers(0..203),
        "who is in no group gets all"
    );
}

#[test]
fn a_body_is_stored_once_and_members_take_turns() {
    let mut rig = rig_with_groups(&["g", "h"]);
    rig.log.clear();
    publish(&mut rig, 0..4);
    let ops: Vec<_> = rig.log.iter().flat_map(|batch| &batch.ops).collect();
    assert_eq!(ops.len(), 4);
    assert!(ops.iter().all(|op| matches!(
        op,
        crate::store::Op::Enqueued(stored) if stored.places.len() == 3
    )));
    for port in [C, D] {
        rig.consume(B, port, member("g"));
    }
    for port in [C, D] {
        rig.permit(B, port, 2);
    }
    let got = rig.told(B);
    let of = |wanted| {
        let to =
            |notice: &&Notice| matches!(notice, Notice::Deliver { port, .. } if *port == wanted);
        got.iter().filter(to).count()
    };
    assert_eq!((of(C), of(D)), (2, 2));
}

/// CG-05.
#[test]
fn what_a_member_held_goes_to_another_and_what_was_purged_leaves_no_ghost() {
    let mut rig = rig_with_groups(&["g"]);
    publish(&mut rig, 0..5);
    rig.consume(A, C, member("g"));
    rig.permit(A, C, 5);
    assert_eq!(rig.texts(A, C).len(), 5);
    rig.consume(B, C, member("g"));
    rig.permit(B, C, 100);
    rig.close(A, C, true);
    let again = rig.delivered(B, C);
    assert_eq!(again.iter().map(text).collect::<Vec<_>>(), numbers(0..5));
    assert!(again.iter().all(|one| one.delivery_count == 1));
    publish(&mut rig, 5..8);
    rig.permit(B, C, 5);
    rig.broker.purge_queue("amq.group-q.g").unwrap();
    rig.flush();
    rig.settle(B, C, 0, 99, Outcome::Accepted);
    let left = rig.broker.queue_counters("amq.group-q.g").unwrap();
    assert_eq!((left.messages, left.unsettled), (0, 0));
}

#[test]
fn each_group_has_attempts_and_dead_letters_of_its_own() {
    let mut rig = rig_with_groups(&["g", "h"]);
    publish(&mut rig, 0..1);
    rig.consume(B, C, member("g"));
    rig.permit(B, C, 10);
    rig.settle(B, C, 0, 0, Outcome::Rejected { reason: None });
    assert_eq!(count(&rig, "q.g.dlq"), 1);
    assert_eq!(count(&rig, "amq.group-q.g"), 0);
    assert_eq!((count(&rig, "amq.group-q.h"), count(&rig, "q")), (1, 1));
    rig.consume(B, D, member("h"));
    rig.permit(B, D, 10);
    let got = rig.told(B);
    let attempts = got.iter().find_map(|notice| match notice {
        Notice::Deliver { port, delivered } if *port == D => Some(delivered.delivery_count),
        _ => None,
    });
    assert_eq!(attempts, Some(0));
}

#[test]
fn a_queue_for_groups_alone_keeps_what_comes_before_the_first_and_nothing_after() {
    let spec = QueueSpec {
        groups_only: true,
        ..QueueSpec::new("q")
    };
    let mut rig = Rig::new(config([spec]));
    rig.produce(A, P, named("q"));
    publish(&mut rig, 0..2);
    rig.consume(B, C, member("g"));
    publish(&mut rig, 2..4);
    assert_eq!((count(&rig, "q"), count(&rig, "amq.group-q.g")), (2, 2));
    let mut rig = rig.restarted(config([]));
    rig.produce(A, P, named("q"));
    publish(&mut rig, 4..5);
    assert_eq!((count(&rig, "q"), count(&rig, "amq.group-q.g")), (2, 3));
}

#[test]
fn groups_go_with_their_queue_and_come_from_everywhere_that_leads_to_it() {
    let mut rig = rig_with_groups(&["g"]);
    rig.broker
        .bind(
            crate::route::BindingSpec::to_queue("amq.fanout", "q", ""),
            None,
        )
        .unwrap();
    let to = Address::Exchange {
        name: "amq.fanout".to_owned(),
        key: None,
    };
    rig.produce(A, D, to);
    rig.publish(A, D, message("bound", Envelope::default()));
    assert_eq!((count(&rig, "q"), count(&rig, "amq.group-q.g")), (1, 1));
    rig.broker.delete_queue(rig.now, "q").unwrap();
    rig.flush();
    assert!(rig.broker.queue_counters("amq.group-q.g").is_none());
    let rig = rig.restarted(config([]));
    assert_eq!(rig.broker.counters().queues, 0);
}

#[test]
fn what_cannot_be_a_group_is_refused() {
    let mut rig = Rig::new(config([QueueSpec::new("q"), QueueSpec::stream("s")]));
    let at = |queue: &str, name: &str| Address::Group {
        queue: queue.to_owned(),
        name: name.to_owned(),
        may_make_queue: false,
    };
    let long = "n".repeat(250);
    for (address, reason) in [
        (at("nowhere", "g"), Reason::NotFound),
        (at("s", "g"), Reason::Invalid),
        (at("q", ""), Reason::Invalid),
        (at("q", "a\nb"), Reason::Invalid),
        (at("q", &long), Reason::LimitExceeded),
    ] {
        rig.consume(B, C, consumer(address.clone()));
        let refused = rig.told(B).into_iter().find_map(|notice| match notice {
            Notice::Refused { refusal, .. } => Some(refusal.reason),
            _ => None,
        });
        assert_eq!(refused, Some(reason), "{address:?}");
    }
    rig.produce(A, P, at("q", "g"));
    assert!(matches!(
        &rig.told(A)[..],
        [Notice::Refused { refusal, .. }] if refusal.reason == Reason::Invalid
    ));
}
