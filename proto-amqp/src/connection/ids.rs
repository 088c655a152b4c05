//! Names of sessions, links and deliveries toward the embedder. Each carries a generation where its slot is reused.

use super::slots::Key;

/// A session of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub(super) Key);

impl SessionId {
    /// Small number, unique among the living sessions of the connection: an index for the embedder's own table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.slot as usize
    }
}

/// A link of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(super) Key);

impl LinkId {
    /// Small number, unique among the living links of the connection: an index for the embedder's own table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.slot as usize
    }
}

/// A delivery from the peer that one side has not settled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IncomingId {
    /// Session that the delivery came in on.
    pub session: SessionId,
    /// Its delivery-id.
    pub id: u32,
}

/// RFC 1982: whether `a` comes after `b` on the circle of 2^32 numbers.
pub(super) const fn is_after(a: u32, b: u32) -> bool {
    let ahead = a.wrapping_sub(b);
    ahead != 0 && ahead < 1 << 31
}

/// RFC 1982: how far `a` is ahead of `b`; none when it is behind.
pub(super) const fn ahead_of(a: u32, b: u32) -> Option<u32> {
    let ahead = a.wrapping_sub(b);
    if ahead < 1 << 31 { Some(ahead) } else { None }
}
