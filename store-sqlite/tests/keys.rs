//! Keys by which queues know messages: kept as long as their windows last, through restarts.
#![allow(clippy::disallowed_methods, reason = "tests own files")]

mod common;

use bytes::Bytes;
use common::{Dir, declared, put};
use qq_core::store::{Op, SeenKey, Store};
use qq_core::vocab::QueueId;
use qq_store_sqlite::{SqliteStore, check};

const WINDOW_MS: i64 = 100;

fn keyed(number: i64) -> Op {
    let key = SeenKey {
        queue: QueueId(1),
        key: Bytes::from(format!("key {number}")),
        seen_at_ms: number,
        until_ms: number + WINDOW_MS,
    };
    Op::Keyed { keys: vec![key] }
}

fn recovered(store: &mut SqliteStore) -> Vec<i64> {
    let mut seen = Vec::new();
    store
        .recover(&mut |op| {
            if let Op::Keyed { keys } = op {
                seen.extend(keys.into_iter().map(|key| key.seen_at_ms));
            }
        })
        .expect("a sound store");
    seen.sort_unstable();
    seen
}

#[test]
fn rows_of_keys_go_when_their_windows_are_over() {
    let dir = Dir::new();
    let mut store = dir.open();
    assert!(recovered(&mut store).is_empty());
    put(&mut store, 1, vec![declared(1)]).expect("written");
    for number in 0..300 {
        put(&mut store, 2 + number as u64, vec![keyed(number)]).expect("written");
    }
    drop(store);
    let report = check(&dir.path().join("data")).expect("a store");
    assert!(report.is_sound(), "{report:?}");
    let mut store = dir.open();
    // The newest one is of 299: those of 199 and before are over then.
    assert!(recovered(&mut store).into_iter().eq(200..300));
    // Many come due at once: as many as a transaction takes, and the rest with the next ones.
    for number in 10_000..10_010 {
        put(&mut store, 2 + number as u64, vec![keyed(number)]).expect("written");
    }
    drop(store);
    let mut store = dir.open();
    assert!(recovered(&mut store).into_iter().eq(10_000..10_010));
}
