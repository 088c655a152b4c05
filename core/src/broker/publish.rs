//! Publishing: where a message goes, whether it fits, and when its producer hears.

use std::sync::Arc;

use super::conn::PortKind;
use super::ports::{Run, Target};
use super::routing::Route;
use super::timers::SPAN_MAX_MS;
use super::{Broker, Now};
use crate::planted::{Bug, is_planted};
use crate::queue::{Clock, Entry, NEVER_MS};
use crate::store::{Op, StoredMessage};
use crate::vocab::{Cause, Message, Port, QueueId, Reason, RuleId, Seq, Ticket, Verdict};

/// How an accepted message was taken in.
pub(super) enum Taken {
    /// Nothing to wait for.
    Volatile,
    /// The open batch holds it.
    Durable,
    /// It was there already.
    Duplicate,
}

impl Broker {
    /// Executes `Publish`.
    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of one command, on the hottest path"
    )]
    #[inline]
    pub(super) fn publish(
        &mut self,
        now: Now,
        at: Clock,
        conn: usize,
        port: Port,
        ticket: Ticket,
        message: Arc<Message>,
        vetted: RuleId,
    ) {
        let Some(PortKind::Producer(slot)) = self.conns.conn(conn).port(port) else {
            return;
        };
        let decided = match self.producers[slot].target {
            Target::Queue(queue) => Ok(Route::One(queue)),
            _ => self.decide_route(now.wall_ms, conn, slot, &message),
        };
        let decided = decided.and_then(|route| {
            self.vet(route, vetted, &message)?;
            Ok(route)
        });
        self.publisher = Some(self.conns.conn(conn).id);
        let taken = match decided {
            Ok(route) => self.put(now, at, route, message),
            Err(verdict) => Err(verdict),
        };
        self.publisher = None;
        let producer_verdict = match taken {
            Ok(Taken::Volatile) => Verdict::Accepted,
            Ok(Taken::Durable) => {
                let id = self.conns.conn(conn).id;
                self.gate.accept(&mut self.producers[slot], id, ticket);
                return;
            }
            Ok(Taken::Duplicate) => {
                // The message that it repeats may wait for the store.
                let verdict = Verdict::Duplicate;
                let notice = Run::new(ticket, verdict).notice(port);
                return self.gate.tell_when_safe(conn, &mut self.conns, notice);
            }
            Err(verdict) => {
                self.tally.unroutable += u64::from(verdict == Verdict::Unroutable);
                verdict
            }
        };
        if self.producers[slot].answer(ticket, producer_verdict, &mut self.conns) {
            self.runs.push(slot);
        }
    }

    /// Puts a message where it goes, and into the groups there, if it fits everywhere.
    #[inline]
    pub(super) fn put(
        &mut self,
        now: Now,
        at: Clock,
        route: Route,
        message: Arc<Message>,
    ) -> Result<Taken, Verdict> {
        match self.with_groups(route) {
            Route::One(queue) => self.enqueue(now, at, queue, message),
            Route::Many => self.enqueue_all(now, at, &message),
        }
    }

    /// Puts a message into a queue, if it fits.
    #[inline]
    pub(super) fn enqueue(
        &mut self,
        now: Now,
        at: Clock,
        slot: usize,
        message: Arc<Message>,
    ) -> Result<Taken, Verdict> {
        match self.check_duplicate(at, slot, &message.envelope, &mut 0) {
            Ok(()) => self.enqueue_new(now, at, slot, message),
            Err(Verdict::Duplicate) => Ok(Taken::Duplicate),
            Err(verdict) => Err(verdict),
        }
    }

    #[inline]
    fn enqueue_new(
        &mut self,
        now: Now,
        at: Clock,
        slot: usize,
        message: Arc<Message>,
    ) -> Result<Taken, Verdict> {
        let cost = message.cost();
        if self.bytes.saturating_add(cost) > self.config.limits.memory_max_bytes {
            self.queues[slot].totals.refused += 1;
            self.tally.refusals.memory += 1;
            return Err(Verdict::Rejected(Reason::LimitExceeded));
        }
        let queue = &mut self.queues[slot];
        let is_taken = queue.takes(message.payload.len());
        let drops_head = queue.drops_head();
        let expires_ms = deadline_ms(now, queue.ttl_ms(&message.envelope));
        let is_durable = queue.keeps(&message.envelope);
        let mut entry = queue.entry(message, expires_ms, is_durable);
        if !is_taken {
            queue.totals.refused += 1;
            self.tally.refusals.queue_full += 1;
            self.bury_refused(at, slot, &entry);
            return Err(self.full(slot));
        }
        if entry.is_expired(at) {
            self.tally.expired += 1;
            queue.totals.published += 1;
            queue.totals.expired += 1;
            return Ok(self.bury_new(at, slot, &entry, Cause::Expired));
        }
        if is_durable && self.is_disk_short {
            queue.totals.refused += 1;
            self.tally.refusals.disk += 1;
            return Err(Verdict::Rejected(Reason::DiskFull));
        }
        if let Some(key) = entry.dedup_id() {
            self.record_key(now, slot, key, is_durable);
        }
        let queue = &mut self.queues[slot];
        if is_durable {
            let op = Op::Enqueued(StoredMessage {
                message: entry.body(),
                arrived_at_ms: now.wall_ms,
                places: smallvec::smallvec![(queue.id, Seq(queue.backlog.next_seq()))],
            });
            let batch = self.gate.add(op);
            if !is_planted(Bug::DeliverBeforeSafe) {
                entry.batch = batch;
            }
            self.wake(slot);
            self.queues[slot].latency.begin(batch, now.mono);
        } else {
            queue.latency.at_once();
        }
        self.queues[slot].totals.published += 1;
        self.push_entry(at, slot, cost, entry);
        if drops_head {
            self.drop_overflow(at, slot);
        }
        Ok(if is_durable && !is_planted(Bug::AcceptBeforeSafe) {
            Taken::Durable
        } else {
            Taken::Volatile
        })
    }

    /// That a queue is full.
    #[cold]
    pub(super) fn full(&self, slot: usize) -> Verdict {
        Verdict::Full(self.queues[slot].spec.name.as_str().into())
    }

    /// The queue is looked at when the open batch is safe, however many of its messages that holds.
    #[inline]
    pub(super) fn wake(&mut self, slot: usize) {
        let queue = &mut self.queues[slot];
        let batch = self.gate.open_batch();
        if queue.woken_by != batch {
            queue.woken_by = batch;
            self.gate.wake(slot, queue.id);
        }
    }

    /// Puts an entry at the tail of its queue, behind the gate when the store keeps it. Then the caller tells the store
    /// that it is at the place returned.
    pub(super) fn place(
        &mut self,
        at: Clock,
        slot: usize,
        cost: usize,
        mut entry: Entry,
    ) -> Option<(QueueId, Seq)> {
        let queue = &self.queues[slot];
        let place = (queue.id, Seq(queue.backlog.next_seq()));
        let is_stored = entry.is_durable;
        if is_stored {
            entry.batch = self.gate.open_batch();
            self.wake(slot);
        }
        self.push_entry(at, slot, cost, entry);
        is_stored.then_some(place)
    }

    /// Puts an entry at the tail of its queue.
    #[inline]
    pub(super) fn push_entry(&mut self, at: Clock, slot: usize, cost: usize, mut entry: Entry) {
        let queue = &mut self.queues[slot];
        if queue.publisher_askers > 0 && self.publisher.is_some() {
            entry.extra.get_or_insert_default().publisher = self.publisher;
        }
        self.bytes += cost;
        let mut delay = entry.message.as_ref().and_then(|m| m.envelope.delay());
        let seq = queue.backlog.push(entry, at);
        if queue.is_stream() {
            // What comes later stands behind it, so it cannot wait.
            delay = None;
            queue.marks.note(seq, at.wall_ms);
        }
        if !queue.is_dirty {
            queue.is_dirty = true;
            self.dirty.push(slot);
            // Once in a turn is enough for what people read.
            let first = queue.backlog.live_from(0).unwrap_or(seq);
            queue.ages.note(seq, at.wall_ms, first);
        }
        if queue.backlog.expiry_ms() < queue.armed_ms {
            self.arm(slot);
        }
        if let Some(delay) = delay {
            self.delay_new(at, slot, seq, delay);
        }
    }

    /// Takes out what is too much in queues that dead letters came to. What falls out may become a dead letter in the
    /// next one: a list, not a recursion as deep as queues are long.
    pub(super) fn drop_overflown(&mut self, at: Clock) {
        while let Some((slot, id)) = self.overflown.pop() {
            if self.is_queue(slot, id) {
                self.drop_overflow(at, slot);
            }
        }
    }

    /// Takes the oldest messages out of a queue that is over its limit.
    pub(super) fn drop_overflow(&mut self, at: Clock, slot: usize) {
        if self.queues[slot].is_stream() {
            return self.trim_stream(slot);
        }
        while self.queues[slot].is_over_limit() {
            let Some(seq) = self.queues[slot].backlog.head() else {
                break;
            };
            let before = self.queues[slot].backlog.waiting();
            self.fail_entry(at, slot, seq, Cause::Overflow);
            if self.queues[slot].backlog.waiting() == before {
                // It goes when its body came.
                break;
            }
            self.tally.dropped += 1;
            self.queues[slot].totals.dropped += 1;
        }
    }

    /// Takes a message out of its queue for good. Inlined as [`crate::queue::Backlog::remove`] is.
    #[inline(always)]
    pub(super) fn remove_entry(&mut self, slot: usize, seq: u64) -> Option<Entry> {
        let queue = &mut self.queues[slot];
        let entry = queue.backlog.remove(seq)?;
        self.bytes -= entry.cost();
        if entry.is_durable {
            self.gate.add_removed(queue.id, seq);
        }
        if queue.lifetime.is_some() && queue.backlog.len() == 0 {
            self.outlived.push((slot, queue.id));
        }
        if queue.order_keys.is_some() {
            self.leave_key(slot, seq, &entry);
        }
        Some(entry)
    }

    /// Whether a slot still is that queue.
    #[inline]
    pub(super) fn is_queue(&self, slot: usize, id: QueueId) -> bool {
        self.queues.get(slot).is_some_and(|queue| queue.id == id)
    }
}

/// The end of a time to live, rounded up so that nothing expires early.
pub(super) fn deadline_ms(now: Now, ttl_ms: Option<u64>) -> u64 {
    deadline_from(now.mono_ms_up(), ttl_ms)
}

/// As [`deadline_ms`], from a moment that is not early.
pub(super) fn deadline_from(mono_ms_up: u64, ttl_ms: Option<u64>) -> u64 {
    let Some(ttl_ms) = ttl_ms else {
        return NEVER_MS;
    };
    if ttl_ms > SPAN_MAX_MS {
        return NEVER_MS;
    }
    // Nothing lives for no time, whatever the fraction of the millisecond.
    if ttl_ms == 0 {
        return 0;
    }
    mono_ms_up.saturating_add(ttl_ms)
}
