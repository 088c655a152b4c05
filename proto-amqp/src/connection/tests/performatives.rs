//! Performative fields and negotiation: PE-01 to PE-09.

use super::{BEGIN, HDR, OPEN, Peer, config};
use crate::connection::{Config, Event};
use crate::performative::Performative;

#[test]
fn pe_01_multiple_as_one_value_as_array_and_empty() {
    for (open, capabilities) in [
        (
            "0000002002000000005310c01309a102633140404040404040a305782d636170",
            1,
        ),
        (
            "0000002302000000005310c01609a102633140404040404040e00801a305782d636170",
            1,
        ),
        (
            "0000001d02000000005310c01009a102633140404040404040e00200a3",
            0,
        ),
    ] {
        let mut peer = Peer::new(config());
        peer.feed(HDR).feed(open);
        assert!(matches!(peer.take_events()[..], [Event::Opened]), "{open}");
        assert_eq!(
            peer.conn
                .remote_open()
                .expect("open")
                .desired_capabilities
                .len(),
            capabilities
        );
    }
}

#[test]
fn pe_03_absent_null_and_default_fields_are_alike() {
    let mut peer = Peer::begun(config());
    peer.feed("0000001e02000001005311c0110840437000000800700000080040404040")
        .feed("0000001f02000002005311c0120540437000000800700000080070ffffffff")
        .feed("0000002002000003005311d00000001000000004404370000008007000000800");
    let begins: std::vec::Vec<_> = peer
        .bodies()
        .into_iter()
        .map(|body| match body {
            Performative::Begin(begin) => (
                begin.remote_channel,
                begin.incoming_window,
                begin.handle_max,
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        begins,
        [
            (Some(1), 512, 255),
            (Some(2), 512, 255),
            (Some(3), 512, 255)
        ]
    );
}

#[test]
fn pe_04_missing_mandatory_fields() {
    let mut no_container = Peer::new(config());
    no_container.feed(HDR).feed("0000000c0200000000531045");
    no_container.skip_header();
    assert_eq!(
        no_container.close_condition().as_deref(),
        Some("amqp:invalid-field")
    );

    let mut no_outgoing_id = Peer::new(config());
    no_outgoing_id
        .feed(HDR)
        .feed(OPEN)
        .feed("0000001402000000005311c00704404052015201");
    no_outgoing_id.skip_header();
    assert_eq!(
        no_outgoing_id.close_condition().as_deref(),
        Some("amqp:invalid-field")
    );

    let mut no_handle = Peer::begun(config());
    no_handle.feed("0000001402000000005312c00703a10273314042");
    assert_eq!(
        no_handle.close_condition().as_deref(),
        Some("amqp:invalid-field")
    );

    // A sender that leaves initial-delivery-count out is read as 0.
    let mut no_count = Peer::begun(config());
    no_count.feed("0000002402000000005312c01707a10273314342404000532845005329c00501a1027131");
    assert!(matches!(no_count.bodies()[..], [Performative::Attach(_)]));
}

/// Part 2, 2.3.2: the body of a frame is a performative.
#[test]
fn pe_08_unknown_performatives() {
    for bytes in [
        "000000100200000000531fc003015201",
        "0000000d02000000c003015201",
        "000000110200000000a305783a666f6f45",
    ] {
        let mut peer = Peer::begun(config());
        peer.feed(bytes);
        let condition = peer.close_condition().expect("closed");
        let allowed = [
            "amqp:decode-error",
            "amqp:not-implemented",
            "amqp:connection:framing-error",
        ];
        assert!(
            allowed.contains(&condition.as_str()),
            "{bytes}: {condition}"
        );
    }
}

#[test]
fn pe_09_channel_max_of_both_sides() {
    // The peer takes channel 0 only: a second session cannot be answered.
    let mut peer = Peer::new(config());
    peer.feed(HDR)
        .feed("0000001702000000005310c00a04a10263314040600000")
        .feed(BEGIN);
    peer.skip_header();
    let frames = peer.frames();
    assert!(frames.iter().all(|frame| frame.channel == 0));
    assert_eq!(frames.len(), 2);
    peer.feed("0000001a02000001005311c00d04404370000008007000000800");
    assert_eq!(
        peer.close_condition().as_deref(),
        Some("amqp:resource-limit-exceeded")
    );

    // Above what we announced.
    let mut peer = Peer::begun(Config {
        channel_max: 255,
        ..config()
    });
    peer.feed("0000001a02000100005311c00d04404370000008007000000800");
    assert_eq!(
        peer.close_condition().as_deref(),
        Some("amqp:connection:framing-error")
    );
    let mut last = Peer::begun(Config {
        channel_max: 255,
        ..config()
    });
    last.feed("0000001a020000ff005311c00d04404370000008007000000800");
    assert!(matches!(last.bodies()[..], [Performative::Begin(_)]));
}

/// Part 2, 2.8.19: 512 is the least that everyone must take.
#[test]
fn max_frame_size_below_512_is_refused() {
    let mut peer = Peer::new(config());
    peer.feed(HDR)
        .feed("0000001802000000005310c00b03a10263314070000001ff");
    peer.skip_header();
    assert_eq!(
        peer.close_condition().as_deref(),
        Some("amqp:invalid-field")
    );
}

#[test]
fn frames_on_channels_never_begun_and_open_twice() {
    let mut never = Peer::begun(config());
    never.feed("0000001002000003005316c003024341");
    assert_eq!(never.close_condition().as_deref(), Some("amqp:not-allowed"));
    let mut twice = Peer::begun(config());
    twice.feed(OPEN);
    assert_eq!(twice.close_condition().as_deref(), Some("amqp:not-allowed"));
    let mut begin_twice = Peer::begun(config());
    begin_twice.feed(BEGIN);
    assert_eq!(
        begin_twice.close_condition().as_deref(),
        Some("amqp:not-allowed")
    );
}
