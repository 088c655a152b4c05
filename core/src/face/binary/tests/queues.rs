//! Whole queues: made, found, listed, counted, purged, deleted; and what is not offered.

use qq_proto_binary::message::{
    HeartbeatRequest, QueueDeclareRequest, QueueDeleteRequest, QueuePurgeRequest,
    QueueStatsRequest, SchemaRegisterRequest,
};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;

use super::{Bench, consume, publish};

fn declare(change: impl FnOnce(&mut QueueDeclareRequest)) -> Request {
    let mut request = QueueDeclareRequest {
        queue: "q".into(),
        ..QueueDeclareRequest::default()
    };
    change(&mut request);
    Request::QueueDeclare(Box::new(request))
}

fn delete(if_unused: bool, if_empty: bool) -> Request {
    Request::QueueDelete(QueueDeleteRequest {
        queue: "q".into(),
        if_unused,
        if_empty,
    })
}

#[test]
fn a_queue_from_its_declaration_to_its_end() {
    let mut bench = Bench::new();
    let a = bench.connect();
    let passive = declare(|request| request.passive = true);
    assert_eq!(bench.refusal(a, &passive).0, 50);
    let settings = || {
        declare(|request| {
            request.length_max = 2;
            request.durable = Some(false);
        })
    };
    for is_new in [true, false] {
        let Ok(Reply::QueueDeclared(declared)) = bench.ask(a, &settings()) else {
            panic!("it is declared")
        };
        assert_eq!((&*declared.queue, declared.created), ("q", is_new));
    }
    let (code, text) = bench.refusal(a, &declare(|request| request.length_max = 3));
    assert_eq!(code, 51);
    assert!(
        text.contains("durable") || text.contains("max_length"),
        "{text}"
    );
    bench.ask(a, &publish("q", "1")).expect("taken");
    bench.ask(a, &publish("q", "2")).expect("taken");
    assert_eq!(
        bench.refusal(a, &publish("q", "3")),
        (3, "queue is full".into())
    );
    bench.ask(a, &consume("q", 1)).expect("open");
    let stats = Request::QueueStats(QueueStatsRequest { queue: "q".into() });
    let Ok(Reply::QueueStats(stats)) = bench.ask(a, &stats) else {
        panic!("numbers")
    };
    assert_eq!(
        (
            stats.message_count,
            stats.in_flight_count,
            stats.consumer_count
        ),
        (1, 1, 1)
    );
    assert_eq!(stats.published_total, 2);
    let Ok(Reply::QueueList(list)) = bench.ask(a, &Request::QueueList) else {
        panic!("a list")
    };
    let listed: Vec<_> = list
        .queues
        .iter()
        .map(|queue| (&*queue.name, queue.message_count, queue.in_flight_count))
        .collect();
    assert_eq!(listed, [("q", 1, 1)]);
    assert_eq!(bench.refusal(a, &delete(true, false)).0, 54);
    assert_eq!(bench.refusal(a, &delete(false, true)).0, 54);
    let purge = Request::QueuePurge(QueuePurgeRequest { queue: "q".into() });
    let Ok(Reply::QueuePurged(purged)) = bench.ask(a, &purge) else {
        panic!("purged")
    };
    assert_eq!(purged.message_count, 1);
    let Ok(Reply::QueueDeleted(deleted)) = bench.ask(a, &delete(false, false)) else {
        panic!("deleted")
    };
    assert_eq!(deleted.message_count, 1);
    assert_eq!(bench.refusal(a, &purge).0, 50);
}

#[test]
fn an_exclusive_queue_is_for_one_connection() {
    let mut bench = Bench::new();
    let (a, b) = (bench.connect(), bench.connect());
    bench
        .ask(a, &declare(|request| request.exclusive = true))
        .expect("made");
    assert_eq!(bench.refusal(b, &consume("q", 1)).0, 54);
    assert_eq!(bench.refusal(b, &publish("q", "x")).0, 54);
    assert_eq!(bench.refusal(b, &delete(false, false)).0, 54);
    let (now, conn) = (bench.now, bench.clients[a].conn);
    bench.node.disconnect(now, conn);
    assert_eq!(bench.refusal(b, &delete(false, false)).0, 50);
}

#[test]
fn what_is_not_offered_yet_is_refused_in_the_words_of_the_protocol() {
    let mut bench = Bench::new();
    let a = bench.connect();
    let heartbeat = Request::Heartbeat(HeartbeatRequest {
        group: "g".into(),
        queue: "q".into(),
    });
    assert_eq!(
        bench.refusal(a, &heartbeat),
        (4, "group member not found".into())
    );
    let schema = || {
        Box::new(SchemaRegisterRequest {
            queue: "q".into(),
            ..SchemaRegisterRequest::default()
        })
    };
    assert_eq!(bench.refusal(a, &Request::SchemaRegister(schema())).0, 6);
    assert_eq!(
        bench.refusal(a, &Request::SchemaGet(schema())),
        (7, "schema not found".into())
    );
    let Ok(Reply::SchemaList(list)) = bench.ask(a, &Request::SchemaList) else {
        panic!("a list")
    };
    assert!(list.schemas.is_empty());
}
