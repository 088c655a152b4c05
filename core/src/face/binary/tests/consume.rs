//! Consumers: prefetch, acknowledgements of every kind, time-outs, and their end.

use bytes::Bytes;
use qq_proto_binary::connection::{Config, Event};
use qq_proto_binary::frame::Layout;
use qq_proto_binary::message::{
    AckRequest, ConsumeRequest, ExtendVisibilityRequest, NackRequest, PublishRequest,
    UnsubscribeRequest,
};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;

use super::{Bench, ack, consume, publish};

fn nack(delivery_id: u64, requeue: bool) -> Request {
    Request::Nack(NackRequest {
        delivery_id,
        requeue,
        ..NackRequest::default()
    })
}

fn fill(bench: &mut Bench, client: usize, queue: &str, count: usize) {
    for at in 0..count {
        bench
            .ask(client, &publish(queue, &at.to_string()))
            .expect("taken");
    }
}

#[test]
fn prefetch_bounds_what_a_consumer_holds_and_several_share_a_connection() {
    let mut bench = Bench::new();
    let a = bench.connect();
    fill(&mut bench, a, "q", 40);
    fill(&mut bench, a, "r", 2);
    bench.ask(a, &consume("q", 3)).expect("open");
    bench.ask(a, &consume("r", 0)).expect("open");
    let messages = bench.messages(a);
    let of = |queue: &str| messages.iter().filter(|one| one.queue == queue).count();
    assert_eq!((of("q"), of("r")), (3, 2));
    assert_eq!(bench.ask(a, &ack(1, 0)), Ok(Reply::Done));
    assert_eq!(bench.payloads(a), ["3"]);
    bench.ask(a, &consume("q", 30)).expect("changed");
    assert_eq!(bench.messages(a).len(), 27);
    // A range over both consumers: 1 is gone already.
    assert_eq!(bench.ask(a, &ack(1, 6)), Ok(Reply::Done));
    assert_eq!(bench.messages(a).len(), 3);
    let held = bench.node.broker().counters().unsettled;
    assert_eq!(held, 30, "30 of q, none of r");
    assert_eq!(
        bench.refusal(a, &ack(1, 6)),
        (4, "message not found".into())
    );
    assert_eq!(bench.refusal(a, &ack(9, 8)).0, 4);
}

#[test]
fn an_acknowledgement_is_confirmed_when_it_is_durable() {
    let mut bench = Bench::new();
    let a = bench.connect();
    fill(&mut bench, a, "q", 2);
    bench.ask(a, &consume("q", 2)).expect("open");
    bench.is_instant = false;
    let id = bench.send_confirmed(a, &ack(1, 2));
    assert_eq!(bench.answer(a, id), None);
    bench.persist();
    assert_eq!(bench.answer(a, id), Some(Ok(Reply::Done)));
    assert_eq!(bench.node.broker().counters().messages, 0);
}

#[test]
fn a_message_that_failed_comes_again_and_one_that_is_refused_does_not() {
    let mut bench = Bench::new();
    let a = bench.connect();
    fill(&mut bench, a, "q", 1);
    bench.ask(a, &consume("q", 1)).expect("open");
    bench.ask(a, &nack(1, true)).expect("held");
    let messages = bench.messages(a);
    assert_eq!((messages[0].attempt, messages[1].attempt), (1, 2));
    assert_eq!(messages[1].delivery_id, 2);
    bench.ask(a, &nack(2, false)).expect("held");
    assert!(bench.messages(a).is_empty());
    assert_eq!(
        bench.node.broker().queue_counters("q").map(|q| q.messages),
        Some(0)
    );
}

#[test]
fn time_gives_a_message_back_unless_it_is_extended() {
    let mut bench = Bench::new();
    let a = bench.connect();
    fill(&mut bench, a, "q", 2);
    let request = Request::Consume(ConsumeRequest {
        queue: "q".into(),
        visibility_timeout: 10,
        ..ConsumeRequest::default()
    });
    bench.ask(a, &request).expect("open");
    assert_eq!(bench.messages(a).len(), 2);
    bench.pass(9);
    let extend = Request::ExtendVisibility(ExtendVisibilityRequest {
        delivery_id: 2,
        extension_seconds: 20,
        ..ExtendVisibilityRequest::default()
    });
    let Ok(Reply::Extended(extended)) = bench.ask(a, &extend) else {
        panic!("it is held")
    };
    assert_eq!(extended.new_visible_at, bench.now.wall_ms + 20_000);
    bench.pass(1);
    let again = bench.messages(a);
    assert_eq!(
        (again.len(), again[0].attempt, &again[0].payload[..]),
        (1, 2, &b"0"[..])
    );
    bench.ask(a, &ack(3, 0)).expect("held");
    bench.pass(18);
    assert!(bench.messages(a).is_empty());
    bench.pass(1);
    assert_eq!(
        bench.messages(a).len(),
        1,
        "its longer time is over as well"
    );
    assert_eq!(bench.refusal(a, &ack(2, 0)).0, 4);
}

