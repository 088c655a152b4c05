//! Performatives of a session: `begin` and `end` (part 2, 2.7.2 and 2.7.8).

use alloc::boxed::Box;

use super::AmqpError;
use crate::codec::composite;
use crate::types::{Map, Symbol};

composite! {
    /// Begins a session on a channel (part 2, 2.7.2).
    Begin = 0x11, short {
        /// In an answer: the channel that the peer began the session on.
        remote_channel["remote-channel"]: optional u16,
        /// transfer-id of the first transfer that will go out.
        next_outgoing_id["next-outgoing-id"]: required u32,
        /// Transfers that the sender of this can take.
        incoming_window["incoming-window"]: required u32,
        /// Transfers that the sender of this may have on their way.
        outgoing_window["outgoing-window"]: required u32,
        /// Highest handle that may be used.
        handle_max["handle-max"]: explicit u32 = u32::MAX,
        /// Extensions that the sender supports.
        offered_capabilities["offered-capabilities"]: multiple Symbol,
        /// Extensions that the sender may use if the peer supports them.
        desired_capabilities["desired-capabilities"]: multiple Symbol,
        /// Properties of the session.
        properties["properties"]: optional Map,
    }
}

composite! {
    /// Ends a session (part 2, 2.7.8).
    End = 0x17, short {
        /// Why, when something is wrong.
        error["error"]: optional Box<AmqpError>,
    }
}
