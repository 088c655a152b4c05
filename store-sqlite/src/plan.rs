//! From batches to what one transaction writes: rows, deletions, definitions.
//!
//! Planning changes the index at once and the disk not at all. A transaction that fails for want of room is written
//! again from the same plan, so memory and disk cannot drift apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use qq_core::store::codec::put_message;
use qq_core::store::{Batch, BatchId, Op, SeenKey, StoreError, StoredMessage};
use qq_core::vocab::{Message, QueueId};
use smallvec::SmallVec;

use crate::definition;
use crate::gone::{Gone, GoneChange};
use crate::index::{Index, Left, Run};
use crate::keys::{self, Keys};
use crate::row::{Ack, Head, Record, Return, Returned, Section, put_record};
use crate::state::State;
use crate::topology::{Change, Topology};

/// A body that has reached so many bytes takes no further message.
pub(crate) const BODY_BYTES_MAX: usize = 128 << 10;
/// A message with more bytes than this has a row of its own, which goes with it.
pub(crate) const ALONE_BYTES: usize = 64 << 10;
/// Rows that one transaction deletes at most: each costs a walk over its pages.
const BURY_MAX: usize = 128;
/// Rows kept for the newest positions of queues alone, above which these are written elsewhere.
const LINGERING_MAX: u32 = 256;

/// What one transaction writes.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The newest batch in it.
    pub(crate) newest: Option<BatchId>,
    pub(crate) inserts: Vec<NewRow>,
    pub(crate) updates: Vec<NewRow>,
    pub(crate) deletes: Vec<u64>,
    pub(crate) definitions: Vec<(u8, u64, Option<Vec<u8>>)>,
    pub(crate) gone: Vec<GoneChange>,
    /// What the whole store adds up to afterwards.
    pub(crate) state: State,
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        self.inserts.is_empty()
            && self.updates.is_empty()
            && self.deletes.is_empty()
            && self.definitions.is_empty()
    }
}

/// A row to write.
#[derive(Debug)]
pub(crate) struct NewRow {
    pub(crate) id: u64,
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// What the store knows of itself.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) index: Index,
    pub(crate) state: State,
    pub(crate) gone: Gone,
    /// Checksums of all definitions.
    pub(crate) definitions: BTreeMap<(u8, u64), u32>,
    pub(crate) topology: Topology,
    pub(crate) keys: Keys,
    /// Kept for its memory.
    scratch: Vec<u8>,
}

/// A message of the batches at hand.
struct Fresh {
    message: Arc<Message>,
    arrived_at_ms: i64,
    /// Queue and position.
    places: SmallVec<[(u32, u64); 2]>,
    returned: SmallVec<[(u32, u64, Returned); 0]>,
}

/// A row that is being made.
struct Draft {
    id: u64,
    slot: u32,
    head: Head,
    body: Vec<u8>,
}

/// The work of one plan.
#[derive(Default)]
struct Work {
    fresh: Vec<Fresh>,
    /// Queues with new positions.
    touched: Vec<u32>,
    left: Vec<Left>,
    /// A run of removals that grows: queue, first, length.
    removal: Option<(u32, u64, u64)>,
    returns: Vec<(u32, u64, Returned)>,
    keys: Vec<SeenKey>,
}

impl Book {
    /// Applies batches and says what to write.
    ///
    /// # Errors
    /// A batch that contradicts what is kept; nothing may be written then, and the book is of no use any more.
    pub(crate) fn plan(&mut self, batches: Vec<Batch>) -> Result<Plan, StoreError> {
        let mut plan = Plan::default();
        let mut work = Work::default();
        for batch in batches {
            plan.newest = Some(batch.id);
            for op in batch.ops {
                self.take(op, &mut work, &mut plan)?;
            }
        }
        self.end_removal(&mut work);
        self.keep_keys(&work.keys, &mut plan);
        let mut drafts = self.lay_out(&mut work);
        self.count_on(&mut work, &mut drafts);
        if self.index.lingering > LINGERING_MAX {
            self.retire(&mut plan);
        }
        self.bury(&mut plan);
        self.note_left(&mut work, &mut drafts);
        for draft in drafts {
            let row = self.finish(draft);
            plan.inserts.push(row);
        }
        plan.state = self.state;
        Ok(plan)
    }

