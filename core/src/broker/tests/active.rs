//! Single active consumer: who is served, and what the others hear.

use super::harness::*;
use crate::broker::QueueSpec;
use crate::vocab::{ConsumerSpec, Notice, Port};

const E: Port = Port(3);

fn rig() -> Rig {
    let spec = QueueSpec {
        single_active_consumer: true,
        ..lossy("q")
    };
    let mut rig = Rig::new(config([spec]));
    rig.produce(A, P, named("q"));
    rig
}

/// What ports of `B` heard of their activity since the last look.
fn activity(rig: &mut Rig) -> Vec<(Port, bool)> {
    let told = rig.told(B).into_iter();
    told.filter_map(|notice| match notice {
        Notice::Activity { port, is_active } => Some((port, is_active)),
        _ => None,
    })
    .collect()
}

#[test]
fn the_first_consumer_is_served_until_it_goes() {
    let mut rig = rig();
    for port in [D, C, E] {
        rig.consume(B, port, consumer(named("q")));
        rig.permit(B, port, 10);
    }
    assert_eq!(activity(&mut rig), [(D, true), (C, false), (E, false)]);
    rig.publish_all(A, P, ["0", "1", "2"]);
    let told = rig.told(B);
    let ports = told.iter().map(|notice| match notice {
        Notice::Deliver { port, .. } => *port,
        other => panic!("{other:?}"),
    });
    assert!(ports.eq([D, D, D]));
    // One that stands by goes, and nothing changes.
    rig.close(B, E, false);
    assert!(activity(&mut rig).is_empty());
    // The active one goes: what it held comes first, to the next one.
    rig.publish_all(A, P, ["3"]);
    rig.told(B);
    rig.close(B, D, true);
    let told = rig.told(B);
    assert!(
        matches!(
            told[0],
            Notice::Activity {
                port: C,
                is_active: true
            }
        ),
        "{told:?}"
    );
    let texts: Vec<String> = told
        .iter()
        .filter_map(|notice| match notice {
            Notice::Deliver { port: C, delivered } => Some(text(delivered)),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["0", "1", "2", "3"]);
}

#[test]
fn nobody_is_served_before_it_has_permit_and_browsers_do_not_count() {
    let mut rig = rig();
    let browser = ConsumerSpec {
        browse: true,
        ..consumer(named("q"))
    };
    rig.consume(B, E, browser);
    rig.permit(B, E, 10);
    rig.consume(B, C, consumer(named("q")));
    rig.consume(B, D, consumer(named("q")));
    rig.permit(B, D, 10);
    assert_eq!(activity(&mut rig), [(C, true), (D, false)]);
    rig.publish_all(A, P, ["0"]);
    // The active consumer has no permit, and the message is not for the other one.
    assert_eq!(rig.texts(B, D), Vec::<String>::new());
    rig.close(B, C, false);
    assert_eq!(rig.texts(B, D), ["0"]);
    rig.consume(B, C, consumer(named("q")));
    assert_eq!(activity(&mut rig), [(C, false)]);
}

/// A drain is answered at once by a queue that does not serve the consumer.
#[test]
fn a_drain_of_one_that_stands_by_is_answered() {
    let mut rig = rig();
    rig.publish_all(A, P, ["0"]);
    rig.consume(B, C, consumer(named("q")));
    rig.consume(B, D, consumer(named("q")));
    rig.told(B);
    rig.drain(B, D, 5);
    let told = rig.told(B);
    assert!(
        matches!(told[..], [Notice::Drained { port: D, sent: 0 }]),
        "{told:?}"
    );
}

/// A lost connection hands over as a detach does, in the same inbox.
#[test]
fn a_lost_connection_hands_over() {
    let mut rig = rig();
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 10);
    rig.consume(B, D, consumer(named("q")));
    rig.permit(B, D, 10);
    rig.publish_all(A, P, ["0", "1"]);
    assert_eq!(rig.texts(A, C), ["0", "1"]);
    assert_eq!(activity(&mut rig), [(D, false)]);
    rig.event(crate::broker::Event::Disconnected { conn: A });
    let delivered = rig.delivered(B, D);
    let counts: Vec<_> = delivered
        .iter()
        .map(|d| (text(d), d.delivery_count))
        .collect();
    assert_eq!(counts, [("0".to_owned(), 1), ("1".to_owned(), 1)]);
}
