//! What is alive in a [`Ledger`](crate::Ledger): queues, their messages, counts and annotations.

use std::collections::BTreeMap;
use std::sync::Arc;

use qq_core::broker::QueueSpec;
use qq_core::route::{BindingSpec, ExchangeSpec};
use qq_core::schema::SchemaVersion;
use qq_core::store::{Fetch, Op, StoredMessage};
use qq_core::vocab::{Message, QueueId, Seq};

use crate::keys::Keys;

/// Bytes that a message costs beside its payload.
const OVERHEAD_BYTES: usize = 64;

/// The CRC of an operation: of its text, except that payloads are taken as they are.
pub(crate) fn crc_of(op: &Op) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    match op {
        Op::Enqueued(stored) => {
            let about = (&stored.places, stored.arrived_at_ms);
            hasher.update(format!("{about:?}").as_bytes());
            hash_message(&mut hasher, &stored.message);
        }
        other => hasher.update(format!("{other:?}").as_bytes()),
    }
    hasher.finalize()
}

fn hash_message(hasher: &mut crc32fast::Hasher, message: &Message) {
    let about = (&message.envelope, &message.format);
    hasher.update(format!("{about:?}").as_bytes());
    hasher.update(&message.payload);
}

pub(crate) fn crc_of_message(message: &Message) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hash_message(&mut hasher, message);
    hasher.finalize()
}

#[derive(Debug)]
struct Kept {
    stored: StoredMessage,
    /// Of the body alone.
    crc: u32,
    /// Count and annotations, once an attempt was told.
    returned: Option<Op>,
}

#[derive(Debug)]
struct Queue {
    spec: Arc<QueueSpec>,
    next: Seq,
    messages: BTreeMap<Seq, Kept>,
    /// Where named readers go on.
    offsets: BTreeMap<String, Seq>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Table {
    exchanges: BTreeMap<String, Arc<ExchangeSpec>>,
    /// In the order in which they were made.
    bindings: Vec<Arc<BindingSpec>>,
    schemas: BTreeMap<(String, u32), Arc<SchemaVersion>>,
    queues: BTreeMap<QueueId, Queue>,
    keys: Keys,
    bytes: usize,
}

fn cost(message: &Message) -> usize {
    message.payload.len() + OVERHEAD_BYTES
}

impl Table {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that an operation adds.
    pub(crate) fn added_bytes(op: &Op) -> usize {
        match op {
            Op::Enqueued(stored) => cost(&stored.message) * stored.places.len(),
            _ => 0,
        }
    }

    /// Bytes that an operation gives back.
    pub(crate) fn freed_bytes(&self, op: &Op) -> usize {
        match op {
            Op::Removed { queue, seq, count } => {
                let range = *seq..Seq(seq.0.saturating_add(*count));
                let found = self.queues.get(queue);
                found.map_or(0, |found| {
                    let kept = found.messages.range(range);
                    kept.map(|(_, kept)| cost(&kept.stored.message)).sum()
                })
            }
            _ => 0,
        }
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::QueueDeclared { queue, spec } => {
                let fresh = Queue {
                    spec: Arc::clone(spec),
                    next: Seq(0),
                    messages: BTreeMap::new(),
                    offsets: BTreeMap::new(),
                };
                self.queues.entry(*queue).or_insert(fresh);
            }
            Op::QueueDeleted { queue } => {
                self.keys.forget(*queue);
                if let Some(gone) = self.queues.remove(queue) {
                    let freed = gone
                        .messages
                        .values()
                        .map(|kept| cost(&kept.stored.message));
                    self.bytes -= freed.sum::<usize>();
                }
            }
            Op::ExchangeDeclared { spec } => {
                self.exchanges.insert(spec.name.clone(), Arc::clone(spec));
            }
            Op::ExchangeDeleted { name } => {
                self.exchanges.remove(name);
            }
            Op::Bound { spec } => self.bindings.push(Arc::clone(spec)),
            Op::Unbound { spec } => self.bindings.retain(|known| known != spec),
            Op::SchemaRegistered { record } => {
                let name = (record.subject.clone(), record.version);
                self.schemas.insert(name, Arc::clone(record));
            }
            Op::SchemaForgotten { subject, version } => {
                self.schemas.remove(&(subject.clone(), *version));
            }
            Op::Enqueued(stored) => self.enqueue(stored),
            Op::Keyed { keys } => self.keys.add(keys),
            Op::Counted { queue, next } => {
                if let Some(found) = self.queues.get_mut(queue) {
                    found.next = found.next.max(*next);
                }
            }
            Op::Removed { queue, seq, count } => self.remove(*queue, seq.0, *count),
            Op::OffsetStored {
                queue,
                reader,
                next,
            } => {
                if let Some(found) = self.queues.get_mut(queue) {
                    match next {
                        Some(next) => found.offsets.insert(reader.clone(), *next),
                        None => found.offsets.remove(reader),
                    };
                }
            }
            Op::Returned { queue, seq, .. } => {
                let found = self.queues.get_mut(queue);
                if let Some(kept) = found.and_then(|found| found.messages.get_mut(seq)) {
                    kept.returned = Some(op.clone());
                }
            }
        }
    }

