//! Settlement: SE-01 to SE-07.

use std::vec::Vec;

use super::{HDR, OPEN, Peer, RCV, SND, XFER0, config, credit, delivery, transfer};
use crate::connection::{Config, Event, IncomingId, LinkId, UsageError};
use crate::performative::{DeliveryState, Disposition, Performative, Role, Transfer};

const ACCEPT0: &str = "0000001602000000005315c009054143404100532445";

fn sending(count: u64, config: Config) -> (Peer, LinkId) {
    let (mut peer, link) = Peer::attached(config, RCV);
    peer.say(&crate::performative::Flow {
        next_incoming_id: None,
        ..credit(1, 1_000)
    });
    (0..count).for_each(|token| peer.send(link, token, b"x"));
    peer.frames();
    peer.take_events();
    (peer, link)
}

fn receiving(config: Config, begin: &str) -> (Peer, LinkId) {
    let mut peer = Peer::new(config);
    peer.feed(HDR).feed(OPEN).feed(begin);
    peer.skip_header();
    peer.take_events();
    let link = peer.attach(SND);
    peer.conn.grant(link, 100).expect("receiver");
    peer.frames();
    (peer, link)
}

fn outcomes(peer: &mut Peer) -> Vec<(u64, bool)> {
    let outcome = |event| {
        if let Event::Outcome { token, settled, .. } = event {
            Some((token, settled))
        } else {
            None
        }
    };
    peer.take_events().into_iter().filter_map(outcome).collect()
}

fn deliveries(peer: &mut Peer) -> Vec<IncomingId> {
    let delivery = |event| {
        if let Event::Delivery { delivery, .. } = event {
            Some(delivery)
        } else {
            None
        }
    };
    peer.take_events()
        .into_iter()
        .filter_map(delivery)
        .collect()
}

/// Part 2, 2.7.6, RFC 1982: a range across the wrap, theirs and ours.
#[test]
fn se_01_ranges_across_the_wrap() {
    let (mut peer, _) = sending(
        4,
        Config {
            first_outgoing_id: 4_294_967_294,
            ..config()
        },
    );
    peer.feed("0000001b02000000005315c00e054170fffffffe52014100532445");
    assert_eq!(
        outcomes(&mut peer),
        [(0, true), (1, true), (2, true), (3, true)]
    );

    let (mut peer, _) = receiving(
        config(),
        "0000001e02000000005311c011044070fffffffe70000008007000000800",
    );
    for id in [4_294_967_294, 4_294_967_295, 0, 1] {
        peer.say_with(&transfer(0, id), b"x");
    }
    for delivery in deliveries(&mut peer) {
        peer.conn
            .settle(delivery, DeliveryState::Accepted, true)
            .expect("unsettled");
    }
    let dispositions = peer.dispositions();
    assert_eq!(dispositions.len(), 1);
    assert_eq!(
        (dispositions[0].first, dispositions[0].last),
        (4_294_967_294, Some(1))
    );
}

/// The work is bounded by what is unsettled, not by the numbers.
#[test]
fn se_02_ranges_of_any_width() {
    let (mut peer, _) = sending(2, config());
    peer.feed(&"0000001802000000005315c00b0541520552044100532445".repeat(1_000));
    assert!(
        outcomes(&mut peer).is_empty(),
        "reversed ranges are ignored"
    );
    peer.feed(&"0000001a02000000005315c00d05414370ffffffff4100532445".repeat(1_000));
    assert!(outcomes(&mut peer).is_empty(), "4294967295 is behind 0");
    peer.feed(&"0000001a02000000005315c00d054143707ffffffe4100532445".repeat(1_000));
    assert_eq!(outcomes(&mut peer), [(0, true), (1, true)]);
    peer.assert_alive();
}

/// Part 2, 2.6.12: settled ids are forgotten.
#[test]
fn se_03_settled_twice_and_unknown() {
    let (mut peer, _) = sending(1, config());
    peer.feed(ACCEPT0);
    assert_eq!(outcomes(&mut peer), [(0, true)]);
    peer.feed("0000001602000000005315c009054143404100532545")
        .feed("0000001702000000005315c00a0541524d404100532645")
        .say(&Disposition {
            role: Role::Receiver,
            first: 0,
            last: Some(200),
            settled: true,
            state: Some(DeliveryState::Accepted),
            ..Disposition::default()
        });
    assert!(outcomes(&mut peer).is_empty());
    peer.assert_alive();
}

