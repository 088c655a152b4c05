//! What the store's tests share: a folder of their own, messages, and a model that a store must agree with.
#![allow(dead_code, reason = "every test file takes what it needs")]
#![allow(clippy::disallowed_methods, reason = "tests own files")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use qq_core::broker::QueueSpec;
use qq_core::store::{Batch, BatchId, Fetch, Op, Store, StoreError, StoredMessage};
use qq_core::vocab::{Envelope, Format, Message, QueueId, Seq};
use qq_store_sqlite::{SqliteStore, StoreConfig};

/// A folder that goes with the test.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("qq-store-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Settings without waiting for the disk: what is tested here does not depend on it.
    pub(crate) fn config(&self) -> StoreConfig {
        StoreConfig {
            sync_writes: false,
            ballast_bytes: 0,
            ..StoreConfig::new(self.0.join("data"))
        }
    }

    pub(crate) fn open(&self) -> SqliteStore {
        SqliteStore::open(self.config()).expect("the store opens")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("data/store.db")
    }

    pub(crate) fn wal(&self) -> PathBuf {
        self.0.join("data/store.db-wal")
    }

    /// The folder of the store as it is now, as a crash of the process would leave it.
    pub(crate) fn copy(&self) -> Dir {
        let copy = Dir::new();
        let data = copy.0.join("data");
        std::fs::create_dir_all(&data).expect("a folder");
        for name in ["store.db", "store.db-wal", "lock"] {
            let from = self.0.join("data").join(name);
            if from.exists() {
                std::fs::copy(from, data.join(name)).expect("a copy");
            }
        }
        copy
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A message whose bytes follow from a number.
pub(crate) fn message(number: u64, len: usize) -> Arc<Message> {
    let mut random = Random(number);
    let mut payload = number.to_le_bytes().to_vec();
    while payload.len() < len {
        payload.extend(random.next().to_le_bytes());
    }
    payload.truncate(len.max(8));
    Message {
        envelope: Envelope {
            durable: true,
            priority: 4,
            ttl_ms: number.is_multiple_of(3).then_some(number),
            subject: number
                .is_multiple_of(5)
                .then(|| Bytes::from(format!("subject {number}"))),
            ..Envelope::default()
        },
        format: if number.is_multiple_of(7) {
            Format::Binary
        } else {
            Format::Amqp(0)
        },
        payload: Bytes::from(payload),
    }
    .share()
}

pub(crate) fn declared(queue: u64) -> Op {
    Op::QueueDeclared {
        queue: QueueId(queue),
        spec: Arc::new(QueueSpec::new(format!("queue {queue}"))),
    }
}

pub(crate) fn enqueued(queue: u64, seq: u64, len: usize) -> Op {
    Op::Enqueued(StoredMessage {
        message: message(queue << 40 | seq, len),
        arrived_at_ms: 1_700_000_000_000 + seq as i64,
        places: smallvec::smallvec![(QueueId(queue), Seq(seq))],
    })
}

pub(crate) fn removed(queue: u64, seq: u64) -> Op {
    Op::Removed {
        queue: QueueId(queue),
        seq: Seq(seq),
        count: 1,
    }
}

/// Submits one batch and makes it safe.
pub(crate) fn put(store: &mut SqliteStore, id: u64, ops: Vec<Op>) -> Result<(), StoreError> {
    store.submit(Batch {
        id: BatchId(id),
        ops,
    });
    let upto = store.flush()?;
    assert_eq!(upto, Some(BatchId(id)));
    Ok(())
}

pub(crate) fn fetch(
    store: &mut SqliteStore,
    queue: u64,
    first: u64,
    count: u32,
) -> Result<Vec<(Seq, Arc<Message>)>, StoreError> {
    store.fetch(&Fetch {
        queue: QueueId(queue),
        first: Seq(first),
        count,
    })
}

/// Does all housekeeping that there is.
pub(crate) fn tend_all(store: &mut SqliteStore) {
    for _ in 0..100_000 {
        if !store.tend().expect("housekeeping works") {
            return;
        }
    }
    panic!("housekeeping does not come to an end");
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    pub(crate) message: Arc<Message>,
    pub(crate) arrived_at_ms: i64,
    pub(crate) delivery_count: u32,
    pub(crate) annotations: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelQueue {
    pub(crate) spec: Arc<QueueSpec>,
    pub(crate) next: u64,
    pub(crate) kept: BTreeMap<u64, Kept>,
    pub(crate) offsets: BTreeMap<String, Seq>,
}

/// The plain meaning of operations: queues, and what declares the exchanges and bindings that are there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model(
    pub(crate) BTreeMap<QueueId, ModelQueue>,
    pub(crate) BTreeMap<String, Op>,
);

impl ModelQueue {
    fn new(spec: Arc<QueueSpec>) -> Self {
        Self {
            spec,
            next: 0,
            kept: BTreeMap::new(),
            offsets: BTreeMap::new(),
        }
    }
}

impl Model {
    fn enqueue(&mut self, stored: &StoredMessage) {
        for (id, seq) in &stored.places {
            let Some(queue) = self.0.get_mut(id) else {
                continue;
            };
            // As the broker does: a position that is not behind all others cannot be filled.
            assert!(seq.0 >= queue.next, "{id:?} {seq:?} < {}", queue.next);
            queue.next = seq.0 + 1;
            let kept = Kept {
                message: Arc::clone(&stored.message),
                arrived_at_ms: stored.arrived_at_ms,
                delivery_count: 0,
                annotations: None,
            };
            queue.kept.insert(seq.0, kept);
        }
    }

    fn note_offset(&mut self, queue: QueueId, reader: &str, next: Option<Seq>) {
        if let Some(queue) = self.0.get_mut(&queue) {
            match next {
                Some(next) => queue.offsets.insert(reader.to_owned(), next),
                None => queue.offsets.remove(reader),
            };
        }
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::QueueDeclared { queue, spec } => {
                let empty = ModelQueue::new(Arc::clone(spec));
                let before = self.0.insert(*queue, empty);
                assert!(before.is_none(), "{queue:?} is declared twice");
            }
            Op::QueueDeleted { queue } => {
                self.0.remove(queue);
            }
            Op::ExchangeDeclared { spec } => {
                self.1.insert(spec.name.clone(), op.clone());
            }
            Op::ExchangeDeleted { name } => {
                self.1.remove(name);
            }
            Op::Bound { spec } => {
                self.1.insert(format!("{spec:?}"), op.clone());
            }
            Op::Unbound { spec } => {
                self.1.remove(&format!("{spec:?}"));
            }
            Op::SchemaRegistered { record } => {
                let name = format!("schema {} {}", record.subject, record.version);
                self.1.insert(name, op.clone());
            }
            Op::SchemaForgotten { subject, version } => {
                self.1.remove(&format!("schema {subject} {version}"));
            }
            Op::Enqueued(stored) => self.enqueue(stored),
            Op::Keyed { keys } => {
                for key in keys {
                    let keys = vec![key.clone()];
                    self.1.insert(format!("{key:?}"), Op::Keyed { keys });
                }
            }
            Op::Counted { queue, next } => {
                if let Some(queue) = self.0.get_mut(queue) {
                    queue.next = queue.next.max(next.0);
                }
            }
            Op::Removed { queue, seq, count } => {
                if let Some(queue) = self.0.get_mut(queue) {
                    let gone = seq.0..seq.0 + count;
                    queue.kept.retain(|seq, _| !gone.contains(seq));
                }
            }
            Op::OffsetStored {
                queue,
                reader,
                next,
            } => self.note_offset(*queue, reader, *next),
            Op::Returned {
                queue,
                seq,
                delivery_count,
                annotations,
            } => {
                let queue = self.0.get_mut(queue);
                if let Some(kept) = queue.and_then(|queue| queue.kept.get_mut(&seq.0)) {
                    kept.delivery_count = *delivery_count;
                    if annotations.is_some() {
                        kept.annotations.clone_from(annotations);
                    }
                }
            }
        }
    }

    /// What a store hands out.
    pub(crate) fn recovered(store: &mut SqliteStore) -> Result<Self, StoreError> {
        let mut model = Self::default();
        store.recover(&mut |op| model.apply(&op))?;
        Ok(model)
    }
}
