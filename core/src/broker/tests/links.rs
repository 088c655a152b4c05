//! Links and the nodes that depend on them: stealing, exclusive, auto-delete, dynamic nodes, deletion.

use super::harness::*;
use crate::broker::{Counters, Event, QueueSpec};
use crate::vocab::{Address, ConnId, ConsumerSpec, LifetimePolicy, Notice, Outcome, Port, Reason};

fn closed(told: &[Notice], port: Port) -> Option<Reason> {
    told.iter().find_map(|notice| match notice {
        Notice::Closed {
            port: closed,
            refusal,
        } if *closed == port => Some(refusal.reason),
        _ => None,
    })
}

fn dynamic(lifetime: LifetimePolicy) -> Address {
    Address::Dynamic { lifetime }
}

/// Opens a consumer on a dynamic node and returns the node's name.
fn make_dynamic(rig: &mut Rig, lifetime: LifetimePolicy) -> String {
    rig.consume(A, C, consumer(dynamic(lifetime)));
    match rig.told(A).pop() {
        Some(Notice::ConsumerOpened { opened, .. }) => opened.name,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_second_link_of_the_same_name_steals_the_first() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.publish_all(A, P, ["0", "1"]);
    let spec = || ConsumerSpec {
        key: key("link"),
        ..consumer(named("q"))
    };
    rig.consume(A, C, spec());
    rig.permit(A, C, 2);
    assert_eq!(rig.texts(A, C), ["0", "1"]);
    rig.consume(B, C, spec());
    assert_eq!(closed(&rig.told(A), C), Some(Reason::Stolen));
    rig.permit(B, C, 10);
    let got = rig.delivered(B, C);
    let got: Vec<_> = got
        .iter()
        .map(|delivered| (text(delivered), delivered.delivery_count))
        .collect();
    assert_eq!(got, [("0".to_owned(), 1), ("1".to_owned(), 1)]);
    // The old port is gone: late words of its face change nothing.
    rig.settle(A, C, 0, 1, Outcome::Accepted);
    rig.permit(A, C, 100);
    rig.close(A, C, true);
    assert_eq!(
        rig.broker.queue_counters("q").expect("q exists").unsettled,
        2
    );
    // The end of the old connection does not take the link from its new owner.
    rig.event(Event::Disconnected { conn: A });
    let thief = ConnId(3);
    rig.connect(thief);
    rig.consume(thief, C, spec());
    assert_eq!(closed(&rig.told(B), C), Some(Reason::Stolen));
    rig.close(thief, C, false);
    rig.consume(B, C, spec());
    assert_eq!(closed(&rig.told(thief), C), None);
}

#[test]
fn roles_and_names_are_part_of_the_identity() {
    let mut rig = Rig::with_q();
    rig.produce_as(A, P, named("q"), key("link"));
    rig.consume(
        A,
        C,
        ConsumerSpec {
            key: key("link"),
            ..consumer(named("q"))
        },
    );
    rig.produce_as(A, D, named("q"), key("other"));
    assert_eq!(rig.broker.counters().ports(), 3);
    rig.told(A);
    rig.produce_as(B, P, Address::Anonymous, key("link"));
    assert_eq!(closed(&rig.told(A), P), Some(Reason::Stolen));
    assert_eq!(rig.broker.counters().ports(), 3);
    rig.publish_all(A, P, ["dropped"]);
    assert!(rig.told(A).is_empty());
}

#[test]
fn a_deleted_queue_closes_its_ports_and_forgets_its_messages() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1);
    rig.publish_all(A, P, ["0", "1"]);
    rig.told(B);
    assert_eq!(rig.broker.delete_queue(rig.now, "q").expect("q exists"), 2);
    rig.flush();
    assert_eq!(closed(&rig.told(A), P), Some(Reason::Deleted));
    assert_eq!(closed(&rig.told(B), C), Some(Reason::Deleted));
    assert_eq!(
        rig.broker.counters(),
        Counters {
            connections: 2,
            ..Counters::default()
        }
    );
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    assert_eq!(
        rig.broker
            .delete_queue(rig.now, "q")
            .map_err(|refusal| refusal.reason),
        Err(Reason::NotFound)
    );
}

#[test]
fn declaring_again_is_nothing_or_names_the_difference() {
    let mut rig = Rig::with_q();
    let first = rig
        .broker
        .declare_queue(lossy("q"), None)
        .expect("it is the same");
    assert_eq!(rig.broker.declare_queue(lossy("q"), Some(A)), Ok(first));
    let other = QueueSpec {
        max_length: Some(5),
        ..lossy("q")
    };
    let refusal = rig
        .broker
        .declare_queue(other, None)
        .expect_err("it is another");
    assert!(refusal.text.contains("max_length"), "{}", refusal.text);
    assert_eq!(rig.broker.counters().queues, 1);
}

