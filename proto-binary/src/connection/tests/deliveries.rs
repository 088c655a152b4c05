//! Messages to consumers and readers, made from records.

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use bytes::Bytes;

use super::{LIST, LIST_DOCUMENTED, Peer, hex};
use crate::connection::{Config, Delivery, StreamDelivery, UsageError};
use crate::frame::Layout;
use crate::message::{ConsumerClosed, Message, PublishRequest, StreamMessage};
use crate::opcode::Dialect;
use crate::request::Request;
use crate::stored::{self, Parts, Stored};

const ULID: &str = "01KC0000000000000000000001";
const PUBLISHED_AT_MS: i64 = 1_764_460_800_000;

fn record(parts: &Parts<'_>, headers: &[(&str, &str)]) -> Bytes {
    stored::encode(parts, headers.iter().copied())
}

fn hi() -> Parts<'static> {
    Parts {
        message_id: ULID,
        payload: b"hi",
        published_at_ms: PUBLISHED_AT_MS,
        ordering_key: "",
        idempotency_key: "",
    }
}

fn delivery<'a>(stored: &'a Stored<'a>, attempt: u32) -> Delivery<'a> {
    Delivery {
        stored,
        queue: "orders",
        attempt,
        delivery_id: 7,
        group: "billing",
    }
}