    /// A plan that only clears away: doomed rows, and rows that linger.
    pub(crate) fn plan_clearing(&mut self) -> Plan {
        let mut plan = Plan::default();
        if self.index.lingering > 0 {
            self.retire(&mut plan);
        }
        self.bury(&mut plan);
        plan.state = self.state;
        plan
    }

    fn take(&mut self, op: Op, work: &mut Work, plan: &mut Plan) -> Result<(), StoreError> {
        match op {
            Op::Enqueued(stored) => self.take_message(stored, work)?,
            Op::Removed { queue, seq, count } => {
                for seq in seq.0..seq.0.saturating_add(count) {
                    self.take_removed(queue, seq, work);
                }
            }
            Op::Returned {
                queue,
                seq,
                delivery_count,
                annotations,
            } => {
                self.end_removal(work);
                let returned = Returned {
                    stamp: self.state.row_next,
                    delivery_count,
                    annotations,
                };
                self.take_returned(queue, seq.0, returned, work);
            }
            Op::Keyed { mut keys } => work.keys.append(&mut keys),
            Op::Counted { queue, next } => {
                if let Some(slot) = self.index.queue(queue) {
                    let known = &mut self.index.queues[slot as usize].seq_next;
                    *known = (*known).max(next.0);
                    work.touched.push(slot);
                }
            }
            Op::ExchangeDeclared { .. }
            | Op::ExchangeDeleted { .. }
            | Op::Bound { .. }
            | Op::Unbound { .. }
            | Op::SchemaRegistered { .. }
            | Op::SchemaForgotten { .. }
            | Op::OffsetStored { .. } => self.take_topology(&op, plan),
            Op::QueueDeclared { queue, spec } => {
                self.end_removal(work);
                let key = match self.index.queue(queue) {
                    Some(slot) => self.index.queues[slot as usize].key,
                    None => {
                        let key = self.state.key_next;
                        self.state.key_next += 1;
                        self.index.add_queue(queue, key);
                        key
                    }
                };
                let value = definition::queue(key, queue, &spec);
                self.define(definition::QUEUE, key, Some(value), plan);
            }
            Op::QueueDeleted { queue } => {
                self.end_removal(work);
                if let Some(slot) = self.index.queue(queue) {
                    let deleted = self.index.remove_queue(slot);
                    for (_, fresh) in deleted.fresh {
                        let fresh = &mut work.fresh[fresh as usize];
                        fresh.places.retain(|place| place.0 != slot);
                    }
                    self.define(definition::QUEUE, deleted.key, None, plan);
                    self.define(definition::COUNT, deleted.key, None, plan);
                    for gone in self.topology.forget_readers(queue) {
                        self.define(gone.kind, gone.key, None, plan);
                    }
                }
            }
        }
        Ok(())
    }

    /// Keys go into one row; rows whose keys are of no use any more go.
    fn keep_keys(&mut self, keys: &[SeenKey], plan: &mut Plan) {
        if keys.is_empty() {
            return;
        }
        let name = self.state.key_next;
        self.state.key_next += 1;
        let value = definition::seal(definition::KEYS, name, keys::write(keys));
        self.define(definition::KEYS, name, Some(value), plan);
        for name in self.keys.add(name, keys) {
            self.define(definition::KEYS, name, None, plan);
        }
    }

