//! Browsing: seeing without taking (distribution-mode copy).

use super::harness::*;
use crate::vocab::{ConsumerSpec, Envelope, Outcome};

fn browser() -> ConsumerSpec {
    ConsumerSpec {
        browse: true,
        ..consumer(named("q"))
    }
}

#[test]
fn a_browser_sees_waiting_messages_once_and_takes_none() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.publish_all(A, P, ["0", "1", "2", "3"]);
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 1);
    assert_eq!(rig.texts(A, C), ["0"]);
    rig.consume(B, C, browser());
    rig.permit(B, C, 2);
    assert_eq!(rig.texts(B, C), ["1", "2"]);
    rig.settle(B, C, 0, 1, Outcome::Accepted);
    assert_eq!(rig.broker.queue_counters("q").expect("q exists").waiting, 3);
    rig.permit(B, C, 100);
    let last = rig.delivered(B, C);
    assert_eq!(
        last.iter()
            .map(|delivered| delivered.delivery.0)
            .collect::<Vec<_>>(),
        [2]
    );
    assert!(last[0].first_acquirer);
    rig.close(B, C, true);
    rig.permit(A, C, 100);
    let rest = rig.delivered(A, C);
    assert_eq!(rest.len(), 3);
    assert!(
        rest.iter()
            .all(|delivered| delivered.first_acquirer && delivered.delivery_count == 0)
    );
}

#[test]
fn a_browser_sees_what_a_consumer_takes_in_the_same_moment() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(A, C, consumer(named("q")));
    rig.consume(B, C, browser());
    rig.consume(B, D, browser());
    rig.permit(A, C, 10);
    rig.permit(B, C, 1);
    rig.permit(B, D, 10);
    rig.told(B);
    rig.publish_all(A, P, ["0", "1"]);
    assert_eq!(rig.texts(A, C), ["0", "1"]);
    let told = rig.told(B);
    assert_eq!(
        told.len(),
        3,
        "one for the first browser, two for the second: {told:?}"
    );
}

#[test]
fn a_browser_does_not_see_behind_the_gate() {
    let mut rig = Rig::with_q();
    rig.flush();
    rig.is_instant = false;
    rig.produce(A, P, named("q"));
    rig.consume(B, C, browser());
    rig.permit(B, C, 10);
    rig.publish(A, P, message("0", durable()));
    rig.publish(A, P, message("1", Envelope::default()));
    assert!(rig.texts(B, C).is_empty());
    rig.persist_one();
    assert_eq!(rig.texts(B, C), ["0", "1"]);
}

#[test]
fn drain_tells_a_browser_that_it_saw_everything() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.publish_all(A, P, ["0", "1"]);
    rig.consume(B, C, browser());
    rig.drain(B, C, 10);
    let told = rig.told(B);
    let expected = crate::vocab::Notice::Drained { port: C, sent: 2 };
    assert_eq!((told.len(), told.last()), (4, Some(&expected)));
    rig.publish_all(A, P, ["2"]);
    assert!(rig.told(B).is_empty());
    rig.permit(B, C, 3);
    assert_eq!(rig.texts(B, C), ["2"]);
}
