//! Settling: what an attempt's end does to its message.

use std::ops::RangeInclusive;

use super::Broker;
use crate::planted::{Bug, is_planted};
use crate::queue::{Clock, Extra};
use crate::store::Op;
use crate::vocab::{Cause, DeliveryId, Notice, Outcome, Port, Seq};

/// A message keeps at most so many consumers that must not get it again; the oldest are forgotten.
const EXCLUDED_MAX: usize = 64;

impl Broker {
    /// Executes `Settle`. Work is bounded by the consumer's unsettled deliveries, whatever the range.
    pub(super) fn settle(
        &mut self,
        at: Clock,
        conn: usize,
        port: Port,
        range: RangeInclusive<DeliveryId>,
        outcome: &Outcome,
        confirm: bool,
    ) {
        let Some(slot) = self.consumer_slot(conn, port) else {
            return;
        };
        let queue = self.consumers[slot].queue;
        let (first, last) = (range.start().0, range.end().0);
        if self.consumers[slot].progress.is_some() {
            self.settle_read(slot, first, last);
            if confirm {
                self.store_progress(slot);
            }
        } else if matches!(outcome, Outcome::Accepted | Outcome::Rejected { .. }) {
            let mut from = first;
            while let Some(delivery) = self.consumers[slot].unsettled.live_from(from)
                && delivery <= last
            {
                self.conclude(at, slot, delivery, outcome);
                from = delivery + 1;
            }
        } else {
            // Newest first: a run at the end of what was handed out then moves the queue's cursor back, no more.
            let mut upto = Some(last);
            while let Some(delivery) =
                upto.and_then(|upto| self.consumers[slot].unsettled.live_up_to(upto))
                && delivery >= first
            {
                self.conclude(at, slot, delivery, outcome);
                upto = delivery.checked_sub(1);
            }
            self.mark_dirty(queue);
        }
        if confirm {
            let notice = Notice::Settled {
                port,
                first: *range.start(),
                last: *range.end(),
            };
            if self.queues[queue].is_durable {
                self.gate.tell_when_safe(conn, &mut self.conns, notice);
            } else {
                self.conns.tell(conn, notice);
            }
        }
    }

    /// Ends one unsettled delivery.
    #[inline]
    pub(super) fn conclude(&mut self, at: Clock, slot: usize, delivery: u64, outcome: &Outcome) {
        let consumer = &mut self.consumers[slot];
        let Some(seq) = consumer.unsettled.take(delivery) else {
            return;
        };
        let (queue, serial) = (consumer.queue, consumer.serial);
        self.unsettled -= 1;
        let totals = &mut self.queues[queue].totals;
        match outcome {
            Outcome::Accepted => totals.acked += 1,
            Outcome::Released | Outcome::Modified { failed: false, .. } => {}
            _ => totals.nacked += 1,
        }
        match outcome {
            Outcome::Accepted => {
                self.remove_entry(queue, seq);
            }
            Outcome::Rejected { .. } => {
                self.tally.rejected += 1;
                self.fail_entry(at, queue, seq, Cause::Rejected);
            }
            Outcome::Released => self.give_back(at, queue, seq),
            Outcome::Lost | Outcome::Modified { failed: true, .. }
                if self.is_last_attempt(queue, seq) =>
            {
                if let Outcome::Modified { annotations, .. } = outcome {
                    self.annotate_entry(queue, seq, annotations.as_ref());
                }
                self.fail_entry(at, queue, seq, Cause::Attempts);
            }
            Outcome::Lost => {
                self.change_entry(queue, seq, true, None);
                if is_planted(Bug::ReturnedTwice) {
                    self.duplicate(at, queue, seq);
                }
                self.give_back(at, queue, seq);
                self.back_off(at, queue, seq);
            }
            Outcome::Modified {
                failed,
                undeliverable_here,
                annotations,
            } => {
                self.change_entry(queue, seq, *failed, annotations.as_ref());
                if *undeliverable_here {
                    self.exclude(slot, queue, seq, serial);
                }
                self.give_back(at, queue, seq);
                if *failed {
                    self.back_off(at, queue, seq);
                }
            }
        }
    }

