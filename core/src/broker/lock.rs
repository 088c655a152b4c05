//! Locks: for how long a consumer holds a message without settling it.
//!
//! A delivery whose time is over ends as a lost attempt: its message returns to its place and the count goes up. What
//! its consumer says about it later finds nothing to settle. Times are those of the monotonic clock; a restart ends all
//! locks, since nobody holds anything then.
//!
//! The usual lock costs next to nothing: each consumer has one time for all its deliveries, so they stand in a list that
//! is in the order of time by itself, and those of one millisecond are one entry. What was extended, or came after that
//! time was made shorter, stands in a map.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use super::{Broker, Now};
use crate::planted::{Bug, is_planted};
use crate::queue::{Chunks, Clock, NEVER_MS};
use crate::vocab::{Answer, AskId, DeliveryId, LockSpec, Notice, Outcome, Port, Reason, Refusal};

/// Stale entries are thrown out when there are more of them than this and than entries that count.
const STALE_MAX: usize = 64;

/// Deliveries with numbers one after the other that return at the same moment.
#[derive(Clone, Copy, Debug)]
struct Run {
    due_ms: u64,
    first: u64,
    last: u64,
}

/// When the deliveries of one consumer return.
#[derive(Debug)]
pub(super) struct Locks {
    /// What each new delivery gets, milliseconds.
    pub(super) lock_ms: Option<u64>,
    /// In the order of moments and of numbers. Some deliveries may be settled, or stand in `moved` with another moment.
    in_order: VecDeque<Run>,
    /// Moments of those that do not stand in the order of deliveries.
    moved: BTreeMap<u64, u64>,
    /// The same by moment.
    moved_by_due: BTreeSet<(u64, u64)>,
    /// For which moment the broker has a timer.
    armed_ms: u64,
}

impl Locks {
    pub(super) fn new(lock_ms: Option<u64>) -> Self {
        Self {
            lock_ms,
            in_order: VecDeque::new(),
            moved: BTreeMap::new(),
            moved_by_due: BTreeSet::new(),
            armed_ms: NEVER_MS,
        }
    }

    /// Begins the lock of a new delivery.
    fn push(&mut self, due_ms: u64, delivery: u64, held: &Chunks<u64>) {
        match self.in_order.back_mut() {
            Some(run) if run.due_ms == due_ms && run.last + 1 == delivery => run.last = delivery,
            Some(run) if run.due_ms > due_ms => self.set(due_ms, delivery, held),
            _ => {
                self.drop_stale(held);
                self.in_order.push_back(Run {
                    due_ms,
                    first: delivery,
                    last: delivery,
                });
            }
        }
    }

    /// Gives a held delivery another moment.
    fn set(&mut self, due_ms: u64, delivery: u64, held: &Chunks<u64>) {
        if self.moved.len() > 2 * held.len() + STALE_MAX {
            self.moved
                .retain(|delivery, _| held.entry(*delivery).is_some());
            self.moved_by_due
                .retain(|(_, delivery)| held.entry(*delivery).is_some());
        }
        if let Some(old_ms) = self.moved.insert(delivery, due_ms) {
            self.moved_by_due.remove(&(old_ms, delivery));
        }
        self.moved_by_due.insert((due_ms, delivery));
    }

    fn drop_stale(&mut self, held: &Chunks<u64>) {
        let moved = &self.moved;
        let trimmed = |mut run: Run| {
            while let Some(first) = held.live_from(run.first).filter(|first| *first <= run.last) {
                run.first = first;
                if !moved.contains_key(&first) {
                    return Some(run);
                }
                run.first += 1;
            }
            None
        };
        while let Some(front) = self.in_order.front_mut() {
            if let Some(run) = trimmed(*front) {
                *front = run;
                break;
            }
            self.in_order.pop_front();
        }
        if self.in_order.len() > 2 * held.len() + STALE_MAX {
            self.in_order.retain(|run| trimmed(*run).is_some());
        }
    }

    /// The first moment at which something held returns.
    fn next_ms(&mut self, held: &Chunks<u64>) -> u64 {
        self.drop_stale(held);
        while let Some(&(due_ms, delivery)) = self.moved_by_due.first()
            && held.entry(delivery).is_none()
        {
            self.moved_by_due.remove(&(due_ms, delivery));
            self.moved.remove(&delivery);
        }
        let in_order = self.in_order.front().map(|run| run.due_ms);
        let moved = self.moved_by_due.first().map(|(due_ms, _)| *due_ms);
        in_order.into_iter().chain(moved).min().unwrap_or(NEVER_MS)
    }