#[test]
fn the_first_clients_name_messages_and_hear_only_of_failures() {
    let mut bench = Bench::new();
    let a = bench.connect_with(Config {
        layout: Layout::Versioned,
        ..Config::default()
    });
    for _ in 0..2 {
        let request = PublishRequest {
            queue: "q".into(),
            payload: Bytes::from_static(b"x"),
            message_id: Some("same".into()),
            ..PublishRequest::default()
        };
        bench.ask_versioned(a, &Request::Publish(Box::new(request)));
    }
    bench.send(a, &consume("q", 0));
    assert_eq!(bench.messages(a).len(), 2);
    bench.clients[a].events.clear();
    let ack = Request::Ack(AckRequest {
        message_id: "same".into(),
        ..AckRequest::default()
    });
    bench.send(a, &ack);
    bench.send(a, &ack);
    assert!(
        bench.clients[a].events.is_empty(),
        "{:?}",
        bench.clients[a].events
    );
    bench.send(a, &ack);
    let events = &bench.clients[a].events;
    assert!(
        matches!(&events[..], [Event::Refused { error, .. }] if error.code == 4),
        "{events:?}"
    );
}

#[test]
fn nothing_is_left_to_acknowledge_when_sending_is_enough() {
    let mut bench = Bench::new();
    let a = bench.connect();
    fill(&mut bench, a, "q", 50);
    let request = Request::Consume(ConsumeRequest {
        queue: "q".into(),
        prefetch: 2,
        auto_ack: true,
        ..ConsumeRequest::default()
    });
    bench.ask(a, &request).expect("open");
    assert_eq!(bench.messages(a).len(), 50);
    assert_eq!(bench.node.broker().counters().messages, 0);
    assert_eq!(bench.refusal(a, &ack(1, 0)).0, 4);
}

#[test]
fn the_end_of_a_consumer_confirms_nothing_that_is_not_safe() {
    let mut bench = Bench::new();
    let a = bench.connect();
    fill(&mut bench, a, "q", 1);
    bench.ask(a, &consume("q", 1)).expect("open");
    bench.is_instant = false;
    let acked = bench.send_confirmed(a, &ack(1, 0));
    let unsubscribe = Request::Unsubscribe(UnsubscribeRequest {
        queue: "q".into(),
        group: None,
    });
    assert_eq!(bench.ask(a, &unsubscribe), Ok(Reply::Done));
    assert_eq!(bench.answer(a, acked), None, "the store does not have it");
    bench.persist();
    assert_eq!(bench.answer(a, acked), Some(Ok(Reply::Done)));
}

#[test]
fn a_consumer_ends_and_gives_back_what_it_holds() {
    let mut bench = Bench::new();
    let a = bench.connect();
    fill(&mut bench, a, "q", 1);
    bench.ask(a, &consume("q", 1)).expect("open");
    let unsubscribe = Request::Unsubscribe(UnsubscribeRequest {
        queue: "q".into(),
        group: None,
    });
    assert_eq!(bench.ask(a, &unsubscribe), Ok(Reply::Done));
    assert_eq!(
        bench.refusal(a, &unsubscribe),
        (4, "consumer not found".into())
    );
    assert_eq!(bench.refusal(a, &ack(1, 0)).0, 4);
    assert_eq!(
        bench.node.broker().queue_counters("q").map(|q| q.waiting),
        Some(1)
    );
    bench.ask(a, &consume("q", 1)).expect("open again");
    assert_eq!(bench.messages(a).len(), 2);
    let now = bench.now;
    bench
        .node
        .administer(now, |broker| broker.delete_queue(now, "q"))
        .expect("it is there");
    bench.settle();
    let closed = bench.clients[a]
        .events
        .iter()
        .find_map(|event| match event {
            Event::ConsumerClosed(closed) => Some((closed.queue.as_str(), closed.code)),
            _ => None,
        });
    assert_eq!(closed, Some(("q", 50)));
}

#[test]
fn a_message_that_no_frame_of_the_consumer_takes_does_not_come_for_ever() {
    let mut bench = Bench::new();
    let a = bench.connect();
    let b = bench.connect_with(Config {
        layout: Layout::Versioned,
        ..Config::default()
    });
    let large = PublishRequest {
        queue: "q".into(),
        payload: Bytes::from(vec![b'x'; 2 << 20]),
        ..PublishRequest::default()
    };
    bench
        .ask(a, &Request::Publish(Box::new(large)))
        .expect("it fits this layout");
    bench.ask(a, &publish("q", "next")).expect("taken");
    bench.send(b, &consume("q", 1));
    assert_eq!(bench.payloads(b), ["next"]);
    assert_eq!(bench.node.broker().counters().rejected, 1);
}

#[test]
fn reserved_names_and_too_many_consumers_are_refused() {
    let mut bench = Bench::new();
    let a = bench.connect();
    assert_eq!(bench.refusal(a, &consume("amq.q", 1)).0, 52);
    for at in 0..4 {
        bench.ask(a, &consume(&format!("q{at}"), 1)).expect("open");
    }
    assert_eq!(bench.refusal(a, &consume("q4", 1)).0, 3);
}

#[test]
fn a_lost_connection_counts_as_an_attempt() {
    let mut bench = Bench::new();
    let (a, b) = (bench.connect(), bench.connect());
    fill(&mut bench, a, "q", 1);
    bench.ask(a, &consume("q", 1)).expect("open");
    assert_eq!(bench.messages(a)[0].attempt, 1);
    let (now, conn) = (bench.now, bench.clients[a].conn);
    bench.node.disconnect(now, conn);
    bench.ask(b, &consume("q", 1)).expect("open");
    assert_eq!(bench.messages(b)[0].attempt, 2);
}
