//! How fast the store is on this machine's disk, beside what appending to a file and syncing it costs.
//!
//! `cargo run --release -p qq-store-sqlite --example journal [folder [long]]` writes below `folder` (default: the current
//! one); with a second word it also fills and drains ten million messages.
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark owns clocks, files and processes"
)]

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use qq_core::broker::QueueSpec;
use qq_core::store::{Batch, BatchId, Fetch, Op, Store, StoredMessage};
use qq_core::vocab::{Envelope, Format, Message, QueueId, Seq};
use qq_store_sqlite::{SqliteStore, StoreConfig};

/// How long each load runs.
const RUN: Duration = Duration::from_secs(4);
/// A message leaves so many commits after it came.
const LAG_COMMITS: u64 = 4;

fn message(len: usize) -> Arc<Message> {
    Message {
        envelope: Envelope {
            durable: true,
            priority: 4,
            ..Envelope::default()
        },
        format: Format::Amqp(0),
        payload: Bytes::from(vec![b'x'; len]),
    }
    .share()
}

fn enqueued(message: &Arc<Message>, queue: u64, seq: u64) -> Op {
    Op::Enqueued(StoredMessage {
        message: Arc::clone(message),
        arrived_at_ms: 1_700_000_000_000,
        places: smallvec::smallvec![(QueueId(queue), Seq(seq))],
    })
}

/// Bytes that this process had written to disk, if the system counts them.
fn written_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("write_bytes: "))
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0)
}

