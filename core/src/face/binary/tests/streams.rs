//! Streams: SEEK in all its forms, entries that stay, COMMIT_OFFSET.

use qq_proto_binary::connection::Event;
use qq_proto_binary::message::{
    CommitOffsetRequest, QueueDeclareRequest, QueueStatsRequest, SeekPosition, SeekRequest,
    StreamMessage, UnsubscribeRequest,
};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;

use super::{Bench, ack, consume, publish};

fn declare(change: impl FnOnce(&mut QueueDeclareRequest)) -> Request {
    let mut request = QueueDeclareRequest {
        queue: "log".into(),
        kind: 1,
        ..QueueDeclareRequest::default()
    };
    change(&mut request);
    Request::QueueDeclare(Box::new(request))
}

fn seek(group: &str, position: SeekPosition, number: u64) -> Request {
    Request::Seek(SeekRequest {
        queue: "log".into(),
        consumer_group: group.into(),
        position: position as i32,
        offset: number,
        timestamp: i64::try_from(number).expect("small"),
    })
}

fn commit(queue: &str, group: &str, offset: u64) -> Request {
    Request::CommitOffset(CommitOffsetRequest {
        queue: queue.into(),
        consumer_group: group.into(),
        offset,
    })
}

impl Bench {
    /// Seeks, and says where the peer was told that it begins.
    fn seek(&mut self, client: usize, request: &Request) -> u64 {
        match self.ask(client, request) {
            Ok(Reply::Sought(sought)) => sought.offset,
            other => panic!("{other:?}"),
        }
    }

    fn entries(&mut self, client: usize) -> Vec<StreamMessage> {
        let events = core::mem::take(&mut self.clients[client].events);
        let mut entries = Vec::new();
        for event in events {
            match event {
                Event::StreamDelivered(entry) => entries.push(*entry),
                other => self.clients[client].events.push(other),
            }
        }
        entries
    }

    fn sequences(&mut self, client: usize) -> Vec<u64> {
        let entries = self.entries(client);
        entries.iter().map(|entry| entry.sequence).collect()
    }
}

fn bench_with(count: u64) -> (Bench, usize) {
    let mut bench = Bench::new();
    let a = bench.connect();
    bench.ask(a, &declare(|_| {})).expect("made");
    for number in 1..=count {
        bench
            .ask(a, &publish("log", &number.to_string()))
            .expect("taken");
        bench.advance(bench.now.mono + std::time::Duration::from_millis(1));
    }
    (bench, a)
}

#[test]
fn every_position_begins_where_it_says() {
    let (mut bench, a) = bench_with(40);
    let start = u64::try_from(super::WALL_START_MS).expect("positive");
    for (request, first) in [
        (seek("g", SeekPosition::Beginning, 0), 1),
        (seek("g", SeekPosition::End, 0), 41),
        (seek("g", SeekPosition::Offset, 0), 1),
        (seek("g", SeekPosition::Offset, 1), 1),
        (seek("g", SeekPosition::Offset, 30), 30),
        (seek("g", SeekPosition::Offset, 1_000), 41),
        (seek("g", SeekPosition::Timestamp, start + 10), 11),
        (seek("g", SeekPosition::Timestamp, start + 1_000), 41),
        (seek("g", SeekPosition::Committed, 0), 41),
    ] {
        assert_eq!(bench.seek(a, &request), first, "{request:?}");
        assert_eq!(bench.sequences(a), (first..=40).collect::<Vec<_>>());
    }
    bench.ask(a, &publish("log", "41")).expect("taken");
    let entries = bench.entries(a);
    assert_eq!(entries.len(), 1, "a stream is read once by a connection");
    assert_eq!(
        (entries[0].sequence, &entries[0].payload[..]),
        (41, &b"41"[..])
    );
    assert_eq!((&*entries[0].queue, &*entries[0].group), ("log", "g"));
}

#[test]
fn a_group_goes_on_behind_what_it_committed() {
    let (mut bench, a) = bench_with(10);
    assert_eq!(bench.seek(a, &seek("g", SeekPosition::Beginning, 0)), 1);
    for (request, offset) in [(commit("log", "g", 4), 4), (commit("", "", 5), 5)] {
        let Ok(Reply::Committed(committed)) = bench.ask(a, &request) else {
            panic!("committed")
        };
        assert_eq!(committed.offset, offset);
    }
    let b = bench.connect();
    assert_eq!(bench.seek(b, &seek("g", SeekPosition::Committed, 0)), 6);
    assert_eq!(bench.sequences(b), [6, 7, 8, 9, 10]);
    let none = (4, "stream queue not found".to_owned());
    assert_eq!(bench.refusal(a, &commit("nowhere", "g", 1)), none);
    bench.ask(a, &publish("plain", "1")).expect("taken");
    assert_eq!(bench.refusal(a, &commit("plain", "g", 1)), none);
    let c = bench.connect();
    assert_eq!(bench.refusal(c, &commit("", "", 1)), none);
}

