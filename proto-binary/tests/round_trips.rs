//! Messages and conversations of any content: what is written is read again wherever it is cut, every answer finds its
//! request, and nothing that a peer sends does harm.

mod support;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use prost::Message as _;
use qq_proto_binary::connection::{
    Config, Connection, Delivery, Event, ReplyTo, RequestId, Side, StreamDelivery, UsageError,
};
use qq_proto_binary::error::ErrorCode;
use qq_proto_binary::frame::{Flags, Layout};
use qq_proto_binary::message::{
    AckRequest, ConsumeRequest, NackRequest, PublishBatchRequest, PublishRequest, PublishResponse,
    SeekRequest,
};
use qq_proto_binary::opcode::{Dialect, Numbering, Opcode};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::{BodyLimits, Request};
use qq_proto_binary::stored::{self, Parts, Stored};

const LIMITS: BodyLimits = BodyLimits {
    headers_max: 1_000,
    batch_messages_max: 1_000,
    message_size_max: 1 << 20,
};

fn any_headers() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map(".{0,8}", ".{0,20}", 0..4)
}

fn any_payload() -> impl Strategy<Value = Bytes> {
    let short = prop::collection::vec(any::<u8>(), 0..64);
    let long = (any::<u8>(), 16_000..40_000_usize).prop_map(|(byte, len)| vec![byte; len]);
    prop_oneof![8 => short, 1 => long].prop_map(Bytes::from)
}

prop_compose! {
    fn any_publish()(
        queue in ".{1,20}",
        payload in any_payload(),
        headers in any_headers(),
        message_id in prop::option::of(".{0,12}"),
        idempotency_key in prop::option::of(".{0,12}"),
        ordering_key in ".{0,12}",
        (ttl_ms, delay_ms, priority, transient) in any::<(u64, u64, Option<u32>, bool)>(),
    ) -> PublishRequest {
        PublishRequest {
            queue, payload, headers, message_id, idempotency_key, ordering_key, ttl_ms, delay_ms, priority, transient,
        }
    }
}

fn any_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        4 => any_publish().prop_map(|publish| Request::Publish(Box::new(publish))),
        1 => prop::collection::vec(any_publish(), 0..4)
            .prop_map(|messages| Request::PublishBatch(PublishBatchRequest { messages })),
        1 => (".{1,9}", any::<u32>(), any::<u32>(), prop::option::of(".{0,9}"), any::<bool>()).prop_map(
            |(queue, prefetch, visibility_timeout, group, auto_ack)| Request::Consume(ConsumeRequest {
                queue, prefetch, visibility_timeout, group, auto_ack,
            })
        ),
        1 => (".{0,9}", any::<u64>(), any::<u64>()).prop_map(|(message_id, delivery_id, delivery_id_last)| {
            Request::Ack(AckRequest { message_id, delivery_id, delivery_id_last })
        }),
        1 => (".{0,9}", any::<bool>(), any::<u64>()).prop_map(|(message_id, requeue, delivery_id)| {
            Request::Nack(NackRequest { message_id, requeue, delivery_id, delivery_id_last: 0 })
        }),
        1 => (".{1,9}", ".{0,9}", any::<i32>(), any::<u64>(), any::<i64>()).prop_map(
            |(queue, consumer_group, position, offset, timestamp)| Request::Seek(SeekRequest {
                queue, consumer_group, position, offset, timestamp,
            })
        ),
        1 => Just(Request::QueueList),
    ]
}

fn any_layout() -> impl Strategy<Value = Layout> {
    prop_oneof![Just(Layout::Documented), Just(Layout::Versioned)]
}

fn any_dialect() -> impl Strategy<Value = Dialect> {
    prop_oneof![Just(Dialect::Groups), Just(Dialect::Streams)]
}

/// Cuts `bytes` at these places, taken modulo what is left.
fn pieces<'a>(mut bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut found = Vec::new();
    for cut in cuts {
        let (piece, rest) = bytes.split_at(cut % (bytes.len() + 1));
        found.push(piece);
        bytes = rest;
    }
    found.push(bytes);
    found
}

