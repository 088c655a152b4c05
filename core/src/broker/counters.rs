//! Numbers for people and tests: read-only, cheap, exact.

use super::Broker;

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) expired: u64,
    pub(super) rejected: u64,
    pub(super) dropped: u64,
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
    /// Their cost in bytes (see `Message::cost`).
    pub bytes: usize,
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
    /// Messages dropped from the head of a full queue, since the start.
    pub dropped: u64,
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
    /// Messages that consumers hold unsettled.
    pub unsettled: usize,
    /// Open consumers, browsing ones included.
    pub consumers: usize,
    /// Open producers with this queue as their target.
    pub producers: usize,
}

impl Broker {
    /// The broker's numbers. Walks all queues.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let messages = self
            .queues
            .iter()
            .map(|(_, queue)| queue.backlog.len())
            .sum();
        Counters {
            connections: self.conns.len(),
            queues: self.queues.len(),
            messages,
            bytes: self.bytes,
            unsettled: self.unsettled,
            producers: self.producers.len(),
            consumers: self.consumers.len(),
            expired: self.tally.expired,
            rejected: self.tally.rejected,
            dropped: self.tally.dropped,
        }
    }

    /// The numbers of one queue.
    #[must_use]
    pub fn queue_counters(&self, name: &str) -> Option<QueueCounters> {
        let queue = &self.queues[*self.queue_names.get(name)?];
        let (messages, waiting) = (queue.backlog.len(), queue.backlog.waiting());
        Some(QueueCounters {
            messages,
            waiting,
            unsettled: messages - waiting,
            consumers: queue.consumers.len(),
            producers: queue.producers.len(),
        })
    }

    /// How many expiries of a queue are watched; bounded by its messages, whatever was settled since.
    #[cfg(test)]
    pub(super) fn watched_positions(&self, name: &str) -> usize {
        self.queue_names
            .get(name)
            .map_or(0, |slot| self.queues[*slot].backlog.watched())
    }
}
