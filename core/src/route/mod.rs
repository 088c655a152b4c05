//! Routing: what an address means.

mod address;
mod exchange;

pub(crate) use exchange::is_predeclared;
