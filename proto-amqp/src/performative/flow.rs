//! `flow`: windows of a session and credit of a link (part 2, 2.7.4).

use crate::codec::composite;
use crate::types::Map;

composite! {
    /// Updates windows of a session and, with a handle, the state of a link (part 2, 2.7.4).
    Flow = 0x13, short {
        /// transfer-id expected next; none before the peer's `begin` was seen.
        next_incoming_id["next-incoming-id"]: optional u32,
        /// Transfers that can be taken, counted from next-incoming-id.
        incoming_window["incoming-window"]: required u32,
        /// transfer-id that goes out next.
        next_outgoing_id["next-outgoing-id"]: required u32,
        /// Transfers that may go out.
        outgoing_window["outgoing-window"]: required u32,
        /// The link that the rest is about; none: the session alone.
        handle["handle"]: optional u32,
        /// Deliveries sent on the link since its beginning, as its sender counts them.
        delivery_count["delivery-count"]: optional u32,
        /// Deliveries that may be sent from delivery-count on.
        link_credit["link-credit"]: optional u32,
        /// Messages that wait at the sending end.
        available["available"]: optional u32,
        /// Use up the credit or give it back.
        drain["drain"]: default bool = false,
        /// Answer with a flow.
        echo["echo"]: default bool = false,
        /// Properties of the link's state.
        properties["properties"]: optional Map,
    }
}
