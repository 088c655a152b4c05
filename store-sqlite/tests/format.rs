//! S15: stores that earlier versions wrote are opened by this one, with everything in them.
//!
//! `stores/format-N/` holds a store as format N wrote it first, after a clean end. `UPDATE_STORES=1 cargo test -p
//! qq-store-sqlite --test format` writes one for a format that has none yet; those that are there are never written anew,
//! since what they prove is that the files of then can still be read.
#![allow(clippy::disallowed_methods, reason = "tests own files")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use common::{Dir, Model, declared, enqueued, message, put, removed, tend_all};
use qq_core::broker::QueueSpec;
use qq_core::route::{BindingSpec, ExchangeKind, ExchangeSpec};
use qq_core::store::{Op, StoredMessage};
use qq_core::vocab::{QueueId, Seq};
use qq_store_sqlite::{FORMAT, check};

fn stored(format: i32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/stores/format-{format}/store.db"))
}

/// What every store here was filled with: each thing that format 1 can hold, and nothing that came later.
fn batches() -> Vec<Vec<Op>> {
    let limited = QueueSpec {
        message_ttl_ms: Some(60_000),
        max_length: Some(1_000),
        ..QueueSpec::new("limited")
    };
    let shared = StoredMessage {
        message: message(99, 40),
        arrived_at_ms: 1_700_000_000_123,
        places: [(QueueId(1), Seq(5)), (QueueId(3), Seq(0))]
            .into_iter()
            .collect(),
    };
    vec![
        vec![
            declared(1),
            declared(2),
            Op::QueueDeclared {
                queue: QueueId(3),
                spec: Arc::new(limited),
            },
            Op::ExchangeDeclared {
                spec: Arc::new(ExchangeSpec::new("logs", ExchangeKind::Topic)),
            },
            Op::Bound {
                spec: Arc::new(BindingSpec::to_queue("logs", "queue 1", "a.#")),
            },
        ],
        (0..5).map(|seq| enqueued(1, seq, 60)).collect(),
        vec![Op::Enqueued(shared), enqueued(2, 0, 70_000)],
        vec![
            removed(1, 0),
            removed(1, 3),
            Op::Returned {
                queue: QueueId(1),
                seq: Seq(4),
                delivery_count: 3,
                annotations: Some(Bytes::from_static(b"\xc1\x01\x00")),
            },
        ],
        vec![Op::QueueDeleted { queue: QueueId(2) }],
    ]
}

fn write(format: i32) {
    let dir = Dir::new();
    let mut store = dir.open();
    Model::recovered(&mut store).expect("an empty store");
    for (id, ops) in (1..).zip(batches()) {
        put(&mut store, id, ops).expect("it is written");
    }
    tend_all(&mut store);
    drop(store);
    let to = stored(format);
    fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
    fs::copy(dir.database(), to).expect("a copy");
}

#[test]
fn s15_stores_of_every_earlier_format_open_whole() {
    if std::env::var_os("UPDATE_STORES").is_some() && !stored(FORMAT).exists() {
        write(FORMAT);
    }
    let mut expected = Model::default();
    batches().iter().flatten().for_each(|op| expected.apply(op));
    for format in 1..=FORMAT {
        let dir = Dir::new();
        let data = dir.path().join("data");
        fs::create_dir_all(&data).expect("a folder");
        fs::copy(stored(format), dir.database()).expect("a store of each format is kept here");
        let recovered = Model::recovered(&mut dir.open());
        assert_eq!(recovered.as_ref(), Ok(&expected), "format {format}");
        // And what it writes by itself is as sound as what it found.
        let report = check(&data).expect("it can be checked");
        assert!(report.is_sound(), "format {format}: {report:?}");
    }
}