    fn take_topology(&mut self, op: &Op, plan: &mut Plan) {
        let key_next = &mut self.state.key_next;
        let change = match op {
            Op::ExchangeDeclared { spec } => Some(self.topology.declare(spec, key_next)),
            Op::ExchangeDeleted { name } => self.topology.delete(name),
            Op::Bound { spec } => Some(self.topology.bind(spec, key_next)),
            Op::Unbound { spec } => self.topology.unbind(spec),
            Op::SchemaRegistered { record } => Some(self.topology.register(record, key_next)),
            Op::SchemaForgotten { subject, version } => self.topology.forget(subject, *version),
            Op::OffsetStored {
                queue,
                reader,
                next,
            } if self.index.queue(*queue).is_some() => {
                self.topology.store_offset(*queue, reader, *next, key_next)
            }
            _ => None,
        };
        if let Some(Change { kind, key, value }) = change {
            let value = value.map(|value| definition::seal(kind, key, value));
            self.define(kind, key, value, plan);
        }
    }

    fn take_message(&mut self, stored: StoredMessage, work: &mut Work) -> Result<(), StoreError> {
        let at = work.fresh.len() as u32;
        let mut places = SmallVec::new();
        for (id, seq) in stored.places {
            // A queue that is gone takes its messages with it, also those that were on their way.
            let Some(slot) = self.index.queue(id) else {
                continue;
            };
            let queue = &mut self.index.queues[slot as usize];
            if seq.0 < queue.seq_next {
                return Err(StoreError::fatal(format!(
                    "position {} of queue {} was given twice (the next free one is {})",
                    seq.0, id.0, queue.seq_next
                )));
            }
            queue.seq_next = seq.0 + 1;
            if queue.fresh.is_empty() {
                work.touched.push(slot);
            }
            queue.fresh.push((seq.0, at));
            places.push((slot, seq.0));
        }
        work.fresh.push(Fresh {
            message: stored.message,
            arrived_at_ms: stored.arrived_at_ms,
            places,
            returned: SmallVec::new(),
        });
        Ok(())
    }

    /// The index of a message that came with the batches at hand.
    fn fresh_at(&self, slot: u32, seq: u64) -> Option<usize> {
        let fresh = &self.index.queues[slot as usize].fresh;
        let at = fresh.binary_search_by_key(&seq, |pair| pair.0).ok()?;
        Some(fresh[at].1 as usize)
    }

    fn take_removed(&mut self, id: QueueId, seq: u64, work: &mut Work) {
        let Some(slot) = self.index.queue(id) else {
            return;
        };
        if let Some(at) = self.fresh_at(slot, seq) {
            work.fresh[at].places.retain(|place| *place != (slot, seq));
            return;
        }
        match &mut work.removal {
            Some((queue, first, len)) if *queue == slot && first.checked_add(*len) == Some(seq) => {
                *len += 1;
            }
            _ => {
                self.end_removal(work);
                work.removal = Some((slot, seq, 1));
            }
        }
    }

    fn end_removal(&mut self, work: &mut Work) {
        if let Some((slot, first, len)) = work.removal.take() {
            self.index.remove(slot, first, len, &mut work.left);
        }
    }

    fn take_returned(&mut self, id: QueueId, seq: u64, mut returned: Returned, work: &mut Work) {
        let Some(slot) = self.index.queue(id) else {
            return;
        };
        if let Some(at) = self.fresh_at(slot, seq) {
            let fresh = &mut work.fresh[at];
            if let Some(before) = fresh.returned.iter_mut().find(|r| r.0 == slot) {
                keep_annotations(&mut returned, &before.2);
                before.2 = returned;
            } else if fresh.places.contains(&(slot, seq)) {
                fresh.returned.push((slot, seq, returned));
            }
            return;
        }
        let queue = &mut self.index.queues[slot as usize];
        if queue.row_of(seq).is_some() {
            if let Some(before) = queue.returned.get(&seq) {
                keep_annotations(&mut returned, before);
            }
            queue.returned.insert(seq, returned.clone());
            work.returns.push((slot, seq, returned));
        }
    }

