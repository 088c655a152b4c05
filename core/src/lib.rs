//! The pure broker: queues, routing, faces and the store contract. No clock, socket, thread, file or random source:
//! drivers bring all of them. See `ARCHITECTURE.md` for how the parts meet.
#![forbid(unsafe_code)]

pub mod admin;
pub mod broker;
pub mod face;
pub mod filter;
pub mod node;
pub mod planted;
mod queue;
pub mod route;
pub mod schema;
pub mod store;
pub mod vocab;
