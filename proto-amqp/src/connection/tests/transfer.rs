//! Multi-frame and aborted transfers: TR-01 to TR-08.

use std::vec::Vec;

use super::{Peer, SND, config, hex, transfer};
use crate::connection::{Config, Event, LinkId};
use crate::performative::{Performative, Transfer};
use crate::types::DeliveryTag;

const FIRST: &str = "0000001e02000000005314c009064343a00141434041005375a006616263";

fn receiving(config: Config) -> (Peer, LinkId) {
    let (mut peer, link) = Peer::attached(config, SND);
    peer.conn.grant(link, 100).expect("receiver");
    peer.frames();
    (peer, link)
}

fn hello(id: u8) -> Vec<u8> {
    let mut section = hex("005375a0");
    section.extend_from_slice(&[1, id]);
    section
}

/// Part 2, 2.7.5, 2.6.14: an aborted delivery is forgotten, `aborted` wins over `more`, credit comes back.
#[test]
fn tr_01_aborted() {
    let (mut peer, _) = receiving(config());
    for round in 0..10_000_u32 {
        let id = round * 2;
        let begun = Transfer {
            more: true,
            ..transfer(0, id)
        };
        let more = round % 2 == 1;
        peer.say(&begun)
            .say_with(&begun, b"0123456789")
            .say(&Transfer {
                aborted: true,
                more,
                ..Transfer::default()
            })
            .say_with(&transfer(0, id + 1), &hello(1));
        // What an embedder does with an accepted message.
        let events = peer.take_events();
        let [Event::Delivery { link, delivery, .. }] = &events[..] else {
            panic!("round {round}: {events:?}")
        };
        peer.conn
            .settle(
                *delivery,
                crate::performative::DeliveryState::Accepted,
                true,
            )
            .expect("unsettled");
        peer.conn.grant(*link, 100).expect("receiver");
    }
    assert_eq!(peer.conn.partial_bytes.used(), 0);
    let dispositions = peer.dispositions();
    assert!(
        dispositions.iter().all(|it| it.first % 2 == 1),
        "aborted ones get no disposition"
    );
    assert_eq!(peer.close_condition(), None);
    peer.assert_alive();
}

/// The exact bytes, and the credit that an aborted delivery used.
#[test]
fn tr_01_bytes_and_credit() {
    for abort in [
        "0000001802000000005314c00b0a43404040404040404041",
        "0000001802000000005314c00b0a43404040404140404041",
    ] {
        let (mut peer, _) = receiving(config());
        peer.feed("0000001602000000005314c009064343a00141434041")
            .feed(
                "0000002802000000005314c009064343a00141434041005375b00000001430313233343536373839",
            )
            .feed(abort)
            .feed("0000001f02000000005314c00804435201a0010143005375a00568656c6c6f");
        assert_eq!(peer.payloads(), [hex("005375a00568656c6c6f")]);
        let flows = peer.flows();
        let last = flows
            .last()
            .expect("the credit of the aborted one comes back");
        assert_eq!(
            (last.delivery_count, last.link_credit),
            (Some(1), Some(100))
        );
    }
}

/// Part 2, 2.7.5: continuations with and without id and tag; with another one the link is in error.
#[test]
fn tr_02_continuations() {
    let whole = hex("005375a006616263646566");
    let (mut bare, _) = receiving(config());
    bare.feed(FIRST)
        .feed("0000001202000000005314c0020143646566");
    assert_eq!(bare.payloads(), core::slice::from_ref(&whole));

    let tag = DeliveryTag::new(b"A");
    let same = Transfer {
        delivery_id: Some(0),
        delivery_tag: tag,
        ..Transfer::default()
    };
    let (mut repeated, _) = receiving(config());
    repeated.feed(FIRST).say_with(&same, b"def");
    assert_eq!(repeated.payloads(), [whole]);

    let other_tag = DeliveryTag::new(b"B");
    for other in [
        Transfer {
            delivery_id: Some(1),
            ..same.clone()
        },
        Transfer {
            delivery_tag: other_tag,
            ..same.clone()
        },
        Transfer {
            message_format: Some(7),
            ..same
        },
    ] {
        let (mut changed, _) = receiving(config());
        changed.feed(FIRST).say_with(&other, b"def");
        assert_eq!(
            changed.detach_condition().as_deref(),
            Some("amqp:not-allowed")
        );
        assert!(changed.payloads().is_empty());
        changed.assert_alive();
    }
}