    /// Sorts the messages that are left into rows.
    fn lay_out(&mut self, work: &mut Work) -> Vec<Draft> {
        let mut drafts: Vec<Draft> = Vec::new();
        let mut is_full = true;
        let mut scratch = std::mem::take(&mut self.scratch);
        for fresh in std::mem::take(&mut work.fresh) {
            if fresh.places.is_empty() {
                continue;
            }
            let is_big = fresh.message.payload.len() > ALONE_BYTES;
            if is_full || is_big {
                let mut draft = self.draft();
                draft.head.arrived_base_ms = fresh.arrived_at_ms;
                drafts.push(draft);
            }
            let draft = drafts.last_mut().expect("one was just made");
            self.put_fresh(draft, &mut scratch, fresh);
            is_full = is_big || draft.body.len() >= BODY_BYTES_MAX;
        }
        self.scratch = scratch;
        for draft in &mut drafts {
            self.enter(draft);
        }
        drafts
    }

    fn draft(&mut self) -> Draft {
        let id = self.state.row_next;
        self.state.row_next += 1;
        let slot = self.index.add_row(id);
        Draft {
            id,
            slot,
            head: Head::default(),
            body: Vec::new(),
        }
    }

    fn put_fresh(&mut self, draft: &mut Draft, scratch: &mut Vec<u8>, fresh: Fresh) {
        let mut record = Record {
            arrived_at_ms: fresh.arrived_at_ms,
            ..Record::default()
        };
        for &(slot, seq) in &fresh.places {
            let queue = &mut self.index.queues[slot as usize];
            if queue.open.0 != draft.id {
                queue.open = (draft.id, draft.head.sections.len() as u32);
                draft.head.sections.push(Section {
                    key: queue.key,
                    ord_first: queue.ord_next,
                    ..Section::default()
                });
            }
            queue.ord_next += 1;
            let section = &mut draft.head.sections[queue.open.1 as usize];
            match section.runs.last_mut() {
                Some((first, len)) if *first + u64::from(*len) == seq => *len += 1,
                _ => section.runs.push((seq, 1)),
            }
            record.places.push((queue.key, seq));
        }
        for (slot, seq, returned) in fresh.returned {
            let place = fresh.places.iter().position(|p| *p == (slot, seq));
            if let Some(place) = place {
                let queue = &mut self.index.queues[slot as usize];
                queue.returned.insert(seq, returned.clone());
                record.returned.push((place as u32, returned));
            }
        }
        draft.head.messages += 1;
        put_record(
            &mut draft.body,
            scratch,
            &record,
            draft.head.arrived_base_ms,
            |out| put_message(out, &fresh.message),
        );
    }

    /// Enters a row's sections into the index.
    fn enter(&mut self, draft: &mut Draft) {
        for section in &mut draft.head.sections {
            let queue_slot = self.index.by_key[&section.key];
            let queue = &mut self.index.queues[queue_slot as usize];
            section.seq_next = queue.seq_next;
            // Numbers count all that the queue got until then, so that they show whether a row is missing.
            let mut places = 0;
            for &(first, len) in &section.runs {
                let row = draft.slot;
                queue.live.insert(first, Run { len, row });
                places += len;
            }
            section.ord_end = section.ord_first + u64::from(places);
            let row = &mut self.index.rows[draft.slot as usize];
            row.places += places;
            row.live += places;
            self.index.set_newest(queue_slot, Some(draft.slot));
        }
    }

    /// Queues whose new messages are all gone again still count them.
    fn count_on(&mut self, work: &mut Work, drafts: &mut Vec<Draft>) {
        for slot in std::mem::take(&mut work.touched) {
            let Some(queue) = self.index.queues.get_mut(slot as usize) else {
                continue;
            };
            queue.fresh = Vec::new();
            let is_in = drafts.first().is_some_and(|first| queue.open.0 >= first.id);
            if is_in {
                continue;
            }
            let section = Section {
                key: queue.key,
                ord_first: queue.ord_next,
                ord_end: queue.ord_next,
                seq_next: queue.seq_next,
                runs: Vec::new(),
            };
            if drafts.is_empty() {
                let draft = self.draft();
                drafts.push(draft);
            }
            let draft = drafts.last_mut().expect("one was just made");
            self.index.queues[slot as usize].open = (draft.id, 0);
            draft.head.sections.push(section);
            self.index.set_newest(slot, Some(draft.slot));
        }
    }

