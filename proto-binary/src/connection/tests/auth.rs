//! The gate before authentication.

use std::format;

use super::{LIST, Peer};
use crate::connection::{Auth, CloseReason, Config, Event, Token, UsageError, Violation};
use crate::frame::Layout;
use crate::message::AuthResponse;
use crate::request::Request;

/// AUTH with the token `s3cret`, in both layouts.
const AUTH: &str = "0000000a 01 40 0a06 733363726574";
const AUTH_DOCUMENTED: &str = "40 01 00000008 00000007 0a06 733363726574";

fn required() -> Config {
    Config {
        auth: Auth::Required,
        ..Config::default()
    }
}

fn token() -> Option<Event> {
    Some(Event::Authenticate {
        token: Token("s3cret".into()),
    })
}

fn response(success: bool, message: &str) -> AuthResponse {
    AuthResponse {
        success,
        message: message.into(),
    }
}

#[test]
fn a_right_token_opens() {
    let mut peer = Peer::new(Layout::Versioned, required());
    peer.feed(AUTH);
    assert_eq!(peer.event(), token());
    assert!(!peer.conn.is_open());
    peer.conn.auth_outcome(true).expect("it waits");
    assert_eq!(
        peer.frame().decode::<AuthResponse>(),
        response(true, "authenticated")
    );
    assert!(peer.conn.is_open());
    peer.feed(LIST);
    assert_eq!(peer.request().1, Request::QueueList);
    assert_eq!(peer.conn.auth_outcome(true), Err(UsageError::NotDeciding));
}

#[test]
fn a_wrong_token_closes_with_an_answer_that_is_no_error() {
    let mut peer = Peer::new(Layout::Versioned, required());
    peer.feed(AUTH);
    assert_eq!(peer.event(), token());
    peer.conn.auth_outcome(false).expect("it waits");
    peer.drain();
    assert_eq!(
        peer.read,
        super::hex("00000011 01 41 120d 696e76616c696420746f6b656e")
    );
    assert_eq!(peer.closed(), Some(CloseReason::Local));
    assert!(!peer.conn.is_done(), "the peer may read it first");
    peer.conn.handle_eof(peer.now);
    assert!(peer.conn.is_done());
}

#[test]
fn anything_before_auth_closes_with_error_9() {
    let mut peer = Peer::new(Layout::Versioned, required());
    peer.feed(LIST);
    assert_eq!(
        peer.read,
        super::hex("0000001d 01 07 0809 1217 61757468656e7469636174696f6e207265717569726564")
    );
    assert_eq!(
        peer.closed(),
        Some(CloseReason::Violation(Violation::AuthRequired))
    );
    // Lingers, so that the answer is read, then ends by itself.
    assert!(!peer.conn.is_done() && peer.conn.wants_read());
    let at = peer.conn.poll_timeout().expect("lingering ends");
    peer.conn.handle_timeout(at);
    assert!(peer.conn.is_done());
}

#[test]
fn qb_04_nothing_passes_the_gate_with_a_frame_that_is_refused() {
    let mut peer = Peer::new(Layout::Versioned, required());
    peer.feed("0000000a 01 01 0a027131 12026869 00000007 01 40 0a03626164");
    assert_eq!(peer.frame().error(), (9, "authentication required".into()));
    assert_eq!(
        peer.closed(),
        Some(CloseReason::Violation(Violation::AuthRequired))
    );
    assert_eq!(peer.event(), None);
}

#[test]
fn the_gate_judges_by_the_head() {
    // A PUBLISH of a megabyte need not be sent to be refused, and an AUTH is held to 4 KiB.
    let mut peer = Peer::new(Layout::Versioned, required());
    peer.feed("000f0000 01 01");
    assert_eq!(peer.frame().error().0, 9);
    let mut peer = Peer::new(Layout::Documented, required());
    peer.feed("01 01 00f00000 00000007");
    let frame = peer.frame();
    assert_eq!((frame.error().0, frame.correlation), (9, Some(7)));
    for text in ["00001003 01 40", "40 00 00001001"] {
        let layout = Layout::detect(super::hex(text)[0]).expect("a layout");
        let mut peer = Peer::new(layout, required());
        peer.feed(text);
        assert_eq!(
            peer.closed(),
            Some(CloseReason::Violation(Violation::PayloadTooLarge))
        );
        assert!(peer.frames().is_empty());
    }
    for text in ["00001002 01 40", "40 00 00001000"] {
        let layout = Layout::detect(super::hex(text)[0]).expect("a layout");
        let mut peer = Peer::new(layout, required());
        peer.feed(text);
        assert_eq!(peer.closed(), None, "4 KiB are allowed");
    }
}

