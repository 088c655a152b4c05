//! The frame layer: FR-01 to FR-11, and the bounds on frames that move nothing.

use std::time::Duration;

use super::{BEGIN, HDR, OPEN, Peer, RCV, SND, XFER0, config, hex, transfer};
use crate::connection::{Config, Event};
use crate::performative::Performative;

const SESSION_ECHO: &str = "0000002002000000005313c0130a437000000800437000000800404040404041";

fn opened() -> Peer {
    let mut peer = Peer::new(config());
    peer.feed(HDR).feed(OPEN);
    peer.skip_header();
    peer.frames();
    peer.take_events();
    peer
}

fn closes_with(bytes: &str, wanted: &str) {
    let mut peer = opened();
    peer.feed(bytes);
    assert_eq!(peer.close_condition().as_deref(), Some(wanted), "{bytes}");
    assert!(
        matches!(peer.take_events()[..], [Event::Closed { error: Some(_) }]),
        "{bytes}"
    );
}

/// Part 2, 2.3.1: a size below the 8-byte header is malformed.
#[test]
fn fr_01_size_below_8() {
    for bytes in ["0000000002000000", "0000000402000000", "0000000702000000"] {
        closes_with(bytes, "amqp:connection:framing-error");
        // As the first frame: our open comes before our close.
        let mut peer = Peer::new(config());
        peer.feed(HDR).feed(bytes);
        peer.skip_header();
        let bodies = peer.bodies();
        assert!(
            matches!(bodies[..], [Performative::Open(_), Performative::Close(_)]),
            "{bytes}: {bodies:?}"
        );
    }
}

#[test]
fn fr_02_data_offset_past_the_end() {
    for bytes in ["0000000c0400000000000000", "00000008ff000000"] {
        closes_with(bytes, "amqp:connection:framing-error");
    }
    // Known from the first eight bytes, without the body.
    closes_with("0000000c04000000", "amqp:connection:framing-error");
    closes_with("0000000c0100000000000000", "amqp:connection:framing-error");
}

/// Part 2, 2.3.1: the extended header is ignored.
#[test]
fn fr_04_extended_header() {
    let mut peer = Peer::new(config());
    peer.feed(HDR).feed(
        "0000001603000000deadbeef005310c00501a1026331000000260500000000112233445566778899aabb005311c00d04404370000008007000000800",
    );
    peer.skip_header();
    let bodies = peer.bodies();
    match &bodies[..] {
        [Performative::Open(_), Performative::Begin(begin)] => {
            assert_eq!(begin.remote_channel, Some(0))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn fr_05_size_is_judged_before_the_body_is_there() {
    for bytes in ["7fffffff02000000", "ffffffff02000000", "7fffffff"] {
        closes_with(bytes, "amqp:connection:framing-error");
    }
}

/// Ours and the peer's limit are two limits.
#[test]
fn fr_06_frame_limits_of_both_directions() {
    let mut peer = Peer::new(Config {
        frame_size_max: 65_536,
        ..config()
    });
    peer.feed(HDR)
        .feed("0000001802000000005310c00b03a1026331407000000200");
    peer.skip_header();
    match &peer.bodies()[..] {
        [Performative::Open(open)] => assert_eq!(open.max_frame_size, 65_536),
        other => panic!("{other:?}"),
    }
    peer.feed(BEGIN).feed(SND).feed(RCV).feed(super::CREDIT10);
    let payload = std::vec![0x61; 4_000];
    peer.say_with(&transfer(0, 0), &payload);
    let events = peer.take_events();
    let receiver = events
        .iter()
        .filter_map(|event| {
            if let Event::Attached { link, .. } = event {
                Some(*link)
            } else {
                None
            }
        })
        .nth(1)
        .expect("two links");
    assert!(
        events.iter().any(
            |event| matches!(event, Event::Delivery { payload, .. } if payload.len() == 4_000)
        )
    );
    peer.frames();
    peer.send(receiver, 1, &payload);
    let frames = peer.transfers();
    assert!(frames.len() > 7, "4,000 bytes in frames of 512");
    assert!(frames.iter().all(|frame| frame.size <= 512));
    let joined: std::vec::Vec<u8> = frames
        .iter()
        .flat_map(|frame| frame.payload.clone())
        .collect();
    assert_eq!(joined, payload);
}

/// Part 2, 2.4.5: be prepared for empty frames on any channel.
#[test]
fn fr_09_empty_frames_are_consumed() {
    let mut peer = Peer::begun(config());
    peer.feed("0000000802000000")
        .feed("0000000802000005")
        .feed(SESSION_ECHO);
    assert_eq!(peer.flows().len(), 1);
}

#[test]
fn fr_11_unexpected_frame_types() {
    for bytes in ["0000000802020000", "0000001002010000005344c003015000"] {
        let mut peer = Peer::begun(config());
        peer.feed(bytes);
        assert_eq!(
            peer.close_condition().as_deref(),
            Some("amqp:connection:framing-error"),
            "{bytes}"
        );
    }
}

/// Every split of a conversation gives the same events, and the same answers up to the embedder's speed.
#[test]
fn input_is_cut_anywhere() {
    let all = hex(&[HDR, OPEN, BEGIN, SND, RCV, XFER0, SESSION_ECHO].concat());
    let run = |pieces: &[&[u8]]| {
        let mut peer = Peer::new(config());
        for piece in pieces {
            peer.feed_bytes(piece);
        }
        peer.skip_header();
        let mut answers: std::vec::Vec<_> = peer
            .frames()
            .iter()
            .map(|got| std::format!("{got:?}"))
            .collect();
        answers.sort();
        (
            answers,
            peer.take_events()
                .iter()
                .map(core::mem::discriminant)
                .collect::<std::vec::Vec<_>>(),
        )
    };
    let whole = run(&[&all]);
    assert_eq!((whole.0.len(), whole.1.len()), (5, 5), "{:?}", whole.0);
    for split in 1..all.len() {
        assert_eq!(
            run(&[&all[..split], &all[split..]]),
            whole,
            "split at {split}"
        );
    }
    let bytes: std::vec::Vec<&[u8]> = all.chunks(1).collect();
    assert_eq!(run(&bytes), whole);
}

/// A budget of frames that move nothing, refilled by time.
#[test]
fn empty_frames_in_bulk_close_the_connection() {
    let config = Config {
        no_progress_frames_max: 100,
        ..config()
    };
    let mut peer = Peer::begun(config.clone());
    peer.feed(&"0000000802000000".repeat(99));
    peer.assert_alive();
    peer.feed(&"0000000802000000".repeat(3));
    assert_eq!(
        peer.close_condition().as_deref(),
        Some("amqp:resource-limit-exceeded")
    );

    let mut slow = Peer::begun(config);
    for _ in 0..1_000 {
        slow.pass(Duration::from_millis(500));
        slow.feed("0000000802000000");
    }
    slow.frames();
    assert_eq!(slow.close_condition(), None, "heartbeats are not a burden");
}

/// What follows a broken frame is not heard; the close is out before (TD-06).
#[test]
fn td_06_close_is_sent_though_input_goes_on() {
    let mut peer = opened();
    let mut bytes = hex("0000000002000000");
    bytes.resize(1024 * 1024, 0x5a);
    peer.feed_bytes(&bytes);
    assert_eq!(
        peer.close_condition().as_deref(),
        Some("amqp:connection:framing-error")
    );
    assert!(peer.conn.wants_read() && !peer.conn.is_done());
    peer.feed("0000000c0200000000531845");
    assert!(peer.conn.is_done(), "the peer's close ends the lingering");
}
