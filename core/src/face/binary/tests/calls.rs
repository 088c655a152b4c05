//! CALL: answers, time-outs, and that nothing waits for them.

use bytes::Bytes;
use qq_proto_binary::message::{CallRequest, PublishRequest};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;

use super::{Bench, ack, consume, publish};

fn call(queue: &str, timeout_ms: u32) -> Request {
    Request::Call(Box::new(CallRequest {
        queue: queue.into(),
        payload: Bytes::from_static(b"ping"),
        headers: [("mine".to_owned(), "1".to_owned())].into(),
        timeout_ms,
    }))
}

#[test]
fn an_answer_finds_its_call_and_holds_up_nothing() {
    let mut bench = Bench::new();
    let (a, b) = (bench.connect(), bench.connect());
    bench.ask(b, &consume("rpc", 10)).expect("open");
    let first = bench.send(a, &call("rpc", 0));
    let second = bench.send(a, &call("rpc", 0));
    bench.ask(a, &publish("other", "x")).expect("meanwhile");
    let requests = bench.messages(b);
    assert_eq!(requests.len(), 2);
    // The second is answered first.
    for (request, payload) in [(&requests[1], "two"), (&requests[0], "one")] {
        assert_eq!(request.headers["mine"], "1");
        let reply = PublishRequest {
            queue: request.headers["reply_to"].clone(),
            payload: Bytes::from_static(payload.as_bytes()),
            headers: [(
                "correlation_id".to_owned(),
                request.headers["correlation_id"].clone(),
            )]
            .into(),
            ..PublishRequest::default()
        };
        bench
            .ask(b, &Request::Publish(Box::new(reply)))
            .expect("taken");
    }
    bench.ask(b, &ack(1, 2)).expect("held");
    for (id, payload) in [(first, "one"), (second, "two")] {
        let Some(Ok(Reply::Called(answer))) = bench.answer(a, id) else {
            panic!("{payload} has its answer")
        };
        assert_eq!(answer.payload, payload);
        assert!(answer.headers.contains_key("correlation_id"));
    }
}

#[test]
fn a_call_without_an_answer_ends_and_leaves_nothing_behind() {
    let mut bench = Bench::new();
    let a = bench.connect();
    let short = bench.send(a, &call("rpc", 2_000));
    let long = bench.send(a, &call("rpc", 0));
    bench.pass(1);
    assert_eq!(bench.answer(a, short), None);
    bench.pass(1);
    let error = bench
        .answer(a, short)
        .expect("it ended")
        .expect_err("a time-out");
    assert_eq!((error.code, &*error.message), (8, "call timeout"));
    bench.pass(27);
    assert_eq!(bench.answer(a, long), None);
    bench.pass(2);
    assert!(matches!(bench.answer(a, long), Some(Err(_))));
    // The calls themselves expired with their callers' patience.
    let waiting = bench
        .node
        .broker()
        .queue_counters("rpc")
        .map(|q| q.messages);
    assert_eq!(waiting, Some(0));
    let totals = bench.node.broker().node_stats().totals;
    assert_eq!((totals.calls, totals.call_timeouts), (2, 2));
}

#[test]
fn a_call_that_no_queue_takes_is_refused_at_once() {
    let mut bench = Bench::new();
    let a = bench.connect();
    assert_eq!(bench.refusal(a, &call("amq.rpc", 0)).0, 52);
}

#[test]
fn answers_to_callers_that_left_are_refused() {
    let mut bench = Bench::new();
    let (a, b) = (bench.connect(), bench.connect());
    bench.ask(b, &consume("rpc", 10)).expect("open");
    bench.send(a, &call("rpc", 0));
    let queue = bench.messages(b)[0].headers["reply_to"].clone();
    let (now, conn) = (bench.now, bench.clients[a].conn);
    bench.node.disconnect(now, conn);
    bench.settle();
    assert!(bench.node.broker().queue_counters(&queue).is_none());
    assert_eq!(bench.refusal(b, &publish(&queue, "late")).0, 52);
}
