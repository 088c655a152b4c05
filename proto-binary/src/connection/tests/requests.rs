//! Requests and the order and form of their answers.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::{LIST, PUBLISH, Peer, published};
use crate::connection::{Config, UsageError};
use crate::error::{ErrorCode, text};
use crate::frame::Layout;
use crate::message::{
    ExtendVisibilityResponse, PingResponse, PublishResponse, QueueInfo, QueueListResponse,
    SchemaRegisterResponse, SeekResponse,
};
use crate::opcode::{Dialect, Opcode};
use crate::reply::Reply;
use crate::request::Request;

#[test]
fn qb_02_what_cannot_be_read_is_refused_and_the_framing_stays() {
    for (what, bytes) in [
        ("a string past the end", "00000004 01 01 0a7f"),
        ("a string past the end, by 5", "00000004 01 01 0a05"),
        ("a name that is not UTF-8", "00000006 01 01 0a02c328"),
        ("an id that is not UTF-8", "00000005 01 05 0a01ff"),
        ("a varint for a string", "00000004 01 01 0801"),
        ("field number 0", "00000004 01 01 0001"),
        (
            "a varint of 11 bytes",
            "0000000e 01 03 10ffffffffffffffffffff01",
        ),
        ("a group that does not end", "00000003 01 01 0b"),
    ] {
        let mut peer = Peer::versioned();
        peer.feed(&format!("{bytes} {LIST}"));
        assert_eq!(
            peer.frame().error(),
            (2, "invalid request".into()),
            "{what}"
        );
        assert_eq!(peer.request().1, Request::QueueList, "{what}");
        assert_eq!(peer.event(), None, "{what}");
    }
}

#[test]
fn qb_02_a_request_without_a_queue_is_refused() {
    // PUBLISH, CONSUME, CALL, schema and queue operations, SEEK; a batch with one such message.
    let numbers = [0x01, 0x03, 0x10, 0x11, 0x20, 0x50, 0x52, 0x54, 0x56, 0x58];
    for number in numbers {
        let mut peer = Peer::versioned();
        peer.feed(&format!("00000002 01 {number:02x} {LIST}"));
        let (code, text) = peer.frame().error();
        assert_eq!(
            (code, text.starts_with("invalid request")),
            (2, true),
            "{number:x}"
        );
        assert_eq!(peer.request().1, Request::QueueList);
    }
    let mut peer = Peer::versioned();
    peer.feed("00000008 01 5e 0a02 0a00 0a00");
    assert_eq!(peer.frame().error().0, 2);
    // What needs none passes: whether the rest makes sense is for the embedder to say.
    for number in [0x05, 0x06, 0x08, 0x0b, 0x5a, 0x5e] {
        let mut peer = Peer::versioned();
        peer.feed(&format!("00000002 01 {number:02x}"));
        peer.skip_request();
    }
}

#[test]
fn qb_02_of_a_repeated_field_the_last_counts() {
    let mut peer = Peer::versioned();
    peer.feed("0000000e 01 01 0a027131 0a027132 12026869");
    let Request::Publish(publish) = peer.request().1 else {
        panic!("not a publish");
    };
    assert_eq!(publish.queue, "q2");
}

#[test]
fn unknown_fields_are_skipped() {
    let mut peer = Peer::versioned();
    // Fields 20 to 23: varint, 64 bits, bytes, 32 bits; a group 24 around a varint.
    let unknown = "a00107 a9010102030405060708 b2010161 bd0101020304 c301 0801 c401";
    let len = 2 + 8 + 3 + 10 + 4 + 6 + 6;
    peer.feed(&format!("{len:08x} 01 01 {unknown} 0a027131 12026869"));
    let Request::Publish(publish) = peer.request().1 else {
        panic!("not a publish");
    };
    assert_eq!(
        (publish.queue.as_str(), &publish.payload[..]),
        ("q1", &b"hi"[..])
    );
}

