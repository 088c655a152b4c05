//! One message for several queues: all of them take it or none does.
//!
//! A queue that refuses (full, `overflow = reject`) refuses the whole publish, so that a producer which hears `rejected`
//! can send again without anybody getting the message twice. The body is stored once and shared in memory; against the
//! memory limit every queue counts it in full, since each may be the last that holds it.

use std::sync::Arc;

use smallvec::SmallVec;

use super::publish::{Taken, deadline_ms};
use super::{Broker, Now};
use crate::planted::{Bug, is_planted};
use crate::queue::{Clock, Entry, NEVER_MS};
use crate::route::QueueRef;
use crate::store::{BatchId, Op, StoredMessage};
use crate::vocab::{Cause, Message, QueueId, Reason, Seq, Verdict};

/// A publish that not all queues take.
struct Refused {
    verdict: Verdict,
    /// The queue that is full.
    by: Option<usize>,
}

impl Broker {
    /// Puts a message into all queues of `Broker::route`, if it fits into all of them.
    pub(super) fn enqueue_all(
        &mut self,
        now: Now,
        at: Clock,
        message: &Arc<Message>,
    ) -> Result<Taken, Verdict> {
        let mut queues = std::mem::take(&mut self.route);
        if message.envelope.dedup_id().is_some()
            && let Err(verdict) = self.drop_duplicates(at, &mut queues, message)
        {
            self.route = queues;
            return match verdict {
                Verdict::Duplicate => Ok(Taken::Duplicate),
                verdict => Err(verdict),
            };
        }
        let taken = match self.decide_all(&queues, message) {
            Ok(()) => Ok(self.apply_all(now, at, &queues, message)),
            Err(Refused { verdict, by }) => {
                let refusals = &mut self.tally.refusals;
                match by {
                    Some(_) => refusals.queue_full += 1,
                    None if verdict == Verdict::Rejected(Reason::DiskFull) => refusals.disk += 1,
                    None => refusals.memory += 1,
                }
                if let Some(slot) = by {
                    self.queues[slot].totals.refused += 1;
                    let is_durable = self.queues[slot].keeps(&message.envelope);
                    let body = Arc::clone(message);
                    let entry = Entry::new(body, NEVER_MS, BatchId(0), is_durable);
                    self.bury_refused(at, slot, &entry);
                }
                Err(verdict)
            }
        };
        self.route = queues;
        taken
    }

    /// Leaves out the queues that have the message already.
    ///
    /// # Errors
    /// The verdict, when all of them do or its key cannot be kept.
    fn drop_duplicates(
        &mut self,
        at: Clock,
        queues: &mut Vec<QueueRef>,
        message: &Message,
    ) -> Result<(), Verdict> {
        let mut refused = None;
        let mut ahead = 0;
        queues.retain(|to| {
            let checked = self.check_duplicate(at, to.slot, &message.envelope, &mut ahead);
            let is_new = checked.is_ok();
            refused = checked
                .err()
                .filter(|v| *v != Verdict::Duplicate)
                .or(refused.take());
            is_new
        });
        match refused {
            Some(verdict) => Err(verdict),
            None if queues.is_empty() => Err(Verdict::Duplicate),
            None => Ok(()),
        }
    }

    /// Whether all of them take it.
    fn decide_all(&self, queues: &[QueueRef], message: &Message) -> Result<(), Refused> {
        let full = |by: Option<usize>| {
            let broker_is = || Verdict::Rejected(Reason::LimitExceeded);
            let verdict = by.map_or_else(broker_is, |slot| self.full(slot));
            Err(Refused { verdict, by })
        };
        let cost = message.cost().saturating_mul(queues.len());
        if self.bytes.saturating_add(cost) > self.config.limits.memory_max_bytes {
            return full(None);
        }
        let mut is_stored = false;
        for to in queues {
            let queue = &self.queues[to.slot];
            if !queue.takes(message.payload.len()) {
                return full(Some(to.slot));
            }
            is_stored |= queue.keeps(&message.envelope);
        }
        if is_stored && self.is_disk_short {
            let verdict = Verdict::Rejected(Reason::DiskFull);
            return Err(Refused { verdict, by: None });
        }
        Ok(())
    }

    pub(super) fn apply_all(
        &mut self,
        now: Now,
        at: Clock,
        queues: &[QueueRef],
        message: &Arc<Message>,
    ) -> Taken {
        let mut places: SmallVec<[(QueueId, Seq); 1]> = SmallVec::new();
        let mut drops_head = false;
        let mut expired: SmallVec<[(usize, Entry); 1]> = SmallVec::new();
        let cost = message.cost();
        for to in queues {
            let queue = &mut self.queues[to.slot];
            queue.totals.published += 1;
            drops_head |= queue.drops_head();
            let is_durable = queue.keeps(&message.envelope);
            let expires_ms = deadline_ms(now, queue.ttl_ms(&message.envelope));
            let entry = queue.entry(Arc::clone(message), expires_ms, is_durable);
            if entry.is_expired(at) {
                self.tally.expired += 1;
                queue.totals.expired += 1;
                expired.push((to.slot, entry));
                continue;
            }
            if let Some(key) = entry.dedup_id() {
                self.record_key(now, to.slot, key, is_durable);
            }
            let batch = self.gate.open_batch();
            let latency = &mut self.queues[to.slot].latency;
            if is_durable {
                latency.begin(batch, now.mono);
            } else {
                latency.at_once();
            }
            places.extend(self.place(at, to.slot, cost, entry));
        }
        if is_planted(Bug::StoredInParts) {
            places.truncate(1);
        }
        let is_stored = !places.is_empty();
        if is_stored {
            self.gate.add(Op::Enqueued(StoredMessage {
                message: Arc::clone(message),
                arrived_at_ms: now.wall_ms,
                places,
            }));
        }
        if drops_head {
            // Behind the operation above, since what is dropped may be what just came.
            for to in queues {
                if self.queues[to.slot].drops_head() {
                    self.drop_overflow(at, to.slot);
                }
            }
        }
        let mut is_stored = is_stored;
        for (slot, entry) in expired {
            let taken = self.bury_new(at, slot, &entry, Cause::Expired);
            is_stored |= matches!(taken, Taken::Durable);
        }
        if is_stored {
            Taken::Durable
        } else {
            Taken::Volatile
        }
    }
}
