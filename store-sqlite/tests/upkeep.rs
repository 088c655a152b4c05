//! What an operator does: check, salvage, back up under load, restore; and what opening refuses.
#![allow(clippy::disallowed_methods, reason = "tests own files and threads")]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{Dir, Model, declared, enqueued, fetch, put, removed, tend_all};
use qq_core::route::{BindingSpec, ExchangeKind, ExchangeSpec};
use qq_core::store::{Op, Store, StoreFault};
use qq_core::vocab::{QueueId, Seq};
use qq_store_sqlite::{FORMAT, SqliteStore, StoreConfig, backup, check, restore, salvage};
use rusqlite::Connection;

fn filled(dir: &Dir) -> (SqliteStore, Model) {
    let mut store = dir.open();
    let mut model = Model::recovered(&mut store).expect("an empty store");
    let mut commit = |id, ops: Vec<Op>| {
        ops.iter().for_each(|op| model.apply(op));
        put(&mut store, id, ops).expect("it is written");
    };
    let exchange = Arc::new(ExchangeSpec::new("logs", ExchangeKind::Topic));
    let binding = Arc::new(BindingSpec::to_queue("logs", "queue 1", "a.#"));
    commit(
        1,
        vec![
            declared(1),
            declared(2),
            Op::ExchangeDeclared { spec: exchange },
            Op::Bound { spec: binding },
        ],
    );
    for round in 0..10 {
        let ops = (0..50).flat_map(|n| (1..=2).map(move |q| enqueued(q, round * 50 + n, 200)));
        commit(round + 2, ops.collect());
    }
    commit(12, (0..75).map(|seq| removed(1, seq)).collect());
    let back = Op::Returned {
        queue: QueueId(2),
        seq: Seq(7),
        delivery_count: 3,
        annotations: None,
    };
    commit(13, vec![back]);
    (store, model)
}

fn reopened(config: StoreConfig) -> Model {
    let mut store = SqliteStore::open(config).expect("it opens");
    Model::recovered(&mut store).expect("it is sound")
}

fn sql(path: &Path, text: &str) {
    let conn = Connection::open(path).expect("SQLite opens it");
    conn.execute_batch(text).expect("it is changed");
}

#[test]
fn a_sound_store_is_found_sound_and_not_changed() {
    let dir = Dir::new();
    let (store, _) = filled(&dir);
    let report = check(&dir.path().join("data")).expect("it can be read while in use");
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.queues, report.messages), (2, 925));
    let crashed = dir.copy();
    drop(store);
    let before = (
        fs::read(crashed.database()).ok(),
        fs::read(crashed.wal()).ok(),
    );
    let report = check(&crashed.path().join("data")).expect("it can be read after a crash");
    assert!(report.is_sound(), "{report}");
    assert_eq!(report.messages, 925);
    let after = (
        fs::read(crashed.database()).ok(),
        fs::read(crashed.wal()).ok(),
    );
    assert_eq!(before, after, "a check changes nothing");
    assert!(report.to_string().contains("925 messages"), "{report}");
    let nothing = Dir::new();
    assert!(check(nothing.path()).is_err());
    assert_eq!(fs::read_dir(nothing.path()).expect("a folder").count(), 0);
}

#[test]
fn a_damaged_message_is_named_and_everything_else_is_salvaged() {
    let dir = Dir::new();
    let (store, model) = filled(&dir);
    drop(store);
    let data = dir.path().join("data");
    // The third row has positions 100 to 149 of both queues; its last message is that of queue 2.
    sql(
        &dir.database(),
        "UPDATE journal SET body = CAST(substr(body, 1, length(body) - 20) || x'00'
           || substr(body, length(body) - 18) AS BLOB) WHERE id = 3",
    );
    let error = SqliteStore::open(dir.config())
        .and_then(|mut store| Model::recovered(&mut store))
        .expect_err("it is refused");
    assert_eq!(error.fault, StoreFault::Damaged);
    assert!(
        error.text.contains("row 3 of table journal")
            && error.text.contains("queue 2 positions 100 to 149"),
        "{}",
        error.text
    );
    let report = check(&data).expect("it can be checked");
    assert!(!report.is_sound());
    assert!(
        report
            .damage
            .iter()
            .any(|d| d.contains("row 3 of table journal")),
        "{report}"
    );
    let report = salvage(&data, "2026-11-30").expect("it is salvaged");
    let [lost] = &report.lost[..] else {
        panic!("one message is lost: {report}");
    };
    assert_eq!(
        (lost.queue.as_str(), lost.positions, lost.messages),
        ("queue 2", (149, 149), 1)
    );
    let mut expected = model;
    expected.apply(&removed(2, 149));
    assert_eq!(reopened(dir.config()), expected);
    assert!(check(&data).expect("it can be checked").is_sound());
    assert!(data.join("store.db.damaged-2026-11-30").exists());
}

