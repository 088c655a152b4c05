//! Real daemons under torture: killed, stopped, starved of disk, memory and descriptors, cut from
//! power at every write, fed damaged files.
//!
//! Every scene starts real processes, puts load on them from clients of its own, does harm, heals,
//! drains, and judges what the clients saw. Scenes are sized by their arguments: the tests
//! `torture_*` run them for seconds, `qq-torture` for as long as one likes. Times are measured and
//! reported, never asserted.

pub mod backup;
pub mod big;
pub mod client;
pub mod clock;
pub mod consumer;
pub mod daemon;
#[cfg(feature = "node")]
pub mod damage;
pub mod disk;
pub mod faults;
pub mod judge;
pub mod kill;
pub mod load;
pub mod order;
#[cfg(feature = "node")]
pub mod powercut;
pub mod producer;
pub mod record;
pub mod room;
pub mod sockets;
#[cfg(feature = "node")]
pub mod stored;
pub mod trace;

pub use crate::seed::Seed;

use std::path::{Path, PathBuf};

/// What a scene comes to: a report, or what went wrong, for people.
pub type Outcome<T> = Result<T, String>;

/// A folder for copies of stores that are opened by the thousand: in memory where there is such a
/// place, because every new store is synced. Its owner removes it.
pub fn scratch(dir: &Path, name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => memory.join(format!("qq-{name}-{}", std::process::id())),
        false => dir.join(name),
    }
}