    /// Takes held deliveries whose time is over, `limit` at most, in the order of their numbers.
    fn take_over(&mut self, now_ms: u64, held: &Chunks<u64>, limit: usize) -> Vec<u64> {
        let mut over = Vec::new();
        while over.len() < limit && self.next_ms(held) <= now_ms {
            // The first of the run is held, and has no other moment.
            if let Some(run) = self.in_order.front_mut().filter(|run| run.due_ms <= now_ms) {
                over.push(run.first);
                run.first += 1;
            } else if let Some((_, delivery)) = self.moved_by_due.pop_first() {
                self.moved.remove(&delivery);
                over.push(delivery);
            }
        }
        over.sort_unstable();
        over
    }
}

impl Broker {
    /// Begins the lock of a delivery that was just handed out.
    #[inline]
    pub(super) fn lock(&mut self, now: Now, consumer_slot: usize, delivery: u64) {
        let consumer = &mut self.consumers[consumer_slot];
        if let Some(lock_ms) = consumer.locks.lock_ms {
            let due_ms = now.mono_ms_up().saturating_add(lock_ms);
            let held = &consumer.unsettled;
            consumer.locks.push(due_ms, delivery, held);
            self.arm_lock(consumer_slot, due_ms);
        }
    }

    /// Sees to it that the broker looks at a consumer's locks not after `at_ms`.
    fn arm_lock(&mut self, consumer_slot: usize, at_ms: u64) {
        let locks = &mut self.consumers[consumer_slot].locks;
        if at_ms < locks.armed_ms {
            self.lock_timers.remove(&(locks.armed_ms, consumer_slot));
            locks.armed_ms = at_ms;
            self.lock_timers.insert((at_ms, consumer_slot));
        }
    }

    /// A consumer goes, and its timer with it.
    pub(super) fn disarm_lock(&mut self, consumer_slot: usize) {
        let armed_ms = self.consumers[consumer_slot].locks.armed_ms;
        self.lock_timers.remove(&(armed_ms, consumer_slot));
    }

    /// Looks at overdue locks not before `at_ms`: the store is slow.
    pub(super) fn pause_locks(&mut self, at_ms: u64) {
        while let Some(&(armed_ms, slot)) = self.lock_timers.first()
            && armed_ms < at_ms
        {
            self.disarm_lock(slot);
            self.consumers[slot].locks.armed_ms = NEVER_MS;
            self.arm_lock(slot, at_ms);
        }
    }

    /// Executes `Relock`: later deliveries get another time.
    pub(super) fn relock(&mut self, conn: usize, port: Port, lock: LockSpec) {
        if let Some(slot) = self.consumer_slot(conn, port) {
            let consumer = &mut self.consumers[slot];
            let queue_ms = self.queues[consumer.queue].spec.lock_timeout_ms;
            consumer.locks.lock_ms = lock.in_force(queue_ms);
        }
    }

    /// Executes `Extend`. Work is bounded by the consumer's unsettled deliveries, whatever the range.
    pub(super) fn extend(
        &mut self,
        now: Now,
        conn: usize,
        port: Port,
        range: RangeInclusive<DeliveryId>,
        lock_ms: Option<u64>,
        ask: Option<AskId>,
    ) {
        let found = self.consumer_slot(conn, port).and_then(|slot| {
            let first = self.consumers[slot].unsettled.live_from(range.start().0);
            first.filter(|first| *first <= range.end().0)?;
            Some(slot)
        });
        if let Some(slot) = found {
            self.extend_held(now, slot, (range.start().0, range.end().0), lock_ms);
        }
        let Some(id) = ask else {
            return;
        };
        let answer = match (found, lock_ms) {
            (Some(_), lock_ms) => {
                let lock_ms = i64::try_from(lock_ms.unwrap_or(0)).unwrap_or(i64::MAX);
                let until_ms = now.wall_ms.saturating_add(lock_ms);
                Answer::Extended { until_ms }
            }
            (None, _) => Answer::Refused(Refusal {
                reason: Reason::NotFound,
                text: "message not found: it was settled, or its lock was over".to_owned(),
            }),
        };
        let answer = Box::new(answer);
        self.conns.tell(conn, Notice::Answered { id, answer });
    }

    fn extend_held(&mut self, now: Now, slot: usize, (first, last): (u64, u64), ms: Option<u64>) {
        let consumer = &mut self.consumers[slot];
        let Some(lock_ms) = ms.or(consumer.locks.lock_ms) else {
            return;
        };
        if consumer.locks.lock_ms.is_none() || is_planted(Bug::ExtensionIgnored) {
            // It holds what it has as long as it likes.
            return;
        }
        let due_ms = now.mono_ms_up().saturating_add(lock_ms);
        let mut from = first;
        while let Some(delivery) = consumer.unsettled.live_from(from)
            && delivery <= last
        {
            consumer.locks.set(due_ms, delivery, &consumer.unsettled);
            from = delivery + 1;
        }
        self.arm_lock(slot, due_ms);
    }

