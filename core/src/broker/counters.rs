//! Numbers for people and tests: read-only, cheap, exact.

use super::Broker;
use crate::admin::{Refusals, Totals};
use crate::queue::Queue;

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) expired: u64,
    /// Publishes that no queue wanted.
    pub(super) unroutable: u64,
    /// What queues counted that are gone.
    pub(super) gone: Totals,
    pub(super) rejected: u64,
    pub(super) dropped: u64,
    pub(super) dead_lettered: u64,
    pub(super) overdue: u64,
    pub(super) refusals: Refusals,
}

/// The broker at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Open connections.
    pub connections: usize,
    /// Queues.
    pub queues: usize,
    /// Messages in all queues, those with consumers included.
    pub messages: usize,
    /// Cost in bytes of those whose bodies are in memory (see `Message::cost`).
    pub bytes: usize,
    /// Messages whose bodies are in memory.
    pub bodies: usize,
    /// Messages whose bodies only the store has.
    pub paged: usize,
    /// Requests for bodies that the store has not answered.
    pub fetches: usize,
    /// Queues that are closed to consumers since the store could not give their messages back.
    pub damaged: usize,
    /// Too much is in memory: publishers get no credit (and above the maximum, refusals).
    pub is_memory_short: bool,
    /// The store's disk gets full: publishers get no credit, and durable messages are refused.
    pub is_disk_short: bool,
    /// Messages that consumers hold unsettled.
    pub unsettled: usize,
    /// Open producers.
    pub producers: usize,
    /// Open consumers.
    pub consumers: usize,
    /// Messages removed because their time was over, since the start.
    pub expired: u64,
    /// Messages that a consumer rejected, since the start.
    pub rejected: u64,
    /// Messages dropped from the head of a full queue, or since they went round between queues, since the start.
    pub dropped: u64,
    /// Messages that became dead letters, since the start.
    pub dead_lettered: u64,
    /// Deliveries that were taken back since their consumer held them for too long, since the start.
    pub overdue: u64,
}

impl Counters {
    /// Producers and consumers together.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.producers + self.consumers
    }
}

/// One queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Messages, those with consumers included.
    pub messages: usize,
    /// Messages that no consumer has, whether deliverable yet or not.
    pub waiting: usize,
    /// Messages whose bodies are in memory.
    pub bodies: usize,
    /// Messages whose bodies only the store has.
    pub paged: usize,
    /// Requests for bodies that the store has not answered.
    pub fetches: usize,
    /// The store could not give its messages back: it takes no consumers.
    pub is_damaged: bool,
    /// Messages that consumers hold unsettled.
    pub unsettled: usize,
    /// Open consumers, browsing ones included.
    pub consumers: usize,
    /// Open producers with this queue as their target.
    pub producers: usize,
}

impl Queue {
    fn counters(&self) -> QueueCounters {
        let backlog = &self.backlog;
        QueueCounters {
            messages: backlog.len(),
            waiting: backlog.waiting(),
            bodies: backlog.len() - backlog.away(),
            paged: backlog.away(),
            fetches: backlog.asked() + self.reads.len(),
            is_damaged: self.is_damaged,
            unsettled: backlog.len() - backlog.waiting(),
            consumers: self.consumers.len(),
            producers: self.producers.len(),
        }
    }
}

impl Broker {
    /// The broker's numbers. Walks all queues.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = Counters {
            connections: self.conns.len(),
            queues: self.queues.len(),
            bytes: self.bytes,
            is_memory_short: self.is_memory_short,
            is_disk_short: self.is_disk_short,
            unsettled: self.unsettled,
            producers: self.producers.len(),
            consumers: self.consumers.len(),
            expired: self.tally.expired,
            rejected: self.tally.rejected,
            dropped: self.tally.dropped,
            dead_lettered: self.tally.dead_lettered,
            overdue: self.tally.overdue,
            ..Counters::default()
        };
        for (_, queue) in &self.queues {
            let of_queue = queue.counters();
            counters.messages += of_queue.messages;
            counters.bodies += of_queue.bodies;
            counters.paged += of_queue.paged;
            counters.fetches += of_queue.fetches;
            counters.damaged += usize::from(of_queue.is_damaged);
        }
        counters
    }

    /// The numbers of one queue.
    #[must_use]
    pub fn queue_counters(&self, name: &str) -> Option<QueueCounters> {
        Some(self.queues[*self.queue_names.get(name)?].counters())
    }

    /// How many expiries of a queue are watched; bounded by its messages, whatever was settled since.
    #[cfg(test)]
    pub(super) fn watched_positions(&self, name: &str) -> usize {
        self.queue_names
            .get(name)
            .map_or(0, |slot| self.queues[*slot].backlog.watched())
    }

    /// The cost of all bodies, counted one by one.
    #[cfg(test)]
    pub(super) fn counted_bytes(&self) -> usize {
        let queued: usize = self
            .queues
            .iter()
            .map(|(_, queue)| queue.backlog.cost())
            .sum();
        let read: usize = self
            .consumers
            .iter()
            .map(|(_, consumer)| consumer.reader.cost())
            .sum();
        let staged: usize = self.txns.values().map(super::txn::Txn::bytes).sum();
        queued + read + staged
    }

    /// Messages that came back and are not with a consumer again.
    #[cfg(test)]
    pub(super) fn returned_len(&self, name: &str) -> usize {
        self.queue_names
            .get(name)
            .map_or(0, |slot| self.queues[*slot].backlog.returned_len())
    }

    /// Room that the index of a queue takes, bytes.
    #[cfg(test)]
    pub(super) fn index_bytes(&self, name: &str) -> usize {
        self.queue_names
            .get(name)
            .map_or(0, |slot| self.queues[*slot].backlog.index_bytes())
    }
}