/// Time that this process had a processor: what it costs on a machine that does other things too.
fn on_cpu() -> Duration {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

fn resident_mib() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|value| value.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

fn open(dir: &Path, queues: u64, sync_writes: bool) -> SqliteStore {
    let _ = fs::remove_dir_all(dir);
    let config = StoreConfig {
        sync_writes,
        ..StoreConfig::new(dir)
    };
    let mut store = SqliteStore::open(config).expect("the store opens");
    store.recover(&mut |_| {}).expect("an empty store");
    let ops = (0..queues)
        .map(|queue| Op::QueueDeclared {
            queue: QueueId(queue),
            spec: Arc::new(QueueSpec::new(format!("queue {queue}"))),
        })
        .collect();
    store.submit(Batch {
        id: BatchId(0),
        ops,
    });
    store.flush().expect("it is written");
    store
}

/// A steady load: what comes in one commit leaves in a later one.
fn steady(dir: &Path, queues: u64, each: u64, len: usize, sync_writes: bool) {
    let mut store = open(dir, queues, sync_writes);
    let message = message(len);
    let (mut commit, mut in_store, mut cpu) = (0u64, Duration::ZERO, Duration::ZERO);
    let (begin, written) = (Instant::now(), written_bytes());
    while begin.elapsed() < RUN {
        commit += 1;
        let mut ops = Vec::with_capacity((queues * each * 2) as usize);
        for seq in 0..each {
            for queue in 0..queues {
                ops.push(enqueued(&message, queue, commit * each + seq));
            }
        }
        if commit > LAG_COMMITS {
            for queue in 0..queues {
                for seq in 0..each {
                    ops.push(Op::Removed {
                        queue: QueueId(queue),
                        seq: Seq((commit - LAG_COMMITS) * each + seq),
                        count: 1,
                    });
                }
            }
        }
        let (at, cpu_at) = (Instant::now(), on_cpu());
        store.submit(Batch {
            id: BatchId(commit),
            ops,
        });
        store.flush().expect("it is written");
        in_store += at.elapsed();
        cpu += on_cpu().saturating_sub(cpu_at);
    }
    let messages = commit * queues * each;
    println!(
        "{queues:5} queues x {each:4} x {len:5} B  {:6.2} M msg/s  {:6.3} ms/commit ({:5.3} on cpu)  {:5.0} bytes written/msg{}",
        messages as f64 / in_store.as_secs_f64() / 1e6,
        in_store.as_secs_f64() * 1e3 / commit as f64,
        cpu.as_secs_f64() * 1e3 / commit as f64,
        (written_bytes() - written) as f64 / messages as f64,
        if sync_writes { "" } else { "  (not synced)" },
    );
}

/// What a file costs that is only appended to.
fn floor(dir: &Path, bytes: usize, is_preallocated: bool) {
    let _ = fs::create_dir_all(dir);
    let path = dir.join("floor");
    let mut file = File::create(&path).expect("a file");
    let size = 1u64 << 28;
    if is_preallocated {
        let zeros = vec![0; 1 << 20];
        for _ in 0..size >> 20 {
            file.write_all(&zeros).expect("it is written");
        }
        file.sync_all().expect("it is synced");
        file.rewind().expect("a file has a beginning");
    }
    let block = vec![b'x'; bytes];
    let (mut commits, mut at) = (0u64, 0);
    let begin = Instant::now();
    while begin.elapsed() < RUN / 2 {
        if is_preallocated && at + bytes as u64 > size {
            file.rewind().expect("a file has a beginning");
            at = 0;
        }
        file.write_all(&block).expect("it is written");
        file.sync_data().expect("it is synced");
        at += bytes as u64;
        commits += 1;
    }
    let took = begin.elapsed().as_secs_f64();
    println!(
        "floor: append {bytes:7} B + fdatasync, {}  {:6.3} ms  ({:.2} M msg/s of 100 B)",
        if is_preallocated {
            "preallocated"
        } else {
            "growing     "
        },
        took * 1e3 / commits as f64,
        commits as f64 * bytes as f64 / 100.0 / took / 1e6,
    );
    let _ = fs::remove_file(&path);
}

/// A backlog that is filled, recovered, read and removed.
fn backlog(dir: &Path, messages: u64) {
    let mut store = open(dir, 1, false);
    let message = message(100);
    let begin = Instant::now();
    in_thousands(&mut store, messages, |seq| enqueued(&message, 0, seq));
    println!(
        "backlog of {messages}: filled in {:.2} s",
        begin.elapsed().as_secs_f64()
    );
    drop(store);
    let mut store = recovered(dir, messages);
    read(&mut store, messages);
    let begin = Instant::now();
    in_thousands(&mut store, messages, |seq| Op::Removed {
        queue: QueueId(0),
        seq: Seq(seq),
        count: 1,
    });
    println!(
        "    removed a thousand per sync: {:.2} M msg/s",
        messages as f64 / begin.elapsed().as_secs_f64() / 1e6
    );
    give_back(&mut store, dir);
}

/// Commits of a thousand operations each.
fn in_thousands(store: &mut SqliteStore, messages: u64, op: impl Fn(u64) -> Op) {
    for commit in 0..messages / 1000 {
        let ops = (commit * 1000..commit * 1000 + 1000).map(&op).collect();
        store.submit(Batch {
            id: BatchId(commit + 1),
            ops,
        });
        store.flush().expect("it is written");
    }
}

fn recovered(dir: &Path, messages: u64) -> SqliteStore {
    let (begin, cpu) = (Instant::now(), on_cpu());
    let mut store = SqliteStore::open(StoreConfig::new(dir)).expect("the store opens");
    let opened = begin.elapsed();
    let mut found = 0u64;
    store
        .recover(&mut |op| found += u64::from(matches!(op, Op::Enqueued(_))))
        .expect("the store can be read");
    assert_eq!(found, messages);
    println!(
        "    opened in {:.3} s, recovered in {:.3} s ({:.3} on cpu), {} MiB resident",
        opened.as_secs_f64(),
        begin.elapsed().as_secs_f64(),
        (on_cpu() - cpu).as_secs_f64(),
        resident_mib(),
    );
    store
}

fn read(store: &mut SqliteStore, messages: u64) {
    let (begin, cpu) = (Instant::now(), on_cpu());
    let mut read = 0;
    while read < messages {
        let fetch = Fetch {
            queue: QueueId(0),
            first: Seq(read),
            count: 1024,
        };
        read += store.fetch(&fetch).expect("it can be read").len() as u64;
    }
    println!(
        "    read in chunks of 1024: {:.2} M msg/s ({:.2} M per second on cpu)",
        messages as f64 / begin.elapsed().as_secs_f64() / 1e6,
        messages as f64 / (on_cpu() - cpu).as_secs_f64() / 1e6
    );
}

fn give_back(store: &mut SqliteStore, dir: &Path) {
    let begin = Instant::now();
    let mut steps = 0;
    while store.tend().expect("housekeeping works") {
        steps += 1;
    }
    let took = begin.elapsed();
    // The log is cut when nothing was written for a second.
    std::thread::sleep(Duration::from_millis(1100));
    store.tend().expect("housekeeping works");
    let size = fs::metadata(dir.join("store.db")).map_or(0, |meta| meta.len());
    println!(
        "    space returned in {steps} steps, {:.2} s; the database has {} KiB",
        took.as_secs_f64(),
        size / 1024
    );
}

fn main() {
    let dir = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let dir = Path::new(&dir).join("journal-bench");
    for is_preallocated in [false, true] {
        floor(&dir, 100_000, is_preallocated);
    }
    floor(&dir, 1_000_000, false);
    steady(&dir, 1, 1000, 100, true);
    steady(&dir, 100, 10, 100, true);
    steady(&dir, 1000, 1, 100, true);
    steady(&dir, 1, 1000, 1024, true);
    steady(&dir, 1, 1, 100, true);
    steady(&dir, 1, 50, 100, true);
    steady(&dir, 1, 1000, 100, false);
    backlog(&dir, 1_000_000);
    if std::env::args().nth(2).is_some() {
        backlog(&dir, 10_000_000);
    }
    let _ = fs::remove_dir_all(&dir);
}
