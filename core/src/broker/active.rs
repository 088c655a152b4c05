//! Queues with a single active consumer: one of those that take is served, the others stand by.
//!
//! The one that came first is active as long as it is there; then the next one follows, after everything that the old one
//! held came back. Each consumer is told whether it is active when it opens and when that changes. Consumers that only
//! browse are not concerned.

use super::Broker;
use crate::planted::{Bug, is_planted};
use crate::vocab::Notice;

impl Broker {
    /// Whether a consumer with permit is served.
    #[inline]
    pub(super) fn may_serve(&self, consumer_slot: usize) -> bool {
        let consumer = &self.consumers[consumer_slot];
        let queue = &self.queues[consumer.queue];
        !queue.spec.single_active_consumer
            || consumer.is_browsing
            || queue.active == Some(consumer_slot)
            || is_planted(Bug::StandbyServed)
    }

    /// A consumer opened.
    pub(super) fn stand_by(&mut self, consumer_slot: usize) {
        let consumer = &self.consumers[consumer_slot];
        let queue = &self.queues[consumer.queue];
        if !queue.spec.single_active_consumer || consumer.is_browsing {
            return;
        }
        match queue.active {
            None => self.activate(consumer_slot),
            Some(_) => self.tell_activity(consumer_slot, false),
        }
    }

    /// A consumer is gone: another one takes its place, if it was active.
    pub(super) fn hand_over(&mut self, slot: usize, gone: usize) {
        let queue = &mut self.queues[slot];
        if queue.active != Some(gone) {
            return;
        }
        queue.active = None;
        let waiting = queue.consumers.iter().copied();
        let next = waiting
            .filter(|consumer| !self.consumers[*consumer].is_browsing)
            .min_by_key(|consumer| self.consumers[*consumer].serial);
        if let Some(next) = next.filter(|_| !is_planted(Bug::HandOverForgotten)) {
            self.activate(next);
        }
    }

    fn activate(&mut self, consumer_slot: usize) {
        let consumer = &mut self.consumers[consumer_slot];
        let queue = &mut self.queues[consumer.queue];
        queue.active = Some(consumer_slot);
        if consumer.limit > consumer.sent && !consumer.is_in_ring {
            consumer.is_in_ring = true;
            queue.ring.push_back(consumer_slot);
        }
        let slot = consumer.queue;
        self.mark_dirty(slot);
        self.tell_activity(consumer_slot, true);
    }

    fn tell_activity(&mut self, consumer_slot: usize, is_active: bool) {
        let consumer = &self.consumers[consumer_slot];
        let port = consumer.port;
        let notice = Notice::Activity { port, is_active };
        self.conns.tell(consumer.conn, notice);
    }
}
