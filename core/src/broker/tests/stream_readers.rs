//! Named readers of streams: their positions survive links, restarts and crashes, and never run ahead of what they
//! settled.

use super::harness::*;
use super::paging::numbers;
use super::streams::{append, reading};
use crate::broker::stream::READERS_MAX;
use crate::broker::{Event, QueueSpec};
use crate::store::Op;
use crate::vocab::{
    Answer, Ask, AskId, Command, ConsumerSpec, ExpiryPolicy, Notice, Outcome, StreamRead,
    StreamStart, SubscriptionSpec, TerminusDurability,
};

fn kept(name: &str, start: StreamStart) -> ConsumerSpec {
    ConsumerSpec {
        key: key(name),
        subscription: SubscriptionSpec {
            durability: TerminusDurability::Configuration,
            expiry: ExpiryPolicy::Never,
            ..SubscriptionSpec::default()
        },
        ..reading(start)
    }
}

fn rig_with(count: u64) -> Rig {
    let mut rig = Rig::new(config([QueueSpec::stream("s")]));
    rig.produce(A, P, named("s"));
    append(&mut rig, 0..count, &durable());
    rig
}

fn detach(rig: &mut Rig) {
    rig.command(
        B,
        Command::Close {
            port: C,
            forget: false,
            lost: true,
        },
    );
}

/// What a link of that name is given.
fn read(rig: &mut Rig, spec: ConsumerSpec, limit: u64) -> Vec<String> {
    rig.consume(B, C, spec);
    rig.permit(B, C, limit);
    rig.texts(B, C)
}

#[test]
fn a_kept_link_goes_on_behind_what_it_settled() {
    for is_restarted in [false, true] {
        let mut rig = rig_with(20);
        assert_eq!(
            read(&mut rig, kept("l", StreamStart::First), 10),
            numbers(0..10)
        );
        rig.settle(B, C, 0, 3, Outcome::Accepted);
        // 6 is done before 4 and 5: it comes again with them.
        rig.settle(B, C, 6, 6, Outcome::Accepted);
        detach(&mut rig);
        assert_eq!(rig.broker.counters().unsettled, 0);
        if is_restarted {
            rig = rig.restarted(config([]));
        }
        let again = read(&mut rig, kept("l", StreamStart::Last), 100);
        assert_eq!(
            again,
            numbers(4..20),
            "the stored position goes before `last`"
        );
        rig.settle(B, C, 0, 15, Outcome::Rejected { reason: None });
        detach(&mut rig);
        assert!(read(&mut rig, kept("l", StreamStart::First), 100).is_empty());
    }
}

#[test]
fn a_kept_link_that_read_nothing_gets_what_came_while_it_was_away() {
    let mut rig = rig_with(5);
    assert!(read(&mut rig, kept("l", StreamStart::Next), 10).is_empty());
    detach(&mut rig);
    append(&mut rig, 5..8, &durable());
    assert_eq!(
        read(&mut rig, kept("l", StreamStart::Next), 10),
        numbers(5..8)
    );
    let other = read_elsewhere(&mut rig, kept("other", StreamStart::First));
    assert_eq!(other, numbers(0..8), "every name has a position of its own");
}

fn read_elsewhere(rig: &mut Rig, spec: ConsumerSpec) -> Vec<String> {
    rig.consume(B, D, spec);
    rig.permit(B, D, 100);
    rig.texts(B, D)
}

#[test]
fn to_close_a_kept_link_forgets_its_position() {
    let mut rig = rig_with(5);
    read(&mut rig, kept("l", StreamStart::First), 3);
    rig.settle(B, C, 0, 2, Outcome::Accepted);
    rig.close(B, C, false);
    let mut rig = rig.restarted(config([]));
    assert_eq!(
        read(&mut rig, kept("l", StreamStart::First), 10),
        numbers(0..5)
    );
}

#[test]
fn a_newer_link_of_the_same_name_goes_on_where_the_older_one_was() {
    let mut rig = rig_with(6);
    read(&mut rig, kept("l", StreamStart::First), 4);
    rig.settle(B, C, 0, 1, Outcome::Accepted);
    rig.consume(A, D, kept("l", StreamStart::First));
    rig.permit(A, D, 10);
    assert_eq!(rig.texts(A, D), numbers(2..6));
}

#[test]
fn deliveries_that_are_settled_when_sent_move_the_position() {
    let mut rig = rig_with(6);
    let spec = ConsumerSpec {
        settled: true,
        ..kept("l", StreamStart::First)
    };
    read(&mut rig, spec.clone(), 4);
    detach(&mut rig);
    let mut rig = rig.restarted(config([]));
    assert_eq!(read(&mut rig, spec, 10), numbers(4..6));
}

#[test]
fn many_settlements_of_an_inbox_are_one_operation() {
    let mut rig = rig_with(100);
    read(&mut rig, kept("l", StreamStart::First), 100);
    rig.log.clear();
    let settle = |delivery| Command::Settle {
        port: C,
        first: crate::vocab::DeliveryId(delivery),
        last: crate::vocab::DeliveryId(delivery),
        outcome: Outcome::Accepted,
        confirm: false,
    };
    rig.commands(B, (0..100).map(settle).collect());
    let ops: Vec<&Op> = rig.log.iter().flat_map(|batch| &batch.ops).collect();
    assert!(
        matches!(&ops[..], [Op::OffsetStored { next: Some(next), .. }] if next.0 == 100),
        "{ops:?}"
    );
}

