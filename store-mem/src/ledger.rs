//! A store in memory that behaves like a disk: what was flushed survives a crash, what was not is kept, torn or
//! dropped, the same way for the same seed.
//!
//! It keeps a log of records, each with a CRC, and batches end with a record that counts them; a batch whose end is
//! missing or does not fit is a torn one and is cut off. A table of what is alive answers fetches and lets the log be
//! rewritten when most of it is dead, so that long runs stay small. Room can be short, syncs can fail, bits can rot.

use std::sync::Arc;

use qq_core::planted::{Bug, is_planted};
use qq_core::store::{Batch, BatchId, Fetch, Op, Store, StoreError, StoreFault};
use qq_core::vocab::{Message, Seq};

use crate::random::Random;
use crate::table::{Table, crc_of, crc_of_message};

/// Dead records that are tolerated beside the live ones.
const SLACK: usize = 1_024;

/// One record.
#[derive(Clone, Debug)]
enum Record {
    Op {
        op: Op,
        crc: u32,
    },
    /// The end of a batch: how many records it has, and the CRC of their CRCs.
    End {
        count: usize,
        crc: u32,
    },
}

/// What the next flush does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushFault {
    /// There is no room; nothing is lost and the flush can be repeated.
    NoRoom,
    /// The sync fails: from then on the store answers nothing but failures, until [`Ledger::crash`].
    Fatal,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Ledger {
    random: Random,
    log: Vec<Record>,
    /// Records that [`Ledger::rewrite`] wrote or found alive last time.
    live: usize,
    table: Table,
    /// Submitted and not safe.
    submitted: Vec<Batch>,
    newest: Option<BatchId>,
    quota_bytes: Option<usize>,
    next_fault: Option<FlushFault>,
    is_next_fetch_damaged: bool,
    is_broken: bool,
}

impl Ledger {
    /// An empty store whose crashes follow a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            ..Self::default()
        }
    }

    /// From now on live messages have so many bytes at most, an allowance for each included; none = no bound.
    pub fn set_quota(&mut self, bytes: Option<usize>) {
        self.quota_bytes = bytes;
    }

    /// Bytes of live messages, with an allowance for each.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Lets the next flush fail.
    pub fn fail_next_flush(&mut self, fault: FlushFault) {
        self.next_fault = Some(fault);
    }

    /// Nothing more goes wrong of what was planned with the calls above.
    pub fn heal(&mut self) {
        self.quota_bytes = None;
        self.next_fault = None;
        self.is_next_fetch_damaged = false;
    }

    /// The power goes and comes back: of what was submitted and not flushed, a random beginning arrived, and perhaps
    /// some records of the batch behind it. The next call is [`Store::recover`].
    pub fn crash(&mut self) {
        let submitted = std::mem::take(&mut self.submitted);
        let whole = self.random.below(submitted.len() as u64 + 1) as usize;
        for (index, batch) in submitted.into_iter().enumerate() {
            if index < whole {
                self.append(batch);
            } else if index == whole && self.random.below(2) == 0 {
                self.tear(batch);
            }
        }
        self.newest = None;
        self.next_fault = None;
        self.is_next_fetch_damaged = false;
        self.is_broken = false;
    }

    /// Flips one bit of a live message on the disk. Returns whether there was one; a second flip of the same position
    /// puts it right.
    pub fn rot(&mut self, place: u64) -> bool {
        let bodies = self.log.iter_mut().filter_map(|record| match record {
            Record::Op {
                op: Op::Enqueued(stored),
                ..
            } if !stored.message.payload.is_empty() => Some(stored),
            _ => None,
        });
        let mut bodies: Vec<_> = bodies.collect();
        if bodies.is_empty() {
            return false;
        }
        let at = (place % bodies.len() as u64) as usize;
        let bit = place / bodies.len() as u64;
        bodies[at].message = flipped(&bodies[at].message, bit);
        true
    }

    /// One bit of what the next fetch reads is wrong, unless it reads nothing.
    pub fn damage_next_fetch(&mut self) {
        self.is_next_fetch_damaged = true;
    }

    /// Records in the log.
    #[must_use]
    pub fn records(&self) -> usize {
        self.log.len()
    }

    fn append(&mut self, batch: Batch) {
        let mut crcs = crc32fast::Hasher::new();
        let count = batch.ops.len();
        for op in batch.ops {
            let crc = crc_of(&op);
            crcs.update(&crc.to_le_bytes());
            self.table.apply(&op);
            self.log.push(Record::Op { op, crc });
        }
        let crc = crcs.finalize();
        self.log.push(Record::End { count, crc });
    }

    /// Some records of a batch arrive, in no order that helps: each by itself, and the end never fits.
    fn tear(&mut self, batch: Batch) {
        let lost = self.random.below(batch.ops.len() as u64) as usize;
        for (index, op) in batch.ops.into_iter().enumerate() {
            if index != lost && self.random.below(4) > 0 {
                let crc = crc_of(&op);
                self.log.push(Record::Op { op, crc });
            }
        }
    }

    /// Whether everything submitted fits.
    fn has_room(&self) -> bool {
        let Some(quota) = self.quota_bytes else {
            return true;
        };
        let ops = self.submitted.iter().flat_map(|batch| &batch.ops);
        let (mut added, mut freed) = (0, 0);
        for op in ops {
            added += Table::added_bytes(op);
            freed += self.table.freed_bytes(op);
        }
        // What frees room is always let in, as a real store keeps a reserve for it.
        added == 0 || self.table.bytes() + added <= quota + freed
    }

    /// Writes the log anew with what is alive, when most of it is dead.
    fn rewrite(&mut self) {
        if self.log.len() < 2 * self.live + SLACK {
            return;
        }
        self.log.clear();
        let ops = self.table.ops();
        self.table = Table::default();
        self.append(Batch {
            id: BatchId(0),
            ops,
        });
        self.live = self.log.len();
    }

    /// The operations of all whole batches; what is torn at the end is cut off.
    fn read_log(&mut self) -> Result<Vec<Op>, StoreError> {
        let (mut ops, mut whole, mut from) = (Vec::new(), 0, 0);
        for (at, record) in self.log.iter().enumerate() {
            let Record::End { count, crc } = record else {
                continue;
            };
            let batch = &self.log[from..at];
            let mut crcs = crc32fast::Hasher::new();
            for record in batch {
                if let Record::Op { op, crc } = record {
                    if crc_of(op) != *crc {
                        let text = format!("record {at} of the log is damaged: {op:?}");
                        return Err(StoreError::damaged(text));
                    }
                    crcs.update(&crc.to_le_bytes());
                    ops.push(op.clone());
                }
            }
            if batch.len() != *count || crcs.finalize() != *crc {
                let text = format!("the batch before record {at} of the log is damaged");
                return Err(StoreError::damaged(text));
            }
            (from, whole) = (at + 1, at + 1);
        }
        if is_planted(Bug::TornBatchTaken) {
            ops.extend(self.log[whole..].iter().filter_map(|record| match record {
                Record::Op { op, .. } => Some(op.clone()),
                Record::End { .. } => None,
            }));
            return Ok(ops);
        }
        self.log.truncate(whole);
        Ok(ops)
    }
}

