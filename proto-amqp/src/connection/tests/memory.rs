//! What an idle connection costs, and what may hold on to the buffer that input came in.

use std::boxed::Box;
use std::mem::size_of;
use std::vec::Vec;

use bytes::BytesMut;

use super::{HDR, Peer, RCV, SND, config, frame, hex, target, transfer};
use crate::condition;
use crate::connection::link::Link;
use crate::connection::session::{Channel, Session};
use crate::connection::{Config, Connection, Event, SessionId};
use crate::performative::{AmqpError, Attach, Begin, DeliveryState, Open, Source, Transfer};
use crate::types::{Map, Str, Symbol, Value};

/// One session, one link, headers and opens exchanged: below 3 KiB, counted from the sizes and capacities that are
/// there (the entry of a slab holds a generation and a tag beside its value).
#[test]
fn an_idle_connection_is_small() {
    let (mut peer, _) = Peer::attached(config(), RCV);
    peer.pass(std::time::Duration::from_secs(29));
    let conn = &peer.conn;
    let slab_entry = 16;
    let sessions = conn.sessions.capacity() * (size_of::<Session>() + slab_entry);
    let links = conn.links.capacity() * (size_of::<Link>() + slab_entry);
    let queues = conn.ready.capacity() * size_of::<SessionId>()
        + conn.channels.capacity() * size_of::<Channel>();
    // Names and the like: a few short strings, and two small vectors of handles.
    let rest = 400;
    let fixed = size_of::<Connection>() + size_of::<Config>() + size_of::<Open>();
    assert_eq!(conn.output.capacity(), 0, "no output buffer is kept");
    assert!(conn.events.capacity() <= 4);
    let events = conn.events.capacity() * size_of::<crate::connection::Event>();
    let total = fixed + sessions + links + queues + events + rest;
    std::println!(
        "fixed {fixed} sessions {sessions} links {links} queues {queues} events {events}"
    );
    assert!(total < 3 * 1024, "{total} bytes");
}

/// As the driver's: what comes in at once is small beside it.
const BUFFER: usize = 64 * 1024;

/// Input in a buffer of the driver's size; returns whether that is free again afterwards, with what the machine and
/// `events` keep.
fn is_buffer_free(peer: &mut Peer, bytes: &[u8], events: &mut Vec<Event>) -> bool {
    let mut input = BytesMut::with_capacity(BUFFER);
    input.extend_from_slice(bytes);
    peer.conn.handle_input(peer.now, &mut input);
    peer.settle_down();
    events.extend(peer.take_events());
    assert!(input.is_empty());
    input.try_reclaim(BUFFER)
}

fn texts() -> Map {
    let text = || Value::Str(Str::from("a text that somebody might keep"));
    std::vec![(Value::Symbol(Symbol::from_static("x-key")), text())]
}

fn state() -> Option<Box<DeliveryState>> {
    Some(Box::new(DeliveryState::Rejected(Some(Box::new(
        AmqpError {
            condition: condition::INTERNAL_ERROR,
            description: Some(Str::from("a description that somebody might keep")),
            info: Some(texts()),
        },
    )))))
}

/// A queue counts a message by its payload, a link counts as a link: neither may hold on to the 64 KiB it was read in.
#[test]
fn nothing_that_stays_keeps_a_read_buffer() {
    let mut peer = Peer::new(config());
    let mut events = Vec::new();
    let open = Open {
        container_id: Str::from("a container with a name"),
        hostname: Some(Str::from("a host")),
        properties: Some(texts()),
        ..Open::default()
    };
    let begin = Begin {
        incoming_window: 100,
        outgoing_window: 100,
        properties: Some(texts()),
        ..Begin::default()
    };
    let start = [hex(HDR), frame(&open, b"")].concat();
    assert!(is_buffer_free(&mut peer, &start, &mut events), "open");
    assert!(peer.conn.remote_open().is_some_and(|kept| *kept == open));
    assert!(is_buffer_free(&mut peer, &frame(&begin, b""), &mut events));
    events.clear();
    // The embedder gets the attach as it came, and forgets it.
    let attach = Attach {
        name: Str::from("a link with a name"),
        source: Some(Source::default()),
        target: Some(target("q1")),
        properties: Some(texts()),
        ..Attach::default()
    };
    let mut input = BytesMut::with_capacity(BUFFER);
    input.extend_from_slice(&frame(&attach, b""));
    peer.conn.handle_input(peer.now, &mut input);
    peer.settle_down();
    let link = peer.take_events().iter().find_map(|event| match event {
        Event::Attached { link, .. } => Some(*link),
        _ => None,
    });
    assert!(input.try_reclaim(BUFFER), "link");
    let link = link.expect("attached");
    peer.conn.grant(link, 100).expect("a receiving link");
    // Whole messages of every size that is small beside the buffer, kept by the embedder.
    for (id, size) in [(0, 100), (1, 5_000), (2, 30_000)] {
        let bytes = frame(&transfer(0, id), &std::vec![0x61; size]);
        assert!(is_buffer_free(&mut peer, &bytes, &mut events), "{size}");
    }
    assert_eq!(events.len(), 3);
    // Half of one, with a state.
    let more = Transfer {
        more: true,
        state: state(),
        ..transfer(0, 3)
    };
    assert!(
        is_buffer_free(&mut peer, &frame(&more, b"abc"), &mut events),
        "a state"
    );
    assert_eq!(events.len(), 3);
    let rest = frame(&Transfer::default(), b"def");
    assert!(is_buffer_free(&mut peer, &rest, &mut events));
    let Some(Event::Delivery { state: kept, .. }) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(*kept, state());
}

/// One message that fills its buffer is not copied.
#[test]
fn a_large_payload_is_a_slice_of_its_buffer() {
    let (mut peer, link) = Peer::attached(config(), SND);
    peer.conn.grant(link, 100).expect("a receiving link");
    let bytes = frame(&transfer(0, 0), &std::vec![0x61; 40_000]);
    let mut events = Vec::new();
    assert!(!is_buffer_free(&mut peer, &bytes, &mut events));
    events.clear();
    assert!(is_buffer_free(
        &mut peer,
        &frame(&transfer(0, 1), b"x"),
        &mut events
    ));
}
