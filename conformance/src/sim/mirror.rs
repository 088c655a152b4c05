//! What the store should hold: an independent count of every operation that the broker handed over.
//!
//! It is the simulator's measure for three things: that the broker's operations make sense, that nothing passes the
//! gate before it is safe, and that a store recovers to some prefix of what it was given, at least to what it flushed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use qq_core::broker::QueueSpec;
use qq_core::store::{Batch, BatchId, Op, SeenKey};
use qq_core::vocab::{Message, QueueId};

use super::letter;

/// A message in a queue, as the store knows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) message: Arc<Message>,
    pub(super) arrived_at_ms: i64,
    pub(super) delivery_count: u32,
    pub(super) annotations: Option<Bytes>,
    /// An attempt was told.
    pub(super) is_returned: bool,
}

/// A queue, as the store knows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KeptQueue {
    pub(super) spec: Arc<QueueSpec>,
    /// The next free position.
    pub(super) next: u64,
    pub(super) messages: BTreeMap<u64, Kept>,
    /// Where named readers go on.
    pub(super) offsets: BTreeMap<String, u64>,
}

/// All of it at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    pub(super) queues: BTreeMap<QueueId, KeptQueue>,
    /// What declares the exchanges, bindings and schemas that are there.
    topology: BTreeMap<String, Op>,
    pub(super) keys: Keys,
}

/// Keys of messages that queues took. A store may forget those whose window is over, so that they are no part of what
/// must be equal.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys(pub(super) Vec<SeenKey>);

impl PartialEq for Keys {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Keys {
    /// Whether those that were recovered can be these, at a moment of the wall clock. `given` are those of all times: a
    /// store may forget that it forgot one.
    fn check_recovered(&self, recovered: &Self, given: &Self, now_ms: i64) -> Result<(), String> {
        if let Some(made_up) = recovered.0.iter().find(|key| !given.0.contains(key)) {
            return Err(format!("{made_up:?} is recovered and was never given"));
        }
        // What the store has beyond this may have let it forget.
        let latest_ms = given
            .0
            .iter()
            .map(|key| key.seen_at_ms)
            .fold(now_ms, i64::max);
        let is_lost = |key: &&SeenKey| key.until_ms > latest_ms && !recovered.0.contains(key);
        match self.0.iter().find(is_lost) {
            Some(lost) => Err(format!("{lost:?} is lost")),
            None => Ok(()),
        }
    }
}

impl State {
    /// Applies an operation; the error says why it makes no sense.
    pub(super) fn apply(&mut self, op: &Op) -> Result<(), String> {
        match op {
            Op::QueueDeclared { queue, spec } => {
                let fresh = KeptQueue {
                    spec: Arc::clone(spec),
                    next: 0,
                    messages: BTreeMap::new(),
                    offsets: BTreeMap::new(),
                };
                if self.queues.insert(*queue, fresh).is_some() {
                    return Err(format!("queue {} is declared twice", queue.0));
                }
            }
            Op::QueueDeleted { queue } => {
                // Nobody asks for the keys of a queue that is gone.
                self.keys.0.retain(|key| key.queue != *queue);
                if self.queues.remove(queue).is_none() {
                    return Err(format!("queue {} is deleted and is not there", queue.0));
                }
            }
            Op::ExchangeDeclared { spec } => self.declare(&spec.name, op)?,
            Op::ExchangeDeleted { name } => self.undeclare(name)?,
            Op::Bound { spec } => self.declare(&format!("{spec:?}"), op)?,
            Op::Unbound { spec } => self.undeclare(&format!("{spec:?}"))?,
            Op::SchemaRegistered { record } => {
                self.declare(&format!("schema {} {}", record.subject, record.version), op)?;
            }
            Op::SchemaForgotten { subject, version } => {
                self.undeclare(&format!("schema {subject} {version}"))?;
            }
            Op::Enqueued(stored) => {
                for (queue, seq) in &stored.places {
                    let kept = Kept {
                        message: Arc::clone(&stored.message),
                        arrived_at_ms: stored.arrived_at_ms,
                        delivery_count: stored.message.envelope.delivery_count,
                        annotations: None,
                        is_returned: false,
                    };
                    self.enqueue(*queue, seq.0, kept)?;
                }
            }
            Op::Keyed { keys } => self.keys.0.extend(keys.iter().cloned()),
            Op::Counted { queue, next } => {
                let found = self.queue(*queue)?;
                found.next = found.next.max(next.0);
            }
            Op::Removed { queue, seq, count } => self.remove(*queue, seq.0, *count)?,
            Op::OffsetStored {
                queue,
                reader,
                next,
            } => self.note_offset(*queue, reader, next.map(|next| next.0))?,
            Op::Returned {
                queue,
                seq,
                delivery_count,
                annotations,
            } => {
                let annotations = annotations.clone();
                self.give_back(*queue, seq.0, *delivery_count, annotations)?;
            }
        }
        Ok(())
    }

    fn give_back(
        &mut self,
        queue: QueueId,
        seq: u64,
        delivery_count: u32,
        annotations: Option<Bytes>,
    ) -> Result<(), String> {
        let id = queue.0;
        let Some(kept) = self.queue(queue)?.messages.get_mut(&seq) else {
            return Err(format!("position {seq} of queue {id} returns and is empty"));
        };
        if delivery_count < kept.delivery_count {
            return Err(format!("the count of position {seq} of queue {id} falls"));
        }
        kept.delivery_count = delivery_count;
        kept.annotations = annotations.or(kept.annotations.take());
        kept.is_returned = true;
        Ok(())
    }