#[test]
fn ql_01_an_exclusive_queue_belongs_to_its_connection_and_goes_with_it() {
    let mut rig = Rig::new(config([]));
    let spec = || QueueSpec {
        exclusive: true,
        ..QueueSpec::new("x")
    };
    rig.broker
        .declare_queue(spec(), Some(A))
        .expect("the name is free");
    rig.consume(A, C, consumer(named("x")));
    assert!(matches!(rig.told(A)[..], [Notice::ConsumerOpened { .. }]));
    rig.produce(A, P, named("x"));
    rig.publish(A, P, message("m", durable()));
    rig.consume(B, C, consumer(named("x")));
    rig.produce(B, P, named("x"));
    let reasons: Vec<_> = rig
        .told(B)
        .into_iter()
        .map(|notice| match notice {
            Notice::Refused { refusal, .. } => refusal.reason,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(reasons, [Reason::Locked, Reason::Locked]);
    assert_eq!(
        rig.broker
            .declare_queue(spec(), Some(B))
            .map_err(|refusal| refusal.reason),
        Err(Reason::Locked)
    );
    rig.event(Event::Disconnected { conn: A });
    assert_eq!(rig.broker.counters().queues, 0);
    rig.broker
        .declare_queue(spec(), Some(B))
        .expect("the name is free again");
    rig.flush();
    assert_eq!(rig.broker.counters().queues, 1);
    assert!(
        rig.log.is_empty(),
        "an exclusive queue is not stored: {:?}",
        rig.log
    );
    assert!(
        rig.broker
            .declare_queue(
                QueueSpec {
                    exclusive: true,
                    ..QueueSpec::new("y")
                },
                None
            )
            .is_err()
    );
}

#[test]
fn an_auto_delete_queue_goes_with_its_last_consumer_but_not_when_that_is_replaced() {
    let mut rig = Rig::new(config([QueueSpec {
        auto_delete: true,
        ..QueueSpec::new("q")
    }]));
    let spec = || ConsumerSpec {
        key: key("link"),
        ..consumer(named("q"))
    };
    rig.produce(A, P, named("q"));
    assert_eq!(rig.broker.counters().queues, 1);
    rig.consume(A, C, spec());
    rig.consume(B, C, spec());
    assert_eq!(
        rig.broker.counters().queues,
        1,
        "the link was stolen, not closed"
    );
    rig.told(A);
    rig.close(B, C, false);
    assert_eq!(rig.broker.counters().queues, 0);
    assert_eq!(closed(&rig.told(A), P), Some(Reason::Deleted));
}

#[test]
fn a_dynamic_node_has_a_name_that_others_can_use() {
    let mut rig = Rig::new(config([]));
    let name = make_dynamic(&mut rig, LifetimePolicy::DeleteOnClose);
    assert!(name.starts_with("amq.gen-"), "{name}");
    rig.consume(A, D, consumer(dynamic(LifetimePolicy::DeleteOnClose)));
    let told = rig.told(A);
    assert!(
        matches!(&told[..], [Notice::ConsumerOpened { opened, .. }] if opened.name != name),
        "{told:?}"
    );
    rig.produce(B, P, named(&name));
    rig.publish(B, P, message("reply", durable()));
    rig.permit(A, C, 1);
    assert_eq!(rig.texts(A, C), ["reply"]);
    assert!(
        rig.log.is_empty(),
        "a dynamic node is not stored: {:?}",
        rig.log
    );
}

#[test]
fn delete_on_close_goes_with_the_link_that_made_it() {
    let mut rig = Rig::new(config([]));
    let name = make_dynamic(&mut rig, LifetimePolicy::DeleteOnClose);
    rig.produce(B, P, named(&name));
    rig.publish_all(B, P, ["m"]);
    rig.close(A, C, false);
    assert_eq!(closed(&rig.told(B), P), Some(Reason::Deleted));
    assert_eq!(
        rig.broker.counters(),
        Counters {
            connections: 2,
            ..Counters::default()
        }
    );
    make_dynamic(&mut rig, LifetimePolicy::DeleteOnClose);
    rig.event(Event::Disconnected { conn: A });
    assert_eq!(rig.broker.counters().queues, 0);
}

#[test]
fn delete_on_no_links_waits_for_the_last_link() {
    let mut rig = Rig::new(config([]));
    let name = make_dynamic(&mut rig, LifetimePolicy::DeleteOnNoLinks);
    rig.produce(B, P, named(&name));
    rig.publish_all(B, P, ["m"]);
    rig.close(A, C, false);
    assert_eq!(rig.broker.counters().queues, 1);
    rig.close(B, P, false);
    assert_eq!(rig.broker.counters().queues, 0);
}

#[test]
fn delete_on_no_messages_waits_for_the_last_message() {
    let mut rig = Rig::new(config([]));
    let name = make_dynamic(&mut rig, LifetimePolicy::DeleteOnNoMessages);
    rig.produce(B, P, named(&name));
    rig.consume(B, C, consumer(named(&name)));
    rig.publish_all(B, P, ["0", "1"]);
    rig.permit(B, C, 1);
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    rig.close(A, C, false);
    assert_eq!(rig.broker.counters().queues, 1);
    rig.permit(B, C, 2);
    rig.told(B);
    rig.settle(B, C, 1, 1, Outcome::Accepted);
    assert_eq!(rig.broker.counters().queues, 0);
    let told = rig.told(B);
    assert_eq!(
        (closed(&told, P), closed(&told, C)),
        (Some(Reason::Deleted), Some(Reason::Deleted))
    );
}

#[test]
fn delete_on_no_links_or_messages_waits_for_both() {
    let mut rig = Rig::new(config([]));
    let lifetime = LifetimePolicy::DeleteOnNoLinksOrMessages;
    let name = make_dynamic(&mut rig, lifetime);
    rig.produce(B, P, named(&name));
    rig.publish_all(B, P, ["0"]);
    rig.close(A, C, false);
    rig.close(B, P, false);
    assert_eq!(rig.broker.counters().queues, 1);
    rig.consume(B, C, consumer(named(&name)));
    rig.permit(B, C, 1);
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    assert_eq!(rig.broker.counters().queues, 1);
    rig.close(B, C, false);
    assert_eq!(rig.broker.counters().queues, 0);
    // Empty and without links from the start: it goes with its maker.
    make_dynamic(&mut rig, lifetime);
    rig.close(A, C, false);
    assert_eq!(rig.broker.counters().queues, 0);
}

#[test]
fn everything_of_a_connection_goes_with_it() {
    let mut rig = Rig::with_q();
    for round in 0..50 {
        let conn = ConnId(100 + round);
        rig.connect(conn);
        rig.produce_as(conn, P, named("q"), key("in"));
        rig.consume(
            conn,
            C,
            ConsumerSpec {
                key: key("out"),
                ..consumer(named("q"))
            },
        );
        rig.consume(conn, D, consumer(dynamic(LifetimePolicy::DeleteOnClose)));
        rig.permit(conn, C, 10);
        rig.publish_all(conn, P, ["m"]);
        rig.event(Event::Disconnected { conn });
        rig.event(Event::Disconnected { conn });
        rig.publish_all(conn, P, ["dropped"]);
    }
    let counters = rig.broker.counters();
    assert_eq!(
        (counters.connections, counters.queues, counters.ports()),
        (2, 1, 0)
    );
    assert_eq!((counters.messages, counters.unsettled), (50, 0));
}

#[test]
fn a_port_number_in_use_is_refused_and_harms_nothing() {
    let mut rig = Rig::with_q();
    rig.produce(A, Port(3), named("q"));
    rig.consume(A, Port(3 + 4_096), consumer(named("q")));
    let told = rig.told(A);
    assert!(
        matches!(
            told.last(),
            Some(Notice::Refused {
                port: Port(4_099),
                ..
            })
        ),
        "{told:?}"
    );
    rig.publish_all(A, Port(3), ["m"]);
    assert_eq!(rig.broker.counters().messages, 1);
    rig.close(A, Port(3), false);
    rig.consume(A, Port(3 + 4_096), consumer(named("q")));
    rig.publish_all(A, Port(3), ["m"]);
    assert_eq!(
        (
            rig.broker.counters().messages,
            rig.broker.counters().consumers
        ),
        (1, 1)
    );
}

#[test]
fn a_dynamic_node_that_was_emptied_stays_while_its_maker_is_there() {
    for lifetime in [
        LifetimePolicy::DeleteOnClose,
        LifetimePolicy::DeleteOnNoLinks,
        LifetimePolicy::DeleteOnNoMessages,
        LifetimePolicy::DeleteOnNoLinksOrMessages,
    ] {
        let mut rig = Rig::new(config([]));
        let name = make_dynamic(&mut rig, lifetime);
        rig.produce(B, P, named(&name));
        for round in 0..2 {
            rig.publish_all(B, P, ["reply"]);
            rig.permit(A, C, round + 1);
            assert_eq!(rig.texts(A, C), ["reply"], "{lifetime:?}");
            rig.settle(A, C, round, round, Outcome::Accepted);
            assert_eq!(rig.broker.counters().queues, 1, "{lifetime:?}");
        }
    }
}
