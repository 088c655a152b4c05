//! One message in two encodings: AMQP sections and the record of the binary protocol.
//!
//! A message keeps the encoding in which it came. Whoever has to hand it to a peer of the other protocol converts it
//! here, once per delivery; nothing is converted before somebody needs it.
//!
//! | record | AMQP |
//! | --- | --- |
//! | payload | one data section; other bodies as they are encoded, with the header `x-amqp-body` |
//! | headers | application-properties; values that are no strings become text |
//! | message_id | properties: message-id |
//! | ordering_key | properties: group-id |
//! | idempotency_key | message annotation `x-opt-dedup-id` |
//! | published_at | properties: creation-time |
//! | headers `reply_to`, `correlation_id` | properties: reply-to, correlation-id |
//!
//! Attempts, priority, durability and time to live are not in either encoding: they travel beside it.

mod draft;
mod show;
mod text;
mod to_amqp;
mod to_record;

#[cfg(test)]
mod tests;

pub use draft::Draft;
pub use show::{Shown, show};
pub(super) use to_amqp::sections_of;
pub(super) use to_record::record_of;

/// The header that has the place of the property reply-to.
pub(super) const REPLY_TO: &str = "reply_to";
/// The header that has the place of the property correlation-id.
pub(super) const CORRELATION_ID: &str = "correlation_id";
/// The header that says that the payload is an AMQP-encoded body, and of which kind.
const BODY: &str = "x-amqp-body";
/// The annotation that has the place of an idempotency key.
const DEDUP_ID: &str = "x-opt-dedup-id";
