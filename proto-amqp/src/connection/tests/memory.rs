//! What an idle connection costs.

use std::mem::size_of;

use super::{Peer, RCV, config};
use crate::connection::link::Link;
use crate::connection::session::{Channel, Session};
use crate::connection::{Config, Connection, SessionId};
use crate::performative::Open;

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
