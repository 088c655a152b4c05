//! Session windows: SF-01 to SF-05.

use std::vec::Vec;

use super::{
    BEGIN, HDR, OPEN, Peer, RCV, SND, XFER0, config, credit, frame, session_flow, transfer,
};
use crate::connection::{Config, Event};
use crate::performative::{Flow, Performative, Transfer};

/// Part 2, 2.5.6: the window counts frames and is opened again at half, so that the sender never stalls.
#[test]
fn sf_01_window_opens_again_within_one_delivery() {
    let (mut peer, link) = Peer::attached(
        Config {
            incoming_window: 16,
            ..config()
        },
        SND,
    );
    peer.conn.grant(link, 1).expect("receiver");
    peer.frames();
    let mut window_end = 16;
    for sent in 0..10_600 {
        assert!(sent < window_end, "stalled after {sent} frames");
        peer.say_with(
            &Transfer {
                more: true,
                ..transfer(0, 0)
            },
            &[0x61; 500],
        );
        for flow in peer.flows() {
            assert_eq!(flow.handle, None);
            window_end = flow.next_incoming_id.expect("begun") + flow.incoming_window;
        }
    }
    peer.say(&Transfer::default());
    assert_eq!(peer.payloads(), [std::vec![0x61; 500 * 10_600]]);
}

/// Exactly the window's number of frames goes out per grant.
#[test]
fn sf_02_outgoing_window() {
    let mut peer = Peer::new(config());
    peer.feed(HDR)
        .feed(OPEN)
        .feed("0000001702000000005311c00a044043520a7000000800");
    peer.skip_header();
    peer.take_events();
    let link = peer.attach(RCV);
    peer.say(&Flow {
        incoming_window: 10,
        ..credit(1, 1_000)
    });
    (0..100).for_each(|token| peer.send(link, token, b"x"));
    for total in (10..=100).step_by(10) {
        assert_eq!(peer.transfers().len(), 10, "up to {total}");
        assert_eq!(peer.conn.unsent(link), 100 - total as usize);
        peer.say(&Flow {
            next_incoming_id: Some(total),
            incoming_window: 10,
            ..session_flow()
        });
    }
    assert_eq!(peer.end_condition(), None);
}

/// A closed window holds transfers; flows and dispositions pass.
#[test]
fn sf_03_window_zero() {
    let mut peer = Peer::new(config());
    peer.feed(HDR)
        .feed(OPEN)
        .feed("0000001602000000005311c009044043437000000800");
    peer.skip_header();
    peer.take_events();
    let receiver = peer.attach(RCV);
    let sender = peer.attach(SND);
    peer.conn.grant(sender, 3).expect("receiver");
    peer.say(&Flow {
        incoming_window: 0,
        ..credit(1, 5)
    });
    (0..5).for_each(|token| peer.send(receiver, token, b"x"));
    peer.feed(XFER0);
    let ids: Vec<_> = peer
        .take_events()
        .iter()
        .filter_map(|event| {
            if let Event::Delivery { delivery, .. } = event {
                Some(*delivery)
            } else {
                None
            }
        })
        .collect();
    peer.conn
        .settle(ids[0], crate::performative::DeliveryState::Accepted, true)
        .expect("unsettled");
    let bodies = peer.bodies();
    assert!(
        bodies
            .iter()
            .any(|body| matches!(body, Performative::Disposition(_)))
    );
    assert!(
        bodies
            .iter()
            .any(|body| matches!(body, Performative::Flow(_)))
    );
    assert!(
        !bodies
            .iter()
            .any(|body| matches!(body, Performative::Transfer(_)))
    );
    peer.say(&Flow {
        next_incoming_id: Some(0),
        incoming_window: 1,
        ..session_flow()
    });
    assert_eq!(peer.transfers().len(), 1);
    peer.say(&Flow {
        next_incoming_id: Some(1),
        incoming_window: 100,
        ..session_flow()
    });
    assert_eq!(peer.transfers().len(), 4);
}

