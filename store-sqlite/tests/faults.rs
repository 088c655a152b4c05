//! System calls that fail under a real store: this test starts itself again under `strace`, which makes them fail.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes, files and the environment"
)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Dir, Model, declared, enqueued};
use qq_core::store::{Batch, BatchId, Store, StoreFault};
use qq_core::vocab::QueueId;
use qq_store_sqlite::{SqliteStore, StoreConfig};

/// Says to the second process where it is to write.
const DIR_KEY: &str = "QQ_STORE_TEST_DIR";
const COMMITS: u64 = 40;
const EACH: u64 = 20;

/// Writes commits and says what became of each. Without the folder in its environment it writes to one of its own, where
/// nothing fails.
#[test]
fn child_writes() {
    let own = Dir::new();
    let given = std::env::var(DIR_KEY).ok();
    let dir = given.as_ref().map_or_else(
        || own.path().join("data"),
        |dir| Path::new(dir).join("data"),
    );
    let config = StoreConfig {
        ballast_bytes: 0,
        ..StoreConfig::new(dir)
    };
    let opened = SqliteStore::open(config).and_then(|mut store| {
        store.recover(&mut |_| {})?;
        Ok(store)
    });
    let mut store = match opened {
        Ok(store) => store,
        Err(error) => {
            println!("unopened {}", error.text);
            return;
        }
    };
    for commit in 0..COMMITS {
        let mut ops = Vec::new();
        if commit == 0 {
            ops.push(declared(1));
        }
        ops.extend((commit * EACH..(commit + 1) * EACH).map(|seq| enqueued(1, seq, 1000)));
        store.submit(Batch {
            id: BatchId(commit + 1),
            ops,
        });
        loop {
            match store.flush() {
                Ok(upto) => {
                    assert_eq!(upto, Some(BatchId(commit + 1)));
                    println!("safe {}", commit + 1);
                    break;
                }
                Err(error) if error.fault == StoreFault::NoRoom => {
                    println!("noroom {}", error.text)
                }
                Err(error) => {
                    assert_eq!(error.fault, StoreFault::Fatal);
                    println!("fatal {}", error.text);
                    // Nothing works any more, and nothing is tried.
                    assert!(store.flush().is_err() && store.tend().is_err());
                    assert!(common::fetch(&mut store, 1, 0, 1).is_err());
                    return;
                }
            }
        }
    }
    if given.is_none() {
        drop(store);
        let mut store = unlocked(&own);
        let model = Model::recovered(&mut store).expect("it is sound");
        assert_eq!(model.0[&QueueId(1)].kept.len() as u64, COMMITS * EACH);
    }
}

/// Opens a store that was just closed. A child that another test starts at that moment has the file of the lock, too,
/// until it becomes another program.
fn unlocked(dir: &Dir) -> SqliteStore {
    for _ in 0..1_000 {
        match SqliteStore::open(dir.config()) {
            Err(error) if error.text.contains("in use") => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            opened => return opened.expect("the store opens"),
        }
    }
    panic!("the store stays locked");
}

#[derive(Debug, Default)]
struct Outcome {
    safe: u64,
    noroom: u64,
    fatal: Option<String>,
    is_unopened: bool,
}

/// Runs the writer with system calls that fail, then opens what is left without.
fn run(inject: &str) -> Outcome {
    let dir = Dir::new();
    let output = Command::new("strace")
        .args([
            "-f",
            "-q",
            "-e",
            "signal=none",
            "-e",
            "trace=pwrite64,pread64,fsync,fdatasync",
            "-o",
            "/dev/null",
            "-e",
            inject,
        ])
        .arg(std::env::current_exe().expect("this test"))
        .args(["--exact", "child_writes", "--nocapture", "--test-threads=1"])
        .env(DIR_KEY, dir.path())
        .output()
        .expect("strace is needed: apt-get install strace");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{inject}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut outcome = Outcome::default();
    for line in text.lines() {
        // The harness writes the test's name in front of its first line.
        let line = line.rsplit("... ").next().unwrap_or(line);
        match line.split_once(' ') {
            Some(("safe", commit)) => {
                assert!(
                    outcome.fatal.is_none(),
                    "{inject}: safe after a failure: {text}"
                );
                outcome.safe = commit.parse().expect("a number");
            }
            Some(("noroom", _)) => outcome.noroom += 1,
            Some(("fatal", error)) => outcome.fatal = Some(error.to_string()),
            Some(("unopened", _)) => outcome.is_unopened = true,
            _ => {}
        }
    }
    let mut store = dir.open();
    let model = Model::recovered(&mut store).unwrap_or_else(|e| panic!("{inject}: {}", e.text));
    let kept = model
        .0
        .get(&QueueId(1))
        .map_or(0, |queue| queue.kept.len() as u64);
    assert!(
        kept >= outcome.safe * EACH,
        "{inject}: {kept} kept, {outcome:?}"
    );
    assert!(
        kept <= (outcome.safe + 1) * EACH,
        "{inject}: {kept} kept, {outcome:?}"
    );
    outcome
}

#[test]
fn s03_after_a_failed_sync_nothing_is_said_to_be_safe() {
    let mut fatal = 0;
    // SQLite calls fdatasync: the first ones make the store, the others follow commits. The store itself calls fsync
    // for the new file and its folder. Each call is counted for itself.
    let syncs = [1, 5, 25, 30, 40, 55].map(|at| ("fdatasync", at));
    for (call, at) in syncs.into_iter().chain([("fsync", 1), ("fsync", 2)]) {
        let outcome = run(&format!("inject={call}:error=EIO:when={at}"));
        assert_eq!(outcome.noroom, 0, "a sync is not tried again: {outcome:?}");
        assert!(
            outcome.fatal.is_some() != outcome.is_unopened,
            "{call} {at}: {outcome:?}"
        );
        fatal += u32::from(outcome.fatal.is_some());
    }
    assert!(fatal >= 4, "{fatal}");
}

#[test]
fn s04_a_full_disk_is_waited_for_and_then_everything_is_written() {
    let mut waited = 0;
    for at in [60, 75, 100, 150, 200] {
        let outcome = run(&format!(
            "inject=pwrite64:error=ENOSPC:when={at}..{}",
            at + 2
        ));
        assert!(
            outcome.fatal.is_none() && !outcome.is_unopened,
            "{outcome:?}"
        );
        assert_eq!(outcome.safe, COMMITS);
        waited += outcome.noroom;
    }
    assert!(waited >= 5, "{waited}");
}

#[test]
fn s04_a_failed_write_is_tried_again_and_one_that_stays_is_the_end() {
    for at in [80, 120] {
        let outcome = run(&format!("inject=pwrite64:error=EIO:when={at}"));
        assert!(outcome.fatal.is_none(), "{outcome:?}");
        assert_eq!((outcome.safe, outcome.noroom), (COMMITS, 1));
        let outcome = run(&format!("inject=pwrite64:error=EIO:when={at}+"));
        assert!(outcome.fatal.is_some(), "{outcome:?}");
        assert_eq!(outcome.noroom, 2, "{outcome:?}");
    }
}

#[test]
fn s05_a_read_that_fails_is_told() {
    for at in [5, 8, 12] {
        run(&format!("inject=pread64:error=EIO:when={at}"));
    }
}
