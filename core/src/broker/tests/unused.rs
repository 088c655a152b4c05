//! Queues that nobody uses go by themselves.

use super::harness::*;
use crate::broker::QueueSpec;

fn spec() -> QueueSpec {
    QueueSpec {
        expires_ms: Some(1_000),
        ..lossy("q")
    }
}

fn is_there(rig: &Rig) -> bool {
    rig.broker.queue_counters("q").is_some()
}

#[test]
fn a_queue_goes_when_it_had_no_consumer_for_its_time() {
    let mut rig = Rig::new(config([spec()]));
    rig.produce(A, P, named("q"));
    rig.sleep_ms(999);
    rig.publish(A, P, message("m", durable()));
    rig.tick();
    // A consumer keeps it, however long, and so does having had one; messages and producers do not.
    rig.consume(B, C, consumer(named("q")));
    rig.sleep_ms(5_000);
    rig.tick();
    assert!(is_there(&rig));
    rig.close(B, C, false);
    rig.sleep_ms(999);
    rig.tick();
    assert!(is_there(&rig));
    rig.sleep_ms(2);
    rig.tick();
    assert!(!is_there(&rig));
    assert_eq!((rig.broker.counters().bytes, rig.kept.len()), (0, 0));
    assert_eq!(rig.broker.poll_timeout(), None);
}

#[test]
fn declaring_it_again_and_a_restart_are_uses() {
    let mut rig = Rig::new(config([spec()]));
    rig.sleep_ms(900);
    rig.broker
        .declare_queue(spec(), None)
        .expect("it is the same");
    rig.flush();
    rig.sleep_ms(900);
    rig.tick();
    assert!(is_there(&rig));
    let mut rig = rig.restarted(config([]));
    rig.sleep_ms(900);
    rig.tick();
    assert!(is_there(&rig));
    rig.sleep_ms(200);
    rig.tick();
    assert!(!is_there(&rig));
    let rig = rig.restarted(config([]));
    assert!(!is_there(&rig), "it is gone for good");
}