    fn remove(&mut self, queue: QueueId, first: u64, count: u64) {
        let Some(found) = self.queues.get_mut(&queue) else {
            return;
        };
        for seq in first..first.saturating_add(count) {
            if let Some(gone) = found.messages.remove(&Seq(seq)) {
                self.bytes -= cost(&gone.stored.message);
            }
        }
    }

    fn enqueue(&mut self, stored: &StoredMessage) {
        let crc = crc_of_message(&stored.message);
        for place in &stored.places {
            let (queue, seq) = *place;
            let Some(found) = self.queues.get_mut(&queue) else {
                continue;
            };
            found.next = found.next.max(Seq(seq.0 + 1));
            let stored = StoredMessage {
                message: Arc::clone(&stored.message),
                arrived_at_ms: stored.arrived_at_ms,
                places: std::iter::once(*place).collect(),
            };
            self.bytes += cost(&stored.message);
            let kept = Kept {
                stored,
                crc,
                returned: None,
            };
            found.messages.insert(seq, kept);
        }
    }

    /// Operations that make this table from an empty one.
    pub(crate) fn ops(&self) -> Vec<Op> {
        let mut ops = Vec::new();
        for record in self.schemas.values() {
            let record = Arc::clone(record);
            ops.push(Op::SchemaRegistered { record });
        }
        for spec in self.exchanges.values() {
            let spec = Arc::clone(spec);
            ops.push(Op::ExchangeDeclared { spec });
        }
        for (id, queue) in &self.queues {
            let spec = Arc::clone(&queue.spec);
            ops.push(Op::QueueDeclared { queue: *id, spec });
            for kept in queue.messages.values() {
                ops.push(Op::Enqueued(kept.stored.clone()));
                ops.extend(kept.returned.clone());
            }
            let next = queue.next;
            ops.push(Op::Counted { queue: *id, next });
            ops.extend(queue.offsets.iter().map(|(reader, next)| Op::OffsetStored {
                queue: *id,
                reader: reader.clone(),
                next: Some(*next),
            }));
        }
        for spec in &self.bindings {
            let spec = Arc::clone(spec);
            ops.push(Op::Bound { spec });
        }
        let keys = self.keys.list();
        if !keys.is_empty() {
            ops.push(Op::Keyed { keys });
        }
        ops
    }

    /// The bodies of a range of positions, each with the CRC that it had when it came.
    pub(crate) fn read(&self, fetch: &Fetch) -> Vec<(Seq, Arc<Message>, u32)> {
        let Some(queue) = self.queues.get(&fetch.queue) else {
            return Vec::new();
        };
        let upto = Seq(fetch.first.0.saturating_add(u64::from(fetch.count)));
        let kept = queue.messages.range(fetch.first..upto);
        kept.map(|(seq, kept)| (*seq, Arc::clone(&kept.stored.message), kept.crc))
            .collect()
    }
}
