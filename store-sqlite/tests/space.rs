//! Room: the log stays short, space comes back, a full disk loses nothing, old messages do not hold what came after.
#![allow(
    clippy::disallowed_methods,
    reason = "tests own files and wait for quiet moments"
)]

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::{Dir, Model, declared, enqueued, fetch, put, removed, tend_all};
use qq_core::store::{Batch, BatchId, Op, Store, StoreFault};
use qq_core::vocab::QueueId;
use qq_store_sqlite::{SqliteStore, StoreConfig};

fn size(path: &std::path::Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

fn started(dir: &Dir, config: StoreConfig, queues: u64) -> SqliteStore {
    let mut store = SqliteStore::open(config).expect("it opens");
    assert_eq!(
        Model::recovered(&mut store),
        Ok(Model::default()),
        "{:?}",
        dir.path()
    );
    put(&mut store, 1, (0..queues).map(declared).collect()).expect("it is written");
    store
}

/// Housekeeping that waits for a quiet moment has had one.
fn tend_quietly(store: &mut SqliteStore) {
    tend_all(store);
    std::thread::sleep(Duration::from_millis(1100));
    tend_all(store);
}

#[test]
fn du_07_the_log_stays_within_bounds_under_load_and_goes_back_after_a_reader() {
    let dir = Dir::new();
    let mut store = started(&dir, dir.config(), 1);
    let mut commit = 1;
    let mut run = |store: &mut SqliteStore, commits: u64| {
        let mut largest = 0;
        for _ in 0..commits {
            let first = commit * 100;
            let mut ops: Vec<Op> = (first..first + 100).map(|s| enqueued(0, s, 1000)).collect();
            ops.extend((first - 100..first).map(|s| removed(0, s)));
            commit += 1;
            put(store, commit, ops).expect("it is written");
            largest = size(&dir.wal()).max(largest);
        }
        largest
    };
    // 100 MB go through; the log is moved every 16 MiB.
    let largest = run(&mut store, 1000);
    assert!(largest < 40 << 20, "{largest}");
    // A reader from outside holds what it sees.
    let reader = rusqlite::Connection::open(dir.database()).expect("SQLite opens it");
    reader.execute_batch("BEGIN").expect("it begins");
    let _: i64 = reader
        .query_row("SELECT count(*) FROM journal", [], |row| row.get(0))
        .expect("it reads");
    let held = run(&mut store, 600);
    assert!(held > 40 << 20, "the reader holds nothing: {held}");
    reader.execute_batch("COMMIT").expect("it ends");
    tend_quietly(&mut store);
    assert_eq!(size(&dir.wal()), 0);
    let largest = run(&mut store, 400);
    assert!(largest < 40 << 20, "{largest}");
}

#[test]
fn space_comes_back_when_a_backlog_is_drained() {
    let dir = Dir::new();
    let mut store = started(&dir, dir.config(), 1);
    for commit in 0..400 {
        let ops = (commit * 100..commit * 100 + 100).map(|s| enqueued(0, s, 1000));
        put(&mut store, commit + 2, ops.collect()).expect("it is written");
    }
    tend_quietly(&mut store);
    let full = size(&dir.database());
    assert!(full > 40_000_000, "{full}");
    for commit in 0..400 {
        let ops = (commit * 100..commit * 100 + 100).map(|s| removed(0, s));
        put(&mut store, commit + 500, ops.collect()).expect("it is written");
    }
    tend_quietly(&mut store);
    let empty = size(&dir.database()) + size(&dir.wal());
    assert!(empty < 10 << 20, "{empty} of {full} bytes are left");
}

#[test]
fn du_11_one_old_message_does_not_hold_what_came_after_it() {
    let dir = Dir::new();
    let mut store = started(&dir, dir.config(), 2);
    // The old one shares its row with others, whose removal is written in the next row, and so on.
    let mut ops = vec![enqueued(0, 0, 500)];
    ops.extend((0..100).map(|seq| enqueued(1, seq, 1000)));
    put(&mut store, 2, ops).expect("it is written");
    let mut largest = 0;
    for commit in 1..2500u64 {
        let first = commit * 100;
        let mut ops: Vec<Op> = (first..first + 100).map(|s| enqueued(1, s, 1000)).collect();
        ops.extend((first - 100..first).map(|s| removed(1, s)));
        put(&mut store, commit + 2, ops).expect("it is written");
        largest = largest.max(size(&dir.database()));
    }
    // 250 MB went through without a quiet moment; 64 MiB of dead rows are let be.
    assert!(largest < 128 << 20, "{largest}");
    tend_quietly(&mut store);
    let left = size(&dir.database()) + size(&dir.wal());
    assert!(left < 12 << 20, "{left}");
    assert_eq!(fetch(&mut store, 0, 0, 1).expect("it can be read").len(), 1);
    drop(store);
    let mut store = dir.open();
    let model = Model::recovered(&mut store).expect("it is sound");
    assert_eq!(model.0[&QueueId(0)].kept.len(), 1);
    assert_eq!(model.0[&QueueId(1)].kept.len(), 100);
    assert_eq!(model.0[&QueueId(1)].next, 250_000);
}

#[test]
fn scattered_removals_keep_a_backlog_and_their_records_within_bounds() {
    let dir = Dir::new();
    let mut store = started(&dir, dir.config(), 1);
    let mut model = Model::default();
    model.apply(&declared(0));
    let mut commit = 1;
    let mut submit = |store: &mut SqliteStore, ops: Vec<Op>| {
        commit += 1;
        ops.iter().for_each(|op| model.apply(op));
        put(store, commit, ops).expect("it is written");
    };
    for block in 0..100 {
        let ops = (block * 200..block * 200 + 200).map(|s| enqueued(0, s, 400));
        submit(&mut store, ops.collect());
    }
    // Each commit takes one message from every row; four of five leave.
    for offset in 0..160 {
        let ops = (0..100).map(|block| removed(0, block * 200 + offset * 7 % 200));
        submit(&mut store, ops.collect());
    }
    tend_quietly(&mut store);
    let live = 100 * 40 * 420;
    let left = size(&dir.database()) + size(&dir.wal());
    assert!(left < 4 * live + (12 << 20), "{left} bytes for {live}");
    drop(store);
    let mut store = dir.open();
    assert_eq!(Model::recovered(&mut store), Ok(model));
}

/// A store whose database may have so many pages more.
fn nearly_full(dir: &Dir, pages: u32) -> SqliteStore {
    let store = started(dir, dir.config(), 1);
    drop(store);
    let used = (size(&dir.database()) / 4096) as u32;
    let config = StoreConfig {
        pages_max: used + pages,
        ballast_bytes: 1 << 20,
        ..dir.config()
    };
    let mut store = SqliteStore::open(config).expect("it opens");
    Model::recovered(&mut store).expect("it is sound");
    store
}

#[test]
fn du_08_a_full_disk_keeps_what_was_submitted_and_goes_on_when_there_is_room() {
    let dir = Dir::new();
    let mut store = nearly_full(&dir, 100);
    let ballast = dir.path().join("data/ballast");
    assert_eq!(size(&ballast), 1 << 20);
    let mut accepted = 0;
    let error = loop {
        let first = accepted * 10;
        store.submit(Batch {
            id: BatchId(accepted + 1),
            ops: (first..first + 10).map(|s| enqueued(0, s, 2000)).collect(),
        });
        match store.flush() {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 100, "the disk is never full");
    };
    assert_eq!(error.fault, StoreFault::NoRoom, "{}", error.text);
    assert!(accepted > 5, "{accepted}");
    assert!(!ballast.exists(), "what was set aside is given up");
    assert!(store.is_short_of_room());
    for _ in 0..10 {
        let error = store.flush().expect_err("it is still full");
        assert_eq!(error.fault, StoreFault::NoRoom, "it is no failure for good");
    }
    // What is safe can be read, what is not is not there.
    let safe = fetch(&mut store, 0, 0, u32::MAX).expect("it can be read");
    assert_eq!(safe.len() as u64, accepted * 10);
    // Consumers make room.
    store.submit(Batch {
        id: BatchId(accepted + 2),
        ops: (0..accepted * 10).map(|s| removed(0, s)).collect(),
    });
    let mut tries = 0;
    while store.flush().is_err() {
        tries += 1;
        assert!(tries < 10, "room is made by what leaves");
    }
    assert_eq!(store.flush(), Ok(Some(BatchId(accepted + 2))));
    assert!(!store.is_short_of_room());
    let left = fetch(&mut store, 0, 0, u32::MAX).expect("it can be read");
    assert_eq!(left.len(), 10, "what was kept is there");
    tend_all(&mut store);
    assert_eq!(size(&ballast), 1 << 20, "room is set aside again");
    drop(store);
    let mut store = dir.open();
    let model = Model::recovered(&mut store).expect("it is sound");
    assert_eq!(model.0[&QueueId(0)].kept.len(), 10);
}

#[test]
fn du_08_a_crash_while_the_disk_is_full_loses_only_what_was_not_confirmed() {
    let dir = Dir::new();
    let mut store = nearly_full(&dir, 60);
    let mut accepted = 0;
    loop {
        let first = accepted * 10;
        let ops = (first..first + 10).map(|s| enqueued(0, s, 2000)).collect();
        if put(&mut store, accepted + 1, ops).is_err() {
            break;
        }
        accepted += 1;
    }
    let crashed = dir.copy();
    let mut store = crashed.open();
    let model = Model::recovered(&mut store).expect("it is sound");
    assert_eq!(model.0[&QueueId(0)].kept.len() as u64, accepted * 10);
}

#[test]
fn room_is_short_below_the_limit() {
    let dir = Dir::new();
    let config = |room_min_bytes| StoreConfig {
        room_min_bytes,
        ..dir.config()
    };
    let mut store = SqliteStore::open(config(u64::MAX / 4)).expect("it opens");
    assert!(store.is_short_of_room());
    drop(store);
    let mut store = SqliteStore::open(config(1)).expect("it opens");
    assert!(!store.is_short_of_room());
    drop(store);
    let mut store = SqliteStore::open(config(0)).expect("it opens");
    assert!(!store.is_short_of_room());
}

#[test]
fn a_backlog_of_small_commits_needs_few_rows_after_a_quiet_moment() {
    let dir = Dir::new();
    let mut store = started(&dir, dir.config(), 1);
    for seq in 0..3000 {
        put(&mut store, seq + 2, vec![enqueued(0, seq, 100)]).expect("it is written");
    }
    tend_all(&mut store);
    let rows: i64 = rusqlite::Connection::open(dir.database())
        .and_then(|conn| conn.query_row("SELECT count(*) FROM journal", [], |row| row.get(0)))
        .expect("SQLite opens it");
    assert!(rows < 40, "{rows} rows");
    let all = fetch(&mut store, 0, 0, 3000).expect("it can be read");
    let expected = (0..3000).map(|seq| {
        let Op::Enqueued(stored) = enqueued(0, seq, 100) else {
            unreachable!("it makes a message")
        };
        (qq_core::vocab::Seq(seq), stored.message)
    });
    assert!(all.into_iter().eq(expected));
}

#[test]
fn housekeeping_comes_to_an_end_and_a_step_of_it_is_small() {
    let dir = Dir::new();
    let mut store = started(&dir, dir.config(), 1);
    for block in 0..300 {
        let ops = (block * 100..block * 100 + 100).map(|s| enqueued(0, s, 1000));
        put(&mut store, block + 2, ops.collect()).expect("it is written");
    }
    let ops = (0..30_000).filter(|s| s % 10 != 0).map(|s| removed(0, s));
    put(&mut store, 400, ops.collect()).expect("it is written");
    let begin = Instant::now();
    let mut steps = 0;
    while store.tend().expect("housekeeping works") {
        steps += 1;
        assert!(steps < 10_000, "it does not end");
    }
    // Nothing is asserted of the time, it is only told: a step reads and writes a few MiB at most.
    println!("{steps} steps in {:?}", begin.elapsed());
    assert!(steps > 5, "{steps} large steps");
    assert_eq!(
        fetch(&mut store, 0, 0, u32::MAX)
            .expect("it can be read")
            .len(),
        3000
    );
}

#[test]
fn a_queue_may_leave_a_row_that_is_written_anew() {
    let dir = Dir::new();
    let mut store = started(&dir, dir.config(), 2);
    for row in 0..3 {
        let mut ops: Vec<Op> = (row * 200..row * 200 + 200)
            .map(|seq| enqueued(0, seq, 400))
            .collect();
        ops.push(enqueued(1, row, 400));
        put(&mut store, row + 2, ops).expect("it is written");
    }
    // The row in the middle keeps a few messages of one queue and none of the other.
    let mut ops: Vec<Op> = (200..395).map(|seq| removed(0, seq)).collect();
    ops.push(removed(1, 1));
    put(&mut store, 9, ops).expect("it is written");
    tend_all(&mut store);
    drop(store);
    let mut store = dir.open();
    let found = Model::recovered(&mut store).expect("it is sound");
    assert_eq!(found.0[&QueueId(0)].kept.len(), 405);
    let seqs: Vec<_> = found.0[&QueueId(1)].kept.keys().copied().collect();
    assert_eq!(seqs, [0, 2]);
}
