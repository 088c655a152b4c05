//! Closing: ports, queues and connections, and what follows from each.

use super::conn::PortKind;
use super::ports::Role;
use super::stream::reader_of;
use super::{Broker, Now, quoted};
use crate::planted::{Bug, is_planted};
use crate::queue::Clock;
use crate::store::Op;
use crate::vocab::{ConnId, Notice, Outcome, Port, QueueId, Reason, Refusal};

impl Broker {
    /// Executes `Close`.
    pub(super) fn close_port(
        &mut self,
        at: Clock,
        conn: usize,
        port: Port,
        forget: bool,
        lost: bool,
    ) {
        match self.conns.conn_mut(conn).remove_port(port) {
            Some(PortKind::Producer(slot)) => self.close_producer(slot),
            Some(PortKind::Consumer(slot)) => {
                let outcome = if lost {
                    Outcome::Lost
                } else {
                    self.consumers[slot].default_outcome.clone()
                };
                let queue = self.consumers[slot].queue;
                let held = self.consumers[slot].subscription;
                let reader = reader_of(self.consumers[slot].progress.as_deref());
                self.close_consumer(at, slot, &outcome);
                if let Some(reader) = reader.filter(|_| forget) {
                    self.forget_reader(queue, &reader);
                }
                if (forget || is_planted(Bug::SubscriptionDropped))
                    && held.is_some_and(|held| held.is_kept)
                    && self.queues[queue].consumers.is_empty()
                {
                    self.delete_slot(at, queue);
                }
            }
            None => {}
        }
    }

    /// Closes a port on the broker's side and tells its face; its unsettled deliveries count as lost attempts.
    pub(super) fn evict(&mut self, at: Clock, conn: usize, port: Port, refusal: Refusal) {
        self.close_port(at, conn, port, false, true);
        self.conns.tell(
            conn,
            Notice::Closed {
                port,
                refusal: Box::new(refusal),
            },
        );
    }

    fn close_producer(&mut self, slot: usize) {
        let mut producer = self.producers.remove(slot);
        producer.tell_run(&mut self.conns);
        let (conn, port) = (producer.conn, producer.port);
        let owner = self.conns.conn_mut(conn);
        owner.producers -= 1;
        owner.storers -= usize::from(producer.may_store);
        if let Some(key) = producer.key {
            self.links.remove(&(key, Role::Producer));
        }
        if let super::ports::Target::Queue(queue) = producer.target {
            self.queues[queue].producers.remove(&slot);
            self.on_link_gone(queue, conn, port);
        }
    }

    fn close_consumer(&mut self, at: Clock, slot: usize, outcome: &Outcome) {
        if !is_planted(Bug::LostOnDetach) {
            self.conclude_all(at, slot, outcome);
        }
        self.disarm_lock(slot);
        let consumer = self.consumers.remove(slot);
        let (conn, port) = (consumer.conn, consumer.port);
        let queue = &mut self.queues[consumer.queue];
        queue.consumers.remove(&slot);
        queue.takers -= usize::from(!consumer.is_browsing);
        self.bytes -= consumer.reader.cost();
        if consumer.is_in_ring {
            queue.ring.retain(|other| *other != slot);
            queue.browse_ring.retain(|other| *other != slot);
        }
        if consumer.is_draining {
            queue.draining.retain(|other| *other != slot);
        }
        if let Some(wanted) = &consumer.wanted {
            queue.publisher_askers -= usize::from(wanted.filter.wants_publisher());
            queue.filtered.retain(|other| *other != slot);
        }
        if consumer.has_excluded {
            queue.excluders.retain(|other| *other != slot);
        }
        if let Some(key) = consumer.key {
            self.links.remove(&(key, Role::Consumer));
        }
        self.mark_dirty(consumer.queue);
        self.hand_over(consumer.queue, slot);
        self.on_link_gone(consumer.queue, conn, port);
    }

    /// A link to a queue is gone: the queue may have to follow. Looked at in `flush`, so that a link that is stolen
    /// or opened again in the same inbox keeps its queue.
    fn on_link_gone(&mut self, slot: usize, conn: usize, port: Port) {
        let id = self.conns.conn(conn).id;
        let queue = &mut self.queues[slot];
        if let Some(lifetime) = &mut queue.lifetime
            && lifetime.maker == Some((id, port))
        {
            lifetime.maker = None;
        }
        if queue.is_outlived() {
            self.outlived.push((slot, queue.id));
        }
        self.note_use(slot);
        if let Some(source) = self.source_of_group(slot) {
            // The members of its groups use a queue as well.
            self.idle.push(source);
            self.outlived.push(source);
        }
    }

