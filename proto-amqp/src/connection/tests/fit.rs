//! Part 2, 2.7.1: no frame is larger than what the peer takes. The peer here takes 512 bytes, the least that is legal.

use std::string::String;
use std::vec::Vec;

use bytes::Bytes;

use super::{Got, Peer, SND, XFER0, config, frame, reply, source, target, transfer};
use crate::condition;
use crate::connection::write::put_frame;
use crate::connection::{
    Config, Connection, Event, IncomingId, LinkId, LinkReply, NewLink, Side, UsageError,
};
use crate::performative::{
    AmqpError, Attach, DeliveryState, Modified, Open, Performative, RcvSettleMode, Role,
    SndSettleMode, Source, TargetKind,
};
use crate::types::{Map, Str, Symbol, Value};

const SIZE_MAX: usize = 512;

/// What a peer of 512-byte frames says first.
fn open() -> Open {
    Open {
        container_id: Str::from_static("c1"),
        max_frame_size: 512,
        ..Open::default()
    }
}

fn begun(config: Config) -> Peer {
    let mut peer = Peer::new(config);
    peer.feed(super::HDR).say(&open()).feed(super::BEGIN);
    peer.skip_header();
    within(peer.frames());
    peer.take_events();
    peer
}

/// The frames' bodies; each frame is small enough, and, where one was to be cut, not much smaller than needed.
fn within(frames: Vec<Got>) -> Vec<Performative> {
    for got in &frames {
        assert!(got.size <= SIZE_MAX, "{} bytes: {:?}", got.size, got.body);
    }
    frames.into_iter().filter_map(|got| got.body).collect()
}

fn long(len: usize) -> Str {
    Str::from("x".repeat(len).as_str())
}

fn pairs(count: usize, value_len: usize) -> Map {
    let pair = |n| {
        let key = Symbol::new(&std::format!("key-{n:04}")).expect("ascii");
        (Value::Symbol(key), Value::Str(long(value_len)))
    };
    (0..count).map(pair).collect()
}

fn error(description: &str, info: Option<Map>) -> AmqpError {
    AmqpError {
        condition: condition::NOT_FOUND,
        description: Some(Str::from(description)),
        info,
    }
}

/// The error of a frame that must be there.
fn error_of(bodies: Vec<Performative>) -> AmqpError {
    let found = bodies.into_iter().find_map(|body| match body {
        Performative::Detach(detach) => detach.error,
        Performative::End(end) => end.error,
        Performative::Close(close) => close.error,
        Performative::Disposition(disposition) => match disposition.state {
            Some(DeliveryState::Rejected(error)) => error,
            _ => None,
        },
        _ => None,
    });
    *found.expect("an error")
}

/// Each of the four frames that carry an error.
fn say_error(which: usize, error: AmqpError) -> AmqpError {
    let mut peer = begun(config());
    peer.is_friendly = which != 3;
    peer.feed(SND);
    let events = peer.take_events();
    let Some(Event::Attached { link, session, .. }) = events.into_iter().next() else {
        panic!("an attach came");
    };
    match which {
        0 => peer.conn.close(Some(error)),
        1 => peer.conn.end(session, Some(error)).expect("begun"),
        2 => peer.conn.detach(link, true, Some(error)).expect("attached"),
        3 => peer.conn.refuse_link(link, error).expect("waiting"),
        _ => {
            peer.conn.grant(link, 1).expect("attached");
            peer.feed(XFER0);
            let state = DeliveryState::Rejected(Some(error.into()));
            let delivery = IncomingId { session, id: 0 };
            peer.conn.settle(delivery, state, true).expect("unsettled");
        }
    }
    error_of(within(peer.frames()))
}

#[test]
fn descriptions_are_cut_between_characters_and_details_stay_while_there_is_room() {
    // Three bytes each, so that a cut in the middle shows; an offset of up to two bytes hits every position.
    for which in 0..5 {
        for offset in 0..3 {
            let text = "x".repeat(offset) + &"\u{20ac}".repeat(1_000);
            let said = say_error(which, error(&text, Some(pairs(1, 10))));
            assert_eq!(said.condition, condition::NOT_FOUND);
            let description = said.description.expect("a description");
            assert!(text.starts_with(description.as_str()));
            assert!(description.as_bytes().len() > 350, "{which}: cut too short");
            assert_eq!(said.info, Some(pairs(1, 10)));
        }
    }
}