fn ulid_hex() -> String {
    ULID.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// A peer whose layout is known.
fn greeted(layout: Layout, config: Config) -> Peer {
    let mut peer = Peer::new(layout, config);
    peer.feed(match layout {
        Layout::Versioned => LIST,
        Layout::Documented => LIST_DOCUMENTED,
    });
    peer.skip_request();
    peer
}

#[test]
fn a_delivery_in_the_versioned_layout_is_what_the_first_clients_read() {
    let mut peer = greeted(Layout::Versioned, Config::default());
    let first = record(&hi(), &[]);
    let first = Stored::read(&first).expect("our own record");
    peer.conn.deliver(&delivery(&first, 1)).expect("it fits");
    let ulid = ulid_hex();
    peer.drain();
    let expected =
        format!("00000033 01 04 0a1a {ulid} 1206 6f7264657273 1a02 6869 2801 30 80d0bc90ad33");
    assert_eq!(peer.read, hex(&expected));
    peer.frames();
    // Idempotency keys, groups and delivery numbers are not among what they know.
    let parts = Parts {
        message_id: "m-1",
        ordering_key: "u7",
        idempotency_key: "d-1",
        ..hi()
    };
    let second = record(&parts, &[("k", "v")]);
    let second = Stored::read(&second).expect("our own record");
    peer.conn.deliver(&delivery(&second, 2)).expect("it fits");
    peer.drain();
    assert_eq!(
        peer.read,
        hex(
            "00000028 01 04 0a03 6d2d31 1206 6f7264657273 1a02 6869 2206 0a016b 120176 2802 30 80d0bc90ad33 3a02 7537"
        )
    );
}

#[test]
fn a_delivery_in_the_documented_layout_says_all() {
    let mut peer = greeted(Layout::Documented, Config::default());
    let parts = Parts {
        ordering_key: "u7",
        idempotency_key: "d-1",
        ..hi()
    };
    let record = record(&parts, &[("b", "2"), ("a", "1")]);
    let stored = Stored::read(&record).expect("our own record");
    peer.conn.deliver(&delivery(&stored, 3)).expect("it fits");
    let frame = peer.frame();
    assert_eq!(
        (frame.opcode, frame.flags.0, frame.correlation),
        (0x04, 0, None)
    );
    let expected = Message {
        message_id: ULID.into(),
        queue: "orders".into(),
        payload: Bytes::from_static(b"hi"),
        headers: [("a".into(), "1".into()), ("b".into(), "2".into())].into(),
        attempt: 3,
        published_at: PUBLISHED_AT_MS,
        ordering_key: "u7".into(),
        delivery_id: 7,
        group: "billing".into(),
        idempotency_key: "d-1".into(),
    };
    assert_eq!(frame.decode::<Message>(), expected);
}

#[test]
fn an_entry_of_a_stream() {
    let record = record(&hi(), &[]);
    let stored = Stored::read(&record).expect("our own record");
    let entry = StreamDelivery {
        stored: &stored,
        queue: "log",
        sequence: 5,
        group: "g1",
    };
    let streams = Config {
        dialect: Dialect::Streams,
        ..Config::default()
    };
    let mut peer = greeted(Layout::Versioned, streams);
    peer.conn.deliver_stream(&entry).expect("it fits");
    peer.drain();
    let expected = format!(
        "00000030 01 0e 0a1a {} 1203 6c6f67 1a02 6869 2805 30 80d0bc90ad33",
        ulid_hex()
    );
    assert_eq!(peer.read, hex(&expected));
    let mut peer = greeted(Layout::Documented, Config::default());
    peer.conn.deliver_stream(&entry).expect("it fits");
    let frame = peer.frame();
    assert_eq!(frame.opcode, 0x5c);
    let message: StreamMessage = frame.decode();
    assert_eq!((message.sequence, message.group.as_str()), (5, "g1"));
    assert_eq!(
        (message.queue.as_str(), &message.payload[..]),
        ("log", &b"hi"[..])
    );
}

#[test]
fn a_large_payload_is_not_copied() {
    let payload = vec![7; 100_000];
    let record = record(
        &Parts {
            payload: &payload,
            ordering_key: "k",
            ..hi()
        },
        &[("a", "1")],
    );
    let stored = Stored::read(&record).expect("our own record");
    let mut peer = greeted(Layout::Documented, Config::default());
    peer.conn.deliver(&delivery(&stored, 1)).expect("it fits");
    let mut out = std::collections::VecDeque::new();
    peer.conn.poll_transmit(peer.now, &mut out, usize::MAX);
    let range = record.as_ptr_range();
    assert!(
        out.iter()
            .any(|bytes| bytes.len() > 100_000 && range.contains(&bytes.as_ptr()))
    );
    let mut bytes: Vec<u8> = out.iter().flatten().copied().collect();
    let message: Message = super::cut(Layout::Documented, &mut bytes)[0].decode();
    assert_eq!(
        (message.payload.len(), message.ordering_key.as_str()),
        (100_000, "k")
    );
}

#[test]
fn qb_06_what_a_consumer_could_not_read_is_not_sent_to_it() {
    // 1 MiB of body is the limit of the versioned layout; one byte above it the delivery has to go elsewhere.
    let empty = record(
        &Parts {
            payload: &[0; 1 << 19],
            ..hi()
        },
        &[],
    );
    let spare = {
        let mut peer = greeted(Layout::Versioned, Config::default());
        let stored = Stored::read(&empty).expect("our own record");
        peer.conn
            .deliver(&delivery(&stored, u32::MAX))
            .expect("it fits");
        (1 << 20) - peer.frame().body.len()
    };
    for (extra, expected) in [(spare, Ok(())), (spare + 1, Err(UsageError::TooLarge))] {
        let mut peer = greeted(Layout::Versioned, Config::default());
        let payload = vec![0; (1 << 19) + extra];
        let record = record(
            &Parts {
                payload: &payload,
                ..hi()
            },
            &[],
        );
        let stored = Stored::read(&record).expect("our own record");
        assert_eq!(peer.conn.deliver(&delivery(&stored, u32::MAX)), expected);
        assert_eq!(peer.frames().len(), usize::from(expected.is_ok()));
    }
}

#[test]
fn qb_06_every_message_that_is_taken_can_be_delivered() {
    // The largest PUBLISH that is taken, with everything that a broker adds at its longest.
    let mut body = hex("0a02 7131 12");
    let payload = (1 << 20) - Config::ENVELOPE_SIZE_MAX - 8;
    body.extend([
        (payload & 0x7f) as u8 | 0x80,
        (payload >> 7 & 0x7f) as u8 | 0x80,
        (payload >> 14) as u8,
    ]);
    body.extend(vec![7; payload]);
    let mut frame = (body.len() as u32 + 2).to_be_bytes().to_vec();
    frame.extend([1, 1]);
    frame.extend(&body);
    let mut peer = Peer::versioned();
    peer.feed_bytes(&frame);
    let Request::Publish(publish) = peer.request().1 else {
        panic!("not a publish");
    };
    let mut with_headers: PublishRequest = *publish.clone();
    let reason: String = core::iter::repeat_n('r', 255).collect();
    for key in ["x-dead-reason", "x-dead-queue"] {
        with_headers.headers.insert(key.into(), reason.clone());
    }
    let record = stored::of_publish(&with_headers, ULID, i64::MAX);
    let stored = Stored::read(&record).expect("our own record");
    let queue: String = core::iter::repeat_n('q', 255).collect();
    let worst = Delivery {
        queue: &queue,
        ..delivery(&stored, u32::MAX)
    };
    assert_eq!(peer.conn.deliver(&worst), Ok(()));
    // One byte more, and it is not taken.
    let mut peer = Peer::versioned();
    frame.push(0);
    let len = frame.len() as u32 - 4;
    frame[..4].copy_from_slice(&len.to_be_bytes());
    let at = 4 + 2 + 5;
    let payload = payload + 1;
    frame[at..at + 3].copy_from_slice(&[
        (payload & 0x7f) as u8 | 0x80,
        (payload >> 7 & 0x7f) as u8 | 0x80,
        (payload >> 14) as u8,
    ]);
    peer.feed_bytes(&frame);
    assert_eq!(peer.frame().error().0, 53);
}

#[test]
fn deliveries_come_between_answers_that_wait() {
    let mut peer = Peer::versioned();
    peer.feed(LIST);
    let (reply_to, _) = peer.request();
    let record = record(&hi(), &[]);
    let stored = Stored::read(&record).expect("our own record");
    peer.conn.deliver(&delivery(&stored, 1)).expect("it fits");
    assert_eq!(peer.frame().opcode, 0x04);
    peer.conn
        .reply(
            reply_to,
            &crate::reply::Reply::QueueList(Default::default()),
        )
        .expect("it waits");
    assert_eq!(peer.frame().opcode, 0x33);
}

#[test]
fn nothing_is_delivered_to_a_peer_of_unknown_layout() {
    let record = record(&hi(), &[]);
    let stored = Stored::read(&record).expect("our own record");
    let mut peer = Peer::versioned();
    assert_eq!(
        peer.conn.deliver(&delivery(&stored, 1)),
        Err(UsageError::NotOpen)
    );
}

#[test]
fn the_end_of_a_consumer_is_told_where_there_is_a_word_for_it() {
    let closed = ConsumerClosed {
        queue: "orders".into(),
        group: "billing".into(),
        code: 50,
        message: "deleted".into(),
    };
    let mut peer = greeted(Layout::Documented, Config::default());
    peer.conn.close_consumer(&closed).expect("it is open");
    let frame = peer.frame();
    assert_eq!(
        (frame.opcode, frame.decode::<ConsumerClosed>()),
        (0x63, closed.clone())
    );
    let mut peer = greeted(Layout::Versioned, Config::default());
    peer.conn.close_consumer(&closed).expect("it is open");
    assert!(peer.frames().is_empty());
}