/// An absent next-incoming-id stands for our first outgoing id; one that leads is an error of the session.
#[test]
fn sf_04_flow_before_our_begin_was_read() {
    let high = Config {
        first_outgoing_id: 4_294_967_292,
        ..config()
    };
    let mut peer = Peer::new(high.clone());
    peer.feed(
        "414d5150000100000000001202000000005310c00501a10263310000001a02000000005311c00d044043700000080070000008000000002502000000005312c01807a10272315201414040005328c00501a1027131005329450000001f02000000005313c012074070000008004370000008005201405205",
    );
    peer.skip_header();
    let link = peer
        .take_events()
        .iter()
        .find_map(|event| {
            if let Event::Flow {
                link, credit: 5, ..
            } = event
            {
                Some(*link)
            } else {
                None
            }
        })
        .expect("credit 5");
    (0..5).for_each(|token| peer.send(link, token, b"x"));
    let ids: Vec<_> = peer
        .transfers()
        .into_iter()
        .map(|got| {
            if let Some(Performative::Transfer(transfer)) = got.body {
                transfer.delivery_id
            } else {
                None
            }
        })
        .collect();
    assert_eq!(
        ids,
        [
            4_294_967_292,
            4_294_967_293,
            4_294_967_294,
            4_294_967_295,
            0
        ]
        .map(Some)
    );

    let mut peer = Peer::begun(high);
    peer.attach(RCV);
    peer.feed("0000001f02000000005313c012074370000008004370000008005201405205");
    assert_eq!(
        peer.end_condition().as_deref(),
        Some("amqp:session:window-violation")
    );
}

#[test]
fn sf_05_ids_wrap() {
    let mut peer = Peer::new(config());
    peer.feed(HDR)
        .feed(OPEN)
        .feed("0000001e02000000005311c011044070fffffffe70000008007000000800");
    peer.skip_header();
    peer.take_events();
    let link = peer.attach(SND);
    peer.conn.grant(link, 5).expect("receiver");
    peer.feed("0000002202000000005314c00b044370fffffffea001fe43005375a00568656c6c6f")
        .feed("0000002202000000005314c00b044370ffffffffa001ff43005375a00568656c6c6f")
        .feed(XFER0)
        .say_with(&transfer(0, 1), b"x")
        .say_with(&transfer(0, 2), b"x");
    assert_eq!(peer.payloads().len(), 5);
    peer.frames();
    peer.say(&Flow {
        next_outgoing_id: 3,
        echo: true,
        ..session_flow()
    });
    assert_eq!(peer.flows()[0].next_incoming_id, Some(3));
}

/// Slack for peers that count messages; beyond it the session ends, and only the session.
#[test]
fn window_violation_ends_the_session() {
    let config = Config {
        incoming_window: 4,
        incoming_window_slack: 3,
        ..config()
    };
    let (mut peer, link) = Peer::attached(config, SND);
    peer.conn.grant(link, 100).expect("receiver");
    peer.frames();
    // Each burst is one read, so that we have no chance to open the window meanwhile.
    let burst = |len| {
        let one = frame(
            &Transfer {
                more: true,
                ..transfer(0, 0)
            },
            b"x",
        );
        core::iter::repeat_n(one, len)
            .flatten()
            .collect::<Vec<u8>>()
    };
    peer.feed_bytes(&burst(7));
    assert_eq!(peer.end_condition(), None);
    peer.feed_bytes(&burst(8));
    assert_eq!(
        peer.end_condition().as_deref(),
        Some("amqp:session:window-violation")
    );
    peer.feed("0000000c0200000000531745").feed(BEGIN);
    assert!(
        matches!(peer.bodies()[..], [Performative::Begin(_)]),
        "the channel is free again"
    );
}

/// A link that is listed for a flow and answered an echo meanwhile must not swallow the session's own flow.
#[test]
fn window_opens_though_a_listed_link_has_nothing_to_say() {
    let (mut peer, link) = Peer::attached(
        Config {
            incoming_window: 4,
            ..config()
        },
        SND,
    );
    peer.conn.grant(link, 10).expect("receiver");
    // One read: an echo that answers for the grant, then half a window of transfers.
    let mut read = frame(
        &Flow {
            echo: true,
            ..credit(0, 0)
        },
        b"",
    );
    (0..2).for_each(|id| read.extend(frame(&transfer(0, id), b"x")));
    peer.feed_bytes(&read);
    let flows = peer.flows();
    let last = flows.last().expect("flows");
    assert_eq!(
        (flows.len(), last.next_incoming_id, last.incoming_window),
        (2, Some(2), 4)
    );
}

/// Messages that wait for a window must not stop us from reading the flow that opens it.
#[test]
fn queued_messages_do_not_stop_reading() {
    let (mut peer, link) = Peer::attached(
        Config {
            unsent_bytes_max: 1_000,
            ..config()
        },
        RCV,
    );
    peer.say(&Flow {
        incoming_window: 0,
        ..credit(1, 10)
    });
    peer.send(link, 1, &[0x61; 50_000]);
    assert!(peer.transfers().is_empty() && peer.conn.unsent_bytes() > 1_000);
    assert!(peer.conn.wants_read());
    peer.say(&session_flow());
    assert_eq!(peer.transfers().len(), 1);
}