    /// Deletes the queues whose time has come.
    pub(super) fn delete_outlived(&mut self, at: Clock) {
        while let Some((slot, id)) = self.outlived.pop() {
            if self.is_queue(slot, id)
                && self.queues[slot].is_outlived()
                && !self.has_group_members(slot)
            {
                self.delete_slot(at, slot);
            }
        }
    }

    /// Deletes a queue with its messages and closes its ports; returns how many messages there were.
    ///
    /// # Errors
    /// `NotFound` when there is no such queue.
    pub fn delete_queue(&mut self, now: Now, name: &str) -> Result<usize, Refusal> {
        let slot = self.slot_of(name)?;
        Ok(self.delete_slot(now.clock(), slot))
    }

    pub(super) fn delete_slot(&mut self, at: Clock, slot: usize) -> usize {
        self.delete_groups(at, slot);
        let queue = &self.queues[slot];
        let refusal = Refusal {
            reason: Reason::Deleted,
            text: format!("the queue {} was deleted", quoted(&queue.spec.name)),
        };
        let ports: Vec<(usize, Port)> = queue
            .producers
            .iter()
            .map(|producer| {
                (
                    self.producers[*producer].conn,
                    self.producers[*producer].port,
                )
            })
            .chain(queue.consumers.iter().map(|consumer| {
                (
                    self.consumers[*consumer].conn,
                    self.consumers[*consumer].port,
                )
            }))
            .collect();
        let (id, is_durable) = (queue.id, queue.is_durable);
        for (conn, port) in ports {
            self.evict(at, conn, port, refusal.clone());
        }
        let removed = self.exchanges.apply_queue_deleted(id);
        self.note_removed(at, &removed);
        if is_durable {
            self.gate.add(Op::QueueDeleted { queue: id });
        }
        self.apply_deleted(slot)
    }

    /// Forgets a queue without ports and its messages; returns how many there were.
    pub(super) fn apply_deleted(&mut self, slot: usize) -> usize {
        self.unlink_group(slot);
        let queue = self.queues.remove(slot);
        self.tally.gone.add(&queue.totals);
        self.wake_jobs(queue.id);
        self.bytes -= queue.backlog.cost();
        self.dedup_keys -= queue.dedup.as_ref().map_or(0, |dedup| dedup.len());
        self.queue_names.remove(queue.spec.name.as_str());
        self.queue_slots.remove(&queue.id);
        self.timers.remove(&(queue.armed_ms, slot));
        queue.backlog.len()
    }

    /// Removes the messages that no consumer has; returns how many. All at once, for embedders that have the time:
    /// [`crate::admin::Request::Purge`] goes in slices.
    ///
    /// # Errors
    /// `NotFound` when there is no such queue.
    pub fn purge_queue(&mut self, name: &str) -> Result<usize, Refusal> {
        let slot = self.slot_of(name)?;
        let mut purged = 0;
        while let Some(seq) = self.queues[slot].backlog.head() {
            self.remove_entry(slot, seq);
            purged += 1;
        }
        if is_planted(Bug::PurgeTakesHeld) {
            let queue = &self.queues[slot];
            let held: Vec<u64> = (0..queue.backlog.next_seq())
                .filter(|seq| queue.backlog.entry(*seq).is_some())
                .collect();
            for seq in held {
                self.remove_entry(slot, seq);
                purged += 1;
            }
        }
        Ok(purged)
    }

    /// A connection is gone: its ports are closed as lost, its own queues deleted.
    pub(super) fn on_disconnected(&mut self, now: Now, conn: ConnId) {
        let Some(slot) = self.conn_slots.remove(&conn) else {
            return;
        };
        let at = now.clock();
        self.forget_txns(conn);
        for port in self.conns.conn(slot).open_ports() {
            self.close_port(at, slot, port, false, true);
        }
        self.forget_own_offsets(slot);
        let owned: Vec<(usize, QueueId)> = self.exclusive.remove(&conn).unwrap_or_default();
        for (queue, id) in owned {
            if self.is_queue(queue, id) && !is_planted(Bug::ExclusiveQueueStays) {
                self.delete_slot(at, queue);
            }
        }
        self.conns.remove(slot);
    }
}
