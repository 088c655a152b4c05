//! Link credit, drain, echo: LF-01 to LF-09.

use bytes::Bytes;

use super::{CREDIT10, Peer, RCV, SND, config, credit, delivery, session_flow, transfer};
use crate::connection::{Config, Event, UsageError};
use crate::performative::{Flow, Performative};

fn receiver() -> (Peer, crate::connection::LinkId) {
    Peer::attached(config(), RCV)
}

fn seen(peer: &mut Peer) -> std::vec::Vec<(u32, bool)> {
    let flow = |event| {
        if let Event::Flow { credit, drain, .. } = event {
            Some((credit, drain))
        } else {
            None
        }
    };
    peer.take_events().into_iter().filter_map(flow).collect()
}

/// Part 2, 2.6.7: credit is 0 until granted.
#[test]
fn lf_01_nothing_goes_without_credit() {
    let (mut peer, link) = receiver();
    let payload = Bytes::from_static(b"x");
    assert_eq!(
        peer.conn.send(link, delivery(1, &payload)),
        Err(UsageError::NoCredit)
    );
    peer.say(&Flow {
        handle: Some(1),
        delivery_count: Some(0),
        ..session_flow()
    });
    assert_eq!(
        peer.conn.credit(link),
        0,
        "a flow without link-credit grants nothing"
    );
    assert_eq!(
        peer.conn.send(link, delivery(1, &payload)),
        Err(UsageError::NoCredit)
    );
    assert!(peer.transfers().is_empty());
    assert_eq!(peer.conn.unsent_bytes(), 0);
}

/// Deliveries never exceed delivery-count plus link-credit of the last flow, and the credit is used up to the last.
#[test]
fn lf_02_credit_is_exact() {
    let (mut peer, link) = receiver();
    let (mut sent, mut limit) = (0_u32, 0_u32);
    for round in 0..200_u32 {
        let granted = 1 + round * 7 % 20;
        let behind = sent.min(round % 4);
        peer.say(&Flow {
            handle: Some(1),
            delivery_count: Some(sent - behind),
            link_credit: Some(granted),
            ..session_flow()
        });
        limit = sent - behind + granted;
        let left = peer.conn.credit(link);
        assert_eq!(left, limit.saturating_sub(sent), "round {round}");
        for _ in 0..left {
            peer.send(link, u64::from(sent), b"x");
            sent += 1;
        }
        assert_eq!(peer.transfers().len(), left as usize);
        peer.say(&Flow {
            next_incoming_id: Some(sent),
            ..session_flow()
        });
    }
    assert!(sent > 500 && sent <= limit + 20);
}

/// Part 2, 2.6.7, 2.6.9: one flow answers a drain; the credit is gone with it.
#[test]
fn lf_04_drain_of_nothing() {
    let (mut peer, link) = receiver();
    peer.feed("0000002102000000005313c01409437000000800437000000800520143520a4041");
    assert_eq!(seen(&mut peer), [(10, true)]);
    peer.conn.drained(link).expect("sender");
    let flows = peer.flows();
    assert_eq!(flows.len(), 1);
    assert_eq!(
        (
            flows[0].delivery_count,
            flows[0].link_credit,
            flows[0].drain
        ),
        (Some(10), Some(0), true)
    );
    assert_eq!(peer.conn.credit(link), 0);
    peer.say(&Flow {
        handle: Some(1),
        delivery_count: Some(10),
        link_credit: Some(1),
        ..session_flow()
    });
    assert_eq!(seen(&mut peer), [(1, false)]);
    peer.send(link, 1, b"x");
    assert_eq!(peer.transfers().len(), 1);
}

/// A drain that comes with no credit out is answered too, for some clients wait for it.
#[test]
fn drain_without_credit_is_answered() {
    let (mut peer, link) = receiver();
    peer.say(&Flow {
        drain: true,
        ..credit(1, 0)
    });
    assert_eq!(seen(&mut peer), [(0, true)]);
    peer.conn.drained(link).expect("sender");
    assert_eq!(peer.flows().len(), 1);
}

