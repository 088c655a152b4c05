//! Consumer groups over the wire: one copy each, members that take turns, heartbeats.

use qq_proto_binary::connection::Event;
use qq_proto_binary::message::{ConsumeRequest, HeartbeatRequest, UnsubscribeRequest};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;

use super::{Bench, ack, publish};

fn join(group: &str) -> Request {
    Request::Consume(ConsumeRequest {
        queue: "q".into(),
        group: Some(group.into()),
        prefetch: 10,
        ..ConsumeRequest::default()
    })
}

fn heartbeat(group: &str) -> Request {
    Request::Heartbeat(HeartbeatRequest {
        queue: "q".into(),
        group: group.into(),
    })
}

#[test]
fn each_group_gets_a_copy_and_its_members_share_it() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.connect(), bench.connect(), bench.connect());
    for client in [a, b] {
        bench.ask(client, &join("billing")).expect("a member");
    }
    bench.ask(c, &join("shipping")).expect("a member");
    bench
        .ask(c, &join("audit"))
        .expect("a member of two groups");
    for number in 0..4 {
        bench
            .ask(a, &publish("q", &number.to_string()))
            .expect("taken");
    }
    let shared: usize = [a, b]
        .map(|client| bench.messages(client).len())
        .iter()
        .sum();
    assert_eq!(shared, 4);
    let mut of_c = bench.messages(c);
    of_c.sort_by(|x, y| (&x.group, &x.payload).cmp(&(&y.group, &y.payload)));
    let got: Vec<(&str, &[u8])> = (of_c.iter())
        .map(|message| (&*message.group, &message.payload[..]))
        .collect();
    let each: Vec<(&str, &[u8])> = ["audit", "shipping"]
        .into_iter()
        .flat_map(|group| [b"0", b"1", b"2", b"3"].map(|text| (group, &text[..])))
        .collect();
    assert_eq!(got, each);
    assert!(of_c.iter().all(|message| message.queue == "q"));
    // The queue was made for groups, so it keeps nothing itself.
    let Ok(Reply::QueueList(list)) = bench.ask(a, &Request::QueueList) else {
        panic!("a list")
    };
    let own = list
        .queues
        .iter()
        .find(|queue| queue.name == "q")
        .expect("it is there");
    assert_eq!((own.message_count, own.in_flight_count), (0, 0));
}

#[test]
fn a_member_that_leaves_gives_its_messages_to_the_others() {
    let mut bench = Bench::new();
    let (a, b) = (bench.connect(), bench.connect());
    bench.ask(a, &join("g")).expect("a member");
    bench.ask(a, &publish("q", "1")).expect("taken");
    bench.ask(a, &publish("q", "2")).expect("taken");
    assert_eq!(bench.payloads(a), ["1", "2"]);
    bench.ask(a, &ack(1, 0)).expect("acknowledged");
    bench.ask(b, &join("g")).expect("a member");
    let leave = Request::Unsubscribe(UnsubscribeRequest {
        queue: "q".into(),
        group: Some("g".into()),
    });
    bench.ask(a, &leave).expect("left");
    assert_eq!(bench.payloads(b), ["2"]);
    assert_eq!(bench.refusal(a, &leave).0, 4);
    assert_eq!(
        bench.refusal(a, &heartbeat("g")),
        (4, "group member not found".into())
    );
    assert_eq!(bench.ask(b, &heartbeat("g")).expect("heard"), Reply::Heard);
}

#[test]
fn a_silent_member_loses_its_membership_and_a_beating_one_does_not() {
    let mut bench = Bench::new();
    let (a, b) = (bench.connect(), bench.connect());
    for client in [a, b] {
        bench.ask(client, &join("g")).expect("a member");
    }
    bench.ask(b, &publish("q", "1")).expect("taken");
    bench.ask(b, &publish("q", "2")).expect("taken");
    assert_eq!(bench.payloads(a).len() + bench.payloads(b).len(), 2);
    for _ in 0..4 {
        bench.pass(3);
        bench.ask(b, &heartbeat("g")).expect("heard");
    }
    assert!(bench.clients[a].events.iter().any(|event| matches!(
        event,
        Event::ConsumerClosed(closed) if closed.group == "g"
    )));
    let again = bench.messages(b);
    assert_eq!(again.len(), 1, "what the silent one held");
    assert_eq!(again[0].attempt, 2, "which counts as an attempt");
    assert_eq!(
        bench.refusal(a, &heartbeat("g")),
        (4, "group member not found".into())
    );
    // A connection without memberships may be as silent as it likes.
    bench.ask(a, &join("g")).expect("it joins again");
}
