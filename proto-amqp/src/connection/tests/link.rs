//! Link life cycle: LK-01 to LK-07, PE-05.

use std::vec::Vec;

use super::{Peer, RCV, SND, XFER0, config, credit};
use crate::connection::{Config, Event, UsageError};
use crate::performative::{Detach, Performative};

fn detaches(peer: &mut Peer) -> Vec<(u32, bool)> {
    let detach = |body| {
        if let Performative::Detach(it) = body {
            Some((it.handle, it.closed))
        } else {
            None
        }
    };
    peer.bodies().into_iter().filter_map(detach).collect()
}

fn error(text: &'static str) -> crate::performative::AmqpError {
    crate::performative::AmqpError {
        condition: crate::condition::NOT_FOUND,
        description: Some(crate::types::Str::from_static(text)),
        info: None,
    }
}

/// Part 2, 2.6.6: a closing detach is answered by a closing one.
#[test]
fn lk_01_closing_detach() {
    for (attach, detach) in [
        (SND, "0000001002000000005316c003024341"),
        (SND, "0000001102000000005316c00402435601"),
        (RCV, "0000001102000000005316c00402520141"),
    ] {
        let (mut peer, link) = Peer::attached(config(), attach);
        peer.feed(detach);
        assert_eq!(detaches(&mut peer), [(0, true)], "{detach}");
        match &peer.take_events()[..] {
            [
                Event::LinkClosed {
                    link: over,
                    closed: true,
                    error: None,
                    ..
                },
            ] => assert_eq!(*over, link),
            other => panic!("{other:?}"),
        }
        assert_eq!(peer.conn.grant(link, 1), Err(UsageError::UnknownLink));
    }
}

/// Part 2, 2.6.4: detach without close, then the same name and handle again.
#[test]
fn lk_02_detach_and_attach_again() {
    let (mut peer, link) = Peer::attached(config(), RCV);
    peer.say(&credit(1, 10));
    (0..3).for_each(|token| peer.send(link, token, b"x"));
    peer.take_events();
    peer.frames();
    peer.feed("0000001102000000005316c00402520142");
    assert_eq!(detaches(&mut peer), [(0, false)]);
    match &peer.take_events()[..] {
        [
            Event::LinkClosed {
                closed: false,
                unsettled,
                ..
            },
        ] => assert_eq!(unsettled, &[0, 1, 2]),
        other => panic!("{other:?}"),
    }
    let again = peer.attach(RCV);
    peer.say(&crate::performative::Flow {
        next_incoming_id: Some(3),
        ..credit(1, 10)
    });
    peer.send(again, 3, b"x");
    assert_eq!(peer.transfers().len(), 1);
}

/// Part 2, 2.6.1: the name is taken over, on the same session and on another.
#[test]
fn lk_03_stealing() {
    let (mut peer, old) = Peer::attached(config(), RCV);
    peer.say(&credit(1, 10));
    peer.send(old, 7, b"x");
    peer.take_events();
    peer.frames();
    peer.feed("0000002502000000005312c01807a10272315205414040005328c00501a102713100532945");
    let bodies = peer.bodies();
    match &bodies[..] {
        [Performative::Detach(detach), Performative::Attach(attach)] => {
            assert!(detach.closed);
            assert_eq!(
                super::condition(detach.error.as_deref()),
                "amqp:link:stolen"
            );
            assert_ne!(detach.handle, attach.handle);
        }
        other => panic!("{other:?}"),
    }
    match &peer.take_events()[..] {
        [
            Event::LinkClosed {
                link,
                unsettled,
                error: Some(_),
                ..
            },
            Event::Attached { link: new, .. },
        ] => {
            assert_eq!((*link, &unsettled[..]), (old, &[7][..]));
            assert_ne!(*new, old);
        }
        other => panic!("{other:?}"),
    }
    // From a second session; handle 1 there.
    peer.feed("0000001a02000001005311c00d04404370000008007000000800")
        .feed("0000002502000001005312c01807a10272315201414040005328c00501a102713100532945");
    assert_eq!(peer.detach_condition().as_deref(), Some("amqp:link:stolen"));
}

