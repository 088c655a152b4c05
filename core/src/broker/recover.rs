//! Recovery: the store's operations are applied by the same code that runs when they are made, without deciding.

use std::sync::Arc;

use super::{Broker, Now};
use crate::planted::{Bug, is_planted};
use crate::queue::{Arrival, NEVER_MS};
use crate::store::{Op, StoredMessage};
use crate::vocab::{QueueId, Refusal, Seq};

impl Broker {
    /// Applies an operation that the store kept. To be called in the store's order, before [`Broker::recovered`].
    pub fn recover(&mut self, op: Op) {
        self.exchanges.set_replaying(true);
        match op {
            Op::QueueDeclared { queue, spec } => {
                if self.queue_slots.contains_key(&queue)
                    || self.queue_names.contains_key(spec.name.as_str())
                {
                    log::error!("the store declares queue {} twice", queue.0);
                    return;
                }
                self.apply_declared(queue, spec);
            }
            Op::QueueDeleted { queue } => {
                if let Some(slot) = self.queue_slots.get(&queue).copied() {
                    self.exchanges.apply_queue_deleted(queue);
                    self.apply_deleted(slot);
                }
            }
            Op::ExchangeDeclared { spec } => {
                self.exchanges.apply_declare(spec);
            }
            Op::ExchangeDeleted { name } => {
                self.exchanges.apply_delete(&name);
            }
            Op::Bound { spec } => self.recover_binding(spec),
            Op::Unbound { spec } => {
                self.exchanges.apply_unbind(&spec);
            }
            Op::SchemaRegistered { record } => self.schemas.apply_registered(record, None),
            Op::SchemaForgotten { subject, version } => {
                self.schemas.apply_forgotten(&subject, version);
            }
            Op::Enqueued(stored) => self.recover_message(&stored),
            Op::Keyed { keys } => self.recover_keys(&keys),
            Op::Counted { queue, next } => {
                if let Some(&slot) = self.queue_slots.get(&queue)
                    && !is_planted(Bug::PositionsReused)
                {
                    self.queues[slot].backlog.reserve_below(next.0);
                }
            }
            Op::Removed { queue, seq, count } => self.recover_removed(queue, seq.0, count),
            Op::OffsetStored {
                queue,
                reader,
                next,
            } => self.recover_offset(queue, reader, next),
            Op::Returned {
                queue,
                seq,
                delivery_count,
                annotations,
            } => {
                let Some(&slot) = self.queue_slots.get(&queue) else {
                    return;
                };
                self.queues[slot].backlog.change(seq.0, |entry| {
                    entry.delivery_count = delivery_count;
                    entry.was_acquired = true;
                    if annotations.is_some() {
                        entry.extra.get_or_insert_default().annotations = annotations;
                    }
                });
            }
        }
    }

    fn recover_removed(&mut self, queue: QueueId, first: u64, count: u64) {
        let Some(&slot) = self.queue_slots.get(&queue) else {
            return;
        };
        let backlog = &mut self.queues[slot].backlog;
        let end = first.saturating_add(count);
        // A store may drop both halves of a pair; the position must not be given again all the same.
        backlog.reserve_below(end);
        for entry in (first..end).filter_map(|seq| backlog.remove(seq)) {
            self.bytes -= entry.cost();
        }
    }

    fn recover_offset(&mut self, queue: QueueId, reader: String, next: Option<Seq>) {
        if let Some(&slot) = self.queue_slots.get(&queue) {
            let offsets = &mut self.queues[slot].offsets;
            match next {
                Some(next) => offsets.insert(reader, next.0),
                None => offsets.remove(&reader),
            };
        }
    }

    fn recover_message(&mut self, stored: &StoredMessage) {
        for &(queue, seq) in &stored.places {
            let Some(&slot) = self.queue_slots.get(&queue) else {
                continue;
            };
            let message = Arc::clone(&stored.message);
            let can_page = self.config.paging.is_some();
            let queue = &mut self.queues[slot];
            let entry = queue.entry(message, NEVER_MS, true);
            // Bodies wait in the store until a consumer comes: a start is not slower for what is queued.
            let is_new = if can_page && queue.can_page() {
                queue.backlog.recover_away(seq.0, entry)
            } else {
                self.bytes += entry.cost();
                queue.backlog.recover(seq.0, entry)
            };
            if !is_new {
                log::error!(
                    "the store holds position {} of queue {} twice",
                    seq.0,
                    queue.id.0
                );
                continue;
            }
            queue.ages.note(seq.0, stored.arrived_at_ms, 0);
            if queue.is_stream() {
                queue.marks.note(seq.0, stored.arrived_at_ms);
            }
            if let Some(delay) = stored.message.envelope.delay()
                && !queue.is_stream()
            {
                queue.backlog.note_due(seq.0, delay, stored.arrived_at_ms);
            }
            if let Some(ttl_ms) = queue.ttl_ms(&stored.message.envelope) {
                queue.backlog.note_arrival(Arrival {
                    seq: seq.0,
                    at_ms: stored.arrived_at_ms,
                    ttl_ms,
                });
            }
        }
    }

    /// Ends recovery: times to live run on, and what the configuration lists is declared. What cannot be (see
    /// [`super::BrokerConfig::check`]) or exists with other fields is logged and left as it is.
    pub fn recovered(&mut self, now: Now) {
        let at = now.clock();
        self.exchanges.set_replaying(false);
        self.link_groups();
        let slots: Vec<usize> = self.queues.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let backlog = &mut self.queues[slot].backlog;
            backlog.start_expiry(at, now.mono_ms_up());
            backlog.start_delays(at, now.mono_ms_up());
            let window_ms = self.queues[slot].spec.dedup_window_ms;
            if let Some(dedup) = &mut self.queues[slot].dedup {
                self.dedup_keys += dedup.start(at, now.mono_ms_up(), window_ms);
            }
            self.arm(slot);
            self.note_use(slot);
        }
        self.recover_schemas();
        let mut refusals = Vec::new();
        self.declare_configured(&mut refusals);
        for refusal in refusals {
            log::error!("not everything is as configured: {}", refusal.text);
        }
        self.start_idle(now);
    }

    /// Declares what the configuration lists; what is refused goes into `refusals`.
    fn declare_configured(&mut self, refusals: &mut Vec<Refusal>) {
        for spec in self.config.exchanges.clone() {
            refusals.extend(self.declare_exchange(spec).err());
        }
        for spec in self.config.queues.clone() {
            refusals.extend(self.declare_queue(spec, None).err());
        }
        for spec in self.config.groups.clone() {
            refusals.extend(self.declare_group(&spec).err());
        }
        for spec in self.config.bindings.clone() {
            refusals.extend(self.bind(spec, None).err());
        }
    }
}

impl super::BrokerConfig {
    /// Checks the configured exchanges, queues and bindings, so that a driver can refuse to start.
    ///
    /// # Errors
    /// The first of them that cannot be declared, with the reason.
    pub fn check(&self) -> Result<(), Refusal> {
        let mut refusals = Vec::new();
        Broker::new(self.clone()).declare_configured(&mut refusals);
        match refusals.into_iter().next() {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }
}
