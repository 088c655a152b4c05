//! `accepted` after the sync, and never lost when the power goes (R03, G3), sized for continuous
//! integration. Needs `strace`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes, sockets, files and clocks"
)]

mod common;
mod torture_bed;

use qq_conformance::torture::{damage, order, powercut, scratch};
use torture_bed::{Flavour, seed, setup, well};

/// R03: every `accepted` is written after the sync that covers its message returned.
#[test]
fn accepted_after_the_sync() {
    for (size, count, name) in [(100, 1_200, "small"), (30_000, 120, "large")] {
        let setup = setup(Flavour::Tokio, &format!("order-{name}"));
        let order = well(order::order(&setup, count, size));
        println!("{size} octets: {order:?}");
        assert_eq!(order.accepted, count);
        // A synced write costs more than it holds, but not many times more.
        let most = size as u64 * 4;
        assert!(order.octets_per_message <= most, "{order:?}");
    }
}

/// Group commits: many messages share a sync when many are on their way.
#[test]
fn many_messages_share_a_sync() {
    let order = well(order::batching(
        &setup(Flavour::Tokio, "batching"),
        20_000,
        100,
    ));
    println!("{} messages a sync: {order:?}", order.messages_per_sync());
    assert_eq!(order.accepted, 20_000);
    assert!(order.messages_per_sync() >= 20, "{order:?}");
}

/// G3: the power cut at every write, sync and change of a name.
#[test]
fn power_cut_at_every_boundary() {
    let setup = setup(Flavour::Tokio, "powercut");
    let cuts = well(powercut::power_cuts(&setup, 16, 2, seed()));
    println!("{cuts:?}");
    assert!(
        cuts.operations >= 16 && cuts.boundaries > cuts.operations,
        "{cuts:?}"
    );
}

/// The checks find a daemon that does not sync: they would find one that forgot to.
#[test]
fn a_daemon_that_does_not_sync_is_found() {
    let mut setup = setup(Flavour::Tokio, "unsynced");
    setup.storage = "backend = \"sqlite\"\npath = \"DATA\"\nsync_writes = false\n".into();
    let wrong = order::order(&setup, 40, 100).expect_err("accepted without a sync");
    assert!(wrong.contains("accepted at line"), "{wrong}");
    let _ = std::fs::remove_dir_all(setup.data());
    let wrong = powercut::power_cuts(&setup, 8, 0, seed()).expect_err("lost without a sync");
    assert!(wrong.contains("recovery"), "{wrong}");
}

/// R08: files cut at every sector of the journal's tail, bits flipped: refused or whole.
#[test]
fn damaged_files() {
    let setup = setup(Flavour::Tokio, "damage");
    let files = well(damage::killed_store(&setup, 800));
    let copies = scratch(&setup.dir, "damage");
    let damaged = damage::damage(&files, &copies, 80, 150, seed());
    let _ = std::fs::remove_dir_all(&copies);
    let damaged = well(damaged);
    println!("{damaged:?}");
    assert_eq!(damaged.copies, 80 + 150);
    assert!(damaged.refused > 0 && damaged.shorter > 0, "{damaged:?}");
}
