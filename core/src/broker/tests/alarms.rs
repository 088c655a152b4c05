//! Memory and disk get short: paging makes room first, then credit stops, then publishes are refused; consumers drain.

use super::harness::*;
use super::paging::*;
use crate::broker::{BrokerConfig, Event, Limits, Paging, QueueSpec};
use crate::store::StoreEvent;
use crate::vocab::{Command, DeliveryId, Envelope, Notice, Outcome, Port, Reason, Verdict};

#[test]
fn mm_02_a_full_cache_takes_from_every_queue() {
    let names: Vec<String> = (0..40).map(|number| format!("q{number}")).collect();
    let mut rig = Rig::new(BrokerConfig {
        paging: Some(Paging {
            window_len: 64,
            window_bytes: 1 << 20,
            cache_bytes: 160 * 700,
        }),
        limits: Limits {
            memory_high_bytes: 160 * 2_000,
            memory_max_bytes: 160 * 2_400,
            ..Limits::default()
        },
        ..config(names.iter().map(|name| lossy(name.as_str())))
    });
    for (index, name) in names.iter().enumerate() {
        let port = Port(u32::try_from(index).expect("few"));
        rig.produce(A, port, named(name));
        for _ in 0..200 {
            rig.publish(A, port, message("", durable()));
        }
    }
    let told = rig.told(A);
    assert!(
        !told.iter().any(|notice| matches!(
            notice,
            Notice::Pressure { .. }
                | Notice::Confirm {
                    verdict: Verdict::Rejected(_) | Verdict::Full(_),
                    ..
                }
        )),
        "paging makes room before anybody is slowed"
    );
    assert_eq!(rig.broker.counters().messages, 8_000);
    // A flush in between looks at some queues at a time.
    for _ in 0..20 {
        rig.flush();
    }
    let (_, bodies) = paged_and_bodies(&rig);
    assert!(bodies <= 700, "{bodies} bodies are above the cache");
}

#[test]
fn a_disk_alarm_takes_credit_and_refuses_what_would_be_stored() {
    let volatile = QueueSpec {
        durable: false,
        ..lossy("v")
    };
    let mut rig = Rig::new(paged([lossy("q"), volatile]));
    rig.produce(A, P, named("q"));
    rig.produce(B, P, named("v"));
    rig.consume(B, C, consumer(named("q")));
    publish(&mut rig, 0..100, &durable());
    rig.told(A);
    rig.told(B);
    for _ in 0..2 {
        rig.event(Event::Store(StoreEvent::Room { is_short: true }));
    }
    assert_eq!(rig.told(A), [Notice::Pressure { on: true }]);
    assert!(rig.told(B).is_empty(), "nothing of B is stored");
    assert!(rig.broker.counters().is_disk_short);
    assert!(!rig.broker.counters().is_memory_short);
    publish(&mut rig, 100..101, &durable());
    publish(&mut rig, 101..102, &Envelope::default());
    let full = Verdict::Rejected(Reason::DiskFull);
    assert_eq!(
        rig.verdicts(A),
        [(100, 100, full), (101, 101, Verdict::Accepted)]
    );
    rig.publish(B, P, message("v", durable()));
    assert_eq!(rig.verdicts(B), [(0, 0, Verdict::Accepted)]);
    // Consumers drain, and their settlements are stored.
    rig.permit(B, C, 50);
    assert_eq!(rig.texts(B, C), numbers(0..50));
    rig.command(
        B,
        Command::Settle {
            port: C,
            first: DeliveryId(0),
            last: DeliveryId(49),
            outcome: Outcome::Accepted,
            confirm: true,
        },
    );
    assert!(
        rig.told(B)
            .iter()
            .any(|notice| matches!(notice, Notice::Settled { .. }))
    );
    assert_eq!(rig.kept.len(), 50);
    rig.event(Event::Store(StoreEvent::Room { is_short: false }));
    assert_eq!(rig.told(A), [Notice::Pressure { on: false }]);
    publish(&mut rig, 102..103, &durable());
    assert_eq!(rig.verdicts(A), [(102, 102, Verdict::Accepted)]);
}

#[test]
fn memory_and_disk_alarms_are_one_to_a_producer() {
    let mut rig = Rig::new(BrokerConfig {
        limits: Limits {
            memory_high_bytes: 1_600,
            memory_max_bytes: 3_200,
            ..Limits::default()
        },
        ..config([lossy("q")])
    });
    rig.produce(A, P, named("q"));
    rig.told(A);
    rig.event(Event::Store(StoreEvent::Room { is_short: true }));
    rig.publish_all(A, P, [""; 11]);
    assert!(rig.broker.counters().is_memory_short);
    rig.event(Event::Store(StoreEvent::Room { is_short: false }));
    let pressures = |rig: &mut Rig| -> Vec<bool> {
        rig.told(A)
            .iter()
            .filter_map(|notice| match notice {
                Notice::Pressure { on } => Some(*on),
                _ => None,
            })
            .collect()
    };
    assert_eq!(pressures(&mut rig), [true], "memory is still short");
    rig.broker.purge_queue("q").expect("q exists");
    rig.flush();
    assert_eq!(pressures(&mut rig), [false]);
}
