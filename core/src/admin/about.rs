//! What connections tell about themselves: once when they come, and in full when somebody asks.

use serde::Serialize;

use super::Why;
use crate::vocab::Port;

/// What a connection says when its hand-shake is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnAbout {
    /// `amqp` or `qwer-q`.
    pub protocol: &'static str,
    /// Address and port of the peer.
    pub peer: String,
    /// The peer's container, where the protocol has them.
    pub container: Option<String>,
    /// Who logged in.
    pub user: Option<String>,
    /// What the peer is, by its own words.
    pub product: Option<String>,
}

/// One session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionReport {
    /// The channel on which the peer writes.
    pub channel: u16,
    /// Transfers that we take.
    pub incoming_window: u32,
    /// Transfers that we want to send.
    pub outgoing_window: u32,
    /// Transfers that the peer takes.
    pub remote_incoming_window: u32,
    /// Deliveries of the peer without an outcome.
    pub unsettled_incoming: u64,
    /// Deliveries to the peer without an outcome.
    pub unsettled_outgoing: u64,
    /// Links.
    pub link_count: u64,
}

/// One link as its connection sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// Which.
    pub port: Port,
    /// Its session.
    pub channel: Option<u16>,
    /// Messages that may still be sent by leave of the receiving side.
    pub credit: u64,
    /// Deliveries without an outcome.
    pub unsettled: u64,
    /// Why nothing flows, as far as the connection knows.
    pub waits: Vec<Why>,
}

/// A connection as it sees itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnReport {
    /// Its sessions.
    pub sessions: Vec<SessionReport>,
    /// Its links.
    pub links: Vec<LinkReport>,
    /// What else there is to know, by name.
    pub details: Vec<(String, String)>,
}
