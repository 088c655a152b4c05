//! Questions about whole queues, and queues that are made because somebody named them.

use super::harness::*;
use crate::broker::QueueSpec;
use crate::vocab::{Address, Answer, Ask, AskId, Command, Notice, Reason, Verdict};

fn ask(rig: &mut Rig, id: u64, ask: Ask) -> Option<Answer> {
    rig.command(
        A,
        Command::Ask {
            id: AskId(id),
            ask: Box::new(ask),
        },
    );
    answer(rig, id)
}

fn answer(rig: &mut Rig, id: u64) -> Option<Answer> {
    rig.told(A).into_iter().find_map(|notice| match notice {
        Notice::Answered { id: found, answer } if found == AskId(id) => Some(*answer),
        _ => None,
    })
}

fn declare(rig: &mut Rig, spec: QueueSpec) -> Option<Answer> {
    ask(rig, 1, Ask::Declare { spec })
}

#[test]
fn a_queue_is_declared_found_again_and_not_changed() {
    let mut rig = Rig::new(config([]));
    rig.is_instant = false;
    let made = declare(&mut rig, QueueSpec::new("a"));
    assert_eq!(made, None, "the queue is not safe yet");
    rig.persist_one();
    let made = answer(&mut rig, 1);
    assert!(
        matches!(made, Some(Answer::Declared { is_new: true, .. })),
        "{made:?}"
    );
    let again = declare(&mut rig, QueueSpec::new("a"));
    assert!(
        matches!(again, Some(Answer::Declared { is_new: false, .. })),
        "{again:?}"
    );
    let other = QueueSpec {
        max_length: Some(3),
        ..QueueSpec::new("a")
    };
    let Some(Answer::Conflict(refusal)) = declare(&mut rig, other) else {
        panic!("a conflict")
    };
    assert!(refusal.text.contains("max_length"), "{}", refusal.text);
    let Some(Answer::Refused(refusal)) = declare(&mut rig, QueueSpec::new("amq.a")) else {
        panic!("a refusal")
    };
    assert_eq!(refusal.reason, Reason::NotAllowed);
}

#[test]
fn numbers_and_lists_are_sorted_by_name() {
    let mut rig = Rig::new(config([QueueSpec::new("b"), QueueSpec::new("a")]));
    rig.produce(A, P, named("b"));
    rig.publish(A, P, message("one", durable()));
    rig.publish(A, P, message("two", durable()));
    rig.consume(B, C, consumer(named("b")));
    rig.permit(B, C, 1);
    rig.told(A);
    let Some(Answer::Listed(all)) = ask(&mut rig, 2, Ask::List) else {
        panic!("a list")
    };
    let names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let b = &all[1];
    assert_eq!(
        (b.waiting, b.held, b.consumers, b.bytes, b.next_position),
        (1, 1, 1, 3, 2)
    );
    let Some(Answer::Purged { messages: 1 }) = ask(&mut rig, 3, Ask::Purge { name: "b".into() })
    else {
        panic!("one message waited")
    };
    let delete = |if_unused, if_empty| Ask::Delete {
        name: "b".into(),
        if_unused,
        if_empty,
    };
    for obstacle in [delete(true, false), delete(false, true)] {
        let answer = ask(&mut rig, 4, obstacle);
        assert!(matches!(answer, Some(Answer::InUse(_))), "{answer:?}");
    }
    let deleted = ask(&mut rig, 5, delete(false, false));
    assert_eq!(deleted, Some(Answer::Deleted { messages: 1 }));
    let Some(Answer::Refused(refusal)) = ask(&mut rig, 6, Ask::Find { name: "b".into() }) else {
        panic!("it is gone")
    };
    assert_eq!(refusal.reason, Reason::NotFound);
}

/// A long queue is purged in slices, between which the broker serves others; what comes meanwhile stays.
#[test]
fn a_purge_goes_in_slices_and_is_answered_when_all_is_done() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    for _ in 0..2_500 {
        rig.publish(A, P, message("m", durable()));
    }
    rig.told(A);
    let answer = ask(&mut rig, 3, Ask::Purge { name: "q".into() });
    assert_eq!(answer, None);
    let waiting = |rig: &Rig| rig.broker.queue_counters("q").map(|q| q.waiting);
    assert_eq!(waiting(&rig), Some(1_500));
    rig.publish(A, P, message("late", durable()));
    rig.told(A);
    rig.run_timers();
    let told = rig.told(A);
    assert!(
        matches!(&told[..], [Notice::Answered { id: AskId(3), answer }]
            if **answer == Answer::Purged { messages: 2_500 }),
        "{told:?}"
    );
    assert_eq!(waiting(&rig), Some(1));
    let refused = ask(&mut rig, 4, Ask::Purge { name: "x".into() });
    assert!(
        matches!(&refused, Some(Answer::Refused(refusal)) if refusal.reason == Reason::NotFound),
        "{refused:?}"
    );
}

#[test]
fn a_queue_is_made_for_who_names_it_whatever_the_configuration_says() {
    let mut rig = Rig::new(config([]));
    rig.produce(A, P, Address::QueueOrNew("new".into()));
    rig.publish(A, P, message("m", durable()));
    assert_eq!(rig.verdicts(A), [(0, 0, Verdict::Accepted)]);
    assert_eq!(
        rig.broker.queue_counters("new").map(|queue| queue.messages),
        Some(1)
    );
    rig.produce(A, C, Address::QueueOrNew("amq.new".into()));
    let told = rig.told(A);
    assert!(
        matches!(&told[..], [Notice::Refused { refusal, .. }] if refusal.reason == Reason::NotAllowed),
        "{told:?}"
    );
}
