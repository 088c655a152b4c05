//! End, close and loss: TD-01 to TD-06.

use std::time::Duration;
use std::vec::Vec;

use super::{BEGIN, Peer, RCV, SND, XFER0, config, credit, transfer};
use crate::connection::{Event, UsageError};
use crate::performative::{Performative, Transfer};

const END: &str = "0000000c0200000000531745";
const CLOSE: &str = "0000000c0200000000531845";

/// Part 2, 2.4.3: close is the last frame.
#[test]
fn td_01_end_and_close() {
    let (mut peer, _) = Peer::attached(config(), SND);
    peer.attach(RCV);
    peer.feed(&[END, CLOSE].concat());
    assert!(matches!(
        peer.bodies()[..],
        [Performative::End(_), Performative::Close(_)]
    ));
    assert!(peer.conn.is_done());
    let events = peer.take_events();
    assert!(
        matches!(
            events[..],
            [
                Event::LinkClosed { .. },
                Event::LinkClosed { .. },
                Event::SessionEnded { .. },
                Event::Closed { error: None }
            ]
        ),
        "{events:?}"
    );
    peer.feed(BEGIN);
    assert!(peer.raw().is_empty());
}

/// RabbitMQ's client for Erlang ends its sessions with an error that names no condition. The session ends, no more.
#[test]
fn an_end_whose_error_names_no_condition_ends_the_session() {
    // end(error(null)), and end(error()) as an empty list.
    for end in [
        "0000001502000000005317c0080100531dc0020140",
        "0000001202000000005317c0050100531d45",
    ] {
        let (mut peer, _) = Peer::attached(config(), SND);
        peer.feed(end);
        assert!(matches!(peer.bodies()[..], [Performative::End(_)]), "{end}");
        let events = peer.take_events();
        assert!(
            matches!(
                events[..],
                [
                    Event::LinkClosed { .. },
                    Event::SessionEnded { error: None, .. }
                ]
            ),
            "{events:?}"
        );
        peer.feed(BEGIN);
        assert!(matches!(peer.bodies()[..], [Performative::Begin(_)]));
    }
    // Everywhere else the condition stays mandatory: a detach and a close.
    for frame in [
        "0000001402000000005316c00703434100531d45",
        "0000001202000000005318c0050100531d45",
    ] {
        let (mut peer, _) = Peer::attached(config(), SND);
        peer.feed(frame);
        assert_eq!(
            peer.close_condition().as_deref(),
            Some("amqp:invalid-field")
        );
    }
}

/// Close without end: everything goes with it.
#[test]
fn close_alone() {
    let (mut peer, _) = Peer::attached(config(), SND);
    peer.feed(CLOSE);
    assert!(matches!(peer.bodies()[..], [Performative::Close(_)]));
    let events = peer.take_events();
    assert!(
        matches!(
            events[..],
            [
                Event::LinkClosed { .. },
                Event::SessionEnded { .. },
                Event::Closed { .. }
            ]
        ),
        "{events:?}"
    );
}

/// Part 2, 2.5.5: after our end with an error all is discarded until the peer's end; then the channel is free.
#[test]
fn td_02_discarding() {
    let (mut peer, link) = Peer::attached(config(), SND);
    peer.conn.grant(link, 100).expect("receiver");
    peer.frames();
    let mut burst = super::hex("0000001f02000000005314c00804520943a0010043005375a00568656c6c6f");
    for id in 1..=50 {
        burst.extend_from_slice(&super::frame(&transfer(0, id), b"x"));
        burst.extend_from_slice(&super::frame(&credit(7, 1), b""));
    }
    burst.extend_from_slice(&super::hex(RCV));
    peer.feed_bytes(&burst);
    assert!(
        matches!(peer.bodies()[..], [Performative::End(_)]),
        "one end, nothing else"
    );
    let events = peer.take_events();
    assert!(
        matches!(
            events[..],
            [
                Event::LinkClosed { .. },
                Event::SessionEnded { error: Some(_), .. }
            ]
        ),
        "{events:?}"
    );
    peer.feed(END);
    assert!(peer.bodies().is_empty() && peer.take_events().is_empty());
    peer.feed(BEGIN);
    assert!(matches!(peer.bodies()[..], [Performative::Begin(_)]));
}

