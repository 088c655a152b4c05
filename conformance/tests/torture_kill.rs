//! The durable daemon killed and stopped under load (R01, R02), its end with a thousand clients
//! (R16), a backup under load (R17), sized for continuous integration.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes, sockets, files and clocks"
)]

mod common;
mod torture_bed;

use qq_conformance::torture::{backup, kill, sockets};
use std::time::Duration;
use torture_bed::{BOTH, Flavour, seed, setup, well};

/// R01: what was accepted survives `kill -9`; nothing confirmed comes back.
#[test]
fn killed_under_load() {
    let longest = Duration::from_millis(1_500);
    let killed = well(kill::kill_rounds(
        &setup(Flavour::Tokio, "kill"),
        3,
        longest,
        seed(),
    ));
    println!("{killed:#?}");
    assert_eq!(killed.verdicts.len(), 3);
    well(kill::kill_rounds(
        &setup(Flavour::Smol, "kill-smol"),
        1,
        longest,
        seed(),
    ));
}

/// R02: a stopped process goes on as if nothing had been.
#[test]
fn stopped_under_load() {
    let setup = setup(Flavour::Tokio, "freeze");
    println!(
        "{:#?}",
        well(kill::freeze(&setup, 2, Duration::from_secs(2)))
    );
}

/// R16: a thousand clients are told, the exit code is 0.
#[test]
fn terminated_with_a_thousand_clients() {
    for (flavour, name) in BOTH {
        let setup = setup(flavour, &format!("{name}-many"));
        let ended = well(sockets::terminate(&setup, 1_000));
        println!("{name}: {ended:?}");
        assert_eq!(ended.told, 1_000);
    }
}

/// R17: a backup taken under load holds all that was accepted before it, and is restored elsewhere.
#[test]
fn backed_up_under_load() {
    let setup = setup(Flavour::Tokio, "backup");
    let backed_up = well(backup::backup(&setup, Duration::from_millis(700)));
    println!("{backed_up:?}");
    assert!(backed_up.before > 0 && backed_up.held < backed_up.accepted);
}
