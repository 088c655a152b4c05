//! Duplicates: what is one, for how long, and what its publisher hears (DD-*).

use bytes::Bytes;

use super::harness::*;
use crate::broker::{BrokerConfig, Limits, Overflow, QueueSpec};
use crate::route::{BindingSpec, ExchangeKind, ExchangeSpec};
use crate::store::Op;
use crate::vocab::{Address, Command, Envelope, Notice, Reason, Ticket, TxnId, Verdict, Wishes};

fn keyed(key: &str, envelope: Envelope) -> Envelope {
    let wishes = Wishes {
        delay: None,
        dedup_id: Some(Bytes::copy_from_slice(key.as_bytes())),
    };
    Envelope {
        wishes: wishes.some(),
        ..envelope
    }
}

fn rig(window_ms: u64) -> Rig {
    let spec = QueueSpec {
        dedup_window_ms: window_ms,
        ..lossy("q")
    };
    let mut rig = Rig::new(config([spec]));
    rig.produce(A, P, named("q"));
    rig
}

/// Publishes a durable message with a key; the verdict.
fn send(rig: &mut Rig, key: &str) -> Verdict {
    rig.publish(A, P, message(key, keyed(key, durable())));
    let verdicts = rig.verdicts(A);
    assert_eq!(verdicts.len(), 1);
    verdicts[0].2.clone()
}

fn messages(rig: &Rig, queue: &str) -> usize {
    rig.broker
        .queue_counters(queue)
        .expect("it is there")
        .messages
}

/// DD-02: the window runs from the first message, whatever duplicates come.
#[test]
fn a_window_begins_with_the_first_message() {
    let mut rig = rig(2_000);
    let mut verdicts = Vec::new();
    for _ in 0..4 {
        verdicts.push(send(&mut rig, "a"));
        rig.sleep_ms(1_500);
        rig.tick();
    }
    let (new, old) = (Verdict::Accepted, Verdict::Duplicate);
    assert_eq!(verdicts, [new.clone(), old.clone(), new, old]);
    assert_eq!(messages(&rig, "q"), 2);
}

#[test]
fn the_borders_of_a_window_are_exact() {
    let mut rig = rig(2_000);
    assert_eq!(send(&mut rig, "a"), Verdict::Accepted);
    rig.sleep_ms(1_999);
    assert_eq!(send(&mut rig, "a"), Verdict::Duplicate);
    rig.sleep_ms(1);
    assert_eq!(send(&mut rig, "a"), Verdict::Accepted);
}

/// DD-01: neither consuming nor a purge nor a restart makes a queue forget.
#[test]
fn a_key_outlives_its_message_and_the_process() {
    let mut rig = rig(60_000);
    assert_eq!(send(&mut rig, "a"), Verdict::Accepted);
    assert_eq!(send(&mut rig, "a"), Verdict::Duplicate);
    assert_eq!(rig.broker.purge_queue("q"), Ok(1));
    rig.flush();
    assert_eq!(send(&mut rig, "a"), Verdict::Duplicate);
    for other in [Verdict::Accepted, Verdict::Duplicate] {
        rig.sleep_ms(10_000);
        rig = rig.restarted(config([]));
        rig.produce(A, P, named("q"));
        assert_eq!(send(&mut rig, "a"), Verdict::Duplicate);
        assert_eq!(send(&mut rig, "b"), other);
    }
    rig.sleep_ms(39_999);
    assert_eq!(send(&mut rig, "a"), Verdict::Duplicate);
    rig.sleep_ms(1);
    assert_eq!(send(&mut rig, "a"), Verdict::Accepted);
}

/// The key is in the batch of its message; a duplicate is confirmed when the message that it repeats is safe.
#[test]
fn a_duplicate_waits_for_its_original() {
    let mut rig = rig(60_000);
    rig.is_instant = false;
    rig.publish(A, P, message("a", keyed("a", durable())));
    rig.publish(A, P, message("a", keyed("a", durable())));
    assert!(rig.verdicts(A).is_empty());
    let batch = &rig.log.last().expect("a batch").ops;
    assert!(
        matches!(batch[..], [Op::Keyed { .. }, Op::Enqueued(_)]),
        "{batch:?}"
    );
    // A crash now loses both, so the key is new again.
    let mut crashed = rig.restarted(config([]));
    crashed.produce(A, P, named("q"));
    assert_eq!(send(&mut crashed, "a"), Verdict::Accepted);
    while !rig.batches.is_empty() {
        rig.persist_one();
    }
    let verdicts = rig.verdicts(A);
    assert_eq!(
        verdicts,
        [(0, 0, Verdict::Accepted), (1, 1, Verdict::Duplicate)]
    );
    assert_eq!(messages(&rig, "q"), 1);
}

#[test]
fn keys_of_a_queue_are_its_own_and_a_full_queue_knows_them_too() {
    let small = |name| QueueSpec {
        max_length: Some(1),
        overflow: Overflow::Reject,
        ..lossy(name)
    };
    let mut rig = Rig::new(config([small("q"), small("r")]));
    rig.produce(A, P, named("q"));
    rig.produce(A, D, named("r"));
    assert_eq!(send(&mut rig, "a"), Verdict::Accepted);
    assert_eq!(send(&mut rig, "a"), Verdict::Duplicate);
    // What is refused is not known: it may come again.
    assert_eq!(send(&mut rig, "b"), Verdict::Full("q".into()));
    assert_eq!(rig.broker.purge_queue("q"), Ok(1));
    rig.flush();
    assert_eq!(send(&mut rig, "b"), Verdict::Accepted);
    rig.publish(A, D, message("a", keyed("a", Envelope::default())));
    assert_eq!(rig.verdicts(A)[0].2, Verdict::Accepted);
    assert_eq!(messages(&rig, "r"), 1);
}

