//! Damage is found or harmless: whatever happens to the files, a store never hands out another state than one it
//! confirmed.
#![allow(clippy::disallowed_methods, reason = "tests own files and threads")]

mod common;

use std::fs;

use common::{Dir, Model, Random, declared, enqueued, fetch, put, removed, tend_all};
use qq_core::store::{Op, StoreError, StoreFault};
use qq_core::vocab::{QueueId, Seq};
use qq_store_sqlite::SqliteStore;
use rusqlite::Connection;

/// A store with every kind of record: whole and partly dead rows, records about older rows, returns, deleted rows in
/// the middle, a count, a rewritten row. Returns the state after each commit.
fn fill(store: &mut SqliteStore) -> Vec<Model> {
    let mut models = vec![Model::default()];
    let mut id = 0;
    let mut commit = |store: &mut SqliteStore, ops: Vec<Op>| {
        id += 1;
        let mut model = models.last().cloned().expect("there is a first");
        ops.iter().for_each(|op| model.apply(op));
        models.push(model);
        put(store, id, ops).expect("it is written");
    };
    commit(store, (1..=4).map(declared).collect());
    for round in 0..12 {
        let ops = (0..40)
            .flat_map(|n| (1..=3).map(move |queue| enqueued(queue, round * 40 + n, 150)))
            .collect();
        commit(store, ops);
    }
    commit(store, vec![enqueued(1, 480, 70_000), enqueued(4, 0, 100)]);
    commit(store, vec![removed(4, 0)]);
    // All of rows in the middle, most of the first, every fourth of the last.
    let middle = (1..=3).flat_map(|q| (120..200).map(move |s| removed(q, s)));
    commit(store, middle.collect());
    commit(store, (0..35).map(|seq| removed(1, seq)).collect());
    commit(
        store,
        (400..480).step_by(4).map(|seq| removed(2, seq)).collect(),
    );
    let back = |seq, count| Op::Returned {
        queue: QueueId(3),
        seq: Seq(seq),
        delivery_count: count,
        annotations: Some(bytes::Bytes::from_static(b"annotations")),
    };
    commit(store, vec![back(5, 1), back(300, 2)]);
    models
}

/// Opens a copy and reads everything.
fn read(dir: &Dir) -> Result<Model, StoreError> {
    let config = qq_store_sqlite::StoreConfig {
        sync_writes: true,
        ..dir.config()
    };
    let mut store = SqliteStore::open(config)?;
    let model = Model::recovered(&mut store)?;
    for (id, queue) in &model.0 {
        let found = fetch(&mut store, id.0, 0, u32::MAX)?;
        let expected: Vec<_> = queue
            .kept
            .iter()
            .map(|(&seq, kept)| (Seq(seq), kept.message.clone()))
            .collect();
        assert_eq!(found, expected, "queue {}", id.0);
    }
    Ok(model)
}

/// A closed store with everything in one file, and its state.
fn closed() -> (Dir, Model) {
    let dir = Dir::new();
    let mut store = dir.open();
    assert_eq!(Model::recovered(&mut store), Ok(Model::default()));
    let models = fill(&mut store);
    tend_all(&mut store);
    drop(store);
    assert!(!dir.wal().exists(), "the log is closed");
    (dir, models.last().cloned().expect("some"))
}

fn flip(path: &std::path::Path, bit: u64) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    fs::write(path, bytes).expect("it is written");
}

#[test]
fn s05_a_flipped_bit_anywhere_in_the_database_is_found_or_harmless() {
    let (dir, expected) = closed();
    let bits = fs::metadata(dir.database()).expect("a file").len() * 8;
    let seed = 0x5eed_0005;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let (mut found, mut harmless) = (0, 0);
    for _ in 0..300 {
        let bit = random.below(bits);
        let copy = dir.copy();
        flip(&copy.database(), bit);
        match read(&copy) {
            Err(error) => {
                assert_ne!(error.fault, StoreFault::NoRoom, "bit {bit}");
                found += 1;
            }
            Ok(model) => {
                assert_eq!(model, expected, "bit {bit} changed what is handed out");
                harmless += 1;
            }
        }
    }
    // Most of the file is messages; free pages and slack are not looked at.
    assert!(found > 180, "{found} found, {harmless} harmless");
}