#[test]
fn an_unreadable_auth_closes() {
    // A string that runs past the end; and a reserved flag.
    for text in [
        "00000004 01 40 0a05",
        "40 00 00000002 0a05",
        "40 04 00000000",
    ] {
        let layout = Layout::detect(super::hex(text)[0]).expect("a layout");
        let mut peer = Peer::new(layout, required());
        peer.feed(text);
        assert_eq!(
            peer.frame().decode::<AuthResponse>(),
            response(false, "invalid auth request")
        );
        assert_eq!(
            peer.closed(),
            Some(CloseReason::Violation(Violation::AuthUndecodable))
        );
    }
}

#[test]
fn what_follows_auth_waits_for_the_decision() {
    let mut peer = Peer::new(Layout::Versioned, required());
    peer.feed(&format!("{AUTH} {LIST} 0000"));
    assert_eq!(peer.event(), token());
    assert_eq!(peer.event(), None);
    peer.feed("0002 01 32");
    assert_eq!(peer.event(), None);
    peer.conn.auth_outcome(true).expect("it waits");
    peer.drain();
    assert_eq!(peer.request().1, Request::QueueList);
    assert_eq!(peer.request().1, Request::QueueList);
    // Held input is bounded: a peer that floods while we decide is not read.
    let mut peer = Peer::new(Layout::Versioned, required());
    peer.feed(AUTH);
    assert!(peer.conn.wants_read());
    peer.feed_bytes(&[0; 16 * 1024]);
    assert!(!peer.conn.wants_read());
}

#[test]
fn the_answer_to_auth_carries_the_correlation_id() {
    let mut peer = Peer::new(Layout::Documented, required());
    peer.feed(AUTH_DOCUMENTED);
    assert_eq!(peer.event(), token());
    peer.conn.auth_outcome(true).expect("it waits");
    assert_eq!(peer.frame().correlation, Some(7));
}

#[test]
fn without_a_required_token_auth_is_answered_yes() {
    let mut peer = Peer::versioned();
    peer.feed(&format!("{LIST} {AUTH}"));
    let (reply_to, _) = peer.request();
    assert!(
        peer.frames().is_empty(),
        "answers keep the order of the requests"
    );
    peer.conn
        .reply(
            reply_to,
            &crate::reply::Reply::QueueList(Default::default()),
        )
        .expect("it waits");
    let frames = peer.frames();
    assert_eq!((frames[0].opcode, frames[1].opcode), (0x33, 0x41));
    assert_eq!(
        frames[1].decode::<AuthResponse>(),
        response(true, "authenticated")
    );
}

#[test]
fn as_the_first_servers_had_it_auth_is_unknown() {
    let mut peer = Peer::new(
        Layout::Versioned,
        Config {
            auth: Auth::Absent,
            ..Config::default()
        },
    );
    peer.feed(AUTH);
    assert_eq!(peer.frame().error(), (1, "unknown opcode".into()));
    assert!(peer.conn.is_open());
}

#[test]
fn a_token_may_be_shown_again_and_be_wrong_then() {
    let mut peer = Peer::new(Layout::Versioned, required());
    peer.feed(AUTH);
    assert_eq!(peer.event(), token());
    peer.conn.auth_outcome(true).expect("it waits");
    peer.feed(&format!("{LIST} {AUTH} {LIST}"));
    let (first, _) = peer.request();
    assert_eq!(peer.event(), token());
    assert_eq!(peer.event(), None);
    // An earlier request may still be answered meanwhile.
    peer.conn
        .reply(first, &crate::reply::Reply::QueueList(Default::default()))
        .expect("it waits");
    assert_eq!(peer.frames().len(), 2);
    peer.conn.auth_outcome(false).expect("it waits");
    assert_eq!(
        peer.frame().decode::<AuthResponse>(),
        response(false, "invalid token")
    );
    assert_eq!(peer.closed(), Some(CloseReason::Local));
}

#[test]
fn a_token_is_not_printed() {
    let mut peer = Peer::new(Layout::Versioned, required());
    peer.feed(AUTH);
    let event = peer.event();
    assert!(event.is_some() && !format!("{event:?}").contains("s3cret"));
    let config = Config {
        token: Some("s3cret".into()),
        ..Config::default()
    };
    assert!(!format!("{config:?}").contains("s3cret"));
}
