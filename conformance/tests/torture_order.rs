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
    for (size, name) in [(100, "small"), (30_000, "large")] {
        let setup = setup(Flavour::Tokio, &format!("order-{name}"));
        let order = well(order::order(&setup, 1_200, size));
        println!("{size} octets: {order:?}");
        assert_eq!(order.accepted, 1_200);
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
    let cuts = well(powercut::power_cuts(&setup, 24, 2, seed()));
    println!("{cuts:?}");
    assert!(
        cuts.operations >= 24 && cuts.boundaries > cuts.operations,
        "{cuts:?}"
    );
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