impl Store for Ledger {
    fn recover(&mut self, each: &mut dyn FnMut(Op)) -> Result<(), StoreError> {
        let ops = self.read_log()?;
        self.table = Table::default();
        for op in &ops {
            self.table.apply(op);
        }
        // Either form is allowed: everything as it happened, or what is left of it.
        let told = if self.random.below(2) == 0 {
            ops
        } else {
            self.table.ops()
        };
        told.into_iter().for_each(each);
        Ok(())
    }

    fn submit(&mut self, batch: Batch) {
        self.submitted.push(batch);
    }

    fn flush(&mut self) -> Result<Option<BatchId>, StoreError> {
        let fault = self.next_fault.take();
        self.is_broken |= fault == Some(FlushFault::Fatal);
        if self.is_broken {
            return Err(StoreError::fatal("the sync failed"));
        }
        if fault == Some(FlushFault::NoRoom) || !self.has_room() {
            return Err(StoreError::no_room("the quota is used up"));
        }
        for batch in std::mem::take(&mut self.submitted) {
            self.newest = Some(batch.id);
            self.append(batch);
        }
        self.rewrite();
        Ok(self.newest)
    }

    fn fetch(&mut self, fetch: &Fetch) -> Result<Vec<(Seq, Arc<Message>)>, StoreError> {
        if self.is_broken {
            return Err(StoreError::fatal("the store failed earlier"));
        }
        let mut found = self.table.read(fetch);
        if std::mem::take(&mut self.is_next_fetch_damaged) && !found.is_empty() {
            let at = self.random.below(found.len() as u64) as usize;
            let place = self.random.below(u64::MAX);
            found[at].1 = flipped(&found[at].1, place);
        }
        for (seq, message, crc) in &found {
            if crc_of_message(message) != *crc && !is_planted(Bug::CrcSkipped) {
                let (queue, seq) = (fetch.queue.0, seq.0);
                let text = format!("position {seq} of queue {queue} is damaged");
                return Err(StoreError::damaged(text));
            }
        }
        if is_planted(Bug::FetchDropsLast) {
            found.pop();
        }
        let bodies = found.into_iter().map(|(seq, message, _)| (seq, message));
        Ok(bodies.collect())
    }

    fn is_short_of_room(&mut self) -> bool {
        self.quota_bytes
            .is_some_and(|quota| self.table.bytes() > quota - quota / 4)
    }
}

/// A message with one bit of its payload flipped, if it has a payload.
fn flipped(message: &Arc<Message>, place: u64) -> Arc<Message> {
    let mut message = Message::clone(message);
    let mut payload = message.payload.to_vec();
    if !payload.is_empty() {
        let bit = place % (payload.len() as u64 * 8);
        payload[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
    message.payload = payload.into();
    Arc::new(message)
}

impl Ledger {
    /// What a failed flush means for whoever drives the store.
    #[must_use]
    pub fn is_final(error: &StoreError) -> bool {
        error.fault != StoreFault::NoRoom
    }
}
