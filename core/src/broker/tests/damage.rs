//! A store that cannot give a body back: the queue closes to consumers, nothing wrong is delivered, others live.

use super::harness::*;
use super::paging::*;
use crate::broker::{Event, QueueSpec};
use crate::store::StoreEvent;
use crate::vocab::{ConsumerSpec, Notice, Reason, Verdict};

fn closed(rig: &mut Rig) -> Vec<(Reason, String)> {
    rig.told(B)
        .into_iter()
        .filter_map(|notice| match notice {
            Notice::Closed { refusal, .. } | Notice::Refused { refusal, .. } => {
                Some((refusal.reason, refusal.text))
            }
            _ => None,
        })
        .collect()
}

const HARMS: [fn(&mut Rig); 4] = [
    |rig| rig.fail_fetch(0),
    |rig| {
        let fetch = &rig.fetches[0];
        let place = (fetch.queue, fetch.first);
        rig.kept.remove(&place);
        rig.fetch_one(0);
    },
    |rig| {
        // Another message in its place.
        let fetch = &rig.fetches[0];
        let place = (fetch.queue, fetch.first);
        rig.kept
            .insert(place, message("quite another one", durable()));
        rig.fetch_one(0);
    },
    |rig| {
        let fetch = rig.fetches.remove(0);
        let messages = Vec::new();
        rig.event(Event::Store(StoreEvent::Fetched { fetch, messages }));
    },
];

#[test]
fn du_05_a_damaged_queue_closes_to_consumers_and_others_live() {
    for harm in HARMS {
        for browse in [false, true] {
            let mut rig = Rig::new(paged([QueueSpec::new("q"), QueueSpec::new("other")]));
            rig.produce(A, P, named("q"));
            rig.produce(A, D, named("other"));
            publish(&mut rig, 0..200, &durable());
            rig.is_prompt = false;
            let spec = ConsumerSpec {
                browse,
                ..consumer(named("q"))
            };
            rig.consume(B, C, spec.clone());
            rig.permit(B, C, 200);
            let before = rig.texts(B, C);
            harm(&mut rig);
            let told = closed(&mut rig);
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].0, Reason::Internal);
            assert!(told[0].1.contains("qqd --check-store"), "{told:?}");
            assert!(before.len() <= 32 && before == numbers(0..before.len()));
            // Answers that were on their way change nothing.
            while !rig.fetches.is_empty() {
                rig.fetch_one(0);
            }
            rig.consume(B, C, spec);
            assert_eq!(closed(&mut rig).len(), 1, "no new consumers");
            let counters = rig.broker.counters();
            assert_eq!((counters.damaged, counters.messages), (1, 200));
            assert!(
                rig.broker
                    .queue_counters("q")
                    .is_some_and(|queue| queue.is_damaged)
            );
            others_live(&mut rig);
        }
    }
}

/// The other queue is as before, and producers of the damaged one may go on.
fn others_live(rig: &mut Rig) {
    rig.is_prompt = true;
    rig.told(A);
    publish(rig, 200..201, &durable());
    for number in 0..200 {
        rig.publish(A, D, message(&number.to_string(), durable()));
    }
    assert!(
        rig.verdicts(A)
            .iter()
            .all(|verdict| verdict.2 == Verdict::Accepted)
    );
    rig.consume(B, D, consumer(named("other")));
    rig.permit(B, D, 200);
    assert_eq!(rig.texts(B, D), numbers(0..200));
    rig.broker.delete_queue(rig.now, "q").expect("q exists");
    rig.flush();
    assert_eq!(rig.broker.counters().damaged, 0);
}
