//! The plain path: open, publish, deliver, settle.

use super::harness::*;
use crate::broker::Counters;
use crate::vocab::{Notice, Outcome, Verdict};

#[test]
fn a_message_goes_from_producer_to_consumer_and_is_gone() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 10);
    rig.publish(A, P, message("hello", durable()));
    assert_eq!(rig.verdicts(A), [(0, 0, Verdict::Accepted)]);
    let told = rig.told(B);
    assert!(matches!(told[0], Notice::ConsumerOpened { .. }), "{told:?}");
    let Notice::Deliver { port, delivered } = &told[1] else {
        panic!("{told:?}")
    };
    assert_eq!((*port, text(delivered).as_str()), (C, "hello"));
    assert_eq!(
        (delivered.delivery_count, delivered.first_acquirer),
        (0, true)
    );
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    let expected = Counters {
        connections: 2,
        queues: 1,
        producers: 1,
        consumers: 1,
        ..Counters::default()
    };
    assert_eq!(rig.broker.counters(), expected);
}
