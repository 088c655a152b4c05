//! Where frames begin and end, in both layouts, and what is no frame.

use std::format;
use std::vec;
use std::vec::Vec;

use super::{LIST, LIST_DOCUMENTED, PUBLISH, Peer, hex};
use crate::connection::{CloseReason, Config, Violation};
use crate::error::ErrorCode;
use crate::frame::{Flags, Layout};
use crate::reply::Reply;
use crate::request::Request;

/// Nothing is answered, and the socket may be closed at once.
fn assert_silent_close(bytes: &[u8], violation: Violation) {
    let mut peer = Peer::versioned();
    peer.feed_bytes(bytes);
    assert_eq!(
        peer.closed(),
        Some(CloseReason::Violation(violation)),
        "{bytes:x?}"
    );
    assert!(peer.read.is_empty(), "{bytes:x?}");
    assert!(peer.conn.is_done() && !peer.conn.wants_read());
    // Closed once, whatever follows.
    peer.feed(LIST);
    assert_eq!(peer.event(), None);
    assert!(peer.read.is_empty());
}

#[test]
fn qb_01_a_wrong_length_closes_from_the_length_alone() {
    for (text, violation) in [
        ("00000000", Violation::LengthTooSmall),
        ("00000001", Violation::LengthTooSmall),
        // A payload of 1 MiB and one byte.
        ("00100003", Violation::PayloadTooLarge),
        // First bytes that no opcode has.
        ("80000000", Violation::FirstByte),
        ("ff", Violation::FirstByte),
    ] {
        assert_silent_close(&hex(text), violation);
    }
}

#[test]
fn qb_01_other_protocols_are_closed_from_their_first_bytes() {
    // Read as documented frames, their lengths are beyond every limit.
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"AMQP\x00\x01\x00\x00",
        b"SSH-2.0-x",
        b"\x16\x03\x01\x02\x00\x01",
    ] {
        assert_silent_close(bytes, Violation::PayloadTooLarge);
    }
}

#[test]
fn a_length_above_16_mib_closes_later_in_the_connection_too() {
    let mut peer = Peer::new(
        Layout::Versioned,
        Config {
            payload_versioned_max: usize::MAX,
            ..Config::default()
        },
    );
    peer.feed(LIST).feed("01000001");
    peer.skip_request();
    assert_eq!(
        peer.closed(),
        Some(CloseReason::Violation(Violation::LengthTooLarge))
    );
    // Exactly 16 MiB is legal.
    let mut peer = Peer::new(
        Layout::Versioned,
        Config {
            payload_versioned_max: usize::MAX,
            ..Config::default()
        },
    );
    peer.feed(LIST).feed("01000000 0101");
    peer.skip_request();
    assert_eq!(peer.closed(), None);
}

#[test]
fn a_documented_payload_may_have_16_mib_and_4_kib() {
    let mut peer = Peer::documented();
    peer.feed("01 00 01001000");
    assert_eq!(peer.closed(), None);
    let mut peer = Peer::documented();
    peer.feed("01 00 01001001");
    assert_eq!(
        peer.closed(),
        Some(CloseReason::Violation(Violation::PayloadTooLarge))
    );
}

#[test]
fn what_came_before_a_wrong_length_is_answered_first() {
    let mut peer = Peer::versioned();
    // An unknown opcode is answered by the machine.
    peer.feed("00000002 01 7f 00000000");
    assert_eq!(
        peer.closed(),
        Some(CloseReason::Violation(Violation::LengthTooSmall))
    );
    assert_eq!(peer.frame().error().0, 1);
}

#[test]
fn a_payload_of_exactly_the_limit_is_no_frame_error() {
    // PUBLISH of q1 with a payload that fills 1 MiB: the frame is fine, the message leaves no room for a MESSAGE.
    let mut peer = Peer::versioned();
    let mut bytes = hex("00100002 01 01 0a02 7131 12");
    let payload = (1 << 20) - 4 - 1 - 3;
    bytes.extend([
        (payload & 0x7f) as u8 | 0x80,
        (payload >> 7 & 0x7f) as u8 | 0x80,
        (payload >> 14) as u8,
    ]);
    bytes.extend(vec![7; payload]);
    assert_eq!(bytes.len(), 4 + 2 + (1 << 20));
    peer.feed_bytes(&bytes);
    assert_eq!(
        peer.frame().error(),
        (ErrorCode::TooLarge.number(), "message too large".into())
    );
    peer.feed(LIST);
    assert_eq!(peer.request().1, Request::QueueList);
}

#[test]
fn the_version_is_not_looked_at() {
    for version in ["00", "01", "07", "ff"] {
        let mut peer = Peer::versioned();
        peer.feed(&format!("00000002 {version} 32"));
        let (reply_to, request) = peer.request();
        assert_eq!(request, Request::QueueList);
        peer.conn
            .reply(reply_to, &Reply::QueueList(Default::default()))
            .expect("it waits");
        peer.drain();
        assert_eq!(peer.read, hex("00000002 01 33"));
    }
}

