//! Deadlines, in the driver's time; nothing here waits.

use std::collections::VecDeque;
use std::time::Duration;

use super::{LIST, LIST_DOCUMENTED, Pair, Peer, hex};
use crate::connection::{Auth, CloseReason, Config, Connection, Event, Side, Violation};
use crate::frame::Layout;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn closed_by(violation: Violation) -> Option<CloseReason> {
    Some(CloseReason::Violation(violation))
}

#[test]
fn authentication_has_a_deadline() {
    let config = Config {
        auth: Auth::Required,
        auth_deadline_ms: 1_000,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Versioned, config);
    assert_eq!(peer.conn.poll_timeout(), Some(ms(1_000)));
    peer.tick(999);
    assert_eq!(peer.closed(), None);
    // Bytes alone do not move it.
    peer.feed("000000");
    assert_eq!(peer.conn.poll_timeout(), Some(ms(1_000)));
    peer.tick(1_000);
    assert_eq!(peer.closed(), closed_by(Violation::AuthDeadline));
    assert!(peer.conn.is_done() && peer.frames().is_empty());
}

#[test]
fn the_first_bytes_may_have_a_deadline() {
    let config = Config {
        first_bytes_deadline_ms: 3_000,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Versioned, config.clone());
    assert_eq!(peer.conn.poll_timeout(), Some(ms(3_000)));
    peer.tick(3_000);
    assert_eq!(peer.closed(), closed_by(Violation::FirstBytesDeadline));
    let mut peer = Peer::new(Layout::Versioned, config);
    peer.feed(LIST);
    peer.skip_request();
    peer.tick(100_000);
    assert_eq!(peer.closed(), None);
}

#[test]
fn an_embedder_may_take_its_time_with_a_token() {
    let config = Config {
        auth: Auth::Required,
        auth_deadline_ms: 1_000,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Versioned, config);
    peer.feed("0000000a 01 40 0a06 733363726574");
    assert!(matches!(peer.event(), Some(Event::Authenticate { .. })));
    assert_eq!(peer.conn.poll_timeout(), None);
    peer.tick(100_000);
    peer.conn.auth_outcome(true).expect("it waits");
    assert!(peer.conn.is_open());
}

#[test]
fn first_clients_may_be_silent_for_ever() {
    let mut peer = Peer::versioned();
    assert_eq!(peer.conn.poll_timeout(), None);
    peer.feed(LIST);
    peer.skip_request();
    assert_eq!(peer.conn.poll_timeout(), None);
    let config = Config {
        idle_timeout_versioned_ms: 5_000,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Versioned, config);
    peer.feed(LIST);
    peer.skip_request();
    peer.tick(4_999);
    assert_eq!(peer.closed(), None);
    peer.tick(5_000);
    assert_eq!(peer.closed(), closed_by(Violation::IdleTimeout));
    assert!(peer.frames().is_empty(), "they know no PING");
}

#[test]
fn silence_is_asked_about_and_then_ends_the_connection() {
    let config = Config {
        idle_timeout_ms: 60_000,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Documented, config);
    peer.feed(LIST_DOCUMENTED);
    peer.skip_request();
    assert_eq!(peer.conn.poll_timeout(), Some(ms(30_000)));
    peer.tick(30_000);
    let frame = peer.frame();
    assert_eq!(
        (frame.opcode, frame.correlation, frame.body.len()),
        (0x60, None, 0)
    );
    assert_eq!(peer.conn.poll_timeout(), Some(ms(60_000)));
    peer.tick(45_000);
    assert!(peer.frames().is_empty(), "one question is enough");
    // PONG is a sign of life as good as any.
    peer.feed("61 00 00000000");
    assert_eq!(peer.conn.poll_timeout(), Some(ms(75_000)));
    peer.tick(75_000);
    assert_eq!(peer.frame().opcode, 0x60);
    peer.tick(105_000);
    assert_eq!(peer.closed(), closed_by(Violation::IdleTimeout));
}

