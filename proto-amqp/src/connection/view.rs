//! Sessions and links as people want to see them. Nothing here changes anything.

use alloc::vec::Vec;

use super::Connection;
use super::ids::LinkId;
use super::link::End;

/// One session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionView {
    /// The channel on which the peer writes; none before its begin.
    pub channel: Option<u16>,
    /// Transfer frames that the peer may still send.
    pub incoming_window: u32,
    /// Transfer frames that we may still send.
    pub remote_incoming_window: u32,
    /// Deliveries of the peer that are not settled.
    pub unsettled_incoming: usize,
    /// Our deliveries that are not settled.
    pub unsettled_outgoing: usize,
    /// Links.
    pub links: usize,
}

/// One link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkView {
    /// The channel of its session on which the peer writes.
    pub channel: Option<u16>,
    /// Credit that is left, whoever granted it.
    pub credit: u32,
    /// Messages that wait here to be sent.
    pub unsent: usize,
    /// The session's window lets a transfer out.
    pub is_window_open: bool,
}

impl Connection {
    /// All sessions.
    #[must_use]
    pub fn session_views(&self) -> Vec<SessionView> {
        let keys = self.sessions.keys();
        keys.filter_map(|key| {
            let session = self.sessions.find(key)?;
            let of_it = |link: &&super::link::Link| link.session.0 == key;
            Some(SessionView {
                channel: session.channel_in,
                incoming_window: u32::try_from(session.incoming_window.max(0)).unwrap_or(u32::MAX),
                remote_incoming_window: session.remote_incoming_window,
                unsettled_incoming: session.incoming.len(),
                unsettled_outgoing: session.outgoing.len(),
                links: self.links.values().filter(of_it).count(),
            })
        })
        .collect()
    }

    /// A link; none when it is gone.
    #[must_use]
    pub fn link_view(&self, link: LinkId) -> Option<LinkView> {
        let found = self.links.find(link.0)?;
        let session = self.sessions.find(found.session.0)?;
        let is_outgoing = matches!(found.end, End::Outgoing(_));
        Some(LinkView {
            channel: session.channel_in,
            credit: if is_outgoing {
                self.credit(link)
            } else {
                found.credit
            },
            unsent: self.unsent(link),
            is_window_open: session.is_window_open(),
        })
    }
}
