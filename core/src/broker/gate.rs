//! The gate: what waits for a batch to be persisted.

use std::collections::VecDeque;
use std::time::Duration;

use super::conn::Conns;
use super::ports::Producer;
use crate::admin::Reply;
use crate::store::{Batch, BatchId, Op};
use crate::vocab::{ConnId, Notice, QueueId, Seq, Ticket, Verdict};

/// Batches with the store at a time. It makes all that wait safe with one sync, so what came while it was busy shares
/// the next one whatever the number of batches; beyond this bound the open batch grows.
const IN_FLIGHT_MAX: usize = 16;

/// Operations that nobody waits for are not kept back beyond so many.
const LINGERING_MAX: usize = 4_096;

/// What a batch withholds.
#[derive(Debug, Default)]
struct Held {
    notices: Vec<(usize, ConnId, Notice)>,
    /// Answers for the driver, by its numbers.
    replies: Vec<(u64, Reply)>,
    /// Queues with entries that become deliverable.
    queues: Vec<(usize, QueueId)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Gate {
    open: Batch,
    held: Held,
    in_flight: VecDeque<(BatchId, Held)>,
    persisted: BatchId,
    /// Answers that the driver may have.
    replies: Vec<(u64, Reply)>,
    /// Operations of the batches that were closed.
    sealed_ops: u64,
    /// The open batch holds something that somebody waits for, or that must not be late.
    is_urgent: bool,
    /// When the open batch is closed although nobody waits for it.
    close_at: Option<Duration>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            open: Batch {
                id: BatchId(1),
                ops: Vec::new(),
            },
            held: Held::default(),
            in_flight: VecDeque::new(),
            persisted: BatchId(0),
            replies: Vec::new(),
            sealed_ops: 0,
            is_urgent: false,
            close_at: None,
        }
    }
}

impl Gate {
    /// Adds an operation to the open batch and returns the batch.
    #[inline]
    pub(super) fn add(&mut self, op: Op) -> BatchId {
        self.is_urgent = true;
        self.open.ops.push(op);
        self.open.id
    }

    /// Adds to the open batch that a message left its queue, which nobody waits for by itself.
    #[inline]
    pub(super) fn add_removed(&mut self, queue: QueueId, seq: u64) {
        if let Some(Op::Removed {
            queue: last,
            seq: first,
            count,
        }) = self.open.ops.last_mut()
            && *last == queue
            && first.0 + *count == seq
        {
            *count += 1;
            return;
        }
        self.open.ops.push(Op::Removed {
            queue,
            seq: Seq(seq),
            count: 1,
        });
    }

    /// Adds how far a reader of a stream came, which nobody waits for by itself either.
    pub(super) fn add_offset(&mut self, queue: QueueId, reader: String, next: Option<Seq>) {
        self.open.ops.push(Op::OffsetStored {
            queue,
            reader,
            next,
        });
    }

    /// The batch that the next operation goes into.
    #[inline]
    pub(super) fn open_batch(&self) -> BatchId {
        self.open.id
    }

    /// Operations of the open batch.
    pub(super) fn open_len(&self) -> usize {
        self.open.ops.len()
    }

    /// The newest batch that is safe.
    #[inline]
    pub(super) fn persisted(&self) -> BatchId {
        self.persisted
    }