#[test]
fn qb_04_unknown_opcodes_are_refused_and_skipped_whole() {
    let mut peer = Peer::versioned();
    peer.feed("00000007 01 fe 0102030405 00000002 01 32");
    assert_eq!(peer.frame().error(), (1, "unknown opcode".into()));
    assert_eq!(peer.request().1, Request::QueueList);
    // So is everything that only a server says.
    for opcode in Opcode::ALL.iter().filter(|opcode| opcode.reply().is_none()) {
        if *opcode == Opcode::Pong {
            continue;
        }
        let mut peer = Peer::versioned();
        peer.feed(&format!("00000002 01 {:02x}", *opcode as u8));
        assert_eq!(
            peer.frame().error(),
            (1, "unknown opcode".into()),
            "{opcode:?}"
        );
        assert_eq!(peer.event(), None);
    }
}

#[test]
fn answers_without_correlation_keep_the_order_of_the_requests() {
    let mut peer = Peer::versioned();
    peer.feed(&format!("{PUBLISH} {LIST} {PUBLISH} 00000002 01 7f"));
    let (a, _) = peer.request();
    let (b, _) = peer.request();
    let (c, _) = peer.request();
    peer.confirm(c, "c");
    assert!(peer.frames().is_empty());
    peer.conn
        .refuse(b, ErrorCode::Failed, "no")
        .expect("it waits");
    assert!(peer.frames().is_empty());
    peer.confirm(a, "a");
    let frames = peer.frames();
    assert_eq!(frames.len(), 4);
    assert_eq!(frames[0].decode::<PublishResponse>().message_id, "a");
    assert_eq!(frames[1].error(), (3, "no".into()));
    assert_eq!(frames[2].decode::<PublishResponse>().message_id, "c");
    assert_eq!(frames[3].error().0, 1);
}

#[test]
fn a_late_error_of_an_ack_keeps_its_place_too() {
    let mut peer = Peer::versioned();
    // PUBLISH, ACK m-1, QUEUE_LIST.
    peer.feed(&format!("{PUBLISH} 00000007 01 05 0a03 6d2d31 {LIST}"));
    let (publish, _) = peer.request();
    let (ack, _) = peer.request();
    let (list, _) = peer.request();
    peer.conn
        .reply(list, &Reply::QueueList(QueueListResponse::default()))
        .expect("it waits");
    peer.conn
        .refuse(ack, ErrorCode::NotFound, text::MESSAGE_NOT_FOUND)
        .expect("it waits");
    peer.confirm(publish, "a");
    let opcodes: Vec<u8> = peer.frames().iter().map(|frame| frame.opcode).collect();
    assert_eq!(opcodes, [0x02, 0x07, 0x33]);
}

#[test]
fn answers_with_correlation_come_as_they_are_ready() {
    let mut peer = Peer::documented();
    // CALL 1, PUBLISH 2, and a PUBLISH without a number.
    peer.feed(
        "20 01 00000004 00000001 0a027131 01 01 00000004 00000002 0a027131 01 00 00000004 0a027131",
    );
    let (call, _) = peer.request();
    let (second, _) = peer.request();
    let (third, _) = peer.request();
    peer.confirm(third, "c");
    let frame = peer.frame();
    assert_eq!((frame.correlation, frame.flags.0), (None, 0));
    peer.confirm(second, "b");
    let frame = peer.frame();
    assert_eq!((frame.correlation, frame.flags.0), (Some(2), 1));
    peer.conn
        .refuse(call, ErrorCode::CallTimeout, text::CALL_TIMEOUT)
        .expect("it waits");
    let frame = peer.frame();
    assert_eq!((frame.correlation, frame.error().0), (Some(1), 8));
}

#[test]
fn successes_are_only_told_where_they_are_wanted() {
    // CONSUME q1, ACK m-1, NACK m-1, UNSUBSCRIBE q1.
    let requests = [
        ("03", "0a027131"),
        ("05", "0a026d31"),
        ("06", "0a026d31"),
        ("66", "0a027131"),
    ];
    let mut peer = Peer::documented();
    for (number, body) in requests {
        for (flags, answer) in [
            ("00", None),
            ("01", None),
            ("02", Some(None)),
            ("03", Some(Some(9))),
        ] {
            let correlation = if flags == "01" || flags == "03" {
                "00000009"
            } else {
                ""
            };
            peer.feed(&format!("{number} {flags} 00000004 {correlation} {body}"));
            let (reply_to, _) = peer.request();
            assert_eq!(reply_to.is_confirmed(), answer.is_some());
            peer.conn.reply(reply_to, &Reply::Done).expect("it waits");
            let frames = peer.frames();
            let told = frames.first().map(|frame| {
                assert_eq!((frame.opcode, frame.body.len()), (0x62, 0));
                frame.correlation
            });
            assert_eq!(told, answer, "{number} {flags}");
        }
    }
    let mut peer = Peer::versioned();
    for (number, body) in requests {
        peer.feed(&format!("00000006 01 {number} {body}"));
        let (reply_to, _) = peer.request();
        peer.conn.reply(reply_to, &Reply::Done).expect("it waits");
    }
    assert!(peer.frames().is_empty(), "the first clients expect nothing");
}