    /// Counts an attempt and replaces annotations; what the store knows about is told to it, and is delivered again
    /// only when that is safe, so that a count never falls.
    fn change_entry(
        &mut self,
        slot: usize,
        seq: u64,
        failed: bool,
        annotations: Option<&bytes::Bytes>,
    ) {
        if !failed && annotations.is_none() {
            return;
        }
        let queue = &mut self.queues[slot];
        let Some(entry) = queue.backlog.entry_mut(seq) else {
            return;
        };
        if failed {
            entry.delivery_count = entry.delivery_count.saturating_add(1);
        }
        if let Some(annotations) = annotations {
            entry.extra.get_or_insert_default().annotations = Some(annotations.clone());
        }
        if entry.is_durable && !is_planted(Bug::CountNotStored) {
            entry.batch = self.gate.add(Op::Returned {
                queue: queue.id,
                seq: Seq(seq),
                delivery_count: entry.delivery_count,
                annotations: entry
                    .extra
                    .as_ref()
                    .and_then(|extra| extra.annotations.clone()),
            });
            self.wake(slot);
        }
    }

    /// Replaces the annotations of a message that leaves its queue.
    fn annotate_entry(&mut self, slot: usize, seq: u64, annotations: Option<&bytes::Bytes>) {
        if let Some(entry) = self.queues[slot].backlog.entry_mut(seq)
            && annotations.is_some()
        {
            entry.extra.get_or_insert_default().annotations = annotations.cloned();
        }
    }

    /// A mistake: puts a message to the end of its queue as well.
    fn duplicate(&mut self, at: Clock, slot: usize, seq: u64) {
        let queue = &mut self.queues[slot];
        if let Some(entry) = queue.backlog.entry_mut(seq) {
            let never = crate::queue::NEVER_MS;
            let body = entry.body();
            let copy = crate::queue::Entry::new(body, never, crate::store::BatchId(0), false);
            self.bytes += copy.cost();
            queue.backlog.push(copy, at);
        }
    }

    /// Keeps a message from a consumer from now on.
    fn exclude(&mut self, consumer_slot: usize, slot: usize, seq: u64, serial: u64) {
        let queue = &mut self.queues[slot];
        let Some(entry) = queue.backlog.entry_mut(seq) else {
            return;
        };
        let extra: &mut Extra = entry.extra.get_or_insert_default();
        if !extra.excluded.contains(&serial) {
            if extra.excluded.len() == EXCLUDED_MAX {
                extra.excluded.remove(0);
            }
            extra.excluded.push(serial);
        }
        let consumer = &mut self.consumers[consumer_slot];
        if !consumer.has_excluded {
            consumer.has_excluded = true;
            queue.excluders.push(consumer_slot);
        }
    }

    fn give_back(&mut self, at: Clock, slot: usize, seq: u64) {
        self.queues[slot].backlog.give_back(seq, at);
        self.give_key_back(slot, seq);
        if self.queues[slot].backlog.expiry_ms() < self.queues[slot].armed_ms {
            self.arm(slot);
        }
        self.on_in_turn(at, slot, seq);
    }

    /// A message stands in its turn again: consumers with views of their own look at it.
    pub(super) fn on_in_turn(&mut self, at: Clock, slot: usize, seq: u64) {
        let queue = &mut self.queues[slot];
        for excluder in &queue.excluders {
            let consumer = &mut self.consumers[*excluder];
            if !queue.backlog.is_excluded(seq, consumer.serial) {
                consumer.parked_from = consumer.parked_from.min(seq);
            }
        }
        if !self.queues[slot].filtered.is_empty() {
            self.offer_again(at, slot, seq);
        }
    }

    /// Ends all unsettled deliveries of a consumer that goes.
    pub(super) fn conclude_all(&mut self, at: Clock, slot: usize, outcome: &Outcome) {
        if self.consumers[slot].progress.is_some() {
            return self.forget_unread(slot);
        }
        let mut upto = Some(u64::MAX);
        while let Some(delivery) =
            upto.and_then(|upto| self.consumers[slot].unsettled.live_up_to(upto))
        {
            self.conclude(at, slot, delivery, outcome);
            upto = delivery.checked_sub(1);
        }
    }
}
