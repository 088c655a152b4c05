//! Performatives of a connection: `open` and `close` (part 2, 2.7.1 and 2.7.9).

use alloc::boxed::Box;

use super::AmqpError;
use crate::codec::composite;
use crate::types::{Map, Str, Symbol};

composite! {
    /// Negotiates a connection (part 2, 2.7.1).
    Open = 0x10, short {
        /// Who speaks.
        container_id["container-id"]: required Str,
        /// Whom the peer believes to speak to: a virtual host.
        hostname["hostname"]: optional Str,
        /// Largest frame in bytes that the sender of this takes.
        max_frame_size["max-frame-size"]: explicit u32 = u32::MAX,
        /// Highest channel number that may be used.
        channel_max["channel-max"]: explicit u16 = u16::MAX,
        /// The connection is dropped after this much silence, in milliseconds; 0 and none mean never.
        idle_time_out["idle-time-out"]: optional u32,
        /// Locales for text that goes out.
        outgoing_locales["outgoing-locales"]: multiple Symbol,
        /// Locales wished for text that comes in.
        incoming_locales["incoming-locales"]: multiple Symbol,
        /// Extensions that the sender supports.
        offered_capabilities["offered-capabilities"]: multiple Symbol,
        /// Extensions that the sender may use if the peer supports them.
        desired_capabilities["desired-capabilities"]: multiple Symbol,
        /// Properties of the connection.
        properties["properties"]: optional Map,
    }
}

composite! {
    /// Ends a connection (part 2, 2.7.9).
    Close = 0x18, short {
        /// Why, when something is wrong.
        error["error"]: optional Box<AmqpError>,
    }
}