#[test]
fn details_that_leave_no_room_for_words_are_dropped() {
    for which in 0..5 {
        let said = say_error(which, error("short", Some(pairs(20, 20))));
        assert_eq!(said.condition, condition::NOT_FOUND);
        assert_eq!(said.description, Some(Str::from_static("short")));
        assert_eq!(said.info, None);
    }
}

#[test]
fn a_condition_that_fits_nowhere_becomes_an_internal_error() {
    for which in 0..5 {
        let huge = AmqpError {
            condition: Symbol::new(&"x".repeat(600)).expect("ascii"),
            ..error("what happened", None)
        };
        let said = say_error(which, huge);
        assert_eq!(said.condition, condition::INTERNAL_ERROR);
        assert_eq!(said.description, Some(Str::from_static("what happened")));
    }
}

/// What is as large as the peer takes goes out whole: one byte more and something goes.
#[test]
fn the_limit_is_exact() {
    let fits = |len| {
        say_error(0, error(long(len).as_str(), Some(pairs(1, 1))))
            .description
            .is_some_and(|said| said.as_bytes().len() == len)
    };
    let largest = (300..600).filter(|len| fits(*len)).max().expect("some fit");
    let mut peer = begun(config());
    let text = long(largest);
    peer.conn
        .close(Some(error(text.as_str(), Some(pairs(1, 1)))));
    let close = peer.frames().into_iter().next_back().expect("a close");
    assert_eq!(close.size, SIZE_MAX);
}

/// Annotations of a modified outcome go; the outcome stays. A state of some extension cannot be shortened.
#[test]
fn states_shrink_or_are_refused_before_anything_changes() {
    let mut peer = begun(config());
    let link = peer.attach(SND);
    peer.conn.grant(link, 9).expect("attached");
    let mut deliveries = Vec::new();
    for id in 0..3 {
        peer.say_with(&transfer(0, id), b"\x00\x53\x75\xa0\x01x");
        let events = peer.take_events();
        deliveries.extend(events.iter().find_map(|event| match event {
            Event::Delivery { delivery, .. } => Some(*delivery),
            _ => None,
        }));
    }
    let modified = DeliveryState::Modified(
        Modified {
            delivery_failed: true,
            undeliverable_here: true,
            message_annotations: Some(pairs(9, 90)),
        }
        .into(),
    );
    let transactional = |outcome| DeliveryState::Transactional {
        txn_id: Bytes::from_static(b"txn"),
        outcome: Some(std::boxed::Box::new(outcome)),
    };
    let states = [modified.clone(), transactional(modified)];
    for (delivery, state) in deliveries.iter().zip(states) {
        peer.conn.settle(*delivery, state, true).expect("shrinks");
    }
    let declared = DeliveryState::Declared {
        txn_id: Bytes::from(std::vec![0; 600]),
    };
    assert_eq!(
        peer.conn.settle(deliveries[2], declared, true),
        Err(UsageError::TooLarge)
    );
    peer.conn
        .settle(deliveries[2], DeliveryState::Accepted, true)
        .expect("nothing changed before");
    let bare = DeliveryState::Modified(
        Modified {
            delivery_failed: true,
            undeliverable_here: true,
            message_annotations: None,
        }
        .into(),
    );
    let said: Vec<_> = within(peer.frames())
        .into_iter()
        .filter_map(|body| match body {
            Performative::Disposition(disposition) => disposition.state,
            _ => None,
        })
        .collect();
    let wanted = [bare.clone(), transactional(bare), DeliveryState::Accepted];
    assert_eq!(said, wanted);
}

/// The peer attaches, the reply is ours. Returns what we answered, and the link.
fn answered(peer: &mut Peer, reply: LinkReply) -> (Vec<Performative>, LinkId) {
    peer.is_friendly = false;
    peer.feed(SND);
    let events = peer.take_events();
    let Some(Event::Attached { link, .. }) = events.into_iter().next() else {
        panic!("an attach came");
    };
    peer.conn.accept_link(link, reply).expect("waiting");
    (within(peer.frames()), link)
}

fn full_reply() -> LinkReply {
    LinkReply {
        source: Some(source("q1")),
        target: Some(target("q1")),
        ..LinkReply::default()
    }
}

