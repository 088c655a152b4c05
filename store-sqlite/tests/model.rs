//! Any sequence of batches, with housekeeping and restarts in between, gives the state that the operations mean.

mod common;

use std::sync::Arc;

use bytes::Bytes;
use common::{Dir, Model, fetch, message};
use proptest::prelude::*;
use qq_core::broker::QueueSpec;
use qq_core::route::{BindingSpec, Datum, ExchangeKind, ExchangeSpec, TypedDatum};
use qq_core::schema::{Compatibility, SchemaVersion};
use qq_core::store::{Batch, BatchId, Op, SeenKey, Store, StoredMessage};
use qq_core::vocab::{QueueId, Seq};
use qq_store_sqlite::SqliteStore;

/// One step; queues and positions are chosen among those that are there.
#[derive(Clone, Debug)]
enum Step {
    Declare,
    Delete(usize),
    /// So many messages to each of one or more queues, with a gap before them.
    Publish {
        queues: Vec<usize>,
        count: u8,
        gap: u8,
        len: usize,
    },
    /// The oldest of a queue.
    RemoveOldest(usize, u16),
    /// Every n-th of a queue.
    RemoveSome(usize, u8),
    /// A position that may be there or not.
    RemoveAny(usize, u64),
    Return(usize, u8, bool),
    /// A reader of a queue comes to a position, or is forgotten.
    Read(usize, u8, Option<u64>),
    /// A queue sees keys.
    Keys(usize, u8),
    /// An exchange or a binding comes or goes.
    Topology(u8),
    EndBatch,
    Flush,
    Tend(u8),
    Restart,
    Fetch(usize, u64, u32),
}

fn any_step() -> impl Strategy<Value = Step> {
    let queue = 0..8usize;
    let len = prop_oneof![8 => 8..200usize, 2 => 1000..9000usize, 1 => 60_000..80_000usize];
    prop_oneof![
        2 => Just(Step::Declare),
        1 => queue.clone().prop_map(Step::Delete),
        20 => (proptest::collection::vec(queue.clone(), 1..3), 1..60u8, 0..3u8, len)
            .prop_map(|(queues, count, gap, len)| Step::Publish { queues, count, gap, len }),
        8 => (queue.clone(), 1..200u16).prop_map(|(q, n)| Step::RemoveOldest(q, n)),
        5 => (queue.clone(), 1..20u8).prop_map(|(q, n)| Step::RemoveSome(q, n)),
        3 => (queue.clone(), 0..500u64).prop_map(|(q, s)| Step::RemoveAny(q, s)),
        10 => (queue.clone(), 0..8u8, any::<bool>()).prop_map(|(q, n, a)| Step::Return(q, n, a)),
        3 => (queue.clone(), 1..5u8).prop_map(|(q, n)| Step::Keys(q, n)),
        5 => (0..32u8).prop_map(Step::Topology),
        5 => (queue.clone(), 0..3u8, proptest::option::weighted(0.8, 0..500u64))
            .prop_map(|(q, n, at)| Step::Read(q, n, at)),
        10 => Just(Step::EndBatch),
        20 => Just(Step::Flush),
        8 => (1..20u8).prop_map(Step::Tend),
        3 => Just(Step::Restart),
        8 => (queue, 0..500u64, 1..300u32).prop_map(|(q, f, n)| Step::Fetch(q, f, n)),
    ]
}

struct Run {
    dir: Dir,
    store: Option<SqliteStore>,
    model: Model,
    /// What is flushed.
    safe: Model,
    ops: Vec<Op>,
    batch: u64,
    queue_next: u64,
    number: u64,
}

impl Run {
    fn new() -> Self {
        let dir = Dir::new();
        let mut store = dir.open();
        assert_eq!(Model::recovered(&mut store), Ok(Model::default()));
        Self {
            dir,
            store: Some(store),
            model: Model::default(),
            safe: Model::default(),
            ops: Vec::new(),
            batch: 0,
            queue_next: 0,
            number: 0,
        }
    }

    fn store(&mut self) -> &mut SqliteStore {
        self.store.as_mut().expect("it is open")
    }