fn feed(conn: &mut Connection, input: &mut BytesMut, piece: &[u8]) -> Vec<Event> {
    input.extend_from_slice(piece);
    conn.handle_input(Duration::ZERO, input);
    std::iter::from_fn(|| conn.poll_event()).collect()
}

fn written(conn: &mut Connection) -> Vec<u8> {
    let mut out = VecDeque::new();
    while conn.poll_transmit(Duration::ZERO, &mut out, usize::MAX) > 0 {}
    out.iter().flatten().copied().collect()
}

proptest! {
    #[test]
    fn requests_arrive_as_they_were_sent(
        layout in any_layout(),
        dialect in any_dialect(),
        requests in prop::collection::vec(any_request(), 1..6),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let mut bytes = BytesMut::new();
        let numbering = Numbering::Shared(dialect);
        for request in &requests {
            request.put_frame(&mut bytes, layout, numbering, Flags::default(), None);
        }
        let config = Config { dialect, ..Config::default() };
        let mut server = Connection::new(Side::Server, config, Duration::ZERO);
        let mut input = BytesMut::new();
        let mut arrived = Vec::new();
        for piece in pieces(&bytes, &cuts) {
            for event in feed(&mut server, &mut input, piece) {
                let Event::Request { request, .. } = event.into_owned() else {
                    panic!("not a request");
                };
                arrived.push(request);
            }
        }
        prop_assert_eq!(arrived, requests);
        prop_assert!(input.is_empty());
    }

    #[test]
    fn a_publish_reaches_consumers_and_readers_whole(
        layout in any_layout(),
        publish in any_publish(),
        id in ".{1,30}",
        queue in ".{1,30}",
        group in ".{0,9}",
        attempt in any::<u32>(),
        number in any::<u64>(),
        published_at in any::<i64>(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let record = stored::of_publish(&publish, &id, published_at);
        let stored = Stored::read(&record).expect("our own record");
        prop_assert_eq!(stored.message_id, &id);
        prop_assert_eq!(stored.published_at_ms, published_at);
        prop_assert_eq!(stored.payload(), publish.payload.clone());
        let kept: Result<BTreeMap<_, _>, _> = stored
            .headers()
            .map(|header| header.map(|(key, value)| (key.to_string(), value.to_string())))
            .collect();
        prop_assert_eq!(kept.expect("our own headers"), publish.headers.clone());
        let mut server = Connection::new(Side::Server, Config::default(), Duration::ZERO);
        let mut hello = BytesMut::new();
        Request::QueueList.put_frame(&mut hello, layout, Numbering::Own, Flags::default(), None);
        server.handle_input(Duration::ZERO, &mut hello);
        let delivery = Delivery { stored: &stored, queue: &queue, attempt, delivery_id: number, group: &group };
        server.deliver(&delivery).expect("it fits");
        let entry = StreamDelivery { stored: &stored, queue: &queue, sequence: number, group: &group };
        server.deliver_stream(&entry).expect("it fits");
        let bytes = written(&mut server);
        let config = Config { layout, ..Config::default() };
        let mut client = Connection::new(Side::Client, config, Duration::ZERO);
        let mut input = BytesMut::new();
        let mut events: Vec<Event> = Vec::new();
        for piece in pieces(&bytes, &cuts) {
            events.extend(feed(&mut client, &mut input, piece));
        }
        events.retain(|event| *event != Event::Opened);
        let [Event::Delivered(message), Event::StreamDelivered(entry)] = &events[..] else {
            panic!("two deliveries, not {events:?}");
        };
        let is_documented = layout == Layout::Documented;
        let if_documented = |text: &str| if is_documented { text.to_string() } else { String::new() };
        let idempotency_key = if_documented(publish.idempotency_key.as_deref().unwrap_or_default());
        prop_assert_eq!(&message.message_id, &id);
        prop_assert_eq!(&message.queue, &queue);
        prop_assert_eq!(&message.payload, &publish.payload);
        prop_assert_eq!(&message.headers, &publish.headers);
        prop_assert_eq!(message.attempt, attempt);
        prop_assert_eq!(message.published_at, published_at);
        prop_assert_eq!(&message.ordering_key, &publish.ordering_key);
        prop_assert_eq!(message.delivery_id, if is_documented { number } else { 0 });
        prop_assert_eq!(&message.group, &if_documented(&group));
        prop_assert_eq!(&message.idempotency_key, &idempotency_key);
        prop_assert_eq!(&entry.message_id, &id);
        prop_assert_eq!(&entry.payload, &publish.payload);
        prop_assert_eq!(&entry.headers, &publish.headers);
        prop_assert_eq!((entry.sequence, entry.published_at), (number, published_at));
        prop_assert_eq!(&entry.ordering_key, &if_documented(&publish.ordering_key));
        prop_assert_eq!(&entry.idempotency_key, &idempotency_key);
    }

    #[test]
    fn every_answer_finds_its_request(
        layout in any_layout(),
        // For each request: whether it is refused, and which open one is answered next.
        script in prop::collection::vec((any::<bool>(), any::<usize>()), 1..40),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let config = Config { layout, ..Config::default() };
        let mut client = Connection::new(Side::Client, config, Duration::ZERO);
        let mut server = Connection::new(Side::Server, Config::default(), Duration::ZERO);
        let mut sent: BTreeMap<RequestId, String> = BTreeMap::new();
        for n in 0..script.len() {
            let publish = PublishRequest {
                queue: "q".into(),
                message_id: Some(format!("m-{n}")),
                ..PublishRequest::default()
            };
            let id = client.request(&Request::Publish(Box::new(publish)), false).expect("it is open");
            let earlier = sent.insert(id, format!("m-{n}"));
            prop_assert_eq!(earlier, None);
        }
        let up = written(&mut client);
        let mut input = BytesMut::new();
        let mut open: Vec<(ReplyTo, String)> = Vec::new();
        for piece in pieces(&up, &cuts) {
            for event in feed(&mut server, &mut input, piece) {
                let Event::Publish { reply_to, publish } = event else {
                    panic!("not a publish but {event:?}");
                };
                open.push((reply_to, publish.message_id().to_owned()));
            }
        }
        prop_assert_eq!(open.len(), script.len());
        let mut refused = Vec::new();
        for (is_refused, which) in &script {
            let (reply_to, message_id) = open.remove(which % open.len());
            if *is_refused {
                server.refuse(reply_to, ErrorCode::Failed, &message_id).expect("it waits");
                refused.push(message_id);
            } else {
                let reply = Reply::Published(PublishResponse { message_id });
                server.reply(reply_to, &reply).expect("it waits");
            }
        }
        let down = written(&mut server);
        let mut input = BytesMut::new();
        for piece in pieces(&down, &cuts) {
            for event in feed(&mut client, &mut input, piece) {
                let (id, message_id) = match event {
                    Event::Opened => continue,
                    Event::Replied { request, reply: Reply::Published(reply) } => {
                        prop_assert!(!refused.contains(&reply.message_id));
                        (request, reply.message_id)
                    }
                    Event::Refused { request, error } => {
                        prop_assert!(refused.contains(&error.message));
                        (request.expect("it is about a publish"), error.message)
                    }
                    other => panic!("no answer but {other:?}"),
                };
                prop_assert_eq!(sent.remove(&id), Some(message_id));
            }
        }
        prop_assert!(sent.is_empty(), "without an answer: {:?}", sent);
    }

    #[test]
    fn a_body_that_decodes_is_written_as_itself(
        number in any::<u8>(),
        body in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let Some((opcode, _)) = Opcode::from_wire(number, Dialect::Groups) else {
            return Ok(());
        };
        if let Ok(Some(request)) = Request::decode(opcode, Bytes::from(body.clone()), &LIMITS) {
            prop_assert_eq!(request.opcode(), opcode);
            let mut buf = BytesMut::new();
            request.put_frame(&mut buf, Layout::Documented, Numbering::Own, Flags::default(), None);
            prop_assert_eq!(buf.len(), 6 + request.body_len());
            let again = Request::decode(opcode, buf.freeze().slice(6..), &LIMITS);
            prop_assert_eq!(again, Ok(Some(request)));
        }
        if let Ok(Some(reply)) = Reply::decode(opcode, Bytes::from(body)) {
            prop_assert_eq!(reply.opcode(), opcode);
            let mut buf = BytesMut::new();
            reply.put_frame(&mut buf, Layout::Documented, opcode as u8, Some(1));
            prop_assert_eq!(buf.len(), 10 + reply.body_len());
            prop_assert_eq!(Reply::decode(opcode, buf.freeze().slice(10..)), Ok(Some(reply)));
        }
    }

    #[test]
    fn bytes_of_a_stranger_do_no_harm(
        start in prop::sample::select(vec![0_u8, 1, 3, 0x32, 0x40, 0x5e, 0x60, 0xff]),
        bytes in prop::collection::vec(prop_oneof![3 => Just(0_u8), 2 => 0..8_u8, 1 => any::<u8>()], 0..200),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let mut server = Connection::new(Side::Server, Config::default(), Duration::ZERO);
        let mut whole = vec![start];
        whole.extend(&bytes);
        let mut input = BytesMut::new();
        let mut closed = 0;
        for piece in pieces(&whole, &cuts) {
            for event in feed(&mut server, &mut input, piece) {
                prop_assert_eq!(closed, 0, "nothing comes after the end");
                match event.into_owned() {
                    Event::Closed { .. } => closed += 1,
                    Event::Request { reply_to, request } => {
                        prop_assert!(request.opcode().reply().is_some());
                        // The same piece may have ended the connection.
                        let refused = server.refuse(reply_to, ErrorCode::Failed, "no");
                        prop_assert!(matches!(refused, Ok(()) | Err(UsageError::NotOpen)));
                    }
                    other => panic!("a server says nothing of the kind: {other:?}"),
                }
            }
        }
        // Each frame of six bytes costs an ERROR of less than a hundred.
        prop_assert!(written(&mut server).len() <= whole.len() / 6 * 100 + 100);
    }

    #[test]
    fn damage_to_a_record_is_found_or_does_no_harm(
        publish in any_publish(),
        at in any::<usize>(),
        byte in any::<u8>(),
        cut in any::<usize>(),
    ) {
        let record = stored::of_publish(&publish, "id", 1);
        let mut damaged = record.to_vec();
        let at = at % damaged.len();
        damaged[at] = byte;
        for bytes in [Bytes::from(damaged), record.slice(..cut % record.len())] {
            if let Ok(stored) = Stored::read(&bytes) {
                let _ = stored.payload();
                let _ = stored.headers().count();
            }
        }
    }
}

#[test]
fn a_record_is_a_message_without_what_changes() {
    let parts = Parts {
        message_id: "m-1",
        payload: b"hi",
        published_at_ms: 5,
        ordering_key: "u7",
        idempotency_key: "d-1",
    };
    let record = stored::encode(&parts, [("k", "v"), ("", "")].into_iter());
    // Written by hand: id, payload, two headers with both fields each, time, key, and field 52.
    let expected = support::hex(
        "0a03 6d2d31 1a02 6869 2206 0a016b 120176 2204 0a00 1200 3005 3a02 7537 a203 03 642d31",
    );
    assert_eq!(record[..], expected[..]);
    let message = qq_proto_binary::message::Message::decode(record.clone()).expect("it decodes");
    assert_eq!((message.queue.as_str(), message.attempt), ("", 0));
    assert_eq!(message.headers, support::headers(&[("", ""), ("k", "v")]));
    // What is out of order, twice there or unknown was not made here.
    for damaged in [
        "1a02 6869 0a03 6d2d31",
        "0a00 0a00",
        "1a00 1a00",
        "1202 7131",
        "2801",
        "0a",
        "0a01 ff",
    ] {
        assert!(
            Stored::read(&support::hex(damaged).into()).is_err(),
            "{damaged}"
        );
    }
    let empty = Bytes::new();
    let empty = Stored::read(&empty).expect("nothing is a record of nothing");
    assert_eq!((empty.payload().len(), empty.headers().count()), (0, 0));
}