#[test]
fn an_attach_drops_properties_then_capabilities_then_what_the_peer_knows_itself() {
    let capability = Symbol::from_static("some-capability");
    let reply = LinkReply {
        offered_capabilities: std::vec![capability.clone()],
        properties: Some(pairs(9, 90)),
        ..full_reply()
    };
    let (bodies, _) = answered(&mut begun(config()), reply.clone());
    let [Performative::Attach(attach)] = &bodies[..] else {
        panic!("{bodies:?}");
    };
    assert_eq!(attach.properties, None);
    assert_eq!(
        attach.offered_capabilities,
        core::slice::from_ref(&capability)
    );

    let many = LinkReply {
        offered_capabilities: std::vec![capability; 50],
        ..full_reply()
    };
    let (bodies, _) = answered(&mut begun(config()), many);
    let [Performative::Attach(attach)] = &bodies[..] else {
        panic!("{bodies:?}");
    };
    assert!(attach.offered_capabilities.is_empty());

    // The peer sends: the source is its own, the target is ours to state.
    let wordy = LinkReply {
        source: Some(Source {
            address: Some(Value::Str(long(600))),
            ..Source::default()
        }),
        ..full_reply()
    };
    let (bodies, _) = answered(&mut begun(config()), wordy);
    let [Performative::Attach(attach)] = &bodies[..] else {
        panic!("{bodies:?}");
    };
    assert_eq!(attach.source, Some(Source::default()));
    assert_eq!(attach.target, Some(target("q1")));
}

/// Part 2, 2.7.3: the map is cut at a whole entry and marked; a map that fits is not (2.7.3-h).
#[test]
fn an_unsettled_map_is_cut_and_marked_as_incomplete() {
    for (count, is_whole) in [(3, true), (200, false)] {
        let unsettled = pairs(count, 20);
        let reply = LinkReply {
            unsettled: Some(unsettled.clone()),
            ..full_reply()
        };
        let (bodies, _) = answered(&mut begun(config()), reply);
        let [Performative::Attach(attach)] = &bodies[..] else {
            panic!("{bodies:?}");
        };
        assert_eq!(attach.incomplete_unsettled, !is_whole);
        let said = attach.unsettled.clone().expect("a map");
        assert_eq!(said, unsettled[..said.len()]);
        assert_eq!(said.len() == count, is_whole);
        assert!(said.len() >= 3, "cut too short: {}", said.len());
    }
}

/// Part 2, 2.8.15: amqp:frame-size-too-small. The session goes on.
#[test]
fn an_answer_that_cannot_shrink_refuses_the_link() {
    let mut peer = begun(config());
    let reply = LinkReply {
        target: Some(match target("q1") {
            TargetKind::Target(mut target) => {
                target.address = Some(Value::Str(long(600)));
                TargetKind::Target(target)
            }
            other => other,
        }),
        ..full_reply()
    };
    let (bodies, link) = answered(&mut peer, reply);
    let [Performative::Attach(attach), Performative::Detach(detach)] = &bodies[..] else {
        panic!("{bodies:?}");
    };
    assert!(attach.source.is_none() && attach.target.is_none());
    assert!(detach.closed);
    let said = detach.error.as_ref().expect("an error");
    assert_eq!(said.condition, condition::FRAME_SIZE_TOO_SMALL);
    assert!(
        matches!(&peer.take_events()[..], [Event::LinkClosed { link: over, .. }] if *over == link)
    );
    peer.assert_alive();
}

/// A name that cannot even be repeated in a refusal: the smallest scope that can be told is the session.
#[test]
fn a_link_name_that_fits_into_no_answer_ends_the_session() {
    let attach = |len| Attach {
        name: long(len),
        role: Role::Sender,
        source: Some(source("q1")),
        target: Some(target("q1")),
        ..Attach::default()
    };
    let mut peer = begun(config());
    peer.is_friendly = false;
    peer.feed_bytes(&frame(&attach(448), b""));
    let events = peer.take_events();
    let Some(Event::Attached { link, .. }) = events.into_iter().next() else {
        panic!("448 bytes can be repeated");
    };
    peer.conn
        .refuse_link(link, error(long(900).as_str(), None))
        .expect("waiting");
    assert_eq!(within(peer.frames()).len(), 2);

    let mut peer = begun(config());
    peer.feed_bytes(&frame(&attach(449), b""));
    assert_eq!(
        peer.end_condition().as_deref(),
        Some(condition::FRAME_SIZE_TOO_SMALL.as_str())
    );
}