#[test]
fn s05_a_bit_that_flips_while_the_store_is_open_is_never_handed_out() {
    let (dir, expected) = closed();
    let bits = fs::metadata(dir.database()).expect("a file").len() * 8;
    let mut random = Random(0x5eed_0006);
    let mut found = 0;
    for _ in 0..80 {
        let copy = dir.copy();
        let config = qq_store_sqlite::StoreConfig {
            cache_bytes: 16 << 10,
            ..copy.config()
        };
        let mut store = SqliteStore::open(config).expect("it opens");
        assert_eq!(Model::recovered(&mut store).as_ref(), Ok(&expected));
        flip(&copy.database(), random.below(bits));
        for (id, queue) in &expected.0 {
            match fetch(&mut store, id.0, 0, u32::MAX) {
                Err(_) => found += 1,
                Ok(messages) => {
                    let expected = queue
                        .kept
                        .iter()
                        .map(|(&seq, kept)| (Seq(seq), kept.message.clone()));
                    assert!(messages.into_iter().eq(expected), "queue {}", id.0);
                }
            }
        }
    }
    assert!(found > 25, "only {found} reads met the damage");
}

/// Changes the database as a fault of the disk might, and returns what opening says.
fn tampered(change: &str) -> StoreError {
    let (dir, _) = closed();
    let conn = Connection::open(dir.database()).expect("SQLite opens it");
    conn.execute_batch(change).expect("it is changed");
    drop(conn);
    let error = read(&dir).expect_err("the damage is found");
    assert_eq!(error.fault, StoreFault::Damaged, "{}", error.text);
    error
}

#[test]
fn s05_rows_that_are_lost_repeated_swapped_or_stale_are_found() {
    let lost = tampered("DELETE FROM journal WHERE id = 3");
    assert!(
        lost.text.contains("journal") && lost.text.contains("rows 3 to 3"),
        "{}",
        lost.text
    );
    let last = tampered("DELETE FROM journal WHERE id = (SELECT max(id) FROM journal)");
    assert!(last.text.contains("journal"), "{}", last.text);
    let first = tampered("DELETE FROM journal WHERE id = (SELECT min(id) FROM journal)");
    assert!(first.text.contains("journal"), "{}", first.text);
    let repeated = tampered("INSERT INTO journal SELECT max(id) + 1, head, body FROM journal");
    assert!(repeated.text.contains("journal"), "{}", repeated.text);
    let swapped = tampered(
        "UPDATE journal SET id = -1 WHERE id = 2; UPDATE journal SET id = 2 WHERE id = 3;
         UPDATE journal SET id = 3 WHERE id = -1;",
    );
    assert!(
        swapped.text.contains("row 2 of table journal"),
        "{}",
        swapped.text
    );
    let definition = tampered("DELETE FROM definition WHERE kind = 1 AND name = 2");
    assert!(
        definition.text.contains("definition"),
        "{}",
        definition.text
    );
    let state = tampered("DELETE FROM state");
    assert!(state.text.contains("state"), "{}", state.text);
}

#[test]
fn s05_an_old_version_of_a_row_is_found() {
    let dir = Dir::new();
    let mut store = dir.open();
    assert_eq!(Model::recovered(&mut store), Ok(Model::default()));
    put(&mut store, 1, vec![declared(1)]).expect("it is written");
    let messages = (0..300).map(|seq| enqueued(1, seq, 200)).collect();
    put(&mut store, 2, messages).expect("it is written");
    tend_all(&mut store);
    let old = dir.copy();
    let most = (0..290).map(|seq| removed(1, seq)).collect();
    put(&mut store, 3, most).expect("it is written");
    tend_all(&mut store);
    drop(store);
    drop(SqliteStore::open(old.config()).expect("the copy opens"));
    let conn = Connection::open(dir.database()).expect("SQLite opens it");
    conn.execute("ATTACH ?1 AS old", [old.database().to_str()])
        .expect("the old file is there");
    let changed = conn
        .execute(
            "UPDATE journal SET head = o.head, body = o.body FROM old.journal o
             WHERE o.id = journal.id AND o.body <> journal.body",
            [],
        )
        .expect("a row goes back");
    assert_eq!(changed, 1, "housekeeping wrote one row anew");
    drop(conn);
    let error = read(&dir).expect_err("the damage is found");
    assert!(error.text.contains("an old one"), "{}", error.text);
}

/// A crash in the middle of work: all commits are in the log. Also returns the states after each commit.
fn crashed() -> (Dir, Vec<Model>) {
    let dir = Dir::new();
    let config = qq_store_sqlite::StoreConfig {
        sync_writes: true,
        ..dir.config()
    };
    let mut store = SqliteStore::open(config).expect("it opens");
    assert_eq!(Model::recovered(&mut store), Ok(Model::default()));
    let models = fill(&mut store);
    let copy = dir.copy();
    assert!(fs::metadata(copy.wal()).expect("a log").len() > 100_000);
    (copy, models)
}