#[test]
fn two_machines_keep_each_other_alive() {
    let config = Config {
        idle_timeout_ms: 10_000,
        ..Config::default()
    };
    let client = Config {
        idle_timeout_ms: 8_000,
        ..config.clone()
    };
    let mut pair = Pair::new(client, config);
    assert_eq!(pair.client_events(), [Event::Opened]);
    // The server learns the layout by the first PING.
    for second in 1..=100 {
        pair.now = ms(second * 1_000);
        pair.client.handle_timeout(pair.now);
        pair.server.handle_timeout(pair.now);
        assert_eq!(pair.client_events(), []);
    }
    assert!(pair.server.poll_event().is_none());
    assert!(pair.client.is_open() && pair.server.is_open());
}

#[test]
fn a_frame_that_does_not_go_on_ends_the_connection() {
    let mut peer = Peer::versioned();
    peer.feed("0000000e 01 01 0a06");
    assert_eq!(peer.conn.poll_timeout(), Some(ms(30_000)));
    peer.tick(29_999);
    peer.feed("6f");
    assert_eq!(
        peer.conn.poll_timeout(),
        Some(ms(59_999)),
        "slow is not stalled"
    );
    peer.tick(59_999);
    assert_eq!(peer.closed(), closed_by(Violation::FrameStalled));
}

#[test]
fn a_peer_that_does_not_read_is_given_up() {
    let config = Config {
        slow_reader_ms: 1_000,
        ..Config::default()
    };
    let mut conn = Connection::new(Side::Server, config, Duration::ZERO);
    let mut input = bytes::BytesMut::from(&hex("00000002 01 7f")[..]);
    conn.handle_input(ms(100), &mut input);
    let mut out = VecDeque::new();
    assert_eq!(conn.poll_transmit(ms(200), &mut out, 5), 5);
    assert_eq!(conn.poll_timeout(), Some(ms(1_200)));
    // Movement counts, however small.
    assert_eq!(conn.poll_transmit(ms(1_100), &mut out, 1), 1);
    assert_eq!(conn.poll_timeout(), Some(ms(2_100)));
    assert_eq!(conn.poll_transmit(ms(2_000), &mut out, 0), 0);
    conn.handle_timeout(ms(2_100));
    let reason = CloseReason::Violation(Violation::SlowReader);
    assert_eq!(conn.poll_event(), Some(Event::Closed { reason }));
    assert!(conn.is_done(), "what is left is dropped");
}

#[test]
fn while_we_do_not_read_silence_is_ours() {
    let config = Config {
        requests_pending_max: 1,
        idle_timeout_ms: 10_000,
        ..Config::default()
    };
    let mut peer = Peer::new(Layout::Documented, config);
    peer.feed(&[LIST_DOCUMENTED, LIST_DOCUMENTED].concat());
    let (first, _) = peer.request();
    peer.tick(100_000);
    assert_eq!(peer.closed(), None);
    peer.conn
        .reply(first, &crate::reply::Reply::QueueList(Default::default()))
        .expect("it waits");
    peer.drain();
    let (second, _) = peer.request();
    // Still as full as it may be.
    assert_eq!(peer.conn.poll_timeout(), None);
    peer.conn
        .reply(second, &crate::reply::Reply::QueueList(Default::default()))
        .expect("it waits");
    peer.drain();
    assert_eq!(peer.conn.poll_timeout(), Some(ms(105_000)), "counted anew");
}

#[test]
fn a_clock_that_goes_back_moves_nothing() {
    let mut peer = Peer::documented();
    peer.now = ms(50_000);
    peer.feed(LIST_DOCUMENTED);
    peer.skip_request();
    peer.now = ms(10);
    peer.feed(LIST_DOCUMENTED);
    peer.skip_request();
    assert_eq!(peer.conn.poll_timeout(), Some(ms(80_000)));
    peer.tick(20);
    assert_eq!(peer.conn.poll_timeout(), Some(ms(80_000)));
    assert_eq!(peer.closed(), None);
}