    /// Writes down the next position of queues, so that the rows that told it may go.
    fn retire(&mut self, plan: &mut Plan) {
        let slots: Vec<u32> = self
            .index
            .queues
            .iter()
            .filter(|(_, queue)| {
                queue
                    .newest
                    .is_some_and(|row| self.index.rows[row as usize].is_lingering)
            })
            .map(|(slot, _)| slot as u32)
            .collect();
        for slot in slots {
            let queue = &self.index.queues[slot as usize];
            let key = queue.key;
            let value = definition::count(key, queue.seq_next, queue.ord_next);
            self.define(definition::COUNT, key, Some(value), plan);
            self.index.set_newest(slot, None);
        }
    }

    fn bury(&mut self, plan: &mut Plan) {
        for (id, crc) in self.index.bury(BURY_MAX) {
            self.state.remove_row(id, crc);
            self.gone.add(id, &mut self.state.row_first, &mut plan.gone);
            plan.deletes.push(id);
        }
    }

    /// What left rows that stay is written into the last row.
    fn note_left(&mut self, work: &mut Work, drafts: &mut Vec<Draft>) {
        let is_kept = |left: &Left| {
            self.index.rows.contains(left.row as usize) && self.index.by_key.contains_key(&left.key)
        };
        let left: Vec<Left> = std::mem::take(&mut work.left)
            .into_iter()
            .filter(is_kept)
            .collect();
        let returns: Vec<(u32, u64, Returned)> = std::mem::take(&mut work.returns)
            .into_iter()
            .filter(|(slot, seq, returned)| {
                self.index
                    .queues
                    .get(*slot as usize)
                    .is_some_and(|queue| queue.returned.get(seq) == Some(returned))
            })
            .collect();
        if left.is_empty() && returns.is_empty() {
            return;
        }
        if drafts.is_empty() {
            let draft = self.draft();
            drafts.push(draft);
        }
        let draft = drafts.last_mut().expect("one was just made");
        for left in left {
            self.index.pin(left.row, draft.slot);
            draft.head.acks.push(Ack {
                row: self.index.rows[left.row as usize].id,
                key: left.key,
                first: left.first,
                len: left.len,
            });
        }
        for (slot, seq, returned) in returns {
            let queue = &self.index.queues[slot as usize];
            let key = queue.key;
            if let Some(row) = queue.row_of(seq) {
                self.index.pin(row, draft.slot);
                draft.head.returns.push(Return {
                    row: self.index.rows[row as usize].id,
                    key,
                    seq,
                    returned,
                });
            }
        }
    }

    fn finish(&mut self, mut draft: Draft) -> NewRow {
        draft.head.body_len = draft.body.len() as u32;
        draft.head.body_crc = crc32fast::hash(&draft.body);
        let (head, crc) = draft.head.write(draft.id);
        let row = &mut self.index.rows[draft.slot as usize];
        row.crc = crc;
        row.measure(head.len(), draft.body.len());
        self.index.bytes += u64::from(row.bytes);
        self.state.add_row(draft.id, crc);
        // A row that only counts may go when its count is written elsewhere.
        self.index.look_at(draft.slot);
        NewRow {
            id: draft.id,
            head,
            body: draft.body,
        }
    }

    /// Sets or deletes a definition.
    pub(crate) fn define(
        &mut self,
        kind: u8,
        name: u64,
        value: Option<(Vec<u8>, u32)>,
        plan: &mut Plan,
    ) {
        let before = match &value {
            Some((_, crc)) => {
                self.state.add_definition(kind, *crc);
                self.definitions.insert((kind, name), *crc)
            }
            None => self.definitions.remove(&(kind, name)),
        };
        if let Some(crc) = before {
            self.state.remove_definition(kind, crc);
        }
        if value.is_some() || before.is_some() {
            plan.definitions
                .push((kind, name, value.map(|(bytes, _)| bytes)));
        }
    }
}

/// A return without annotations leaves those that are there.
fn keep_annotations(new: &mut Returned, old: &Returned) {
    if new.annotations.is_none() {
        new.annotations.clone_from(&old.annotations);
    }
}
