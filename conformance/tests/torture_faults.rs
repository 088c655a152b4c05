//! Calls to the disk that fail or take long, and rooms that fill up (R04 to R07, R15), sized for
//! continuous integration. Needs `strace`, and root for the small disk.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes, sockets, files and clocks"
)]

mod common;
mod torture_bed;

use qq_conformance::torture::{faults, room};
use std::time::Duration;
use torture_bed::{Flavour, setup, well};

/// R05: after a failed sync nothing is accepted, clients are told, the exit code is not 0.
#[test]
fn a_failed_sync_stops_the_daemon() {
    // The first syncs of a store that is there, then some under load.
    for nth in [1, 2, 3, 5] {
        let setup = setup(Flavour::Tokio, &format!("sync-{nth}"));
        let stopped = well(faults::sync_fails(&setup, nth, false));
        println!("{nth}: {stopped:?}");
        assert!(!stopped.failed.is_empty(), "{nth}: no sync failed");
        if stopped.code.is_some() && !stopped.is_at_start {
            assert_eq!(stopped.told, stopped.clients, "{stopped:?}");
        }
    }
    // While the store is made.
    let stopped = well(faults::sync_fails(
        &setup(Flavour::Tokio, "sync-new"),
        4,
        true,
    ));
    println!("fresh: {stopped:?}");
    assert!(!stopped.failed.is_empty());
}

/// R06: writes that fail for good stop the daemon, others it survives.
#[test]
fn failed_writes() {
    let setup_ = |name: &str| setup(Flavour::Tokio, name);
    let stopped = well(faults::writes_fail(&setup_("writes"), 30, false));
    println!("{stopped:?}");
    assert!(
        stopped.code.is_some() && !stopped.failed.is_empty(),
        "{stopped:?}"
    );
    let survived = well(faults::one_write_fails(&setup_("one-write"), 40));
    println!("{survived:?}");
    assert!(survived.accepted > 0);
    let survived = well(faults::no_room_for_a_while(&setup_("no-room"), 40, 46));
    println!("{survived:?}");
    assert!(survived.accepted > 0);
}

/// R07: a slow disk makes bigger batches, not more memory.
#[test]
fn slow_disk() {
    let setup = setup(Flavour::Tokio, "slow");
    let survived = well(faults::slow_disk(
        &setup,
        Duration::from_millis(200),
        Duration::from_secs(4),
    ));
    println!("{survived:?}");
    assert_eq!(survived.refused, 0);
    assert!(survived.resident_kib < 128 * 1_024, "{survived:?}");
}

/// R04: a disk that is full refuses, lets consumers settle, and takes again when there is space.
#[test]
fn full_disk() {
    // Nothing left; and less than there should be.
    for free_min_mib in [0, 4] {
        let setup = setup(Flavour::Tokio, &format!("full-{free_min_mib}"));
        let full = well(room::full_disk(&setup, 192, free_min_mib));
        println!("{full:#?}");
        assert_eq!(full.condition, "amqp:resource-limit-exceeded");
        assert!(full.drained >= full.accepted / 2, "{full:?}");
    }
}

/// R15: messages that cannot go to disk and do not fit into memory are held back or refused.
#[test]
fn little_memory() {
    let setup = setup(Flavour::Tokio, "memory");
    let pressed = well(room::little_memory(&setup, 32, 1_024));
    println!("{pressed:#?}");
    assert!(pressed.resident_kib < 128 * 1_024, "{pressed:?}");
    assert!(pressed.refused == 0 || pressed.condition == "amqp:resource-limit-exceeded");
}