/// Part 2, 2.6.12: in the second mode the receiver states, we settle.
#[test]
fn se_04_second_mode() {
    let (mut peer, link) = sending(3, config());
    peer.feed("0000001602000000005315c009054143404200532445");
    assert_eq!(outcomes(&mut peer), [(0, false)]);
    peer.feed("0000001602000000005315c009054143404200532445");
    assert!(outcomes(&mut peer).is_empty(), "said again, nothing new");
    peer.conn
        .settle_outgoing(link, 0, Some(DeliveryState::Accepted))
        .expect("unsettled");
    peer.conn
        .settle_outgoing(link, 1, Some(DeliveryState::Accepted))
        .expect("unsettled");
    let dispositions = peer.dispositions();
    assert_eq!(dispositions.len(), 1);
    let answer = &dispositions[0];
    assert_eq!(
        (answer.role, answer.first, answer.last, answer.settled),
        (Role::Sender, 0, Some(1), true)
    );
    assert_eq!(answer.state, Some(DeliveryState::Accepted));
    peer.feed(ACCEPT0);
    assert!(outcomes(&mut peer).is_empty(), "forgotten");
    assert_eq!(
        peer.conn.settle_outgoing(link, 0, None),
        Err(UsageError::UnknownDelivery)
    );
}

/// Both directions count their own ids.
#[test]
fn se_05_ids_of_both_directions() {
    let (mut peer, _) = sending(1, config());
    let sender = peer.attach(SND);
    peer.conn.grant(sender, 10).expect("receiver");
    peer.feed(XFER0);
    let incoming = deliveries(&mut peer);
    peer.feed(ACCEPT0);
    assert_eq!(outcomes(&mut peer), [(0, true)]);
    peer.feed("0000001202000000005315c0050442434041");
    match &peer.take_events()[..] {
        [Event::IncomingSettled { link, delivery }] => {
            assert_eq!((*link, *delivery), (sender, incoming[0]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        peer.conn.settle(incoming[0], DeliveryState::Accepted, true),
        Err(UsageError::UnknownDelivery)
    );
}

/// Settled when sent: no disposition, either way.
#[test]
fn se_07_presettled() {
    let (mut peer, _) = receiving(config(), super::BEGIN);
    peer.feed("0000001f02000000005314c008054343a001004341005375a00568656c6c6f");
    let events = peer.take_events();
    let [
        Event::Delivery {
            settled: true,
            delivery: id,
            ..
        },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(
        peer.conn.settle(*id, DeliveryState::Accepted, true),
        Err(UsageError::UnknownDelivery)
    );
    assert!(peer.dispositions().is_empty());

    let (mut peer, link) = sending(0, config());
    let payload = bytes::Bytes::from_static(b"x");
    let out = crate::connection::OutgoingDelivery {
        settled: true,
        ..delivery(9, &payload)
    };
    peer.conn.send(link, out).expect("credit");
    match &peer.transfers()[0].body {
        Some(Performative::Transfer(transfer)) => assert_eq!(transfer.settled, Some(true)),
        other => panic!("{other:?}"),
    }
    peer.feed(ACCEPT0);
    assert!(outcomes(&mut peer).is_empty());
}

/// Ours are joined while ids follow each other and the state is the same.
#[test]
fn dispositions_are_coalesced() {
    let (mut peer, _) = receiving(config(), super::BEGIN);
    (0..100).for_each(|id| _ = peer.say_with(&transfer(0, id), b"x"));
    let ids = deliveries(&mut peer);
    for (index, delivery) in ids.iter().enumerate() {
        let state = if index == 50 {
            DeliveryState::Released
        } else {
            DeliveryState::Accepted
        };
        peer.conn.settle(*delivery, state, true).expect("unsettled");
    }
    let ranges: Vec<_> = peer
        .dispositions()
        .iter()
        .map(|it| (it.first, it.last))
        .collect();
    assert_eq!(ranges, [(0, Some(49)), (50, None), (51, Some(99))]);
}

/// A disposition is on the wire before the detach that ends its link.
#[test]
fn dispositions_go_before_a_detach() {
    let (mut peer, link) = receiving(config(), super::BEGIN);
    peer.feed(XFER0);
    let delivery = deliveries(&mut peer)[0];
    peer.conn
        .settle(delivery, DeliveryState::Accepted, true)
        .expect("unsettled");
    peer.conn.detach(link, true, None).expect("attached");
    let bodies = peer.bodies();
    assert!(
        matches!(
            bodies[..],
            [Performative::Disposition(_), Performative::Detach(_)]
        ),
        "{bodies:?}"
    );
}

/// The sender may settle while frames are missing: the message comes as settled.
#[test]
fn settled_before_the_last_frame() {
    let (mut peer, _) = receiving(config(), super::BEGIN);
    peer.say_with(
        &Transfer {
            more: true,
            ..transfer(0, 0)
        },
        b"a",
    );
    peer.feed("0000001202000000005315c0050442434041");
    peer.say_with(&Transfer::default(), b"b");
    let events = peer.take_events();
    assert!(
        matches!(events[..], [Event::Delivery { settled: true, .. }]),
        "{events:?}"
    );
}