#[test]
fn a_lost_row_is_told_by_queue_and_positions() {
    let dir = Dir::new();
    let (store, mut expected) = filled(&dir);
    drop(store);
    let data = dir.path().join("data");
    sql(&dir.database(), "DELETE FROM journal WHERE id = 5");
    let report = salvage(&data, "x").expect("it is salvaged");
    assert!(
        report.damage.iter().any(|d| d.contains("row 5")),
        "{report}"
    );
    let lost: Vec<_> = report
        .lost
        .iter()
        .map(|lost| (lost.queue.as_str(), lost.positions, lost.messages))
        .collect();
    assert_eq!(
        lost,
        [("queue 1", (200, 249), 50), ("queue 2", (200, 249), 50)]
    );
    for seq in 200..250 {
        expected.apply(&removed(1, seq));
        expected.apply(&removed(2, seq));
    }
    assert_eq!(reopened(dir.config()), expected);
}

#[test]
fn messages_survive_the_definition_of_their_queue() {
    let dir = Dir::new();
    let (store, model) = filled(&dir);
    drop(store);
    let data = dir.path().join("data");
    sql(
        &dir.database(),
        "UPDATE definition SET value = x'010203' || value WHERE kind = 1 AND name = 2",
    );
    let report = salvage(&data, "x").expect("it is salvaged");
    assert!(
        report.notes.iter().any(|n| n.contains("salvaged.2")),
        "{report}"
    );
    let found = reopened(dir.config());
    assert_eq!(found.0[&QueueId(1)], model.0[&QueueId(1)]);
    let other = found
        .0
        .iter()
        .find(|(id, _)| id.0 != 1)
        .expect("a second queue");
    assert_eq!(other.1.spec.name, "salvaged.2");
    assert_eq!(other.1.kept, model.0[&QueueId(2)].kept);
}

#[test]
fn a_salvage_that_was_interrupted_is_finished_and_nothing_opens_before() {
    let dir = Dir::new();
    let (store, model) = filled(&dir);
    drop(store);
    let data = dir.path().join("data");
    // As if the power had gone between making the new store and putting it in place.
    let aside = Dir::new();
    restore_copy(&dir, &aside);
    let new = data.join("salvage.new");
    fs::create_dir_all(&new).expect("a folder");
    fs::copy(aside.database(), new.join("store.db")).expect("a copy");
    fs::write(new.join("complete"), "").expect("a mark");
    fs::write(dir.database(), b"damaged").expect("it is written");
    let error = SqliteStore::open(dir.config()).expect_err("it waits for the salvage");
    assert!(error.text.contains("salvage it again"), "{}", error.text);
    salvage(&data, "later").expect("it is finished");
    assert_eq!(reopened(dir.config()), model);
    assert_eq!(
        fs::read(data.join("store.db.damaged-later")).expect("the old one"),
        b"damaged"
    );
    assert!(!new.exists());
}

fn restore_copy(from: &Dir, to: &Dir) {
    let file = to.path().join("copy");
    backup(&from.path().join("data"), &file).expect("it is copied");
    restore(&file, &to.path().join("data")).expect("it is put in place");
}

#[test]
fn r17_a_backup_under_load_holds_everything_that_was_confirmed_before() {
    let dir = Dir::new();
    let mut store = dir.open();
    assert_eq!(Model::recovered(&mut store), Ok(Model::default()));
    put(&mut store, 1, vec![declared(1)]).expect("it is written");
    let data = dir.path().join("data");
    let (mut commit, mut copies) = (1, Vec::new());
    std::thread::scope(|scope| {
        for number in 0..4 {
            let first = commit;
            let dest = dir.path().join(format!("copy-{number}"));
            let (data, theirs) = (&data, dest.clone());
            let copy = scope.spawn(move || backup(data, &theirs));
            // One commit at least falls into each copy, more if it takes long.
            while !copy.is_finished() || commit < first + 50 {
                let seq = (commit - 1) * 20;
                let ops = (seq..seq + 20).map(|seq| enqueued(1, seq, 500)).collect();
                commit += 1;
                put(&mut store, commit, ops).expect("it is written while a copy is made");
            }
            let report = copy.join().expect("no panic").expect("the copy is sound");
            copies.push((dest, (first - 1) * 20, (commit - 1) * 20, report.messages));
        }
    });
    for (number, (copy, at_least, at_most, counted)) in copies.into_iter().enumerate() {
        let elsewhere = Dir::new();
        let report = restore(&copy, &elsewhere.path().join("data")).expect("it is put in place");
        assert_eq!(report.messages, counted);
        let kept = reopened(elsewhere.config()).0[&QueueId(1)].kept.len() as u64;
        assert_eq!(kept, counted);
        assert!(
            (at_least..=at_most).contains(&kept),
            "copy {number}: {at_least} {kept} {at_most}"
        );
        assert!(kept.is_multiple_of(20), "a commit is whole or not there");
        let mut store = elsewhere.open();
        store.recover(&mut |_| {}).expect("it is sound");
        let first = fetch(&mut store, 1, 0, 1).expect("it can be read");
        assert_eq!(first.len(), usize::from(kept > 0));
    }
}

