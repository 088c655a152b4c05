//! What the torture tests share: a daemon with a durable store in a folder of its own, and a seed
//! that is printed.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) use crate::common::Flavour;
use crate::common::{binary, folder};
use qq_conformance::torture::Seed;
use qq_conformance::torture::daemon::Setup;

/// The runtimes, with names for folders.
pub(crate) const BOTH: [(Flavour, &str); 2] = [(Flavour::Tokio, "tokio"), (Flavour::Smol, "smol")];

/// A durable daemon that was not started yet.
pub(crate) fn setup(flavour: Flavour, name: &str) -> Setup {
    Setup::fresh(&binary(flavour), &folder(name), name)
}

/// The value, or a panic with the text, which has the daemon's log.
pub(crate) fn well<T>(result: Result<T, String>) -> T {
    result.unwrap_or_else(|e| panic!("{e}"))
}

/// `QQ_TORTURE_SEED`, else another one each time; printed.
pub(crate) fn seed() -> Seed {
    let given = std::env::var("QQ_TORTURE_SEED").ok();
    let seed = given.map_or_else(
        || u64::from(std::process::id()),
        |s| s.parse().expect("a number"),
    );
    println!("QQ_TORTURE_SEED={seed}");
    Seed::new(seed)
}