/// A drain with echo gets one flow, not two.
#[test]
fn drain_with_echo_is_answered_once() {
    let (mut peer, link) = receiver();
    peer.say(&Flow {
        drain: true,
        echo: true,
        ..credit(1, 5)
    });
    assert!(
        peer.flows().is_empty(),
        "the answer is the embedder's to give"
    );
    peer.conn.drained(link).expect("sender");
    let flows = peer.flows();
    assert_eq!(flows.len(), 1);
    assert!(!flows[0].echo);
}

/// The flow that ends a drain comes behind the messages that it counts.
#[test]
fn lf_05_drain_waits_for_queued_messages() {
    let (mut peer, link) = receiver();
    peer.say(&Flow {
        incoming_window: 2,
        drain: true,
        ..credit(1, 7)
    });
    (0..4).for_each(|token| peer.send(link, token, b"x"));
    peer.conn.drained(link).expect("sender");
    let bodies = peer.bodies();
    assert_eq!(bodies.len(), 2, "window of two, no flow yet: {bodies:?}");
    peer.say(&Flow {
        next_incoming_id: Some(2),
        incoming_window: 100,
        ..session_flow()
    });
    let bodies = peer.bodies();
    match &bodies[..] {
        [
            Performative::Transfer(_),
            Performative::Transfer(_),
            Performative::Flow(flow),
        ] => {
            assert_eq!((flow.delivery_count, flow.link_credit), (Some(7), Some(0)));
        }
        other => panic!("{other:?}"),
    }
}

/// Credit that would be below zero is zero.
#[test]
fn lf_06_credit_is_taken_back() {
    let (mut peer, link) = receiver();
    peer.say(&Flow {
        incoming_window: 3,
        ..credit(1, 100)
    });
    (0..10).for_each(|token| peer.send(link, token, b"x"));
    assert_eq!(peer.transfers().len(), 3);
    peer.say(&Flow {
        next_incoming_id: Some(3),
        ..credit(1, 0)
    });
    assert_eq!(peer.conn.credit(link), 0);
    assert!(
        peer.transfers().is_empty(),
        "queued messages wait, though the window is open"
    );
    // Three came, credit counts from there: two more may go.
    peer.say(&Flow {
        next_incoming_id: Some(3),
        handle: Some(1),
        delivery_count: Some(3),
        link_credit: Some(2),
        ..session_flow()
    });
    assert_eq!(peer.transfers().len(), 2);
    assert_eq!(peer.conn.unsent(link), 5);
}

/// Part 2, 2.7.4: one flow per request, with echo=false; of the kind that was asked for.
#[test]
fn lf_07_echo() {
    let (mut peer, _) = receiver();
    peer.feed("0000002002000000005313c0130a437000000800437000000800404040404041");
    let flows = peer.flows();
    assert_eq!(flows.len(), 1);
    assert_eq!((flows[0].handle, flows[0].echo), (None, false));

    peer.feed("0000002202000000005313c0150a4370000008004370000008005201435201404041");
    let flows = peer.flows();
    assert_eq!(flows.len(), 1);
    assert_eq!((flows[0].handle, flows[0].echo), (Some(0), false));
    assert_eq!(
        (flows[0].delivery_count, flows[0].link_credit),
        (Some(0), Some(1))
    );
    assert!(flows[0].available.is_some());

    for _ in 0..100 {
        peer.say(&Flow {
            echo: true,
            ..credit(1, 1)
        });
        assert_eq!(peer.flows().len(), 1);
    }
    assert!(peer.flows().is_empty());
}

/// Two requests in one read are two answers.
#[test]
fn echoes_are_not_merged() {
    let (mut peer, _) = receiver();
    peer.feed(&"0000002002000000005313c0130a437000000800437000000800404040404041".repeat(3));
    assert_eq!(peer.flows().len(), 3);
}

