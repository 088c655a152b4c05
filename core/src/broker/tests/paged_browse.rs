//! Browsing a queue whose bodies are away: what is read is beside the cursor and leaves nothing behind.

use super::harness::*;
use super::paging::*;
use crate::broker::QueueSpec;
use crate::vocab::{ConsumerSpec, Outcome};

#[test]
fn browsers_read_everything_beside_the_cursor() {
    let mut rig = rig(QueueSpec::new("q"));
    publish(&mut rig, 0..1_500, &durable());
    let spec = || ConsumerSpec {
        browse: true,
        ..consumer(named("q"))
    };
    rig.consume(B, C, spec());
    rig.consume(B, D, spec());
    rig.permit(B, C, 2_000);
    assert_eq!(rig.texts(B, C), numbers(0..1_500));
    let (paged, bodies) = paged_and_bodies(&rig);
    assert!(bodies <= 33 && paged >= 1_467, "{paged} {bodies}");
    // In steps, while another takes from the front.
    rig.is_prompt = false;
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 10);
    rig.settle(A, C, 0, 9, Outcome::Accepted);
    let mut got: Vec<String> = Vec::new();
    for step in 1..=300 {
        rig.permit(B, D, 5 * step);
        while !rig.fetches.is_empty() {
            rig.fetch_one(0);
        }
        got.extend(rig.texts(B, D));
        assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
    }
    assert_eq!(got, numbers(10..1_500));
    rig.close(B, C, false);
    rig.close(B, D, false);
    assert_eq!(rig.broker.counters().bytes, rig.broker.counted_bytes());
}

#[test]
fn a_browser_that_goes_leaves_nothing_behind() {
    let mut rig = rig(QueueSpec::new("q"));
    publish(&mut rig, 0..1_000, &durable());
    let before = rig.broker.counters().bytes;
    let spec = ConsumerSpec {
        browse: true,
        ..consumer(named("q"))
    };
    rig.consume(B, C, spec.clone());
    rig.permit(B, C, 50);
    assert!(
        rig.broker.counters().bytes > before,
        "it holds bodies of its own"
    );
    rig.close(B, C, false);
    assert_eq!(rig.broker.counters().bytes, before);
    rig.is_prompt = false;
    rig.consume(B, D, spec);
    rig.permit(B, D, 50);
    assert_eq!(rig.fetches.len(), 1);
    rig.close(B, D, false);
    rig.fetch_one(0);
    let counters = rig.broker.counters();
    assert_eq!(
        (counters.bytes, counters.fetches, counters.damaged),
        (before, 0, 0)
    );
}