/// What was unsettled or unsent comes back once, oldest first; partial deliveries are gone.
#[test]
fn td_03_session_with_everything_in_flight() {
    let (mut peer, first) = Peer::attached(config(), RCV);
    let second =
        peer.attach("0000002502000000005312c01807a10272325202414040005328c00501a102713100532945");
    let sender = peer.attach(SND);
    peer.conn.grant(sender, 10).expect("receiver");
    peer.say(&credit(1, 100)).say(&credit(2, 100));
    for token in 0..30 {
        peer.send(if token % 3 == 0 { second } else { first }, token, b"x");
    }
    peer.say(&crate::performative::Flow {
        incoming_window: 30,
        ..super::session_flow()
    });
    (30..35).for_each(|token| peer.send(first, token, b"x"));
    peer.say_with(
        &Transfer {
            more: true,
            ..transfer(0, 0)
        },
        b"half",
    );
    peer.take_events();
    peer.frames();
    peer.feed(END);
    assert!(matches!(peer.bodies()[..], [Performative::End(_)]));
    let mut tokens = Vec::new();
    for event in peer.take_events() {
        if let Event::LinkClosed {
            link, unsettled, ..
        } = event
        {
            assert!(unsettled.is_sorted());
            assert!(link != sender || unsettled.is_empty());
            tokens.extend(unsettled);
        }
    }
    tokens.sort_unstable();
    assert_eq!(tokens, (0..35).collect::<Vec<_>>());
    let conn = &peer.conn;
    assert_eq!(
        (
            conn.partial_bytes.used(),
            conn.queued_bytes,
            conn.links.len(),
            conn.sessions.len()
        ),
        (0, 0, 0, 0)
    );
}

/// The same by loss of the socket.
#[test]
fn loss() {
    let (mut peer, link) = Peer::attached(config(), RCV);
    peer.say(&credit(1, 10));
    peer.send(link, 5, b"x");
    peer.take_events();
    peer.eof();
    match &peer.take_events()[..] {
        [
            Event::LinkClosed { unsettled, .. },
            Event::SessionEnded { .. },
            Event::Closed { error: None },
        ] => {
            assert_eq!(unsettled, &[5]);
        }
        other => panic!("{other:?}"),
    }
    peer.frames();
    assert!(peer.conn.is_done());
    assert_eq!(peer.conn.poll_timeout(), None);
}

/// Some clients detach their links after they ended the session.
#[test]
fn late_frames_on_an_ended_channel_are_ignored() {
    let (mut peer, _) = Peer::attached(config(), SND);
    peer.feed(END);
    peer.frames();
    peer.feed("0000001002000000005316c003024341")
        .feed(XFER0)
        .feed(END);
    assert!(peer.bodies().is_empty());
    peer.feed(BEGIN);
    assert!(matches!(peer.bodies()[..], [Performative::Begin(_)]));
}

/// Our close: the last frame, and the peer's close ends the wait; without it time does.
#[test]
fn close_by_us() {
    for is_answered in [true, false] {
        let (mut peer, link) = Peer::attached(config(), RCV);
        peer.say(&credit(1, 10));
        peer.send(link, 5, b"x");
        peer.conn.close(None);
        let bodies = peer.bodies();
        assert!(
            matches!(
                bodies[..],
                [Performative::Transfer(_), Performative::Close(_)]
            ),
            "{bodies:?}"
        );
        assert!(!peer.conn.is_done());
        assert_eq!(
            peer.conn
                .send(link, super::delivery(6, &bytes::Bytes::new())),
            Err(UsageError::UnknownLink)
        );
        if is_answered {
            peer.feed(XFER0).feed(CLOSE);
        } else {
            peer.pass(std::time::Duration::from_secs(5));
        }
        assert!(peer.conn.is_done());
        let closed = peer
            .take_events()
            .iter()
            .filter(|event| matches!(event, Event::Closed { .. }))
            .count();
        assert_eq!(closed, 1);
    }
}

#[test]
fn end_by_us() {
    let mut peer = Peer::begun(config());
    peer.feed("0000001a02000001005311c00d04404370000008007000000800");
    let events = peer.take_events();
    let [Event::SessionBegun(session)] = events[..] else {
        panic!("{events:?}")
    };
    peer.frames();
    peer.conn.end(session, None).expect("begun");
    assert_eq!(
        peer.conn.end(session, None),
        Err(UsageError::UnknownSession)
    );
    let frames = peer.frames();
    assert!(matches!(frames[0].body, Some(Performative::End(_))) && frames[0].channel == 1);
    assert!(matches!(
        peer.take_events()[..],
        [Event::SessionEnded { .. }]
    ));
    peer.assert_alive();
}

/// A command names no moment: what the peer is told must not be thrown away because it was silent for long.
#[test]
fn a_close_after_a_long_silence_is_told() {
    let mut peer = Peer::begun(config());
    peer.now += Duration::from_secs(20);
    peer.conn.close(None);
    // What a driver does first when it is woken by the command: deadlines that seem past.
    if peer.conn.poll_timeout().is_some_and(|at| at <= peer.now) {
        peer.conn.handle_timeout(peer.now);
    }
    assert!(!peer.conn.is_done(), "nobody was told");
    peer.feed_bytes(&[]);
    let frames = peer.frames();
    let last = frames.last().expect("a frame");
    assert!(
        matches!(last.body, Some(Performative::Close(_))),
        "{last:?}"
    );
    peer.pass(Duration::from_secs(3));
    assert!(peer.conn.is_done(), "the lingering ends");
}
