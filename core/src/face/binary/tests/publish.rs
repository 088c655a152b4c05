//! PUBLISH and PUBLISH_BATCH: ids, answers, and what is refused.

use bytes::Bytes;
use qq_proto_binary::connection::Config;
use qq_proto_binary::frame::Layout;
use qq_proto_binary::message::{PublishBatchRequest, PublishRequest};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;

use super::{Bench, WALL_START_MS, consume, publish};

fn with(change: impl FnOnce(&mut PublishRequest)) -> PublishRequest {
    let mut request = PublishRequest {
        queue: "q".into(),
        payload: Bytes::from_static(b"x"),
        ..PublishRequest::default()
    };
    change(&mut request);
    request
}

#[test]
fn a_message_goes_from_one_peer_to_another_as_it_was() {
    let mut bench = Bench::new();
    let (a, b) = (bench.connect(), bench.connect());
    assert_eq!(bench.ask(b, &consume("q", 10)), Ok(Reply::Done));
    let request = with(|request| {
        request.headers = [("k".to_owned(), "v".to_owned())].into();
        request.message_id = Some("m-1".into());
        request.ordering_key = "u7".into();
    });
    let Ok(Reply::Published(published)) = bench.ask(a, &Request::Publish(Box::new(request))) else {
        panic!("the message is taken")
    };
    assert_eq!(published.message_id, "m-1");
    let [message] = &bench.messages(b)[..] else {
        panic!("one message")
    };
    assert_eq!(
        (
            &*message.message_id,
            &*message.queue,
            &*message.ordering_key
        ),
        ("m-1", "q", "u7")
    );
    assert_eq!(message.headers.get("k").map(String::as_str), Some("v"));
    assert_eq!(
        (message.attempt, message.published_at, message.delivery_id),
        (1, WALL_START_MS, 1)
    );
}

#[test]
fn an_answer_waits_for_the_disk_and_none_for_what_is_transient() {
    let mut bench = Bench::new();
    let a = bench.connect();
    bench.ask(a, &publish("q", "0")).expect("taken");
    bench.is_instant = false;
    let durable = bench.send(a, &publish("q", "1"));
    let transient = bench.send(
        a,
        &Request::Publish(Box::new(with(|request| request.transient = true))),
    );
    assert_eq!(bench.answer(a, durable), None);
    assert!(matches!(bench.answer(a, transient), Some(Ok(_))));
    bench.persist();
    assert!(matches!(bench.answer(a, durable), Some(Ok(_))));
}

#[test]
fn answers_without_ids_keep_their_order_although_the_disk_is_slow() {
    let mut bench = Bench::new();
    let a = bench.connect_with(Config {
        layout: Layout::Versioned,
        ..Config::default()
    });
    bench.ask_versioned(a, &publish("q", "0"));
    bench.is_instant = false;
    let durable = bench.send(a, &publish("q", "1"));
    let list = bench.send(a, &Request::QueueList);
    assert_eq!(bench.answer(a, list), None, "it comes after the first");
    bench.persist();
    assert!(matches!(bench.answer(a, durable), Some(Ok(_))));
    assert!(matches!(
        bench.answer(a, list),
        Some(Ok(Reply::QueueList(_)))
    ));
}

#[test]
fn a_batch_is_answered_one_by_one() {
    let mut bench = Bench::new();
    let a = bench.connect();
    let messages = vec![
        with(|request| {
            request.message_id = Some("m-1".into());
            request.idempotency_key = Some("d".into());
        }),
        with(|request| request.idempotency_key = Some("d".into())),
        with(|request| request.queue = "amq.reserved".into()),
        with(|request| request.queue = "other".into()),
    ];
    let batch = PublishBatchRequest { messages };
    let Ok(Reply::PublishedBatch(response)) = bench.ask(a, &Request::PublishBatch(batch)) else {
        panic!("an answer")
    };
    let codes: Vec<u32> = response.results.iter().map(|result| result.code).collect();
    assert_eq!(codes, [0, 3, 52, 0]);
    assert_eq!(response.results[0].message_id, "m-1");
    assert_eq!(response.results[3].message_id.len(), 26);
    assert!(response.results[1].message_id.is_empty());
    let empty = Request::PublishBatch(PublishBatchRequest::default());
    let Ok(Reply::PublishedBatch(response)) = bench.ask(a, &empty) else {
        panic!("an answer")
    };
    assert!(response.results.is_empty());
}

#[test]
fn a_duplicate_is_told_with_its_key() {
    let mut bench = Bench::new();
    let a = bench.connect();
    let keyed = |key: &str| {
        let key = Some(key.to_owned());
        Request::Publish(Box::new(with(|request| request.idempotency_key = key)))
    };
    assert!(bench.ask(a, &keyed("order-7")).is_ok());
    let duplicate = (3, "duplicate message: order-7".to_owned());
    assert_eq!(bench.refusal(a, &keyed("order-7")), duplicate);
    // An empty key is none.
    assert!(bench.ask(a, &keyed("")).is_ok());
    assert!(bench.ask(a, &keyed("")).is_ok());
    assert!(bench.ask(a, &keyed(&"k".repeat(255))).is_ok());
    assert_eq!(bench.refusal(a, &keyed(&"k".repeat(256))).0, 2);
}

#[test]
fn a_deleted_queue_is_made_again_by_the_next_publish() {
    let mut bench = Bench::new();
    let a = bench.connect();
    bench.ask(a, &publish("q", "0")).expect("taken");
    let now = bench.now;
    bench
        .node
        .administer(now, |broker| broker.delete_queue(now, "q"))
        .expect("it is there");
    bench.settle();
    bench.ask(a, &publish("q", "1")).expect("taken again");
    let counters = bench.node.broker().queue_counters("q");
    assert_eq!(counters.map(|queue| queue.messages), Some(1));
}

#[test]
fn many_queues_do_not_pile_up_producers() {
    let mut bench = Bench::new();
    let a = bench.connect();
    for at in 0..1_000 {
        bench
            .ask(a, &publish(&format!("q{at}"), "x"))
            .expect("taken");
    }
    let counters = bench.node.broker().counters();
    assert_eq!(counters.messages, 1_000);
    assert!(counters.producers <= 128, "{}", counters.producers);
}
