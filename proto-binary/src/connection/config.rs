//! What an embedder decides about a connection, and the bound of everything that a peer can consume.
//!
//! Each bound exists because a peer chooses the number on the other side of it. Defaults suit a broker on the open
//! internet; 0 means "no limit" only where a field says so.

use alloc::string::String;
use core::fmt;

use crate::frame::Layout;
use crate::opcode::Dialect;

/// Which end of the TCP connection a [`Connection`](super::Connection) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opened the TCP connection; asks.
    Client,
    /// Accepted the TCP connection; answers.
    Server,
}

/// What a server makes of AUTH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// Nobody needs a token; whoever sends one is let in.
    #[default]
    Open,
    /// As the first servers without a token had it: AUTH is an unknown opcode.
    Absent,
    /// Nothing passes before an AUTH that the embedder accepts.
    Required,
}

/// Settings and bounds of one connection.
#[derive(Clone)]
pub struct Config {
    /// Client: how to lay out frames.
    pub layout: Layout,
    /// Client: what to send in AUTH. None: no AUTH.
    pub token: Option<String>,
    /// Server: whether AUTH is needed.
    pub auth: Auth,
    /// What the numbers 0x0A to 0x0E mean.
    pub dialect: Dialect,
    /// Server: largest payload in bytes before AUTH was accepted.
    pub payload_before_auth_max: usize,
    /// Largest payload in bytes in the versioned layout, both ways: the first clients drop larger ones.
    pub payload_versioned_max: usize,
    /// Largest payload in bytes in the documented layout, both ways.
    pub payload_documented_max: usize,
    /// Headers of one message.
    pub headers_max: usize,
    /// Messages of one PUBLISH_BATCH.
    pub batch_messages_max: usize,
    /// Requests without an answer. A server stops reading at this number, a client refuses to send.
    pub requests_pending_max: usize,
    /// Bytes to be written above which a server stops reading.
    pub unsent_bytes_max: usize,
    /// Server: from creation to the first byte, in milliseconds. 0 = no deadline: the first clients may connect long
    /// before they have something to say.
    pub first_bytes_deadline_ms: u32,
    /// Server: from creation to AUTH, in milliseconds, where AUTH is required. 0 = no deadline.
    pub auth_deadline_ms: u32,
    /// Documented layout: we close after this much silence and send PING after half of it, in milliseconds. 0 = never.
    pub idle_timeout_ms: u32,
    /// Versioned layout, where the peer knows no PING: we close after this much silence, in milliseconds. 0 = never.
    pub idle_timeout_versioned_ms: u32,
    /// A frame may pause for this long in the middle, in milliseconds. 0 = for ever.
    pub frame_stall_ms: u32,
    /// We close a peer that takes none of our output for this long, in milliseconds. 0 = never.
    pub slow_reader_ms: u32,
    /// Server: for this long a peer that closed its sending half gets the answers that are due, in milliseconds. 0 =
    /// not at all.
    pub eof_grace_ms: u32,
    /// Frames that only cost us (unreadable, unknown, PING) that a peer may send at once.
    pub nuisance_burst: u32,
    /// The same for each second after that.
    pub nuisance_rate: u32,
}

impl Config {
    /// What a broker may add to a PUBLISH or CALL when it becomes a MESSAGE: id, queue, time, attempt, and headers that
    /// tell a dead letter's story. Requests that leave no room for it are refused, so that no message can be stored
    /// that its consumers cannot read.
    pub const ENVELOPE_SIZE_MAX: usize = 1_024;

    /// Largest payload in bytes for a layout.
    #[must_use]
    pub const fn payload_max(&self, layout: Layout) -> usize {
        match layout {
            Layout::Documented => self.payload_documented_max,
            Layout::Versioned => self.payload_versioned_max,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            layout: Layout::Documented,
            token: None,
            auth: Auth::Open,
            dialect: Dialect::Groups,
            payload_before_auth_max: 4 * 1024,
            payload_versioned_max: 1024 * 1024,
            payload_documented_max: 16 * 1024 * 1024 + 4 * 1024,
            headers_max: 1_024,
            batch_messages_max: 1_024,
            requests_pending_max: 16_384,
            unsent_bytes_max: 4 * 1024 * 1024,
            first_bytes_deadline_ms: 0,
            auth_deadline_ms: 10_000,
            idle_timeout_ms: 60_000,
            idle_timeout_versioned_ms: 0,
            frame_stall_ms: 30_000,
            slow_reader_ms: 30_000,
            eof_grace_ms: 5_000,
            nuisance_burst: 1_000,
            nuisance_rate: 100,
        }
    }
}

impl fmt::Debug for Config {
    /// Everything but the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("layout", &self.layout)
            .field("has_token", &self.token.is_some())
            .field("auth", &self.auth)
            .field("dialect", &self.dialect)
            .field("payload_before_auth_max", &self.payload_before_auth_max)
            .field("payload_versioned_max", &self.payload_versioned_max)
            .field("payload_documented_max", &self.payload_documented_max)
            .field("requests_pending_max", &self.requests_pending_max)
            .field("unsent_bytes_max", &self.unsent_bytes_max)
            .finish_non_exhaustive()
    }
}
