//! Settlements that nobody waits for share a sync with what comes soon after them, and are never late.

use std::time::Duration;

use super::harness::*;
use crate::broker::{BrokerConfig, QueueSpec};
use crate::store::Op;
use crate::vocab::{Command, DeliveryId, Outcome, Seq};

const LINGER_MS: u64 = 10;

/// A consumer with two deliveries of a safe queue, and a store that answers when told.
fn rig() -> Rig {
    let mut rig = Rig::new(BrokerConfig {
        linger: Duration::from_millis(LINGER_MS),
        ..config([QueueSpec::new("q")])
    });
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    rig.publish(A, P, message("0", durable()));
    rig.publish(A, P, message("1", durable()));
    rig.permit(B, C, 2);
    assert_eq!(rig.texts(B, C), ["0", "1"]);
    rig.is_instant = false;
    rig
}

#[test]
fn a_settlement_waits_for_company_but_no_longer_than_it_may() {
    let mut rig = rig();
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    rig.sleep_ms(LINGER_MS - 1);
    rig.settle(B, C, 1, 1, Outcome::Accepted);
    rig.tick();
    assert!(rig.batches.is_empty(), "it was persisted alone");
    // The first of them counts: a stream of settlements cannot put it off.
    assert_eq!(
        rig.broker.poll_timeout(),
        Some(rig.now.mono + Duration::from_millis(1))
    );
    rig.sleep_ms(1);
    rig.tick();
    assert!(
        matches!(
            rig.batches[0].ops[..],
            [Op::Removed {
                seq: Seq(0),
                count: 2,
                ..
            }]
        ),
        "{:?}",
        rig.batches
    );
    assert_eq!(rig.broker.poll_timeout(), None);
}

#[test]
fn a_message_takes_earlier_settlements_along_at_once() {
    let mut rig = rig();
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    rig.publish(A, P, message("2", durable()));
    assert!(
        matches!(
            rig.batches[0].ops[..],
            [Op::Removed { .. }, Op::Enqueued(_)]
        ),
        "{:?}",
        rig.batches
    );
    assert_eq!(rig.broker.poll_timeout(), None);
}

#[test]
fn a_settlement_that_somebody_waits_for_does_not_linger() {
    let mut rig = rig();
    rig.command(
        B,
        Command::Settle {
            port: C,
            first: DeliveryId(0),
            last: DeliveryId(1),
            outcome: Outcome::Accepted,
            confirm: true,
        },
    );
    assert_eq!(rig.batches.len(), 1);
    rig.told(B);
    rig.persist_one();
    assert_eq!(rig.told(B).len(), 1);
}

#[test]
fn a_returned_message_does_not_linger() {
    let mut rig = rig();
    rig.settle(B, C, 0, 0, failed());
    assert_eq!(rig.batches.len(), 1);
}

#[test]
fn nothing_lingers_while_the_node_goes_down() {
    let mut rig = rig();
    rig.settle(B, C, 0, 1, Outcome::Accepted);
    assert!(rig.batches.is_empty() && !rig.broker.is_drained());
    rig.broker.drain();
    rig.flush();
    rig.persist_one();
    assert!(rig.broker.is_drained());
}