#[test]
fn a_refusal_is_told_even_where_a_success_is_not() {
    let mut peer = Peer::documented();
    peer.feed("05 01 00000004 00000009 0a026d31");
    let (reply_to, _) = peer.request();
    peer.conn
        .refuse(reply_to, ErrorCode::NotFound, text::MESSAGE_NOT_FOUND)
        .expect("it waits");
    let frame = peer.frame();
    assert_eq!(
        (frame.correlation, frame.error()),
        (Some(9), (4, "message not found".into()))
    );
}

#[test]
fn the_confirm_flag_has_no_meaning_elsewhere() {
    let mut peer = Peer::documented();
    peer.feed("01 02 00000004 0a027131");
    let (reply_to, _) = peer.request();
    peer.confirm(reply_to, "a");
    assert_eq!(peer.frame().opcode, 0x02);
}

#[test]
fn answers_are_numbered_in_the_family_of_the_request() {
    for (dialect, request, answer) in [
        (Dialect::Groups, 0x0a, 0x0c),
        (Dialect::Groups, 0x64, 0x65),
        (Dialect::Streams, 0x64, 0x65),
    ] {
        let mut peer = Peer::new(
            Layout::Versioned,
            Config {
                dialect,
                ..Config::default()
            },
        );
        peer.feed(&format!("00000002 01 {request:02x}"));
        let (reply_to, _) = peer.request();
        peer.conn.reply(reply_to, &Reply::Heard).expect("it waits");
        assert_eq!(peer.frame().opcode, answer);
    }
    for (dialect, request, answer) in [
        (Dialect::Streams, 0x0a, 0x0c),
        (Dialect::Streams, 0x58, 0x59),
        (Dialect::Groups, 0x58, 0x59),
    ] {
        let mut peer = Peer::new(
            Layout::Versioned,
            Config {
                dialect,
                ..Config::default()
            },
        );
        peer.feed(&format!("00000006 01 {request:02x} 0a027131"));
        let (reply_to, _) = peer.request();
        peer.conn
            .reply(reply_to, &Reply::Sought(SeekResponse { offset: 5 }))
            .expect("it waits");
        assert_eq!(peer.frame().opcode, answer);
    }
}

#[test]
fn an_answer_must_belong_to_its_request() {
    let mut peer = Peer::versioned();
    peer.feed(&format!("{LIST} {LIST}"));
    let (first, _) = peer.request();
    assert_eq!(
        peer.conn.reply(first, &published("a")),
        Err(UsageError::WrongReply)
    );
    let extended = Reply::Extended(ExtendVisibilityResponse::default());
    let (second, _) = peer.request();
    assert_eq!(
        peer.conn.reply(second, &extended),
        Err(UsageError::WrongReply)
    );
    assert!(peer.frames().is_empty());
    // A request of another connection.
    let mut other = Peer::versioned();
    other.feed(&format!("{LIST} {LIST} {LIST}"));
    let (_, _) = (other.request(), other.request());
    let (third, _) = other.request();
    let list = Reply::QueueList(QueueListResponse::default());
    assert_eq!(
        peer.conn.reply(third, &list),
        Err(UsageError::UnknownRequest)
    );
}

