//! A peer that closes its sending half, or is gone.

use std::collections::VecDeque;
use std::format;
use std::time::Duration;

use bytes::BytesMut;

use super::{LIST, PUBLISH, Peer, hex};
use crate::connection::{Auth, CloseReason, Config, Connection, Event, Side};
use crate::error::ErrorCode;
use crate::frame::Layout;
use crate::message::AuthResponse;
use crate::reply::Reply;

fn eof(peer: &mut Peer) {
    peer.conn.handle_eof(peer.now);
    peer.drain();
}

fn list() -> Reply {
    Reply::QueueList(Default::default())
}

#[test]
fn without_answers_due_it_is_the_end() {
    let mut peer = Peer::versioned();
    peer.feed(LIST);
    let (reply_to, _) = peer.request();
    peer.conn.reply(reply_to, &list()).expect("it waits");
    // Half a frame is not a request.
    peer.feed("0000");
    eof(&mut peer);
    assert_eq!(peer.closed(), Some(CloseReason::Peer));
    assert_eq!(
        peer.frame().opcode,
        0x33,
        "what was said may still be taken"
    );
    assert!(peer.conn.is_done());
}

#[test]
fn answers_that_are_due_are_given_first() {
    for (layout, requests) in [
        (Layout::Versioned, format!("{PUBLISH} {LIST}")),
        (
            Layout::Documented,
            "01 01 00000004 00000001 0a027131 32 01 00000000 00000002".into(),
        ),
    ] {
        let mut peer = Peer::new(layout, Config::default());
        peer.feed(&requests);
        let (publish, _) = peer.request();
        let (second, _) = peer.request();
        eof(&mut peer);
        assert_eq!(peer.closed(), None);
        assert!(!peer.conn.wants_read() && !peer.conn.is_done());
        peer.conn.reply(second, &list()).expect("it waits");
        peer.drain();
        assert_eq!(peer.closed(), None);
        peer.confirm(publish, "a");
        assert_eq!(peer.frames().len(), 2);
        assert_eq!(peer.closed(), Some(CloseReason::Peer));
        assert!(peer.conn.is_done());
    }
}

#[test]
fn the_grace_ends() {
    let mut peer = Peer::versioned();
    peer.now = Duration::from_secs(10);
    peer.feed(LIST);
    let (reply_to, _) = peer.request();
    eof(&mut peer);
    assert_eq!(peer.conn.poll_timeout(), Some(Duration::from_secs(15)));
    peer.tick(14_999);
    assert_eq!(peer.closed(), None);
    peer.tick(15_000);
    assert_eq!(peer.closed(), Some(CloseReason::Peer));
    assert!(peer.conn.is_done() && peer.conn.poll_timeout().is_none());
    assert!(peer.conn.refuse(reply_to, ErrorCode::Failed, "").is_err());
    let config = Config {
        eof_grace_ms: 0,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Versioned, config);
    peer.feed(LIST);
    peer.skip_request();
    eof(&mut peer);
    assert_eq!(peer.closed(), Some(CloseReason::Peer));
}

#[test]
fn held_requests_are_not_lost() {
    let config = Config {
        requests_pending_max: 1,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Versioned, config);
    peer.feed(&[LIST; 3].concat());
    eof(&mut peer);
    for _ in 0..3 {
        let (reply_to, _) = peer.request();
        peer.conn.reply(reply_to, &list()).expect("it waits");
        peer.drain();
    }
    assert_eq!(peer.frames().len(), 3);
    assert_eq!(peer.closed(), Some(CloseReason::Peer));
}

#[test]
fn requests_that_are_held_for_want_of_room_are_not_lost() {
    let config = Config {
        unsent_bytes_max: 20,
        ..Config::default()
    };
    let mut conn = Connection::new(Side::Server, config, Duration::ZERO);
    // Answering the first fills the room for output, so the second is held.
    let mut input = BytesMut::from(&hex(&["00000002 01 7f", LIST].concat())[..]);
    conn.handle_input(Duration::ZERO, &mut input);
    conn.handle_eof(Duration::ZERO);
    assert_eq!(conn.poll_event(), None);
    let mut out = VecDeque::new();
    conn.poll_transmit(Duration::ZERO, &mut out, usize::MAX);
    conn.handle_timeout(conn.poll_timeout().expect("work"));
    let Some(Event::Request { reply_to, .. }) = conn.poll_event() else {
        panic!("the request is lost");
    };
    conn.reply(reply_to, &list()).expect("it waits");
    let reason = CloseReason::Peer;
    assert_eq!(conn.poll_event(), Some(Event::Closed { reason }));
}

#[test]
fn a_token_is_still_judged() {
    let config = Config {
        auth: Auth::Required,
        ..Config::default()
    };
    for (is_accepted, reason) in [(true, CloseReason::Peer), (false, CloseReason::Local)] {
        let mut peer = Peer::new(Layout::Versioned, config.clone());
        peer.feed("0000000a 01 40 0a06 733363726574");
        eof(&mut peer);
        assert!(matches!(peer.event(), Some(Event::Authenticate { .. })));
        peer.conn.auth_outcome(is_accepted).expect("it waits");
        assert_eq!(peer.frame().decode::<AuthResponse>().success, is_accepted);
        assert_eq!(peer.closed(), Some(reason));
        assert!(peer.conn.is_done(), "nobody is waited for");
    }
}

#[test]
fn lingering_ends_with_the_peer() {
    let config = Config {
        auth: Auth::Required,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Versioned, config);
    peer.feed(LIST);
    assert!(peer.closed().is_some() && !peer.conn.is_done());
    eof(&mut peer);
    assert!(peer.conn.is_done());
    assert_eq!(peer.event(), None);
}
