//! Messages with an ordering key (AMQP group-id): one of a key is out at a time, in order, and the others hold up nothing.

use super::Broker;
use crate::planted::{Bug, is_planted};
use crate::queue::{Clock, Entry, OrderKeys, Queue, Why};

/// Whether the message that a consumer would get next has to wait for another one of its key. It is out of turn then.
/// Otherwise its key is in use by it: the consumer gets it, or it leaves since its time is over. `seed` is the hasher's.
#[inline(never)]
pub(super) fn sets_aside(queue: &mut Queue, seq: u64, seed: u64) -> bool {
    let Some(key) = queue.backlog.entry(seq).and_then(Entry::order_key) else {
        return false;
    };
    let keys = &mut queue.order_keys;
    let keys = keys.get_or_insert_with(|| Box::new(OrderKeys::new(seed)));
    let is_aside = !keys.claim(key, seq) && !is_planted(Bug::KeyOverlooked);
    if is_aside {
        queue.backlog.set_aside(seq, Why::Key);
    }
    is_aside
}

impl Broker {
    /// A message came back, which keeps its key.
    pub(super) fn give_key_back(&mut self, slot: usize, seq: u64) {
        let queue = &mut self.queues[slot];
        if let Some(keys) = &mut queue.order_keys
            && let Some(key) = queue.backlog.entry(seq).and_then(Entry::order_key)
        {
            keys.give_back(key, seq);
        }
    }

    /// A message left a queue where keys are in use: the next one of its key may follow.
    #[cold]
    pub(super) fn leave_key(&mut self, slot: usize, seq: u64, entry: &Entry) {
        let queue = &mut self.queues[slot];
        let Some(keys) = &mut queue.order_keys else {
            return;
        };
        let Some(key) = entry.order_key().or_else(|| keys.idle_key(seq)).cloned() else {
            return;
        };
        let backlog = &queue.backlog;
        let is_waiting = |seq| {
            let entry = backlog.entry(seq);
            entry.is_some_and(|entry| entry.why == Why::Key)
        };
        if let Some(next) = keys.leave(&key, seq, is_waiting) {
            queue.backlog.release(next);
            self.freed.push((slot, queue.id, next));
            self.mark_dirty(slot);
        }
    }

    /// Keys of a queue of which a message is out.
    #[cfg(test)]
    pub(super) fn keys_in_use(&self, name: &str) -> usize {
        let keys = &self.queues[self.queue_names[name]].order_keys;
        keys.as_ref().map_or(0, |keys| keys.len())
    }

    /// Shows messages whose keys became free to the consumers that are past them.
    pub(super) fn show_freed(&mut self, at: Clock) {
        while let Some((slot, id, seq)) = self.freed.pop() {
            if self.is_queue(slot, id) {
                self.on_in_turn(at, slot, seq);
            }
        }
    }
}
