//! Idle time-outs and other deadlines: HB-01 to HB-03.

use std::time::Duration;

use super::{HDR, OPEN, Peer, config, hex};
use crate::connection::{Config, Event};
use crate::performative::Performative;

const EMPTY: &str = "0000000802000000";

fn opened(open: &str, config: Config) -> Peer {
    let mut peer = Peer::new(config);
    peer.feed(HDR).feed(open);
    peer.skip_header();
    peer
}

/// The peer's limit is for what we send, ours for what it sends.
#[test]
fn hb_01_two_limits() {
    let mut peer = opened(
        "0000001a02000000005310c00d05a102633140404070000007d0",
        config(),
    );
    assert!(matches!(peer.bodies()[..], [Performative::Open(_)]));
    for _ in 0..6 {
        for _ in 0..10 {
            peer.pass(Duration::from_secs(2));
            let beats = peer.frames();
            assert!(
                !beats.is_empty() && beats.iter().all(|got| got.body.is_none()),
                "{beats:?}"
            );
        }
        peer.feed(EMPTY);
    }
    assert!(matches!(peer.take_events()[..], [Event::Opened]));
}

/// 30 s are announced, 45 s of silence are enough.
#[test]
fn hb_02_announced_and_real_limit() {
    let mut peer = opened(OPEN, config());
    let announced = match &peer.bodies()[..] {
        [Performative::Open(open)] => open.idle_time_out.expect("announced"),
        other => panic!("{other:?}"),
    };
    assert_eq!(announced, 30_000);
    for _ in 0..20 {
        peer.pass(Duration::from_millis(u64::from(announced) * 95 / 100));
        peer.feed(EMPTY);
    }
    assert_eq!(peer.close_condition(), None);
    peer.pass(Duration::from_millis(44_999));
    assert_eq!(peer.close_condition(), None);
    peer.pass(Duration::from_millis(1));
    assert_eq!(
        peer.close_condition().as_deref(),
        Some("amqp:resource-limit-exceeded")
    );
    peer.pass(Duration::from_secs(3));
    assert!(peer.conn.is_done());
}

/// 0 and null ask for nothing, too little is refused with the minimum, the maximum does not overflow.
#[test]
fn hb_03_extremes() {
    for open in ["0000001602000000005310c00905a102633140404043", OPEN] {
        let mut peer = opened(
            open,
            Config {
                idle_timeout_ms: 0,
                ..config()
            },
        );
        match &peer.bodies()[..] {
            [Performative::Open(open)] => assert_eq!(open.idle_time_out, None),
            other => panic!("{other:?}"),
        }
        assert_eq!(peer.conn.poll_timeout(), None, "nothing to wait for");
    }
    let mut short = opened("0000001702000000005310c00a05a10263314040405201", config());
    match &short.bodies()[..] {
        [Performative::Open(_), Performative::Close(close)] => {
            let error = close.error.as_ref().expect("error");
            assert_eq!(error.condition.as_str(), "amqp:not-allowed");
            assert!(
                error
                    .description
                    .as_ref()
                    .expect("text")
                    .as_str()
                    .contains("500 ms")
            );
        }
        other => panic!("{other:?}"),
    }
    let mut max = opened(
        "0000001a02000000005310c00d05a102633140404070ffffffff",
        config(),
    );
    max.frames();
    max.pass(Duration::from_secs(44));
    assert!(max.frames().is_empty());
}

/// Half of a small announced value, finer than a second.
#[test]
fn heartbeats_of_500_ms() {
    let mut peer = opened(
        "0000001a02000000005310c00d05a102633140404070000001f4",
        config(),
    );
    peer.frames();
    peer.pass(Duration::from_secs(1));
    assert_eq!(peer.frames().len(), 4);
}

/// Traffic counts as sign of life: no heartbeat next to it.
#[test]
fn traffic_replaces_heartbeats() {
    let mut peer = opened(
        "0000001a02000000005310c00d05a102633140404070000007d0",
        config(),
    );
    peer.feed(super::BEGIN);
    peer.frames();
    for _ in 0..20 {
        peer.pass(Duration::from_millis(500));
        peer.assert_alive();
    }
    assert!(peer.frames().is_empty());
}

#[test]
fn deadlines_before_open() {
    let mut silent = Peer::new(config());
    silent.pass(Duration::from_millis(2_999));
    assert!(silent.take_events().is_empty());
    silent.pass(Duration::from_millis(1));
    assert!(matches!(
        silent.take_events()[..],
        [Event::Closed { error: Some(_) }]
    ));
    silent.pass(Duration::from_secs(1));
    assert!(silent.conn.is_done());

    let mut slow = Peer::new(config());
    slow.feed(HDR);
    for byte in &hex(OPEN)[..9] {
        slow.pass(Duration::from_secs(1));
        slow.feed_bytes(&[*byte]);
    }
    assert!(slow.take_events().is_empty());
    slow.pass(Duration::from_secs(1));
    assert!(
        matches!(slow.take_events()[..], [Event::Closed { error: Some(_) }]),
        "trickling does not help"
    );
    slow.skip_header();
    assert_eq!(
        slow.close_condition().as_deref(),
        Some("amqp:resource-limit-exceeded")
    );
}

/// Output that does not move for 30 s ends the connection, and reading stops long before.
#[test]
fn slow_reader() {
    let (mut peer, link) = Peer::attached(
        Config {
            idle_timeout_ms: 0,
            unsent_bytes_max: 10_000,
            ..config()
        },
        super::RCV,
    );
    peer.say(&super::credit(1, 1_000));
    let payload = bytes::Bytes::from(std::vec![0; 1_000]);
    for token in 0..20 {
        peer.conn
            .send(link, super::delivery(token, &payload))
            .expect("credit");
    }
    assert!(!peer.conn.wants_read());
    let mut out = std::collections::VecDeque::new();
    assert_eq!(peer.conn.poll_transmit(peer.now, &mut out, 100), 100);
    let deadline = peer.conn.poll_timeout().expect("a deadline");
    assert_eq!(deadline, Duration::from_secs(30));
    peer.conn
        .poll_transmit(Duration::from_secs(29), &mut out, 100);
    assert_eq!(
        peer.conn.poll_timeout(),
        Some(Duration::from_secs(59)),
        "it moved"
    );
    peer.conn.handle_timeout(Duration::from_secs(59));
    assert!(peer.conn.is_done());
    assert!(matches!(
        peer.poll_all().last(),
        Some(Event::Closed { error: Some(_) })
    ));
}