/// Part 2, 2.6.12: across links yes, on one link no.
#[test]
fn tr_03_interleaving() {
    let (mut peer, first) = receiving(config());
    let attach = "0000002802000000005312c01b0aa1027332520242404000532845005329c00501a1027131404043";
    let second = peer.attach(attach);
    peer.conn.grant(second, 10).expect("receiver");
    for (more, parts) in [
        (true, [b"a", b"x"]),
        (true, [b"b", b"y"]),
        (false, [b"c", b"z"]),
    ] {
        peer.say_with(
            &Transfer {
                more,
                ..transfer(0, 0)
            },
            parts[0],
        );
        peer.say_with(
            &Transfer {
                more,
                ..transfer(2, 1)
            },
            parts[1],
        );
    }
    let whole: Vec<_> = peer
        .take_events()
        .into_iter()
        .filter_map(|event| {
            if let Event::Delivery { link, payload, .. } = event {
                Some((link, payload))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(
        whole,
        [
            (first, bytes::Bytes::from_static(b"abc")),
            (second, bytes::Bytes::from_static(b"xyz"))
        ]
    );

    let (mut peer, _) = receiving(config());
    peer.feed("0000001602000000005314c009064343a001414340410000001b02000000005314c00804435201a0014243005375a00178");
    assert_eq!(peer.detach_condition().as_deref(), Some("amqp:not-allowed"));
    assert!(peer.payloads().is_empty());
}

/// Part 2, 2.7.3: refused as soon as the limit is passed; what follows is swallowed; others live on.
#[test]
fn tr_04_message_size() {
    let limited = Config {
        message_size_max: 1_000,
        ..config()
    };
    let (mut exact, _) = receiving(limited.clone());
    exact.say_with(&transfer(0, 0), &[0x61; 1_000]);
    exact.say_with(
        &Transfer {
            more: true,
            ..transfer(0, 1)
        },
        &[0x61; 600],
    );
    exact.say_with(&Transfer::default(), &[0x61; 400]);
    assert_eq!(exact.payloads().len(), 2);

    for pieces in [&[1_001_usize][..], &[600, 401]] {
        let (mut over, _) = receiving(limited.clone());
        for (index, piece) in pieces.iter().enumerate() {
            let frame = if index == 0 {
                transfer(0, 0)
            } else {
                Transfer::default()
            };
            over.say_with(
                &Transfer {
                    more: true,
                    ..frame
                },
                &std::vec![0x61; *piece],
            );
        }
        assert_eq!(
            over.detach_condition().as_deref(),
            Some("amqp:link:message-size-exceeded")
        );
        for _ in 0..100 {
            over.say_with(
                &Transfer {
                    more: true,
                    ..Transfer::default()
                },
                &[0x61; 60_000],
            );
        }
        assert_eq!(over.conn.partial_bytes.used(), 0);
        assert!(over.payloads().is_empty());
        over.assert_alive();
    }

    let (mut unlimited, _) = receiving(Config {
        message_size_max: 0,
        ..config()
    });
    unlimited.say_with(&transfer(0, 0), &[0x61; 100_000]);
    assert_eq!(unlimited.payloads().len(), 1);
}

#[test]
fn tr_08_empty_frames_and_odd_tags() {
    let (mut peer, _) = receiving(config());
    for (index, piece) in [&b""[..], b"ab", b"", b"cd", b""].into_iter().enumerate() {
        peer.say_with(
            &Transfer {
                more: index < 4,
                ..transfer(0, 0)
            },
            piece,
        );
    }
    assert_eq!(peer.payloads(), [b"abcd".to_vec()]);
    peer.say_with(
        &Transfer {
            delivery_tag: DeliveryTag::new(b""),
            ..transfer(0, 1)
        },
        b"x",
    );
    peer.say_with(
        &Transfer {
            delivery_tag: DeliveryTag::new(&[7; 32]),
            ..transfer(0, 2)
        },
        b"x",
    );
    assert_eq!(peer.payloads().len(), 2);

    let (mut empty_tag, _) = receiving(config());
    empty_tag.feed("0000001902000000005314c006044343a00043005375a00178");
    assert_eq!(empty_tag.payloads().len(), 1);
    for (bytes, delivered) in [
        (
            "0000003a02000000005314c027044343a02174747474747474747474747474747474747474747474747474747474747474747443005375a00178",
            0,
        ),
        ("0000001802000000005314c0050443434043005375a00178", 0),
    ] {
        let (mut peer, _) = receiving(config());
        peer.feed(bytes);
        assert_eq!(
            peer.detach_condition().as_deref(),
            Some("amqp:invalid-field"),
            "{bytes}"
        );
        assert_eq!(peer.payloads().len(), delivered);
        peer.assert_alive();
    }
}

/// A first transfer without a delivery-id.
#[test]
fn delivery_id_is_needed_first() {
    let (mut peer, _) = receiving(config());
    peer.say_with(
        &Transfer {
            delivery_id: None,
            ..transfer(0, 0)
        },
        b"x",
    );
    assert_eq!(
        peer.detach_condition().as_deref(),
        Some("amqp:invalid-field")
    );
}

/// Ids rise on a session; one that does not ends it.
#[test]
fn delivery_ids_rise() {
    let (mut peer, _) = receiving(config());
    peer.say_with(&transfer(0, 5), b"x")
        .say_with(&transfer(0, 7), b"x");
    assert_eq!(peer.payloads().len(), 2, "gaps are no harm");
    peer.say_with(&transfer(0, 7), b"x");
    assert_eq!(peer.end_condition().as_deref(), Some("amqp:invalid-field"));
}

/// Bounds on unfinished deliveries: bytes of the connection, frames of the delivery.
#[test]
fn partial_deliveries_are_bounded() {
    let (mut peer, _) = receiving(Config {
        partial_bytes_max: 10_000,
        ..config()
    });
    for _ in 0..20 {
        peer.say_with(
            &Transfer {
                more: true,
                ..transfer(0, 0)
            },
            &[0x61; 501],
        );
    }
    assert_eq!(
        peer.detach_condition().as_deref(),
        Some("amqp:resource-limit-exceeded")
    );
    assert_eq!(peer.conn.partial_bytes.used(), 0);

    let (mut peer, _) = receiving(config());
    for frames in 1..=64 {
        peer.say_with(
            &Transfer {
                more: true,
                ..transfer(0, 0)
            },
            b"x",
        );
        assert_eq!(peer.detach_condition(), None, "{frames} frames");
    }
    peer.say_with(
        &Transfer {
            more: true,
            ..transfer(0, 0)
        },
        b"x",
    );
    assert_eq!(
        peer.detach_condition().as_deref(),
        Some("amqp:resource-limit-exceeded")
    );
}

/// The frames of a delivery are its base and one for each so many bytes, both of the embedder's choice.
#[test]
fn frames_for_a_delivery_follow_its_size() {
    let (mut peer, _) = receiving(Config {
        transfers_per_delivery_base: 3,
        transfers_per_delivery_bytes: 10,
        ..config()
    });
    let more = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    // 5 bytes each: 4 frames are 20 bytes and allow 5, 5 are 25 and allow 5, 6 are 30 and allow 6, 7 allow 6.
    for frames in 1..=6 {
        peer.say_with(&more, b"12345");
        assert_eq!(peer.detach_condition(), None, "{frames} frames");
    }
    peer.say_with(&more, b"12345");
    assert_eq!(
        peer.detach_condition().as_deref(),
        Some("amqp:resource-limit-exceeded")
    );
}

/// All connections of a node share a budget for what is unfinished; who would pass it loses the link and no more, and
/// whatever way a delivery ends, its bytes come back.
#[test]
fn unfinished_deliveries_of_a_node_share_a_budget() {
    let budget = crate::connection::SharedBudget::new(1_000);
    let node = || Config {
        partial_bytes_node: Some(budget.clone()),
        ..config()
    };
    let first = |id| Transfer {
        more: true,
        ..transfer(0, id)
    };
    let (mut a, link) = receiving(node());
    let (mut b, _) = receiving(node());
    a.say_with(&first(0), &[0x61; 600]);
    b.say_with(&first(0), &[0x61; 400]);
    assert_eq!(budget.used_bytes(), 1_000);
    b.say_with(&first(0), b"x");
    assert_eq!(
        b.detach_condition().as_deref(),
        Some("amqp:resource-limit-exceeded")
    );
    b.assert_alive();
    assert_eq!(budget.used_bytes(), 600, "what is given up is given back");

    // Finished, aborted, detached, cut off.
    a.say_with(&transfer(0, 0), b"end");
    assert_eq!(budget.used_bytes(), 0);
    a.say_with(&first(1), &[0x61; 1_000]);
    assert_eq!(budget.used_bytes(), 1_000);
    a.say(&Transfer {
        aborted: true,
        ..transfer(0, 1)
    });
    assert_eq!(budget.used_bytes(), 0);
    a.say_with(&first(2), &[0x61; 7]);
    a.conn.detach(link, false, None).expect("attached");
    assert_eq!(budget.used_bytes(), 0);
    let (mut c, _) = receiving(node());
    c.say_with(&first(0), &[0x61; 8]);
    assert_eq!(budget.used_bytes(), 8);
    drop(c);
    assert_eq!(budget.used_bytes(), 0);
}

/// Part 2, 2.6.13: a resumed delivery that we do not hold is ignored.
#[test]
fn resumed_deliveries_are_ignored() {
    let (mut peer, _) = receiving(config());
    peer.say_with(
        &Transfer {
            resume: true,
            more: true,
            ..transfer(0, 0)
        },
        b"x",
    );
    peer.say_with(&Transfer::default(), b"y");
    peer.say_with(&transfer(0, 1), b"z");
    assert_eq!(peer.payloads(), [b"z".to_vec()]);
}

/// A message larger than the peer's frame goes out in frames of that size, an aborted one ends with the mark.
#[test]
fn outgoing_abort() {
    let (mut peer, link) = Peer::attached(config(), super::RCV);
    peer.say(&crate::performative::Flow {
        incoming_window: 1,
        ..super::credit(1, 10)
    });
    peer.conn.frame_out_max = 512;
    peer.send(link, 1, &[0x61; 2_000]);
    peer.send(link, 2, b"x");
    assert_eq!(peer.transfers().len(), 1);
    assert_eq!(peer.conn.abort(link, 2), Ok(true));
    assert_eq!(peer.conn.abort(link, 1), Ok(true));
    assert_eq!(peer.conn.abort(link, 3), Ok(false));
    peer.say(&crate::performative::Flow {
        next_incoming_id: Some(1),
        incoming_window: 10,
        ..super::session_flow()
    });
    let transfers = peer.transfers();
    assert_eq!(transfers.len(), 1);
    match &transfers[0].body {
        Some(Performative::Transfer(transfer)) => {
            assert!(transfer.aborted && transfers[0].payload.is_empty())
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(peer.conn.unsent_bytes(), 0);
}

/// Attach, transfers and the end of the link in one read, before the embedder could answer: no credit was there to send
/// them (part 2, 2.6.7), nobody is told that they arrived, and nothing of them is kept. Without the end they are borne.
#[test]
fn deliveries_behind_an_attach_go_with_a_link_that_was_never_accepted() {
    const DETACH: &str = "0000001002000000005316c003024341";
    const END: &str = "0000000c0200000000531745";
    const CLOSE: &str = "0000000c0200000000531845";
    for (end, answer) in [(DETACH, 2), (END, 1), (CLOSE, 1)] {
        let mut peer = Peer::begun(config());
        peer.is_friendly = false;
        peer.feed(&[SND, super::XFER0, end].concat());
        let bodies = peer.bodies();
        assert_eq!(bodies.len(), answer, "{bodies:?}");
        if end == DETACH {
            let [Performative::Attach(attach), Performative::Detach(detach)] = &bodies[..] else {
                panic!("{bodies:?}");
            };
            assert!(attach.target.is_none() && detach.closed && detach.error.is_none());
            peer.assert_alive();
        }
        let events = peer.take_events();
        assert!(
            matches!(
                events[..2],
                [Event::Attached { .. }, Event::LinkClosed { .. }]
            ),
            "{events:?}"
        );
        assert!(peer.payloads().is_empty());
        assert_eq!(peer.conn.partial_bytes.used(), 0);
    }
    let mut peer = Peer::begun(config());
    peer.feed(&[SND, super::XFER0].concat());
    assert_eq!(peer.payloads().len(), 1);
}