    fn queue(&self, index: usize) -> Option<QueueId> {
        let ids: Vec<_> = self.model.0.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[index % ids.len()])
    }

    fn op(&mut self, op: Op) {
        self.model.apply(&op);
        self.ops.push(op);
    }

    fn remove(&mut self, queue: QueueId, seqs: Vec<u64>) {
        // Every other run of neighbours is one operation, as the broker writes it.
        let is_joined = self.batch.is_multiple_of(2);
        for run in seqs.chunk_by(|a, b| is_joined && a + 1 == *b) {
            let (seq, count) = (Seq(run[0]), run.len() as u64);
            self.op(Op::Removed { queue, seq, count });
        }
    }

    fn flush(&mut self) {
        self.end_batch();
        let newest = BatchId(self.batch);
        assert_eq!(self.store().flush(), Ok(Some(newest)));
        self.safe = self.model.clone();
    }

    fn end_batch(&mut self) {
        self.batch += 1;
        let batch = Batch {
            id: BatchId(self.batch),
            ops: std::mem::take(&mut self.ops),
        };
        self.store().submit(batch);
    }

    fn restart(&mut self) {
        drop(self.store.take());
        self.ops.clear();
        let mut store = self.dir.open();
        assert_eq!(Model::recovered(&mut store), Ok(self.safe.clone()));
        self.store = Some(store);
        self.model = self.safe.clone();
    }

    fn fetch(&mut self, index: usize, first: u64, count: u32) {
        let Some(queue) = self.queue(index) else {
            return;
        };
        let expected: Vec<_> = self.safe.0.get(&queue).map_or(Vec::new(), |safe| {
            // What was submitted since is not safe, but a removal may already show.
            let now = &self.model.0[&queue].kept;
            let range = first..first + u64::from(count);
            safe.kept
                .range(range)
                .filter(|(seq, _)| now.contains_key(seq))
                .map(|(&seq, kept)| (Seq(seq), Arc::clone(&kept.message)))
                .collect()
        });
        let found: Vec<_> = fetch(self.store(), queue.0, first, count).expect("it can be read");
        let now = &self.model.0[&queue].kept;
        let found: Vec<_> = found
            .into_iter()
            .filter(|(seq, _)| now.contains_key(&seq.0))
            .collect();
        assert_eq!(found, expected);
    }

    fn publish(&mut self, queues: &[usize], count: u8, gap: u8, len: usize) {
        let mut ids: Vec<_> = queues.iter().filter_map(|q| self.queue(*q)).collect();
        ids.dedup();
        for at in 0..count {
            self.number += 1;
            let gap = if at == 0 { u64::from(gap) } else { 0 };
            let places = ids
                .iter()
                .map(|id| (*id, Seq(self.model.0[id].next + gap)))
                .collect();
            let len = if at > 3 { len.min(500) } else { len };
            self.op(Op::Enqueued(StoredMessage {
                message: message(self.number, len),
                arrived_at_ms: self.number as i64 * 7 - 100,
                places,
            }));
        }
    }

    /// Declares and deletes the same few exchanges, bindings and schemas again and again.
    fn change_topology(&mut self, change: u8) {
        let number = change >> 2;
        if number == 7 {
            return self.change_schema(change & 3);
        }
        let exchange = ExchangeSpec::new(format!("exchange {number}"), ExchangeKind::Headers);
        let mut binding = BindingSpec::to_queue(&exchange.name, "queue 1", "key");
        let share = f64::from(number) / 7.0;
        binding.arguments = [
            ("share".to_owned(), Datum::Float(share)),
            (
                "large".to_owned(),
                Datum::Uint(u64::MAX - u64::from(number)),
            ),
            (
                "uuid".to_owned(),
                Datum::Typed(TypedDatum::Uuid([number; 16])),
            ),
        ]
        .into();
        let spec = Arc::new(binding);
        self.op(match change & 3 {
            0 => Op::ExchangeDeclared {
                spec: Arc::new(exchange),
            },
            1 => Op::ExchangeDeleted {
                name: exchange.name,
            },
            2 => Op::Bound { spec },
            _ => Op::Unbound { spec },
        });
    }

    fn change_schema(&mut self, change: u8) {
        let (subject, version) = (format!("subject {}", change & 1), 1);
        self.op(if change < 2 {
            Op::SchemaRegistered {
                record: Arc::new(SchemaVersion {
                    subject,
                    version,
                    message_type: "shop.Order".to_owned(),
                    descriptor: Bytes::from_static(b"\x0a\x00\xff"),
                    source: (change == 0).then(|| "message".to_owned()),
                    compatibility: Compatibility::ALL[usize::from(change)],
                    refuses_unknown_fields: change == 1,
                    registered_at_ms: -1,
                    retired: [(("shop.Order".to_owned(), 7), "string".to_owned())].into(),
                }),
            }
        } else {
            Op::SchemaForgotten { subject, version }
        });
    }

    fn read(&mut self, queue: QueueId, reader: String, next: Option<Seq>) {
        self.op(Op::OffsetStored {
            queue,
            reader,
            next,
        });
    }

    fn give_back(&mut self, queue: QueueId, skip: u8, has_annotations: bool) {
        let kept = &self.model.0[&queue].kept;
        if let Some((&seq, kept)) = kept.iter().nth(usize::from(skip)) {
            let number = kept.delivery_count + 1;
            self.op(Op::Returned {
                queue,
                seq: Seq(seq),
                delivery_count: number,
                annotations: has_annotations.then(|| Bytes::from(format!("n{number}"))),
            });
        }
    }

    fn next_key(&mut self, queue: QueueId) -> SeenKey {
        self.number += 1;
        SeenKey {
            queue,
            key: Bytes::from(format!("key {}", self.number)),
            seen_at_ms: self.number as i64,
            until_ms: i64::MAX,
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Declare => {
                let queue = QueueId(self.queue_next);
                self.queue_next += 1;
                let mut spec = QueueSpec::new(format!("queue {}", queue.0));
                spec.max_length = queue.0.is_multiple_of(2).then_some(queue.0);
                let spec = Arc::new(spec);
                self.op(Op::QueueDeclared { queue, spec });
            }
            Step::Delete(index) => {
                if let Some(queue) = self.queue(*index) {
                    self.op(Op::QueueDeleted { queue });
                }
            }
            Step::Publish {
                queues,
                count,
                gap,
                len,
            } => self.publish(queues, *count, *gap, *len),
            Step::RemoveOldest(index, count) => {
                if let Some(queue) = self.queue(*index) {
                    let kept = self.model.0[&queue].kept.keys();
                    let seqs = kept.copied().take(usize::from(*count)).collect();
                    self.remove(queue, seqs);
                }
            }
            Step::RemoveSome(index, every) => {
                if let Some(queue) = self.queue(*index) {
                    let kept = self.model.0[&queue].kept.keys();
                    let seqs = kept.copied().step_by(usize::from(*every)).collect();
                    self.remove(queue, seqs);
                }
            }
            Step::RemoveAny(index, seq) => {
                if let Some(queue) = self.queue(*index) {
                    self.remove(queue, vec![*seq]);
                }
            }
            Step::Return(index, skip, has_annotations) => {
                if let Some(queue) = self.queue(*index) {
                    self.give_back(queue, *skip, *has_annotations);
                }
            }
            Step::Read(index, number, next) => {
                let reader = format!("reader {number}");
                if let Some(queue) = self.queue(*index) {
                    self.read(queue, reader, next.map(Seq));
                }
            }
            Step::Keys(index, count) => {
                if let Some(queue) = self.queue(*index) {
                    let keys = (0..*count).map(|_| self.next_key(queue)).collect();
                    self.op(Op::Keyed { keys });
                }
            }
            Step::Topology(change) => self.change_topology(*change),
            Step::EndBatch => self.end_batch(),
            Step::Flush => self.flush(),
            Step::Tend(steps) => {
                for _ in 0..*steps {
                    self.store().tend().expect("housekeeping works");
                }
            }
            Step::Restart => self.restart(),
            Step::Fetch(index, first, count) => self.fetch(*index, *first, *count),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_history_gives_the_state_that_it_means(
        steps in proptest::collection::vec(any_step(), 1..400),
    ) {
        let mut run = Run::new();
        run.step(&Step::Declare);
        for step in &steps {
            run.step(step);
        }
        run.flush();
        run.restart();
        common::tend_all(run.store());
        run.restart();
        for index in 0..8 {
            run.fetch(index, 0, u32::MAX);
        }
    }
}
