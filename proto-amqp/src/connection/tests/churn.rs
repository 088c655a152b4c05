//! Sessions and links that come and go: a burst is fine, then a rate.

use std::time::Duration;

use super::{BEGIN, Peer, config};
use crate::connection::Config;

const END: &str = "0000000c0200000000531745";

#[test]
fn sessions_beyond_the_burst() {
    let mut peer = Peer::begun(Config {
        churn_burst: 10,
        churn_rate: 2,
        ..config()
    });
    for _ in 0..10 {
        peer.feed(END).feed(BEGIN);
    }
    assert_eq!(peer.close_condition(), None);
    peer.feed(END).feed(BEGIN);
    assert_eq!(
        peer.close_condition().as_deref(),
        Some("amqp:resource-limit-exceeded")
    );
}

#[test]
fn the_rate_is_kept_for_ever() {
    let mut peer = Peer::begun(Config {
        churn_burst: 10,
        churn_rate: 2,
        ..config()
    });
    for _ in 0..100 {
        peer.pass(Duration::from_millis(500));
        peer.feed(END).feed(BEGIN);
    }
    assert_eq!(peer.close_condition(), None);
}

/// Channels, handles and slots are used again: nothing grows.
#[test]
fn nothing_is_left_behind() {
    let mut peer = Peer::begun(Config {
        churn_burst: u32::MAX,
        ..config()
    });
    for _ in 0..5_000 {
        peer.feed(super::RCV).feed(END).feed(BEGIN);
    }
    assert_eq!(
        (
            peer.conn.sessions.len(),
            peer.conn.links.len(),
            peer.conn.channels.len()
        ),
        (1, 0, 1)
    );
    assert!(peer.conn.ready.len() <= 1);
}
