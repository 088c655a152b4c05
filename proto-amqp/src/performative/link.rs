//! Performatives of a link: `attach` and `detach` (part 2, 2.7.3 and 2.7.7).

use alloc::boxed::Box;

use super::{AmqpError, RcvSettleMode, Role, SndSettleMode, Source, TargetKind};
use crate::codec::composite;
use crate::types::{Map, Str, Symbol};

composite! {
    /// Attaches a link to a session (part 2, 2.7.3).
    Attach = 0x12, short {
        /// Name of the link, unique for two containers and a direction.
        name["name"]: required Str,
        /// Number that stands for the link on this session, in this direction.
        handle["handle"]: required u32,
        /// Which end the sender of this is.
        role["role"]: required Role,
        /// How the sending end settles.
        snd_settle_mode["snd-settle-mode"]: explicit SndSettleMode = SndSettleMode::Mixed,
        /// How the receiving end settles.
        rcv_settle_mode["rcv-settle-mode"]: explicit RcvSettleMode = RcvSettleMode::First,
        /// Where messages come from.
        source["source"]: optional Source,
        /// Where messages go to.
        target["target"]: optional TargetKind,
        /// Deliveries that are not settled when a link is resumed, by tag.
        unsettled["unsettled"]: optional Map,
        /// The map of unsettled deliveries did not fit.
        incomplete_unsettled["incomplete-unsettled"]: default bool = false,
        /// delivery-count at the start. Mandatory from the sending end, where absence is read as 0 by custom.
        initial_delivery_count["initial-delivery-count"]: optional u32,
        /// Largest message in bytes; 0 and none mean no limit.
        max_message_size["max-message-size"]: optional u64,
        /// Extensions that the sender of this supports.
        offered_capabilities["offered-capabilities"]: multiple Symbol,
        /// Extensions that the sender of this may use if the peer supports them.
        desired_capabilities["desired-capabilities"]: multiple Symbol,
        /// Properties of the link.
        properties["properties"]: optional Map,
    }
}

composite! {
    /// Takes a link off a session (part 2, 2.7.7).
    Detach = 0x16, short {
        /// The link.
        handle["handle"]: required u32,
        /// The link is gone for good, not only taken off.
        closed["closed"]: default bool = false,
        /// Why, when something is wrong.
        error["error"]: optional Box<AmqpError>,
    }
}