#[test]
fn without_a_group_the_connection_goes_on_behind_what_it_committed() {
    let (mut bench, a) = bench_with(10);
    assert_eq!(bench.seek(a, &seek("", SeekPosition::Beginning, 0)), 1);
    bench.ask(a, &commit("log", "", 7)).expect("committed");
    assert_eq!(bench.seek(a, &seek("", SeekPosition::Committed, 0)), 8);
    assert_eq!(bench.seek(a, &seek("", SeekPosition::Beginning, 0)), 1);
    bench.ask(a, &commit("", "", 3)).expect("committed");
    assert_eq!(bench.seek(a, &seek("", SeekPosition::Committed, 0)), 4);
}

#[test]
fn readers_get_everything_each_and_acks_mean_nothing() {
    let (mut bench, a) = bench_with(3);
    let b = bench.connect();
    for client in [a, b] {
        bench.seek(client, &seek("g", SeekPosition::Beginning, 0));
        assert_eq!(bench.sequences(client), [1, 2, 3]);
    }
    // As a queue it is read from its end on, and acknowledged without effect.
    let c = bench.connect();
    bench.ask(c, &consume("log", 10)).expect("open");
    bench.ask(a, &publish("log", "4")).expect("taken");
    assert_eq!(bench.payloads(c), ["4"]);
    bench.ask(c, &ack(1, 0)).expect("acknowledged");
    assert_eq!(bench.sequences(b), [4]);
    let stop = Request::Unsubscribe(UnsubscribeRequest {
        queue: "log".into(),
        group: Some("g".into()),
    });
    bench.ask(b, &stop).expect("ended");
    bench.ask(a, &publish("log", "5")).expect("taken");
    assert_eq!(bench.sequences(b), [0u64; 0]);
    let stats = Request::QueueStats(QueueStatsRequest {
        queue: "log".into(),
    });
    let Ok(Reply::QueueStats(stats)) = bench.ask(a, &stats) else {
        panic!("numbers")
    };
    assert_eq!(
        (
            stats.kind,
            stats.message_count,
            stats.first_sequence,
            stats.next_sequence
        ),
        (1, 5, 1, 6)
    );
}

#[test]
fn seek_makes_a_stream_and_refuses_a_queue() {
    let mut bench = Bench::new();
    let a = bench.connect();
    assert_eq!(bench.seek(a, &seek("", SeekPosition::Beginning, 0)), 1);
    bench.ask(a, &publish("log", "1")).expect("taken");
    assert_eq!(bench.sequences(a), [1]);
    let settings = declare(|request| {
        request.queue = "short".into();
        request.length_max = 2;
        request.age_max_ms = 60_000;
    });
    bench.ask(a, &settings).expect("made");
    for number in 1..=3 {
        bench
            .ask(a, &publish("short", &number.to_string()))
            .expect("taken");
    }
    let list = bench.ask(a, &Request::QueueList);
    let Ok(Reply::QueueList(list)) = list else {
        panic!("a list")
    };
    let counts: Vec<_> = list
        .queues
        .iter()
        .map(|queue| (&*queue.name, queue.message_count))
        .collect();
    assert_eq!(
        counts,
        [("log", 1), ("short", 3)],
        "of a stream the last sequence"
    );
    let seek_short = Request::Seek(SeekRequest {
        queue: "short".into(),
        ..SeekRequest::default()
    });
    assert_eq!(bench.seek(a, &seek_short), 2);
    for unfit in [
        declare(|request| {
            request.queue = "t".into();
            request.overflow = 1;
        }),
        declare(|request| {
            request.queue = "t".into();
            request.message_ttl_ms = 5;
        }),
    ] {
        bench
            .ask(a, &unfit)
            .expect_err("a stream has no such setting");
    }
    bench.ask(a, &publish("plain", "1")).expect("taken");
    let seek_plain = Request::Seek(SeekRequest {
        queue: "plain".into(),
        ..SeekRequest::default()
    });
    let (code, text) = bench.refusal(a, &seek_plain);
    assert!(code == 50 && text.contains("is a queue"), "{code} {text}");
}