#[test]
fn a_settlement_is_confirmed_when_the_position_is_safe() {
    let mut rig = rig_with(3);
    read(&mut rig, kept("l", StreamStart::First), 3);
    rig.is_instant = false;
    let (first, last) = (crate::vocab::DeliveryId(0), crate::vocab::DeliveryId(2));
    rig.command(
        B,
        Command::Settle {
            port: C,
            first,
            last,
            outcome: Outcome::Accepted,
            confirm: true,
        },
    );
    assert!(rig.told(B).is_empty());
    rig.persist_one();
    assert!(matches!(&rig.told(B)[..], [Notice::Settled { .. }]));
}

fn commit(rig: &mut Rig, name: &str, reader: &str, next: u64) -> Answer {
    commit_as(rig, name, reader, next, false)
}

fn commit_as(rig: &mut Rig, name: &str, reader: &str, next: u64, is_own: bool) -> Answer {
    rig.command(
        A,
        Command::Ask {
            id: AskId(1),
            ask: Box::new(Ask::StoreOffset {
                name: name.to_owned(),
                reader: reader.to_owned(),
                next,
                is_own,
            }),
        },
    );
    let answers = rig.told(A).into_iter().filter_map(|notice| match notice {
        Notice::Answered { answer, .. } => Some(*answer),
        _ => None,
    });
    answers.last().expect("it is answered")
}

#[test]
fn a_position_can_be_stored_by_name_alone() {
    let mut rig = rig_with(10);
    assert_eq!(
        commit(&mut rig, "s", "g", 4),
        Answer::OffsetStored { next: 4 }
    );
    assert_eq!(commit(&mut rig, "x", "g", 4), Answer::NoStream);
    let mut rig = rig.restarted(config([]));
    let spec = |resumes: Option<&str>| ConsumerSpec {
        stream: StreamRead {
            start: StreamStart::Next,
            resumes: resumes.map(str::to_owned),
        },
        ..consumer(named("s"))
    };
    assert_eq!(read(&mut rig, spec(Some("g")), 100), numbers(4..10));
    rig.close(B, C, false);
    // Reading does not move it, and neither does a close forget it: only a commit says how far the group came.
    assert_eq!(read(&mut rig, spec(Some("g")), 100), numbers(4..10));
    rig.close(B, C, false);
    assert!(read(&mut rig, spec(Some("unknown")), 100).is_empty());
    rig.close(B, C, false);
    assert!(read(&mut rig, spec(None), 100).is_empty());
    // A position beyond the end is the end.
    commit(&mut rig, "s", "g", 1_000);
    rig.close(B, C, false);
    assert!(read(&mut rig, spec(Some("g")), 100).is_empty());
    rig.produce(A, P, named("s"));
    append(&mut rig, 10..11, &durable());
    assert_eq!(rig.texts(B, C), ["10"]);
}

/// Each connection would leave a position that nobody looks for, until no reader with a name can store any.
#[test]
fn a_position_under_a_name_of_the_connection_goes_with_it() {
    let mut rig = rig_with(10);
    let resumes = |name: &str| ConsumerSpec {
        stream: StreamRead {
            start: StreamStart::Next,
            resumes: Some(name.to_owned()),
        },
        ..consumer(named("s"))
    };
    commit(&mut rig, "s", "group", 8);
    rig.log.clear();
    for connection in 0..READERS_MAX {
        let name = format!("127.0.0.1:{connection}");
        let stored = commit_as(&mut rig, "s", &name, 4, true);
        assert_eq!(stored, Answer::OffsetStored { next: 4 });
        if connection == 0 {
            assert_eq!(read(&mut rig, resumes(&name), 100), numbers(4..10));
            rig.close(B, C, false);
        }
        rig.event(Event::Disconnected { conn: A });
        rig.connect(A);
    }
    assert!(read(&mut rig, resumes("127.0.0.1:0"), 100).is_empty());
    rig.close(B, C, false);
    let stored = commit(&mut rig, "s", "another", 5);
    assert_eq!(stored, Answer::OffsetStored { next: 5 });
    let stored = rig.log.iter().flat_map(|batch| &batch.ops);
    assert_eq!(stored.count(), 1, "of the others the store knows nothing");
    // A group of that name keeps its position, whoever moves it.
    commit_as(&mut rig, "s", "group", 9, true);
    rig.event(Event::Disconnected { conn: A });
    rig.connect(A);
    assert_eq!(read(&mut rig, resumes("group"), 100), numbers(9..10));
}

#[test]
fn a_stream_that_is_deleted_takes_the_positions_with_it() {
    let mut rig = rig_with(4);
    commit(&mut rig, "s", "g", 2);
    rig.broker.delete_queue(rig.now, "s").unwrap();
    rig.flush();
    rig.broker
        .declare_queue(QueueSpec::stream("s"), None)
        .unwrap();
    rig.flush();
    let mut rig = rig.restarted(config([]));
    rig.produce(A, P, named("s"));
    append(&mut rig, 0..3, &durable());
    let spec = ConsumerSpec {
        stream: StreamRead {
            start: StreamStart::First,
            resumes: Some("g".to_owned()),
        },
        ..consumer(named("s"))
    };
    assert_eq!(read(&mut rig, spec, 10), numbers(0..3));
}
