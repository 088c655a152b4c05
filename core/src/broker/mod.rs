//! The broker: one machine per node that owns queues, routing and every decision.

mod api;
mod spec;

pub use api::{Action, Event, Now};
pub use spec::{BrokerConfig, Limits, Overflow, QueueSpec};