#[test]
fn r08_a_log_that_is_cut_anywhere_gives_a_state_that_was_confirmed() {
    let (dir, models) = crashed();
    let len = fs::metadata(dir.wal()).expect("a log").len();
    let mut seen = std::collections::BTreeSet::new();
    let step = (len / 150 / 512 + 1) * 512;
    for cut in (0..len).step_by(step as usize).chain(len - 300..=len) {
        if cut > len - 300 && !cut.is_multiple_of(29) && cut != len {
            continue;
        }
        let copy = dir.copy();
        let log = fs::OpenOptions::new()
            .write(true)
            .open(copy.wal())
            .expect("a log");
        log.set_len(cut).expect("it is cut");
        let model = read(&copy).expect("a log that is cut is as after a crash");
        let at = models.iter().position(|m| *m == model);
        seen.insert(at.unwrap_or_else(|| panic!("cut at {cut}: no state that was confirmed")));
    }
    assert!(
        seen.len() > 10 && seen.contains(&(models.len() - 1)),
        "{seen:?}"
    );
}

#[test]
fn r08_a_flipped_bit_in_the_log_costs_at_most_the_last_commit_or_is_found() {
    let (dir, models) = crashed();
    let bits = fs::metadata(dir.wal()).expect("a log").len() * 8;
    let (last, before) = (&models[models.len() - 1], &models[models.len() - 2]);
    let mut random = Random(0x5eed_0008);
    let (mut found, mut whole, mut torn) = (0, 0, 0);
    for _ in 0..300 {
        let bit = random.below(bits);
        let copy = dir.copy();
        flip(&copy.wal(), bit);
        match read(&copy) {
            Err(_) => found += 1,
            Ok(model) if model == *last => whole += 1,
            // The last commit cannot be told from one that the crash tore.
            Ok(model) if model == *before => torn += 1,
            Ok(_) => panic!("bit {bit}: commits are gone without a word"),
        }
    }
    assert!(
        found > 200 && torn < 60,
        "{found} found, {whole} whole, {torn} torn"
    );
}

#[test]
fn s01_a_torn_last_commit_is_dropped_without_help() {
    let (dir, models) = crashed();
    let bytes = fs::read(dir.wal()).expect("a log");
    let frame = 24 + 4096;
    let frames = (bytes.len() - 32) / frame;
    let is_commit = |n: usize| {
        let at = 32 + n * frame;
        bytes[at + 4..at + 8] != [0; 4] && bytes[at + 8..at + 16] == bytes[16..24]
    };
    let commits: Vec<usize> = (0..frames).filter(|n| is_commit(*n)).collect();
    let [.., before, last] = commits[..] else {
        panic!("two commits are in the log: {commits:?}");
    };
    // Each sector of the last commit may be missing while the others are there.
    for missing in before + 1..=last {
        for half in 0..2 {
            let copy = dir.copy();
            let mut torn = bytes.clone();
            let at = 32 + missing * frame + half * 2048;
            torn[at..at + 512].fill(0);
            fs::write(copy.wal(), torn).expect("it is written");
            let model = read(&copy).expect("a torn commit is no damage");
            let is_whole = model == models[models.len() - 1];
            assert!(is_whole || model == models[models.len() - 2]);
        }
    }
}

#[test]
fn du_05_files_that_are_no_store_are_refused_and_left_alone() {
    let (dir, _) = closed();
    let whole = fs::read(dir.database()).expect("a file");
    let refused = |content: &[u8]| {
        let copy = dir.copy();
        fs::write(copy.database(), content).expect("it is written");
        let error = read(&copy).expect_err("it is refused");
        let text = error.text.clone();
        assert!(
            text.contains("store.db") || text.contains("table") || text.contains("store"),
            "{text}"
        );
        assert_eq!(
            fs::read(copy.database()).expect("a file").len(),
            content.len(),
            "{text}"
        );
    };
    refused(&[]);
    refused(b"hello");
    refused(&whole[..whole.len() * 6 / 10]);
    let mut holed = whole.clone();
    let middle = whole.len() / 2 / 4096 * 4096;
    holed[middle..middle + 4096].fill(0);
    refused(&holed);
    let copy = dir.copy();
    fs::remove_file(copy.database()).expect("it is there");
    fs::write(copy.wal(), vec![1; 5000]).expect("it is written");
    let error = read(&copy).expect_err("a log without its database is refused");
    assert!(error.text.contains("is missing"), "{}", error.text);
    assert!(!copy.database().exists());
}