#[test]
fn a_fanout_reaches_the_queues_that_have_not_had_the_message() {
    let mut rig = Rig::new(BrokerConfig {
        exchanges: vec![ExchangeSpec::new("all", ExchangeKind::Fanout)],
        bindings: vec![
            BindingSpec::to_queue("all", "q", ""),
            BindingSpec::to_queue("all", "r", ""),
        ],
        ..config([lossy("q"), lossy("r")])
    });
    rig.produce(A, P, named("q"));
    let name = "all".to_owned();
    rig.produce(A, D, Address::Exchange { name, key: None });
    assert_eq!(send(&mut rig, "a"), Verdict::Accepted);
    for verdict in [Verdict::Accepted, Verdict::Duplicate] {
        rig.publish(A, D, message("a", keyed("a", durable())));
        assert_eq!(rig.verdicts(A)[0].2, verdict);
        assert_eq!((messages(&rig, "q"), messages(&rig, "r")), (1, 1));
    }
}

#[test]
fn keys_are_bounded_and_forgotten_in_time() {
    let spec = QueueSpec {
        dedup_window_ms: 1_000,
        ..lossy("q")
    };
    let mut rig = Rig::new(BrokerConfig {
        limits: Limits {
            dedup_keys_max: 2,
            ..Limits::default()
        },
        ..config([spec])
    });
    rig.produce(A, P, named("q"));
    assert_eq!(send(&mut rig, "a"), Verdict::Accepted);
    rig.sleep_ms(500);
    assert_eq!(send(&mut rig, "b"), Verdict::Accepted);
    let full = Verdict::Rejected(Reason::LimitExceeded);
    assert_eq!(send(&mut rig, "c"), full);
    assert_eq!(send(&mut rig, "b"), Verdict::Duplicate);
    rig.sleep_ms(500);
    // The timer forgets, also when nobody publishes.
    rig.tick();
    assert_eq!(rig.broker.dedup_keys(), 1);
    assert_eq!(send(&mut rig, "c"), Verdict::Accepted);
    rig.sleep_ms(1_000);
    rig.tick();
    assert_eq!(
        (rig.broker.dedup_keys(), rig.broker.poll_timeout()),
        (0, None)
    );
    assert_eq!(send(&mut rig, "d"), Verdict::Accepted);
    rig.broker.delete_queue(rig.now, "q").expect("it is there");
    assert_eq!(rig.broker.dedup_keys(), 0);
}

/// What is decided together counts together: many queues, and many parts of a transaction.
#[test]
fn keys_are_bounded_by_whichever_way_they_come() {
    let bind = |queue| BindingSpec::to_queue("amq.fanout", queue, "");
    let limited = |keys_max| {
        let mut rig = Rig::new(BrokerConfig {
            limits: Limits {
                dedup_keys_max: keys_max,
                ..Limits::default()
            },
            bindings: vec![bind("q"), bind("r")],
            ..config(["q", "r"].map(|name| QueueSpec {
                dedup_window_ms: 1_000,
                ..lossy(name)
            }))
        });
        let name = "amq.fanout".to_owned();
        rig.produce(A, P, Address::Exchange { name, key: None });
        rig.told(A);
        rig
    };
    let full = Verdict::Rejected(Reason::LimitExceeded);
    let mut rig = limited(3);
    assert_eq!(send(&mut rig, "a"), Verdict::Accepted);
    assert_eq!(send(&mut rig, "b"), full, "one of two keys has room");
    assert_eq!(rig.broker.dedup_keys(), 2);

    for (keys_max, fault) in [(3, Some(Reason::LimitExceeded)), (4, None)] {
        let mut rig = limited(keys_max);
        for (ticket, key) in ["a", "b"].into_iter().enumerate() {
            let stage = Command::Stage {
                port: P,
                ticket: Ticket(ticket as u64),
                txn: TxnId(1),
                message: message(key, keyed(key, durable())),
            };
            rig.command(A, stage);
        }
        let discharge = Command::Discharge {
            txn: TxnId(1),
            fail: false,
        };
        rig.command(A, discharge);
        let faults = rig.told(A).into_iter().filter_map(|notice| match notice {
            Notice::Discharged { fault, .. } => Some(fault.map(|fault| fault.reason)),
            _ => None,
        });
        assert_eq!(faults.collect::<Vec<_>>(), [fault]);
        let known = if fault.is_none() { 4 } else { 0 };
        assert_eq!(
            (rig.broker.dedup_keys(), messages(&rig, "q")),
            (known, known / 2)
        );
    }
}

#[test]
fn a_window_of_nothing_knows_nothing() {
    let mut rig = rig(0);
    for _ in 0..2 {
        assert_eq!(send(&mut rig, "a"), Verdict::Accepted);
    }
    assert_eq!((messages(&rig, "q"), rig.broker.dedup_keys()), (2, 0));
}
