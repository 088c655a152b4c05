//! What is counted for operators beside what happens.

use std::time::Duration;

use super::harness::*;
use crate::admin::{NodeStats, QueueRow, Refusals, Reply, Request};
use crate::broker::{BrokerConfig, Limits, QueueSpec};
use crate::vocab::{Command, Envelope, Note};

fn row(rig: &mut Rig) -> QueueRow {
    let name = "q".to_owned();
    match rig.manage(Request::Queue { name }) {
        Reply::Queue(queue) => queue.row,
        other => panic!("{other:?}"),
    }
}

fn stats(rig: &mut Rig) -> NodeStats {
    match rig.manage(Request::Stats) {
        Reply::Stats(stats) => *stats,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_latency_of_a_publish_ends_when_it_is_safe() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.is_instant = false;
    rig.publish(A, P, message("volatile", Envelope::default()));
    rig.publish(A, P, message("durable", durable()));
    rig.now.mono += Duration::from_millis(3);
    assert_eq!(row(&mut rig).latency.count(), 1);
    rig.persist_one();
    let latency = row(&mut rig).latency;
    assert_eq!((latency.count(), latency.sum_us()), (2, 3_000));
    let counts: Vec<u64> = latency.up_to().take(4).map(|(_, count)| count).collect();
    assert_eq!(counts, [1, 1, 1, 2]);
}

#[test]
fn the_oldest_message_is_as_old_as_the_one_that_is_first() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    assert_eq!(row(&mut rig).oldest_at_ms, None);
    for text in ["first", "second"] {
        rig.publish(A, P, message(text, durable()));
        rig.now.mono += Duration::from_secs(60);
        rig.now.wall_ms += 60_000;
    }
    assert_eq!(row(&mut rig).oldest_at_ms, Some(1_000_000));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1);
    // It is still there while a consumer holds it.
    assert_eq!(row(&mut rig).oldest_at_ms, Some(1_000_000));
    rig.settle(B, C, 0, 0, crate::vocab::Outcome::Accepted);
    assert_eq!(row(&mut rig).oldest_at_ms, Some(1_060_000));
    let name = "q".to_owned();
    rig.manage(Request::Purge { name });
    assert_eq!(row(&mut rig).oldest_at_ms, None);
}

#[test]
fn refusals_are_counted_by_the_limit_that_was_reached() {
    let full = QueueSpec {
        max_length: Some(1),
        ..lossy("q")
    };
    let mut rig = Rig::new(BrokerConfig {
        limits: Limits {
            queues_max: 1,
            memory_max_bytes: 10_000,
            ..Limits::default()
        },
        ..config([full])
    });
    rig.produce(A, P, named("q"));
    for text in ["taken", "one too many"] {
        rig.publish(A, P, message(text, Envelope::default()));
    }
    rig.publish(A, P, message(&"x".repeat(20_000), Envelope::default()));
    let spec = Box::new(QueueSpec::new("other"));
    rig.manage(Request::DeclareQueue { spec });
    let expected = Refusals {
        queue_full: 1,
        memory: 1,
        queues: 1,
        ..Refusals::default()
    };
    assert_eq!(stats(&mut rig).refusals, expected);
}

#[test]
fn sessions_permits_and_calls_are_those_that_connections_tell_of() {
    let mut rig = Rig::with_q();
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 5);
    rig.produce(B, P, named("q"));
    rig.publish(B, P, message("m", Envelope::default()));
    rig.command(A, Command::Note(Note::Sessions(3)));
    rig.command(B, Command::Note(Note::Sessions(1)));
    for name in ["q", "q", "nowhere"] {
        rig.command(B, Command::Note(Note::Called(name.to_owned())));
    }
    rig.command(B, Command::Note(Note::CallLate("q".to_owned())));
    let told = stats(&mut rig);
    assert_eq!((told.sessions, told.permits), (4, 4));
    assert_eq!((told.totals.calls, told.totals.call_timeouts), (2, 1));
}