/// Grants in a row are one flow with the latest numbers.
#[test]
fn lf_09_grants_are_coalesced() {
    let (mut peer, link) = Peer::attached(config(), SND);
    (1..=50).for_each(|credit| peer.conn.grant(link, credit).expect("receiver"));
    let flows = peer.flows();
    assert_eq!(flows.len(), 1);
    assert_eq!((flows[0].handle, flows[0].link_credit), (Some(0), Some(50)));
    (0..20).for_each(|id| _ = peer.say_with(&transfer(0, id), b"x"));
    peer.conn.grant(link, 50).expect("receiver");
    let flows = peer.flows();
    assert_eq!(
        (flows[0].delivery_count, flows[0].link_credit),
        (Some(20), Some(50))
    );
}

/// A sender's flow may carry a link-credit; it is ours to say.
#[test]
fn link_credit_of_a_sender_is_ignored() {
    let (mut peer, link) = Peer::attached(config(), SND);
    peer.conn.grant(link, 5).expect("receiver");
    peer.frames();
    peer.say(&Flow {
        echo: true,
        ..credit(0, 10_000)
    });
    assert_eq!(peer.flows()[0].link_credit, Some(5));
}

/// Part 2, 2.6.7: a receiver's delivery-count is the last one that the sender told. The answer to a drain may tell of
/// credit that was taken back meanwhile.
#[test]
fn the_senders_count_is_followed_beyond_the_credit() {
    let (mut peer, link) = Peer::attached(config(), SND);
    peer.conn.grant_drain(link, 4).expect("receiver");
    peer.frames();
    peer.conn.grant(link, 0).expect("receiver");
    peer.frames();
    peer.say(&Flow {
        delivery_count: Some(4),
        drain: true,
        ..credit(0, 0)
    });
    peer.conn.grant(link, 5).expect("receiver");
    let flows = peer.flows();
    let told = flows
        .last()
        .map(|flow| (flow.delivery_count, flow.link_credit));
    assert_eq!(told, Some((Some(4), Some(5))));
}

/// Some clients send before they hear of credit; a little of that is forgiven, the rest costs the link.
#[test]
fn transfer_limit_with_slack() {
    let (mut peer, link) = Peer::attached(
        Config {
            credit_slack: 3,
            ..config()
        },
        SND,
    );
    peer.conn.grant(link, 2).expect("receiver");
    peer.frames();
    (0..5).for_each(|id| _ = peer.say_with(&transfer(0, id), b"x"));
    assert_eq!(peer.payloads().len(), 5);
    assert_eq!(peer.detach_condition(), None);
    peer.say_with(&transfer(0, 5), b"x");
    assert_eq!(
        peer.detach_condition().as_deref(),
        Some("amqp:link:transfer-limit-exceeded")
    );
    assert!(matches!(
        peer.take_events()[..],
        [Event::LinkClosed {
            closed: true,
            error: Some(_),
            ..
        }]
    ));
    peer.assert_alive();
}

/// Serial arithmetic: a link whose delivery-count is about to wrap.
#[test]
fn credit_across_the_wrap() {
    let mut peer = Peer::begun(config());
    peer.is_friendly = false;
    let link = peer.attach(RCV);
    let first = 4_294_967_293;
    let reply = crate::connection::LinkReply {
        initial_delivery_count: Some(first),
        ..Default::default()
    };
    peer.conn.accept_link(link, reply).expect("waits");
    peer.frames();
    peer.say(&Flow {
        handle: Some(1),
        delivery_count: None,
        link_credit: Some(5),
        ..session_flow()
    });
    assert_eq!(peer.conn.credit(link), 5);
    (0..5).for_each(|token| peer.send(link, token, b"x"));
    peer.say(&Flow {
        handle: Some(1),
        delivery_count: Some(0),
        link_credit: Some(5),
        ..session_flow()
    });
    assert_eq!(peer.conn.credit(link), 3, "five sent, the peer saw three");
    assert_eq!(peer.transfers().len(), 5);
}

#[test]
fn available_is_told() {
    let (mut peer, link) = receiver();
    peer.conn.set_available(link, 42).expect("sender");
    peer.feed(CREDIT10);
    peer.say(&Flow {
        echo: true,
        ..credit(1, 10)
    });
    assert_eq!(peer.flows()[0].available, Some(42));
}