#[test]
fn the_first_byte_decides_the_layout_for_good() {
    let mut peer = Peer::documented();
    assert_eq!(peer.conn.layout(), None);
    peer.feed("32");
    assert_eq!(peer.conn.layout(), Some(Layout::Documented));
    peer.feed("00 00000000");
    let (reply_to, request) = peer.request();
    assert_eq!(request, Request::QueueList);
    peer.conn
        .reply(reply_to, &Reply::QueueList(Default::default()))
        .expect("it waits");
    assert_eq!(peer.frame().opcode, 0x33);
    // In this layout a zero is an opcode that nobody knows.
    peer.feed("00 00 00000000");
    assert_eq!(peer.frame().error(), (1, "unknown opcode".into()));
    let mut peer = Peer::versioned();
    peer.feed("00");
    assert_eq!(peer.conn.layout(), Some(Layout::Versioned));
}

/// Frames of both kinds: requests, refusals, unknown ones.
fn session(layout: Layout) -> Vec<u8> {
    match layout {
        Layout::Versioned => hex(&format!(
            "{PUBLISH} {LIST} 00000004 01 01 0a05 00000002 01 7f {PUBLISH} {LIST}"
        )),
        Layout::Documented => hex(&format!(
            "01 00 00000008 0a02 7131 1202 6869 {LIST_DOCUMENTED} 01 01 00000008 0000002a 0a02 7131 1202 6869 \
             05 03 00000005 ffffffff 0a03 6d2d31 01 04 00000002 0a05 7f 01 00000001 00000009 00 60 01 00000003 00000005 0a01 78"
        )),
    }
}

/// Requests in order, with their correlation, and the bytes answered.
fn outcome(layout: Layout, pieces: &[&[u8]]) -> (Vec<(Option<u32>, Request)>, Vec<u8>) {
    let mut peer = Peer::new(layout, Config::default());
    for piece in pieces {
        peer.feed_bytes(piece);
    }
    let mut requests = Vec::new();
    while let Some(event) = peer.event() {
        let super::Event::Request { reply_to, request } = event.into_owned() else {
            panic!("not a request");
        };
        requests.push((reply_to.correlation(), request));
        peer.conn
            .refuse(reply_to, ErrorCode::Failed, "no")
            .expect("it waits");
    }
    peer.drain();
    (requests, peer.read)
}

#[test]
fn cuts_change_nothing() {
    for layout in [Layout::Versioned, Layout::Documented] {
        let bytes = session(layout);
        let whole = outcome(layout, &[&bytes]);
        assert!(whole.0.len() >= 4, "{layout:?}: {whole:?}");
        for at in 0..=bytes.len() {
            let (a, b) = bytes.split_at(at);
            assert_eq!(outcome(layout, &[a, b]), whole, "{layout:?} cut at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(outcome(layout, &single), whole, "{layout:?} byte by byte");
    }
}

#[test]
fn a_payload_is_a_slice_of_the_input() {
    let mut peer = Peer::versioned();
    let mut input = bytes::BytesMut::from(&hex(PUBLISH)[..]);
    let range = input.as_ptr_range();
    peer.conn.handle_input(peer.now, &mut input);
    peer.drain();
    let (_, request) = peer.request();
    let Request::Publish(publish) = request else {
        panic!("not a publish");
    };
    let payload = publish.payload;
    assert_eq!(payload, "hi");
    assert!(range.contains(&payload.as_ptr()));
}

#[test]
fn reserved_flags_are_refused_and_do_not_move_the_frame() {
    let mut peer = Peer::documented();
    for flags in [0x04_u8, 0x80, 0xfe, 0xff] {
        let correlation = if flags & 1 == 1 { "0000002a" } else { "" };
        peer.feed(&format!(
            "01 {flags:02x} 00000008 {correlation} 0a02 7131 1202 6869"
        ));
        let frame = peer.frame();
        assert_eq!(
            frame.error(),
            (2, "invalid request: a reserved flag is set".into())
        );
        assert_eq!(frame.correlation, (flags & 1 == 1).then_some(0x2a));
        assert_eq!(frame.flags.contains(Flags::CORRELATED), flags & 1 == 1);
    }
    peer.feed(LIST_DOCUMENTED);
    assert_eq!(peer.request().1, Request::QueueList);
}

#[test]
fn a_frame_has_no_effect_before_its_last_byte() {
    let mut peer = Peer::documented();
    let bytes = hex("01 01 00000008 0000002a 0a02 7131 1202 6869");
    for byte in &bytes[..bytes.len() - 1] {
        peer.feed_bytes(&[*byte]);
        assert_eq!(peer.event(), None);
    }
    peer.feed_bytes(&bytes[bytes.len() - 1..]);
    assert_eq!(peer.request().0.correlation(), Some(0x2a));
}