/// Links are named per direction: some clients use one name for both.
#[test]
fn names_are_per_direction() {
    let (mut peer, _) = Peer::attached(config(), SND);
    peer.feed("0000002502000000005312c01807a10273315201414040005328c00501a102713100532945");
    assert!(matches!(peer.bodies()[..], [Performative::Attach(_)]));
}

/// Part 2, 2.6.3: attach without terminus, then a closing detach; the session is not touched.
#[test]
fn lk_06_refusals_stay_at_the_link() {
    let (mut peer, good) = Peer::attached(config(), RCV);
    peer.is_friendly = false;
    for attach in [
        "0000002702000000005312c01a07a10272325202414040005328c00701a1046e6f706500532945",
        "0000002a02000000005312c01d0aa1027332520342404000532845005329c00701a1046e6f7065404043",
    ] {
        peer.feed(attach);
        let events = peer.take_events();
        let [Event::Attached { link, .. }] = &events[..] else {
            panic!("{events:?}")
        };
        peer.conn
            .refuse_link(*link, error("no such queue"))
            .expect("waits");
        assert_eq!(
            peer.conn.refuse_link(*link, error("again")),
            Err(UsageError::UnknownLink)
        );
        match &peer.bodies()[..] {
            [Performative::Attach(attach), Performative::Detach(detach)] => {
                assert!(attach.source.is_none() && attach.target.is_none());
                assert_eq!((attach.handle, detach.closed), (detach.handle, true));
                assert_eq!(super::condition(detach.error.as_deref()), "amqp:not-found");
            }
            other => panic!("{other:?}"),
        }
        assert!(peer.take_events().is_empty(), "the embedder knows");
    }
    peer.say(&credit(1, 1));
    peer.send(good, 1, b"x");
    assert_eq!(peer.transfers().len(), 1);
}

