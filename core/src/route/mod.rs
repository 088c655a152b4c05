//! Routing: what an address means, and which queues a message goes to.
//!
//! [`Exchanges`] is a plain table: declarations and bindings go in, a message's key and headers come by, queues come
//! out. It knows no protocol, no store and no message; the broker owns one, keeps what is durable of it as operations,
//! and asks it once per message that is not published to a queue itself.
//!
//! What a message costs: one look-up at a direct exchange, a few look-ups per word of the key at a topic exchange, one
//! per property at a headers exchange, whatever the number of bindings that do not match; and a push per queue that
//! does. Nothing is allocated once the buffers have grown.

mod address;
mod bind;
mod declare;
mod edges;
mod exchange;
mod headers;
mod list;
mod scalar;
mod spec;
mod table;
mod topic;

#[cfg(test)]
mod tests;

pub use exchange::predeclared;
pub use scalar::{Datum, Headers, NoHeaders, Scalar, TypedDatum};
pub use spec::{
    ARGUMENT_LEN_MAX, ARGUMENTS_MAX, Arguments, BINDING_KEY_LEN_MAX, BindingSpec, Criteria,
    ExchangeKind, ExchangeSpec, MatchMode, NAME_LEN_MAX,
};
pub use table::{ExchangeId, Exchanges, QueueRef, Removed, Routed, TableLimits};
pub use topic::KEY_WORDS_MAX;
