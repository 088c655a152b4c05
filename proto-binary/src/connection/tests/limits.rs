//! Bounds on what a peer can make us hold or do.

use std::collections::VecDeque;
use std::format;
use std::time::Duration;
use std::vec::Vec;

use bytes::BytesMut;

use super::{LIST, PUBLISH, Peer, hex, published};
use crate::connection::{CloseReason, Config, Connection, Event, Side, Violation};
use crate::frame::Layout;
use crate::reply::Reply;
use crate::request::Request;

#[test]
fn a_server_that_owes_too_many_answers_stops_reading() {
    let config = Config {
        requests_pending_max: 3,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Versioned, config);
    peer.feed(&format!(
        "{PUBLISH} {PUBLISH} {PUBLISH} {LIST} {PUBLISH} 0000"
    ));
    let mut owed: VecDeque<_> = (0..3).map(|_| peer.request().0).collect();
    assert_eq!(peer.event(), None);
    assert!(!peer.conn.wants_read());
    // One answer makes room for one request.
    peer.confirm(owed.pop_front().unwrap(), "a");
    peer.drain();
    let (list, request) = peer.request();
    assert_eq!((request, peer.event()), (Request::QueueList, None));
    // An answer that waits for its turn makes none.
    peer.conn
        .reply(list, &Reply::QueueList(Default::default()))
        .expect("it waits");
    peer.drain();
    assert_eq!(peer.event(), None);
    for id in ["b", "c"] {
        peer.confirm(owed.pop_front().unwrap(), id);
    }
    peer.drain();
    peer.skip_request();
    assert!(peer.conn.wants_read());
    // The rest of the cut frame is not lost.
    peer.feed("0002 01 32");
    assert_eq!(peer.request().1, Request::QueueList);
}

#[test]
fn answers_with_correlation_count_too() {
    let config = Config {
        requests_pending_max: 2,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Documented, config);
    let list = "32 01 00000000 0000000";
    peer.feed(&format!("{list}1 {list}2 {list}3"));
    let (first, _) = peer.request();
    peer.skip_request();
    assert!(!peer.conn.wants_read());
    peer.conn
        .reply(first, &Reply::QueueList(Default::default()))
        .expect("it waits");
    peer.drain();
    assert_eq!(peer.request().0.correlation(), Some(3));
}

#[test]
fn a_server_whose_output_is_not_taken_stops_reading() {
    let config = Config {
        unsent_bytes_max: 64,
        ..Config::default()
    };
    let mut conn = Connection::new(Side::Server, config, Duration::ZERO);
    // Each unknown opcode costs 24 bytes of answer.
    let mut input = BytesMut::from(&hex("00000002 01 7f").repeat(10)[..]);
    conn.handle_input(Duration::ZERO, &mut input);
    assert!(!conn.wants_read());
    let held_back = conn.unsent_bytes();
    assert!((64..64 + 24).contains(&held_back), "{held_back}");
    // Once it is taken there is work to do without a read: the deadline says so.
    let mut out = VecDeque::new();
    let mut total = 0;
    for _ in 0..10 {
        total += conn.poll_transmit(Duration::ZERO, &mut out, usize::MAX);
        if conn.poll_timeout() == Some(Duration::ZERO) {
            conn.handle_timeout(Duration::ZERO);
        }
    }
    assert_eq!(total, 10 * (6 + 2 + 2 + "unknown opcode".len()));
    assert_eq!(conn.poll_timeout(), None);
    assert!(conn.wants_read());
}

#[test]
fn answers_that_wait_for_earlier_ones_count_as_output() {
    let config = Config {
        unsent_bytes_max: 100,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Versioned, config);
    // After a request that is not answered, each unknown opcode leaves 24 bytes behind.
    let unknown = "00000002 01 7f";
    peer.feed(LIST).feed(&[unknown; 4].concat());
    let (list, _) = peer.request();
    assert!(peer.conn.wants_read());
    peer.feed(&[unknown, LIST].concat());
    assert!(!peer.conn.wants_read());
    assert_eq!(peer.event(), None);
    peer.conn
        .reply(list, &Reply::QueueList(Default::default()))
        .expect("it waits");
    peer.drain();
    // The driver took them: there is work without a read.
    let now = peer.conn.poll_timeout().expect("work");
    peer.conn.handle_timeout(now);
    peer.drain();
    assert_eq!(peer.request().1, Request::QueueList);
    assert_eq!(peer.frames().len(), 6);
}

#[test]
fn closing_forgets_what_waits() {
    let mut peer = Peer::versioned();
    peer.feed(&[LIST, "00000002 01 7f"].concat());
    peer.skip_request();
    assert!(peer.conn.order.waiting_bytes() > 0);
    peer.conn.close();
    assert_eq!(
        (peer.conn.order.len(), peer.conn.order.waiting_bytes()),
        (0, 0)
    );
    assert_eq!(peer.closed(), None, "events come when they are asked for");
    peer.drain();
    assert_eq!(peer.closed(), Some(CloseReason::Local));
    assert!(peer.frames().is_empty() && peer.conn.is_done());
}

#[test]
fn answers_to_no_ping_are_a_nuisance_too() {
    let config = Config {
        nuisance_burst: 2,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Documented, config);
    let pong = "61 00 00000000";
    peer.feed(&[pong; 2].concat());
    assert_eq!(peer.closed(), None);
    peer.feed(pong);
    assert_eq!(
        peer.closed(),
        Some(CloseReason::Violation(Violation::Nuisance))
    );
}

