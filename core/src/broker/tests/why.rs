//! Why something waits, as operators are told: messages out of turn, consumers that get nothing, messages that are held.

use bytes::Bytes;

use super::harness::*;
use crate::admin::{LinkRow, Reply, Request, Why};
use crate::broker::{Backoff, QueueSpec};
use crate::vocab::{Delay, Envelope, Outcome, Wishes};

/// Causes of a message of `q`.
fn why(rig: &mut Rig, position: u64) -> Vec<Why> {
    let queue = "q".to_owned();
    match rig.manage(Request::Message { queue, position }) {
        Reply::Message { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

/// Codes of the causes for which the links of `q` wait, in the order in which they opened.
fn waits(rig: &mut Rig) -> Vec<Vec<&'static str>> {
    let node = Some("q".to_owned());
    let (from, conn) = (0, None);
    let Reply::Links(page) = rig.manage(Request::Links { from, node, conn }) else {
        panic!("no list")
    };
    let codes = |link: &LinkRow| link.waits.iter().map(|why| why.code).collect();
    page.items.iter().map(codes).collect()
}

fn one(found: &[Why]) -> (&'static str, &str) {
    match found {
        [why] => (why.code, &why.text),
        other => panic!("{other:?}"),
    }
}

fn of_key(key: &'static str) -> Envelope {
    Envelope {
        group_id: Some(Bytes::from_static(key.as_bytes())),
        ..durable()
    }
}

fn delayed(ms: u64) -> Envelope {
    Envelope {
        wishes: Some(Box::new(Wishes {
            delay: Some(Delay::For(ms)),
            dedup_id: None,
        })),
        ..durable()
    }
}

#[test]
fn a_delayed_message_says_for_how_long_and_its_consumer_that_nothing_is_due() {
    let mut rig = Rig::with_q();
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 5);
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("m", delayed(60_000)));
    rig.sleep_ms(20_000);
    let found = why(&mut rig, 0);
    let (code, text) = one(&found);
    assert_eq!(code, "delayed");
    // Moments are rounded up to the millisecond.
    assert!(
        text.contains("40000 ms") || text.contains("40001 ms"),
        "{text}"
    );
    assert!(waits(&mut rig).contains(&vec!["delayed"]));
    rig.sleep_ms(40_001);
    rig.tick();
    assert_eq!(rig.texts(B, C), ["m"]);
    assert_eq!(one(&why(&mut rig, 0)).0, "held");
}

#[test]
fn between_attempts_a_message_waits_for_the_next_one() {
    let backoff = Backoff {
        min_ms: 5_000,
        max_ms: 5_000,
        factor: 1,
    };
    let mut rig = Rig::new(config([QueueSpec {
        retry_backoff: Some(backoff),
        ..lossy("q")
    }]));
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 5);
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("m", durable()));
    rig.settle(B, C, 0, 0, failed());
    let found = why(&mut rig, 0);
    let (code, text) = one(&found);
    assert_eq!(code, "delayed");
    assert!(text.contains("next attempt"), "{text}");
}

#[test]
fn a_message_that_waits_for_its_key_names_it_and_who_has_the_other_one() {
    let mut rig = Rig::with_q();
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 5);
    rig.produce(A, P, named("q"));
    for text in ["first", "second"] {
        rig.publish(A, P, message(text, of_key("blue")));
    }
    assert_eq!(rig.texts(B, C), ["first"]);
    let found = why(&mut rig, 1);
    let (code, text) = one(&found);
    assert_eq!(code, "key");
    for part in [
        "'blue'".to_owned(),
        format!("link {}-{}", B.0, C.0),
        "position 0".to_owned(),
    ] {
        assert!(text.contains(&part), "{text}");
    }
    assert!(waits(&mut rig).contains(&vec!["key"]));
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    assert_eq!(rig.texts(B, C), ["second"]);
}

#[test]
fn a_consumer_that_stands_by_says_so() {
    let mut rig = Rig::new(config([QueueSpec {
        single_active_consumer: true,
        ..lossy("q")
    }]));
    for port in [C, D] {
        rig.consume(B, port, consumer(named("q")));
    }
    rig.permit(B, C, 1);
    rig.permit(B, D, 1);
    rig.produce(A, P, named("q"));
    rig.publish_all(A, P, ["0", "1"]);
    let found = waits(&mut rig);
    assert!(found.contains(&vec!["no-credit"]), "{found:?}");
    assert!(found.contains(&vec!["standby"]), "{found:?}");
}

#[test]
fn held_messages_are_shown_where_they_are_wanted() {
    let mut rig = Rig::with_q();
    rig.consume(B, C, consumer(named("q")));
    rig.permit(B, C, 1);
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("held", durable()));
    rig.publish(A, P, message("delayed", delayed(1_000)));
    rig.publish(A, P, message("ready", durable()));
    let mut peek = |with_held| {
        let request = Request::Peek {
            queue: "q".to_owned(),
            from: 0,
            limit: 10,
            with_held,
        };
        let Reply::Messages(found) = rig.manage(request) else {
            panic!("no messages")
        };
        let shown = found.iter();
        shown
            .map(|peeked| (peeked.position, peeked.is_held, peeked.is_delayed))
            .collect::<Vec<_>>()
    };
    let waiting = [(1, false, true), (2, false, false)];
    assert_eq!(peek(false), waiting);
    assert_eq!(peek(true)[0], (0, true, false));
    assert_eq!(peek(true)[1..], waiting);
}