    fn remove(&mut self, queue: QueueId, first: u64, count: u64) -> Result<(), String> {
        for seq in first..first + count {
            if self.queue(queue)?.messages.remove(&seq).is_none() {
                let id = queue.0;
                return Err(format!("position {seq} of queue {id} is removed and empty"));
            }
        }
        Ok(())
    }

    fn note_offset(
        &mut self,
        queue: QueueId,
        reader: &str,
        next: Option<u64>,
    ) -> Result<(), String> {
        let offsets = &mut self.queue(queue)?.offsets;
        match next {
            Some(next) => offsets.insert(reader.to_owned(), next),
            None => offsets.remove(reader),
        };
        Ok(())
    }

    /// What declares the exchanges and bindings.
    pub(super) fn topology(&self) -> impl Iterator<Item = &Op> {
        self.topology.values()
    }

    fn declare(&mut self, name: &str, op: &Op) -> Result<(), String> {
        match self.topology.insert(name.to_owned(), op.clone()) {
            Some(_) => Err(format!("{name} is declared twice")),
            None => Ok(()),
        }
    }

    fn undeclare(&mut self, name: &str) -> Result<(), String> {
        match self.topology.remove(name) {
            Some(_) => Ok(()),
            None => Err(format!("{name} goes and is not there")),
        }
    }

    fn queue(&mut self, queue: QueueId) -> Result<&mut KeptQueue, String> {
        let found = self.queues.get_mut(&queue);
        found.ok_or_else(|| format!("an operation on queue {}, which is not there", queue.0))
    }

    fn enqueue(&mut self, queue: QueueId, seq: u64, kept: Kept) -> Result<(), String> {
        let found = self.queue(queue)?;
        if seq < found.next {
            let next = found.next;
            return Err(format!(
                "position {seq} of queue {} is given, and {next} is the next free one",
                queue.0
            ));
        }
        found.next = seq + 1;
        found.messages.insert(seq, kept);
        Ok(())
    }

    pub(super) fn kept(&self, queue: QueueId, seq: u64) -> Option<&Kept> {
        self.queues.get(&queue)?.messages.get(&seq)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    /// What is flushed.
    pub(super) safe: State,
    /// Everything that was handed over.
    ahead: State,
    pending: VecDeque<Batch>,
    /// Keys that were handed over at any time.
    given: Keys,
    /// Numbers of the messages that were safe at any time.
    ever_safe: BTreeSet<u64>,
}

impl Mirror {
    /// The broker handed a batch over.
    pub(super) fn on_batch(&mut self, batch: &Batch) -> Result<(), String> {
        for op in &batch.ops {
            self.ahead.apply(op)?;
            if let Op::Keyed { keys } = op {
                self.given.0.extend(keys.iter().cloned());
            }
        }
        self.pending.push_back(batch.clone());
        Ok(())
    }

    /// The store says that everything up to a batch is safe.
    pub(super) fn on_flushed(&mut self, upto: BatchId) {
        while let Some(batch) = self.pending.pop_front_if(|batch| batch.id <= upto) {
            for op in &batch.ops {
                self.note_safe(op);
                // What makes sense in the whole makes sense here.
                let _ = self.safe.apply(op);
            }
        }
    }

    fn note_safe(&mut self, op: &Op) {
        if let Op::Enqueued(stored) = op
            && let Some(number) = letter::number_of(&stored.message.payload)
        {
            self.ever_safe.insert(number);
        }
    }

    pub(super) fn was_safe(&self, number: u64) -> bool {
        self.ever_safe.contains(&number)
    }

    /// Whether everything that was handed over is safe.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// The store recovered to this. It must be what was flushed, or that and some of the batches behind it.
    pub(super) fn on_recovered(&mut self, recovered: State, now_ms: i64) -> Result<(), String> {
        let mut candidate = std::mem::take(&mut self.safe);
        let pending = std::mem::take(&mut self.pending);
        let mut is_prefix = candidate == recovered;
        for batch in &pending {
            if is_prefix {
                break;
            }
            for op in &batch.ops {
                self.note_safe(op);
                let _ = candidate.apply(op);
            }
            is_prefix = candidate == recovered;
        }
        let mut unlike = (!is_prefix).then(|| difference(&candidate, &recovered));
        if is_prefix {
            let checked = candidate
                .keys
                .check_recovered(&recovered.keys, &self.given, now_ms);
            unlike = checked.err();
        }
        self.safe = recovered.clone();
        self.ahead = recovered;
        unlike.map_or(Ok(()), Err)
    }
}

fn difference(last: &State, recovered: &State) -> String {
    for (id, queue) in &last.queues {
        let Some(found) = recovered.queues.get(id) else {
            return format!("queue {} is lost", id.0);
        };
        if found.next != queue.next {
            return format!(
                "queue {} goes on at {} and not at {}",
                id.0, found.next, queue.next
            );
        }
        let seqs: BTreeSet<_> = queue.messages.keys().chain(found.messages.keys()).collect();
        for seq in seqs {
            let (before, after) = (queue.messages.get(seq), found.messages.get(seq));
            if before != after {
                return format!(
                    "position {seq} of queue {} is {after:?} after recovery, not {before:?}",
                    id.0
                );
            }
        }
    }
    "the recovered store is no prefix of what it was given".to_owned()
}