#[test]
fn a_publish_is_answered_with_the_bytes_of_its_reply() {
    for (layout, frames) in [
        (Layout::Versioned, [PUBLISH, PUBLISH]),
        (
            Layout::Documented,
            [
                "01 00 00000008 0a02 7131 1202 6869",
                "01 01 00000008 00000007 0a02 7131 1202 6869",
            ],
        ),
    ] {
        for frame in frames {
            let [short, long] = [false, true].map(|is_short| {
                let mut peer = Peer::new(layout, Config::default());
                peer.feed(&format!("{frame} {frame}"));
                let ((first, _), (second, _)) = (peer.request(), peer.request());
                // The second waits for the first, unless it has a number.
                for (reply_to, id) in [(second, "m-2"), (first, "m-1")] {
                    let told = match is_short {
                        true => peer.conn.published(reply_to, id.as_bytes()),
                        false => peer.conn.reply(reply_to, &published(id)),
                    };
                    assert_eq!(told, Ok(()));
                }
                peer.drain().read.clone()
            });
            assert!(!long.is_empty());
            assert_eq!(short, long, "{layout:?}: {frame}");
        }
    }
    let mut peer = Peer::versioned();
    peer.feed(LIST);
    let (list, _) = peer.request();
    assert_eq!(peer.conn.published(list, b"m"), Err(UsageError::WrongReply));
    let mut peer = Peer::versioned();
    peer.feed(PUBLISH);
    let (first, _) = peer.request();
    let long: String = core::iter::repeat_n('m', 2 << 20).collect();
    assert_eq!(peer.conn.published(first, long.as_bytes()), Ok(()));
    assert_eq!(peer.frame().error().0, ErrorCode::TooLarge.number());
}

#[test]
fn after_the_end_nothing_is_answered() {
    let mut peer = Peer::versioned();
    peer.feed(LIST);
    let (reply_to, _) = peer.request();
    peer.conn.close();
    assert_eq!(
        peer.conn.refuse(reply_to, ErrorCode::Failed, ""),
        Err(UsageError::NotOpen)
    );
    assert!(peer.drain().conn.is_done());
}

#[test]
fn an_answer_that_is_too_large_becomes_an_error() {
    let mut peer = Peer::versioned();
    peer.feed(LIST);
    let (reply_to, _) = peer.request();
    let name: String = core::iter::repeat_n('q', 255).collect();
    let queue = QueueInfo {
        name,
        message_count: 1,
        in_flight_count: 0,
    };
    let queues = core::iter::repeat_n(queue, 5_000).collect();
    peer.conn
        .reply(reply_to, &Reply::QueueList(QueueListResponse { queues }))
        .expect("it waits");
    assert_eq!(peer.frame().error().0, ErrorCode::TooLarge.number());
}

#[test]
fn extensions_of_answers_are_left_out_where_they_are_not_known() {
    let full = SchemaRegisterResponse {
        version: 3,
        message_type: "a.B".into(),
        ..SchemaRegisterResponse::default()
    };
    let mut peer = Peer::versioned();
    peer.feed("00000006 01 11 0a027131");
    let (reply_to, _) = peer.request();
    peer.conn
        .reply(reply_to, &Reply::Schema(full.clone().into()))
        .expect("it waits");
    assert_eq!(peer.frame().body[..], [0x10, 0x03]);
    let mut peer = Peer::documented();
    peer.feed("11 00 00000004 0a027131");
    let (reply_to, _) = peer.request();
    peer.conn
        .reply(reply_to, &Reply::Schema(full.clone().into()))
        .expect("it waits");
    assert_eq!(peer.frame().decode::<SchemaRegisterResponse>(), full);
}

#[test]
fn a_ping_is_answered_by_the_machine_in_its_turn() {
    let mut peer = Peer::documented();
    peer.feed("60 01 00000003 00000005 0a01 78");
    let frame = peer.frame();
    assert_eq!((frame.opcode, frame.correlation), (0x61, Some(5)));
    assert_eq!(frame.decode::<PingResponse>().data, "x");
    let mut peer = Peer::versioned();
    peer.feed(&format!("{LIST} 00000005 01 60 0a01 78"));
    let (reply_to, _) = peer.request();
    assert!(peer.frames().is_empty());
    peer.conn
        .reply(reply_to, &Reply::QueueList(QueueListResponse::default()))
        .expect("it waits");
    assert_eq!(peer.frames()[1].opcode, 0x61);
    // The answer to a PING of ours says nothing.
    peer.feed("00000002 01 61");
    assert!(peer.frames().is_empty());
    assert_eq!(peer.event(), None);
}
