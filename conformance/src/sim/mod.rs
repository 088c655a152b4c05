//! The simulator: one seed is one run of a node with its store, its clients, the streams between them and two clocks,
//! all in one thread and in virtual time. The same seed gives the same run, event by event.
//!
//! Clients speak AMQP with real bytes, the node is the one that the daemon runs, the store loses what a disk may lose.
//! Three judges watch: a reference of the broker that knows every command and notice, a mirror of the store that knows
//! every operation, and the checker of histories, which knows only what clients can know.

mod client;
mod letter;
mod mirror;
mod pipe;
mod plan;
mod random;
mod recorder;
mod reference;
mod setup;
mod shrink;
mod tap;
mod trace;
mod world;

pub use plan::{Fault, Plan, Size};
pub use qq_core::planted::Bug;
pub use shrink::shrink;

use crate::history::Event;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Who found it: the reference, or a class of the history's checker.
    pub class: &'static str,
    /// What happened.
    pub text: String,
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Report {
    /// The first rule that was broken.
    pub violation: Option<Violation>,
    /// Acts, messages and deliveries.
    pub operations: u64,
    /// Crashes of the node.
    pub crashes: u32,
    /// Moments at which a crash of the store makes a difference.
    pub boundaries: u64,
    /// Virtual time, milliseconds.
    pub virtual_ms: u64,
    /// What clients did and saw.
    pub history: Vec<Event>,
}

/// Runs a plan.
#[must_use]
pub fn run(plan: &Plan) -> Report {
    #[cfg(qq_planted)]
    qq_core::planted::plant(plan.planted);
    world::World::new(plan.clone()).run()
}
