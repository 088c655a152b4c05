//! Recovery: the store's operations are applied by the same code that runs when they are made, without deciding.

use std::sync::Arc;

use super::{Broker, Now};
use crate::queue::{Entry, NEVER_MS};
use crate::store::{BatchId, Op, StoredMessage};

impl Broker {
    /// Applies an operation that the store kept. To be called in the store's order, before [`Broker::recovered`].
    pub fn recover(&mut self, op: Op) {
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
                    self.apply_deleted(slot);
                }
            }
            Op::Enqueued(stored) => self.recover_message(&stored),
            Op::Counted { queue, next } => {
                if let Some(&slot) = self.queue_slots.get(&queue) {
                    self.queues[slot].backlog.reserve_below(next.0);
                }
            }
            Op::Removed { queue, seq } => {
                let Some(&slot) = self.queue_slots.get(&queue) else {
                    return;
                };
                let backlog = &mut self.queues[slot].backlog;
                // A store may drop both halves of a pair; the position must not be given again all the same.
                backlog.reserve_below(seq.0.saturating_add(1));
                if let Some(entry) = backlog.remove(seq.0) {
                    self.bytes -= entry.message.cost();
                }
            }
            Op::Returned {
                queue,
                seq,
                delivery_count,
                annotations,
            } => {
                let Some(&slot) = self.queue_slots.get(&queue) else {
                    return;
                };
                let Some(entry) = self.queues[slot].backlog.entry_mut(seq.0) else {
                    return;
                };
                entry.delivery_count = delivery_count;
                entry.was_acquired = true;
                if annotations.is_some() {
                    entry.extra.get_or_insert_default().annotations = annotations;
                }
            }
        }
    }

    fn recover_message(&mut self, stored: &StoredMessage) {
        for &(queue, seq) in &stored.places {
            let Some(&slot) = self.queue_slots.get(&queue) else {
                continue;
            };
            let entry = Entry::new(Arc::clone(&stored.message), NEVER_MS, BatchId(0), true);
            if !self.queues[slot].backlog.push_at(seq.0, entry) {
                log::error!(
                    "the store holds position {} of queue {} twice",
                    seq.0,
                    queue.0
                );
                continue;
            }
            self.bytes += stored.message.cost();
            let has_ttl = stored.message.envelope.ttl_ms.is_some()
                || stored.message.envelope.expires_at_ms.is_some()
                || self.queues[slot].spec.message_ttl_ms.is_some();
            if has_ttl {
                self.recovered_arrivals
                    .push((queue, seq.0, stored.arrived_at_ms));
            }
        }
    }

    /// Ends recovery: times to live run on, and the queues of the configuration are declared. A configured queue that
    /// cannot be (see [`super::BrokerConfig::check`]) or that exists with other fields is logged and left as it is.
    pub fn recovered(&mut self, now: Now) {
        let at = now.clock();
        for (queue, seq, arrived_at_ms) in std::mem::take(&mut self.recovered_arrivals) {
            let Some(&slot) = self.queue_slots.get(&queue) else {
                continue;
            };
            let queue_ttl_ms = self.queues[slot].spec.message_ttl_ms;
            let backlog = &mut self.queues[slot].backlog;
            let Some(entry) = backlog.entry(seq) else {
                continue;
            };
            // A wall clock that was set back must not lengthen a life, one that jumped ahead shortens it: only the
            // wall clock spans two processes.
            let spent_ms = u64::try_from(at.wall_ms.saturating_sub(arrived_at_ms)).unwrap_or(0);
            let ttl_ms = entry
                .message
                .envelope
                .ttl_ms
                .unwrap_or(NEVER_MS)
                .min(queue_ttl_ms.unwrap_or(NEVER_MS));
            let expires_ms = if ttl_ms == NEVER_MS {
                NEVER_MS
            } else {
                now.mono_ms_up()
                    .saturating_add(ttl_ms.saturating_sub(spent_ms))
            };
            backlog.set_expiry(seq, expires_ms, at);
            if self.queues[slot].backlog.expiry_ms() < self.queues[slot].armed_ms {
                self.arm(slot);
            }
        }
        for spec in self.config.queues.clone() {
            if let Err(refusal) = self.declare_queue(spec, None) {
                log::error!("a configured queue is not as configured: {}", refusal.text);
            }
        }
    }
}

impl super::BrokerConfig {
    /// Checks the configured queues, so that a driver can refuse to start.
    ///
    /// # Errors
    /// The first queue that cannot be declared, with the reason.
    pub fn check(&self) -> Result<(), crate::vocab::Refusal> {
        let mut trial = Broker::new(Self {
            queues: Vec::new(),
            ..self.clone()
        });
        self.queues
            .iter()
            .try_for_each(|spec| trial.declare_queue(spec.clone(), None).map(|_| ()))
    }
}