#[test]
fn a_copy_never_overwrites_and_is_verified_before_it_is_used() {
    let dir = Dir::new();
    let (store, model) = filled(&dir);
    let data = dir.path().join("data");
    let file = dir.path().join("copy");
    fs::write(&file, "something else").expect("it is written");
    assert!(
        backup(&data, &file)
            .expect_err("it is there")
            .text
            .contains("there already")
    );
    assert_eq!(fs::read(&file).expect("a file"), b"something else");
    fs::remove_file(&file).expect("it is there");
    backup(&data, &file).expect("it is copied");
    let error = restore(&file, &data).expect_err("the store is in use");
    assert!(error.text.contains("in use"), "{}", error.text);
    drop(store);
    let error = restore(&file, &data).expect_err("there is a store");
    assert!(error.text.contains("there already"), "{}", error.text);
    let elsewhere = Dir::new();
    let there = elsewhere.path().join("data");
    let mut bytes = fs::read(&file).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    let bad = dir.path().join("bad");
    fs::write(&bad, &bytes).expect("it is written");
    let error = restore(&bad, &there).expect_err("it is damaged");
    assert_eq!(error.fault, StoreFault::Damaged);
    assert!(!elsewhere.database().exists());
    restore(&file, &there).expect("the good copy is used");
    assert_eq!(reopened(elsewhere.config()), model);
}

#[test]
fn a_second_opener_is_told_who_has_the_store() {
    let dir = Dir::new();
    let store = dir.open();
    let error = SqliteStore::open(dir.config()).expect_err("it is in use");
    assert_eq!(error.fault, StoreFault::Fatal);
    let pid = std::process::id().to_string();
    assert!(
        error.text.contains("in use") && error.text.contains(&pid),
        "{}",
        error.text
    );
    drop(store);
    drop(dir.open());
}

#[test]
fn s15_a_newer_format_is_refused_and_left_alone() {
    let dir = Dir::new();
    let (store, _) = filled(&dir);
    drop(store);
    sql(
        &dir.database(),
        &format!("PRAGMA user_version = {}", FORMAT + 1),
    );
    let before = fs::read(dir.database()).expect("a file");
    let error = SqliteStore::open(dir.config()).expect_err("it is newer");
    assert!(
        error.text.contains("newer version")
            && error.text.contains(&format!("format {}", FORMAT + 1)),
        "{}",
        error.text
    );
    assert_eq!(fs::read(dir.database()).expect("a file"), before);
    let data = dir.path().join("data");
    assert!(salvage(&data, "x").is_err());
    assert_eq!(fs::read(dir.database()).expect("a file"), before);
}

#[test]
fn du_02_and_du_03_positions_go_on_after_crashes() {
    let mut dir = Dir::new();
    let mut model = Model::default();
    let mut next = 0;
    for round in 0..4 {
        let mut store = dir.open();
        assert_eq!(
            Model::recovered(&mut store).as_ref(),
            Ok(&model),
            "round {round}"
        );
        let mut ops = Vec::new();
        if round == 0 {
            ops.push(declared(1));
        }
        ops.extend((next..next + 10).map(|seq| enqueued(1, seq, 50)));
        ops.iter().for_each(|op| model.apply(op));
        put(&mut store, 1, ops).expect("it is written");
        // Everything leaves, so nothing but the count tells where the queue stands.
        let ops: Vec<Op> = (next..next + 10).map(|seq| removed(1, seq)).collect();
        ops.iter().for_each(|op| model.apply(op));
        put(&mut store, 2, ops).expect("it is written");
        next += 10;
        if round % 2 == 1 {
            tend_all(&mut store);
        }
        dir = dir.copy();
    }
    assert_eq!(model.0[&QueueId(1)].next, 40);
}
