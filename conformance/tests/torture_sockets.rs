//! Sockets misused (R12, R13, R14) and jumps of the clock (R09), sized for continuous integration.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes, sockets, files and clocks"
)]

mod common;
mod torture_bed;

use qq_conformance::torture::{clock, sockets};
use std::time::Duration;
use torture_bed::{BOTH, Flavour, seed, setup, well};

/// R12: half-closed streams, and readers that stopped.
#[test]
fn half_closed_and_not_read() {
    for (flavour, name) in BOTH {
        let mut setup = setup(flavour, &format!("{name}-half"));
        setup.limits = "slow_reader_timeout = \"1s\"\n".into();
        let daemon = well(setup.start());
        let accepted = well(sockets::half_close(&daemon, 50));
        let grown = well(sockets::zero_window(&daemon, 5_000));
        println!(
            "{name}: {accepted} of 50 answered before the end; {grown} KiB for a stuck reader"
        );
        // 20 MB are queued for it; what may pile up in front of it is 4 MiB and what it holds.
        assert!(
            grown < 16 * 1_024,
            "{grown} KiB for a peer that does not read"
        );
        well(sockets::serves(daemon.port, "after"));
    }
}

/// R13: resets in every stage, a load beside them.
#[test]
fn reset_storm() {
    let seed = seed();
    for (flavour, name) in BOTH {
        let daemon = well(setup(flavour, &format!("{name}-storm")).start());
        let back = well(sockets::reset_storm(&daemon, 600, seed));
        println!("{name}: descriptors were back after {back:?}");
    }
}

/// R14: more clients than descriptors.
#[test]
fn no_descriptors() {
    for (flavour, name) in BOTH {
        let setup = setup(flavour, &format!("{name}-few"));
        let starved = well(sockets::no_descriptors(&setup, Duration::from_secs(2)));
        println!("{name}: {starved:?}");
        assert!(starved.ticks_per_second < 50, "it spins: {starved:?}");
        assert!(starved.lines <= 20, "it floods its log: {starved:?}");
    }
}

/// R09: the wall clock jumps an hour.
#[test]
fn clock_jumps() {
    if clock::library().is_none() {
        // Loud, because it is the only check of its kind with a real clock.
        println!("NOT CHECKED: clock jumps need libfaketime (apt-get install libfaketime)");
        return;
    }
    let setup = setup(Flavour::Tokio, "clock");
    well(clock::jumps(&setup, Duration::from_millis(1_500)));
}
