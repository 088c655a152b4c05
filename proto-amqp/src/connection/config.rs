//! What an embedder decides about a connection: names, announcements and the bound of everything a peer can consume.
//!
//! Each bound exists because a peer chooses the number on the other side of it. Defaults suit a broker on the open
//! internet; 0 means "no limit" only where a field says so.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use super::partial::SharedBudget;
use crate::types::{Map, Str, Symbol};

/// Which end of the TCP connection a [`Connection`](super::Connection) is: it decides who speaks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opened the TCP connection, sends the first protocol header.
    Client,
    /// Accepted the TCP connection, answers protocol headers.
    Server,
}

/// What a client proves itself with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// SASL ANONYMOUS.
    Anonymous,
    /// SASL PLAIN (RFC 4616). The text goes out in the clear: use it over TLS or loopback.
    Plain {
        /// Authentication identity.
        user: String,
        /// Password.
        password: String,
    },
    /// Any mechanism whose steps the embedder takes: each [`Event::SaslChallenge`](super::Event::SaslChallenge) is
    /// answered with [`sasl_respond`](super::Connection::sasl_respond).
    Steps {
        /// The mechanism, such as SCRAM-SHA-256.
        mechanism: Symbol,
        /// What the client says first, where it does.
        initial_response: Option<Bytes>,
    },
}

/// The SASL layer (part 5, 5.3).
#[derive(Clone, Debug, Default)]
pub struct SaslConfig {
    /// Server: refuse peers that begin with a bare AMQP header.
    pub required: bool,
    /// Server: the mechanisms to offer, in this order. An empty list means that there is no SASL layer.
    pub mechanisms: Vec<Symbol>,
    /// Client: none means that the client begins with a bare AMQP header.
    pub credentials: Option<Credentials>,
}

/// Names, announcements and bounds of one connection.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our container-id in `open`. Short: before the peer's `open` a frame has 512 bytes at most, and what does not fit
    /// into them is cut off.
    pub container_id: Str,
    /// Client: the virtual host that `open` and `sasl-init` name.
    pub hostname: Option<Str>,
    /// Largest frame in bytes that we accept; announced in `open`. Never below 512 (part 2, 2.8.19).
    pub frame_size_max: u32,
    /// Largest frame in bytes before the peer's `open` was read.
    pub frame_size_before_open_max: u32,
    /// Highest channel number that we accept.
    pub channel_max: u16,
    /// Highest handle that we accept in a session.
    pub handle_max: u32,
    /// Links of all sessions together.
    pub links_max: usize,
    /// The idle-time-out that `open` announces, in milliseconds. A peer that is silent for one and a half times this is
    /// closed, so that a late frame costs nobody a connection. 0 = none.
    pub idle_timeout_ms: u32,
    /// Smallest idle-time-out in milliseconds that we are willing to serve with heartbeats.
    pub idle_timeout_peer_min_ms: u32,
    /// From creation to the peer's `open`, in milliseconds. 0 = no deadline.
    pub open_deadline_ms: u32,
    /// From creation to the peer's first protocol header, in milliseconds. 0 = no deadline.
    pub first_bytes_deadline_ms: u32,
    /// Transfer frames that a peer may have on their way in one session.
    pub incoming_window: u32,
    /// Frames beyond the window that are forgiven, for peers that count messages instead of frames.
    pub incoming_window_slack: u32,
    /// Deliveries beyond the credit that are forgiven on a link, for peers that start before they hear of it.
    pub credit_slack: u32,
    /// Largest message in bytes; announced in `attach` where the embedder states none. 0 = no limit.
    pub message_size_max: u64,
    /// Bytes of unfinished deliveries of all links together.
    pub partial_bytes_max: usize,
    /// The same for all connections of a node, 256 MiB in a broker: one budget, made once, cloned into the configuration
    /// of each listener. None: no such bound.
    pub partial_bytes_node: Option<SharedBudget>,
    /// Transfer frames that any delivery may have.
    pub transfers_per_delivery_base: u32,
    /// Each this many bytes of a delivery allow one transfer frame more.
    pub transfers_per_delivery_bytes: u32,
    /// Frames without progress that are forgiven in a burst; time and payload bytes pay them back.
    pub no_progress_frames_max: u32,
    /// Sessions and links that may be taken down in a burst ...
    pub churn_burst: u32,
    /// ... and how many in each second after that.
    pub churn_rate: u32,
    /// Output in bytes that is kept for a peer that does not read; above it [`wants_read`](super::Connection::wants_read)
    /// is false.
    pub unsent_bytes_max: usize,
    /// The connection is dropped when output waits this long without moving, in milliseconds. 0 = never.
    pub slow_reader_ms: u32,
    /// SASL.
    pub sasl: SaslConfig,
    /// Capabilities that `open` offers.
    pub offered_capabilities: Vec<Symbol>,
    /// Capabilities that `open` desires.
    pub desired_capabilities: Vec<Symbol>,
    /// Properties in `open`.
    pub properties: Option<Map>,
    /// First transfer-id and delivery-id of each session, for tests of the wrap at 2^32. Some clients expect 0.
    pub first_outgoing_id: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            container_id: Str::default(),
            hostname: None,
            frame_size_max: 131_072,
            frame_size_before_open_max: 8_192,
            channel_max: 63,
            handle_max: 255,
            links_max: 1_024,
            idle_timeout_ms: 30_000,
            idle_timeout_peer_min_ms: 500,
            open_deadline_ms: 10_000,
            first_bytes_deadline_ms: 3_000,
            incoming_window: 512,
            incoming_window_slack: 2_048,
            credit_slack: 256,
            message_size_max: 16 * 1024 * 1024,
            partial_bytes_max: 32 * 1024 * 1024,
            partial_bytes_node: None,
            transfers_per_delivery_base: 64,
            transfers_per_delivery_bytes: 256,
            no_progress_frames_max: 20_000,
            churn_burst: 1_000,
            churn_rate: 100,
            unsent_bytes_max: 4 * 1024 * 1024,
            slow_reader_ms: 30_000,
            sasl: SaslConfig::default(),
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
            first_outgoing_id: 0,
        }
    }
}
