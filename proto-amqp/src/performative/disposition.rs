//! `disposition`: what became of deliveries (part 2, 2.7.6).

use super::{DeliveryState, Role};
use crate::codec::composite;

composite! {
    /// Tells state and settlement of a range of deliveries (part 2, 2.7.6).
    Disposition = 0x15, short {
        /// Which end of the links the sender of this is.
        role["role"]: required Role,
        /// First delivery-id.
        first["first"]: required u32,
        /// Last delivery-id; none: the same as `first`.
        last["last"]: optional u32,
        /// The sender of this has settled them.
        settled["settled"]: default bool = false,
        /// Their state.
        state["state"]: optional DeliveryState,
        /// The peer may wait with what it answers.
        batchable["batchable"]: default bool = false,
    }
}
