//! Real daemons under torture: killed, stopped, starved of disk, memory and descriptors, cut from
//! power at every write, fed damaged files.
//!
//! Every scene starts real processes, puts load on them from clients of its own, does harm, heals,
//! drains, and judges what the clients saw. Scenes are sized by their arguments: the tests
//! `torture_*` run them for seconds, `qq-torture` for as long as one likes. Times are measured and
//! reported, never asserted.

pub mod client;
pub mod clock;
pub mod consumer;
pub mod daemon;
pub mod disk;
pub mod judge;
pub mod kill;
pub mod load;
pub mod order;
pub mod producer;
pub mod record;
pub mod seed;
pub mod sockets;
pub mod trace;

pub use seed::Seed;

/// What a scene comes to: a report, or what went wrong, for people.
pub type Outcome<T> = Result<T, String>;
