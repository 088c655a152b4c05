//! Filters as a whole, against messages as they come from a peer.

mod jms;
mod message;
mod random;
mod set;
mod sql;
mod support;