#[test]
fn nuisance_ends_the_connection_and_time_forgives_it() {
    let config = Config {
        nuisance_burst: 10,
        nuisance_rate: 5,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Versioned, config.clone());
    let unknown = "00000002 01 7f";
    let ping = "00000002 01 60";
    let unreadable = "00000004 01 01 0a05";
    peer.feed(&[unknown; 4].concat())
        .feed(&[ping; 3].concat())
        .feed(&[unreadable; 3].concat());
    assert_eq!(peer.event(), None);
    peer.feed(ping);
    assert_eq!(
        peer.closed(),
        Some(CloseReason::Violation(Violation::Nuisance))
    );
    let mut peer = Peer::new(Layout::Versioned, config);
    peer.feed(&[unknown; 10].concat());
    peer.now = Duration::from_secs(1);
    peer.feed(&[unknown; 5].concat());
    assert_eq!(peer.event(), None);
    peer.feed(unknown);
    assert_eq!(
        peer.closed(),
        Some(CloseReason::Violation(Violation::Nuisance))
    );
}

/// A body of `count` fields of `number`, each with `value`.
fn repeated(number: u8, count: usize, value: &[u8]) -> Vec<u8> {
    let mut field = std::vec![number << 3 | 2, u8::try_from(value.len()).expect("short")];
    field.extend_from_slice(value);
    field.repeat(count)
}

fn frame(number: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = std::vec![number, 0];
    frame.extend((body.len() as u32).to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

#[test]
fn headers_are_counted_before_they_are_decoded() {
    let config = Config {
        headers_max: 16,
        ..Config::default()
    };
    let queue = hex("0a027131");
    for (opcode, number) in [(0x01, 3), (0x20, 3), (0x50, 24)] {
        for (count, code) in [(16, None), (17, Some(2))] {
            let mut peer = Peer::new(Layout::Documented, config.clone());
            // Fields above 15 have tags of two bytes.
            let mut body = queue.clone();
            if number < 16 {
                body.extend(repeated(number, count, b"\x0a\x01k"));
            } else {
                body.extend([0xc2, 0x01, 3, 0x0a, 1, b'k'].repeat(count));
            }
            peer.feed_bytes(&frame(opcode, &body));
            let refused = peer.frames().first().map(|frame| frame.error().0);
            assert_eq!(refused, code, "{opcode:x} {count}");
        }
    }
}

#[test]
fn the_messages_of_a_batch_are_counted_before_they_are_decoded() {
    let config = Config {
        batch_messages_max: 4,
        headers_max: 2,
        ..Config::default()
    };
    let feed = |body: &[u8]| {
        let mut peer = Peer::new(Layout::Documented, config.clone());
        peer.feed_bytes(&frame(0x5e, body));
        peer.frames().first().map(|frame| frame.error())
    };
    assert_eq!(feed(&repeated(1, 4, b"\x0a\x01q")), None);
    let (code, text) = feed(&repeated(1, 5, b"\x0a\x01q")).expect("one too many");
    assert_eq!((code, text.contains("messages")), (2, true));
    assert_eq!(feed(&repeated(1, 4, b"\x0a\x01q\x1a\x00\x1a\x00")), None);
    let (code, text) =
        feed(&repeated(1, 1, b"\x0a\x01q\x1a\x00\x1a\x00\x1a\x00")).expect("one too many");
    assert_eq!((code, text.contains("headers")), (2, true));
    // A group cannot hide what follows it from the count.
    let mut hidden = hex("fb01 fc01");
    hidden.extend(repeated(1, 5, b"\x0a\x01q"));
    assert_eq!(feed(&hidden).map(|error| error.0), Some(2));
}

#[test]
fn the_headers_of_a_batch_are_bounded_together() {
    let config = Config {
        headers_max: 2,
        ..Config::default()
    };
    for (messages, refused) in [(16, false), (17, true)] {
        let mut peer = Peer::new(Layout::Documented, config.clone());
        let body = repeated(1, messages, b"\x0a\x01q\x1a\x00\x1a\x00");
        peer.feed_bytes(&frame(0x5e, &body));
        assert_eq!(!peer.frames().is_empty(), refused, "{messages}");
    }
}

#[test]
fn an_idle_connection_holds_no_buffers() {
    let mut peer = Peer::versioned();
    for _ in 0..1_000 {
        peer.feed(PUBLISH);
        let (reply_to, _) = peer.request();
        peer.conn
            .reply(reply_to, &published("a"))
            .expect("it waits");
        peer.drain();
    }
    assert_eq!(peer.conn.unsent_bytes(), 0);
    assert!(peer.conn.held.is_empty() && peer.conn.held.capacity() == 0);
    assert_eq!(peer.conn.order.len(), 0);
    assert_eq!(peer.conn.order.waiting_bytes(), 0);
}

#[test]
fn a_closed_connection_reads_nothing_more() {
    let mut conn = Connection::new(Side::Server, Config::default(), Duration::ZERO);
    let mut input = BytesMut::from(&hex("00000000")[..]);
    conn.handle_input(Duration::ZERO, &mut input);
    assert!(matches!(conn.poll_event(), Some(Event::Closed { .. })));
    let mut input = BytesMut::from(&[0_u8; 100_000][..]);
    conn.handle_input(Duration::ZERO, &mut input);
    assert!(input.is_empty() && conn.poll_event().is_none());
}