    /// When the open batch wants to be closed although nobody waits for it.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.close_at
    }

    /// Dispatches the queue when the open batch is persisted. [`super::Broker::wake`] asks once for each batch.
    #[inline]
    pub(super) fn wake(&mut self, slot: usize, queue: QueueId) {
        self.held.queues.push((slot, queue));
    }

    /// Queues that the open batch dispatches.
    #[cfg(test)]
    pub(super) fn woken_len(&self) -> usize {
        self.held.queues.len()
    }

    /// Accepts a ticket when the open batch is persisted.
    pub(super) fn accept(&mut self, producer: &mut Producer, conn: ConnId, ticket: Ticket) {
        let (batch, index) = producer.held;
        if batch == self.open.id
            && let Some((_, _, Notice::Confirm { last, .. })) = self.held.notices.get_mut(index)
            && last.0.checked_add(1) == Some(ticket.0)
        {
            *last = ticket;
            return;
        }
        producer.held = (self.open.id, self.held.notices.len());
        let notice = Notice::Confirm {
            port: producer.port,
            first: ticket,
            last: ticket,
            verdict: Verdict::Accepted,
        };
        self.held.notices.push((producer.conn, conn, notice));
    }

    /// Tells when everything that was decided so far is persisted; at once when it is.
    pub(super) fn tell_when_safe(&mut self, slot: usize, conns: &mut Conns, notice: Notice) {
        let held = if !self.open.ops.is_empty() {
            self.is_urgent = true;
            &mut self.held
        } else if let Some((_, held)) = self.in_flight.back_mut() {
            held
        } else {
            conns.tell(slot, notice);
            return;
        };
        held.notices.push((slot, conns.conn(slot).id, notice));
    }

    /// Tells the driver at once.
    pub(super) fn reply(&mut self, ticket: u64, reply: Reply) {
        self.replies.push((ticket, reply));
    }

    /// Tells the driver when everything that was decided so far is persisted; at once when it is.
    pub(super) fn reply_when_safe(&mut self, ticket: u64, reply: Reply) {
        let replies = if !self.open.ops.is_empty() {
            self.is_urgent = true;
            &mut self.held.replies
        } else if let Some((_, held)) = self.in_flight.back_mut() {
            &mut held.replies
        } else {
            &mut self.replies
        };
        replies.push((ticket, reply));
    }

    /// The answers that the driver may have.
    pub(super) fn take_replies(&mut self) -> Vec<(u64, Reply)> {
        std::mem::take(&mut self.replies)
    }

    /// Batches that were closed.
    pub(super) fn batches(&self) -> u64 {
        self.open.id.0 - 1
    }

    /// Operations in them.
    pub(super) fn sealed_ops(&self) -> u64 {
        self.sealed_ops
    }

    /// Whether nothing waits for the store.
    pub(super) fn is_idle(&self) -> bool {
        self.open.ops.is_empty() && self.in_flight.is_empty()
    }

    /// Closes the open batch, if it holds anything and the store can take it. One that nobody waits for may linger for
    /// a while: what joins it saves a sync.
    pub(super) fn seal(&mut self, now: Duration, linger: Duration) -> Option<Batch> {
        if self.open.ops.is_empty() || self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        if !self.is_urgent && self.open.ops.len() < LINGERING_MAX && !linger.is_zero() {
            let close_at = *self.close_at.get_or_insert(now + linger);
            if now < close_at {
                return None;
            }
        }
        self.is_urgent = false;
        self.close_at = None;
        self.sealed_ops += self.open.ops.len() as u64;
        let id = self.open.id;
        let next = Batch {
            id: BatchId(id.0 + 1),
            ops: Vec::new(),
        };
        self.in_flight
            .push_back((id, std::mem::take(&mut self.held)));
        Some(std::mem::replace(&mut self.open, next))
    }

    /// Lets out what batches up to `upto` withheld; returns the queues with new deliverable entries.
    pub(super) fn open_upto(&mut self, upto: BatchId, conns: &mut Conns) -> Vec<(usize, QueueId)> {
        let mut queues = Vec::new();
        while let Some((id, held)) = self.in_flight.pop_front_if(|(id, _)| *id <= upto) {
            self.persisted = id;
            self.replies.extend(held.replies);
            for (slot, conn, notice) in held.notices {
                if conns.is_at(slot, conn) {
                    conns.tell(slot, notice);
                }
            }
            queues.extend(held.queues);
        }
        queues
    }

    /// The store is gone: nothing that was withheld will ever be told.
    pub(super) fn fail(&mut self) {
        self.held = Held::default();
        self.in_flight.clear();
        self.close_at = None;
    }
}