    /// Takes back what consumers held for too long, `left` deliveries at most; returns how many more there may be.
    pub(super) fn return_overdue(&mut self, at: Clock, mut left: usize) -> usize {
        while left > 0
            && let Some(&(at_ms, slot)) = self.lock_timers.first()
            && at_ms <= at.mono_ms
        {
            self.disarm_lock(slot);
            let consumer = &mut self.consumers[slot];
            consumer.locks.armed_ms = NEVER_MS;
            let held = &consumer.unsettled;
            let over = consumer.locks.take_over(at.mono_ms, held, left);
            left -= over.len();
            if !over.is_empty() && !is_planted(Bug::LockForgotten) {
                self.take_back(at, slot, &over);
            }
            let consumer = &mut self.consumers[slot];
            let next_ms = consumer.locks.next_ms(&consumer.unsettled);
            self.arm_lock(slot, next_ms);
        }
        left
    }

    /// Ends deliveries as lost and tells their consumer.
    fn take_back(&mut self, at: Clock, slot: usize, deliveries: &[u64]) {
        let consumer = &self.consumers[slot];
        let (conn, port, queue) = (consumer.conn, consumer.port, consumer.queue);
        // Newest first, as in a settlement.
        for delivery in deliveries.iter().rev() {
            self.conclude(at, slot, *delivery, &Outcome::Lost);
        }
        self.tally.overdue += deliveries.len() as u64;
        for run in deliveries.chunk_by(|a, b| a + 1 == *b) {
            let notice = Notice::LockLost {
                port,
                first: DeliveryId(run[0]),
                last: DeliveryId(run[run.len() - 1]),
            };
            self.conns.tell(conn, notice);
        }
        self.mark_dirty(queue);
    }
}

#[cfg(test)]
mod tests {
    use super::{Chunks, Locks, NEVER_MS};

    fn held(upto: u64) -> Chunks<u64> {
        let mut held = Chunks::default();
        for number in 0..upto {
            held.push(number);
        }
        held
    }

    #[test]
    fn what_was_extended_returns_later_and_what_was_settled_not_at_all() {
        let mut held = held(4);
        let mut locks = Locks::new(Some(10));
        for delivery in 0..4 {
            locks.push(100 + delivery, delivery, &held);
        }
        locks.set(500, 1, &held);
        held.take(0);
        assert_eq!(locks.next_ms(&held), 102);
        assert_eq!(locks.take_over(102, &held, 9), [2]);
        held.take(2);
        assert_eq!(locks.take_over(499, &held, 9), [3]);
        held.take(3);
        locks.set(300, 1, &held);
        assert_eq!(locks.take_over(300, &held, 9), [1], "made shorter again");
        held.take(1);
        assert_eq!(locks.next_ms(&held), NEVER_MS);
    }

    #[test]
    fn deliveries_of_one_moment_are_one_entry_and_end_by_themselves() {
        let mut held = held(11);
        let mut locks = Locks::new(Some(10));
        for delivery in 0..10 {
            locks.push(100, delivery, &held);
        }
        locks.push(101, 10, &held);
        assert_eq!(locks.in_order.len(), 2);
        // The first and one in the middle are settled, another one is extended.
        held.take(0);
        held.take(4);
        locks.set(200, 5, &held);
        assert_eq!(locks.take_over(100, &held, 3), [1, 2, 3]);
        for delivery in 1..4 {
            held.take(delivery);
        }
        assert_eq!(locks.take_over(100, &held, 9), [6, 7, 8, 9]);
        for delivery in 6..10 {
            held.take(delivery);
        }
        assert_eq!(locks.next_ms(&held), 101);
        held.take(10);
        assert_eq!(locks.next_ms(&held), 200);
        assert_eq!(locks.take_over(200, &held, 9), [5]);
    }

    #[test]
    fn a_shorter_time_does_not_wait_for_a_longer_one() {
        let held = held(3);
        let mut locks = Locks::new(Some(10));
        locks.push(1_000, 0, &held);
        locks.push(50, 1, &held);
        locks.push(2_000, 2, &held);
        assert_eq!(locks.next_ms(&held), 50);
        assert_eq!(locks.take_over(1_000, &held, 1), [0], "as many as asked");
        assert_eq!(locks.take_over(3_000, &held, 9), [1, 2]);
    }

    #[test]
    fn settled_deliveries_do_not_pile_up() {
        let mut held = held(1);
        let mut locks = Locks::new(Some(10));
        locks.push(0, 0, &held);
        for delivery in 1..10_000 {
            held.push(delivery);
            locks.push(delivery, delivery, &held);
            locks.set(delivery + 7, delivery, &held);
            held.take(delivery);
        }
        let kept = locks.in_order.len() + locks.moved.len() + locks.moved_by_due.len();
        assert!(kept < 500, "{kept}");
    }
}