/// PE-05: a receiver without a source is the embedder's to refuse; the session stays usable.
#[test]
fn pe_05_null_source() {
    let mut peer = Peer::begun(config());
    peer.is_friendly = false;
    peer.feed("0000001c02000000005312c00f07a102723152014140404000532945");
    let events = peer.take_events();
    let [Event::Attached { link, attach, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(attach.source.is_none());
    peer.conn
        .refuse_link(*link, error("no source"))
        .expect("waits");
    peer.frames();
    peer.is_friendly = true;
    peer.feed(SND);
    assert!(matches!(peer.bodies()[..], [Performative::Attach(_)]));
}

/// Attach and detach 1,000 times in one write: answered in pairs, nothing leaks, the handle is free.
#[test]
fn lk_07_churn() {
    let mut peer = Peer::begun(config());
    let round = [SND, "0000001002000000005316c003024341"].concat();
    peer.feed(&round.repeat(1_000));
    let bodies = peer.bodies();
    assert_eq!(bodies.len(), 2_000);
    for pair in bodies.chunks(2) {
        assert!(matches!(
            pair,
            [
                Performative::Attach(_),
                Performative::Detach(Detach { handle: 0, .. })
            ]
        ));
    }
    peer.take_events();
    let link = peer.attach(SND);
    peer.conn.grant(link, 1).expect("receiver");
    peer.feed(XFER0);
    assert_eq!(peer.payloads().len(), 1);
    assert_eq!(peer.conn.links.len(), 1);
}

/// The peer's detach crosses ours; both handles are free after that.
#[test]
fn detach_by_us() {
    let (mut peer, link) = Peer::attached(config(), SND);
    peer.conn
        .detach(link, true, Some(error("deleted")))
        .expect("attached");
    assert_eq!(peer.detach_condition().as_deref(), Some("amqp:not-found"));
    assert_eq!(
        peer.conn.detach(link, true, None),
        Err(UsageError::UnknownLink)
    );
    match &peer.poll_all()[..] {
        [
            Event::LinkClosed {
                closed: true,
                error: Some(_),
                ..
            },
        ] => {}
        other => panic!("{other:?}"),
    }
    // In flight: ignored. Then the handle is in use until the peer detaches.
    peer.feed(XFER0);
    assert!(peer.poll_all().is_empty());
    peer.feed("0000001002000000005316c003024341");
    assert!(peer.bodies().is_empty());
    peer.feed(SND);
    assert!(matches!(peer.bodies()[..], [Performative::Attach(_)]));
}

/// fe2o3-amqp answers the detach that follows a refusal twice. Once is forgiven, and only where we detached first.
#[test]
fn a_second_answer_to_our_detach_is_forgiven_once() {
    const DETACH: &str = "0000001002000000005316c003024341";
    let refused = || {
        let mut peer = Peer::begun(config());
        peer.is_friendly = false;
        peer.feed(SND);
        let link = match &peer.take_events()[..] {
            [Event::Attached { link, .. }] => *link,
            other => panic!("{other:?}"),
        };
        peer.conn.refuse_link(link, error("no")).expect("waiting");
        peer.feed(&[DETACH, DETACH].concat());
        assert_eq!(peer.end_condition(), None);
        peer
    };
    let mut peer = refused();
    peer.is_friendly = true;
    peer.assert_alive();
    peer.attach(SND);
    let mut thrice = refused();
    thrice.feed(DETACH);
    assert_eq!(
        thrice.end_condition().as_deref(),
        Some("amqp:session:unattached-handle")
    );
    // A mark does not outlive the next link on the handle.
    let mut peer = refused();
    peer.is_friendly = true;
    peer.attach(SND);
    peer.feed(&[DETACH, DETACH].concat());
    assert_eq!(
        peer.end_condition().as_deref(),
        Some("amqp:session:unattached-handle")
    );
}

/// Part 2, 2.8.17: a handle that is taken, one that is not attached, one out of range.
#[test]
fn handles() {
    let (mut in_use, _) = Peer::attached(config(), SND);
    in_use.feed("0000002502000000005312c01807a10272315200414040005328c00501a102713100532945");
    assert_eq!(
        in_use.end_condition().as_deref(),
        Some("amqp:session:handle-in-use")
    );

    let mut unattached = Peer::begun(config());
    unattached.feed("0000001f02000000005314c00804520943a0010043005375a00568656c6c6f");
    assert_eq!(
        unattached.end_condition().as_deref(),
        Some("amqp:session:unattached-handle")
    );

    let mut above = Peer::begun(Config {
        handle_max: 0,
        ..config()
    });
    above.feed(RCV);
    assert_eq!(
        above.close_condition().as_deref(),
        Some("amqp:connection:framing-error")
    );
}

/// The peer pipelines its detach: the attach is answered all the same, the embedder hears of both.
#[test]
fn detach_before_the_answer() {
    let mut peer = Peer::begun(config());
    peer.is_friendly = false;
    peer.feed(SND);
    let events = peer.take_events();
    let [Event::Attached { link, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    peer.feed("0000001002000000005316c003024341");
    assert!(matches!(
        peer.bodies()[..],
        [Performative::Attach(_), Performative::Detach(_)]
    ));
    assert!(matches!(peer.take_events()[..], [Event::LinkClosed { .. }]));
    assert_eq!(
        peer.conn.accept_link(*link, super::LinkReply::default()),
        Err(UsageError::UnknownLink)
    );
}

/// Transfers pipelined behind the attach wait for the embedder's answer.
#[test]
fn early_transfers_are_held() {
    let mut peer = Peer::begun(config());
    peer.is_friendly = false;
    peer.feed(&[SND, XFER0].concat());
    let events = peer.take_events();
    let [Event::Attached { link, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(peer.conn.partial_bytes.used() > 0);
    peer.conn
        .accept_link(*link, super::LinkReply::default())
        .expect("waits");
    peer.settle_down();
    assert_eq!(peer.payloads().len(), 1);
    assert_eq!(peer.conn.partial_bytes.used(), 0);
}

/// Links of a connection are bounded; above the bound each is refused for itself.
#[test]
fn too_many_links() {
    let (mut peer, _) = Peer::attached(
        Config {
            links_max: 1,
            ..config()
        },
        SND,
    );
    peer.feed(RCV);
    assert_eq!(
        peer.detach_condition().as_deref(),
        Some("amqp:resource-limit-exceeded")
    );
    peer.assert_alive();
}