/// Our own attach: the embedder hears that it does not fit, and nothing changed.
#[test]
fn an_attach_of_ours_that_does_not_fit_is_refused_at_once() {
    let mut peer = begun(config());
    let session = peer.conn.begin().expect("a channel is free");
    let mut answer = bytes::BytesMut::new();
    let begin = crate::performative::Begin {
        remote_channel: Some(1),
        incoming_window: 10,
        outgoing_window: 10,
        ..Default::default()
    };
    put_frame(&mut answer, 0, 1, &begin);
    peer.feed_bytes(&answer);
    let new = |name| NewLink {
        name,
        is_sender: true,
        source: Some(source("q1")),
        target: Some(target("q1")),
        snd_settle_mode: SndSettleMode::Mixed,
        rcv_settle_mode: RcvSettleMode::First,
        max_message_size: None,
        unsettled: None,
        properties: Some(pairs(9, 90)),
    };
    assert_eq!(
        peer.conn.attach(session, new(long(600))),
        Err(UsageError::TooLarge)
    );
    peer.conn
        .attach(session, new(long(100)))
        .expect("without properties it fits");
    let bodies = within(peer.frames());
    let names: Vec<_> = bodies
        .iter()
        .filter_map(|body| match body {
            Performative::Attach(attach) => Some((attach.handle, attach.name.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(names, [(0, long(100))], "the handle was not lost");
}

/// Part 2, 2.7.1: until the peer's open is there a frame has 512 bytes at most, so a client's open has.
#[test]
fn an_open_before_the_peers_stays_within_512_bytes() {
    let full = Config {
        container_id: Str::from_static("c1"),
        hostname: Some(Str::from_static("host")),
        properties: Some(pairs(9, 90)),
        ..config()
    };
    let wordy = Config {
        container_id: Str::from(("\u{20ac}".repeat(300) + "x").as_str()),
        hostname: Some(long(300)),
        offered_capabilities: std::vec![Symbol::from_static("some-capability"); 50],
        ..config()
    };
    let mut opens = Vec::new();
    for config in [full, wordy] {
        let mut client = Connection::new(Side::Client, config, std::time::Duration::ZERO);
        client.open();
        let mut out = std::collections::VecDeque::new();
        client.poll_transmit(std::time::Duration::ZERO, &mut out, usize::MAX);
        let bytes: Vec<u8> = out.iter().flatten().copied().collect();
        let [Performative::Open(open)] = &within(super::frames_of(&bytes[8..]))[..] else {
            panic!("an open");
        };
        opens.push(open.clone());
    }
    assert_eq!(opens[0].properties, None);
    assert_eq!(opens[0].hostname, Some(Str::from_static("host")));
    let cut: String = "\u{20ac}".repeat(140);
    assert!(opens[1].container_id.as_str().starts_with(&cut));
    assert_eq!(opens[1].hostname, None);
}

/// Any reply and any error, seeded: nothing is ever above the limit, and nothing panics.
#[test]
fn whatever_is_said_stays_within_the_limit() {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut roll = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    for _ in 0..300 {
        let mut peer = begun(config());
        peer.is_friendly = false;
        let name = long(1 + roll(448));
        peer.say(&Attach {
            name: name.clone(),
            role: if roll(2) == 0 {
                Role::Sender
            } else {
                Role::Receiver
            },
            source: Some(source("q1")),
            target: Some(target("q1")),
            ..Attach::default()
        });
        let events = peer.take_events();
        let Some(Event::Attached { link, attach, .. }) = events.into_iter().next() else {
            panic!("an attach came");
        };
        let answer = LinkReply {
            unsettled: (roll(2) == 0).then(|| pairs(roll(30), roll(60))),
            properties: (roll(2) == 0).then(|| pairs(roll(10), roll(60))),
            offered_capabilities: std::vec![Symbol::from_static("capability"); roll(60)],
            source: Some(Source {
                address: Some(Value::Str(long(roll(400)))),
                ..Source::default()
            }),
            ..reply(&attach)
        };
        peer.conn.accept_link(link, answer).expect("waiting");
        let text = "\u{e9}".repeat(roll(600));
        let told = error(&text, (roll(2) == 0).then(|| pairs(roll(12), roll(60))));
        // Gone when the answer did not fit.
        let _ = peer.conn.detach(link, true, Some(told));
        assert!(within(peer.frames()).len() >= 2);
    }
}
