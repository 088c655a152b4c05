//! Delivering: which consumer gets which message.
//!
//! Consumers with permit stand in a ring and take one message each per turn; a consumer without permit is not in the
//! ring and costs nothing. Browsing consumers go first, so that they see what would be taken a moment later.

use std::sync::Arc;

use super::filtered::{Found, LOOKS_MAX};
use super::keyed::sets_aside;
use super::{Broker, Now};
use crate::planted::{Bug, is_planted};
use crate::queue::{Browsed, Clock, Entry, NEVER_MS};
use crate::vocab::{Delivered, DeliveryId, Notice, Seq};

impl Broker {
    /// Delivers what can be delivered from one queue.
    pub(super) fn dispatch(&mut self, now: Now, at: Clock, slot: usize) {
        let Some(queue) = self.queues.get_mut(slot) else {
            return;
        };
        if !queue.is_dirty {
            return;
        }
        queue.is_dirty = false;
        self.looks_left = LOOKS_MAX;
        if self.is_draining {
            return self.tell_drained(slot);
        }
        if !queue.browse_ring.is_empty() {
            self.dispatch_browsers(now, at, slot);
        }
        // Consumers in a row for which there was nothing.
        let mut misses = 0;
        while let Some(&consumer) = self.queues[slot].ring.front() {
            if misses >= self.queues[slot].ring.len() {
                break;
            }
            match self.serve(now, at, slot, consumer) {
                Served::OutOfPermit | Served::One => misses = 0,
                Served::Excluded => misses += 1,
                Served::Nothing => break,
            }
        }
        self.note_unfinished(now, slot);
        self.tell_drained(slot);
    }

    /// Gives the consumer at the front of the ring its turn: one message, or as many as possible when it is alone.
    fn serve(&mut self, now: Now, at: Clock, slot: usize, consumer_slot: usize) -> Served {
        loop {
            let queue = &mut self.queues[slot];
            let consumer = &mut self.consumers[consumer_slot];
            if consumer.sent >= consumer.limit + u64::from(is_planted(Bug::CreditOffByOne)) {
                consumer.is_in_ring = false;
                queue.ring.pop_front();
                return Served::OutOfPermit;
            }
            let found = self.find_any(at, slot, consumer_slot);
            let Found::Message(seq) = found else {
                return self.pass_on(slot, consumer_slot, found);
            };
            let queue = &mut self.queues[slot];
            let consumer = &mut self.consumers[consumer_slot];
            let entry = queue.backlog.entry(seq);
            let is_keyed = entry.is_some_and(|entry| entry.order_key().is_some());
            let is_expired = entry.is_some_and(|entry| entry.is_expired(at));
            if is_keyed && sets_aside(queue, seq, self.config.hash_seed) {
                // Passed over for good: it is met once for each time that its key was in use.
                continue;
            }
            if is_expired {
                self.expire(at, slot, seq);
                continue;
            }
            let delivery = DeliveryId(consumer.sent);
            consumer.sent += 1;
            let (conn, port) = (consumer.conn, consumer.port);
            let queue_id = queue.id;
            let is_alone = queue.ring.len() == 1;
            queue.totals.delivered += 1;
            let delivered = if consumer.is_settled {
                let Some(mut entry) = self.remove_entry(slot, seq) else {
                    continue;
                };
                let message = entry.body();
                self.queues[slot].totals.end_at_once(entry.was_acquired);
                delivered(&mut entry, now, delivery, queue_id, seq, message)
            } else {
                self.unsettled += 1;
                let number = consumer.unsettled.push(seq);
                debug_assert_eq!(
                    number, delivery.0,
                    "every delivery of such a consumer enters the list"
                );
                let entry = queue.backlog.acquire(seq);
                queue.totals.redelivered += u64::from(entry.was_acquired);
                let message = entry.body();
                let delivered = delivered(entry, now, delivery, queue_id, seq, message);
                self.lock(now, consumer_slot, delivery.0);
                delivered
            };
            self.conns.tell(conn, Notice::Deliver { port, delivered });
            if !is_alone {
                self.queues[slot].ring.rotate_left(1);
                return Served::One;
            }
        }
    }

    /// There is nothing for the consumer at the front of the ring, now or at all.
    fn pass_on(&mut self, slot: usize, consumer_slot: usize, found: Found) -> Served {
        let queue = &mut self.queues[slot];
        let served = match found {
            Found::More => Served::One,
            _ if !self.consumers[consumer_slot].has_excluded && queue.filtered.is_empty() => {
                return Served::Nothing;
            }
            // Another may take a message that this one excluded itself from, or does not want.
            _ => Served::Excluded,
        };
        queue.ring.rotate_left(1);
        served
    }

    /// The next message for a consumer, whether its ordering key is free or not.
    #[inline]
    fn find_any(&mut self, at: Clock, slot: usize, consumer_slot: usize) -> Found {
        let consumer = &mut self.consumers[consumer_slot];
        if consumer.wanted.is_some() {
            return self.find_wanted(at, slot, consumer_slot);
        }
        let mut view = consumer.view();
        let next = self.queues[slot]
            .backlog
            .next_for(&mut view, self.gate.persisted());
        consumer.parked_from = view.parked_from;
        next.map_or(Found::Nothing, Found::Message)
    }

    fn dispatch_browsers(&mut self, now: Now, at: Clock, slot: usize) {
        let mut index = 0;
        while let Some(&browser) = self.queues[slot].browse_ring.get(index) {
            if self.serve_browser(now, at, slot, browser) {
                index += 1;
            } else {
                self.consumers[browser].is_in_ring = false;
                self.queues[slot].browse_ring.remove(index);
            }
        }
    }

    /// Shows a browsing consumer what it has permit for; returns whether permit is left.
    fn serve_browser(&mut self, now: Now, at: Clock, slot: usize, browser_slot: usize) -> bool {
        let persisted = self.gate.persisted();
        if let Some(wanted) = &mut self.consumers[browser_slot].wanted {
            wanted.has_more = false;
        }
        loop {
            let queue = &self.queues[slot];
            let browser = &mut self.consumers[browser_slot];
            if browser.sent >= browser.limit {
                return false;
            }
            let Some(Browsed { seq, mut entry }) =
                queue.backlog.next_to_browse(browser.browse_from, persisted)
            else {
                return true;
            };
            if entry.is_expired(at) {
                browser.browse_from = seq + 1;
                continue;
            }
            let mut message = entry.message.take();
            if message.is_none() {
                let (found, cost) = browser.reader.take(seq);
                self.bytes -= cost;
                message = found;
                if queue.is_stream() {
                    self.read_ahead(slot, browser_slot);
                }
            }
            let Some(message) = message else {
                self.read(slot, browser_slot, seq);
                return true;
            };
            let (queue, browser) = (&self.queues[slot], &mut self.consumers[browser_slot]);
            if let Some(wanted) = &mut browser.wanted {
                let id = self.conns.conn(browser.conn).id;
                wanted.has_more = self.looks_left == 0;
                if wanted.has_more {
                    // It looks here again: what was fetched stays.
                    if entry.is_away() {
                        self.bytes += message.cost();
                        browser.reader.ahead.push_front((seq, message));
                    }
                    return true;
                }
                self.looks_left -= 1;
                if !wanted.is_wanted(&entry, &message, id, at) {
                    browser.browse_from = seq + 1;
                    continue;
                }
            }
            browser.browse_from = seq + 1;
            let delivery = DeliveryId(browser.sent);
            browser.sent += 1;
            let delivered = delivered(&mut entry, now, delivery, queue.id, seq, message);
            let (conn, port) = (browser.conn, browser.port);
            if browser.progress.is_some() {
                self.note_read(browser_slot, seq);
            }
            self.conns.tell(conn, Notice::Deliver { port, delivered });
        }
    }

    /// Everything deliverable is on its way: answers the consumers that asked for that, and takes back what is left of
    /// their permits, so that nothing follows before a new one. One whose next message only waits for its body is
    /// answered when that was delivered.
    fn tell_drained(&mut self, slot: usize) {
        if self.queues[slot].draining.is_empty() {
            return;
        }
        let is_starved = self.queues[slot].backlog.is_starved();
        for consumer_slot in std::mem::take(&mut self.queues[slot].draining) {
            let consumer = &mut self.consumers[consumer_slot];
            let is_starved = if let Some(wanted) = &consumer.wanted {
                wanted.has_more || consumer.reader.is_waiting
            } else if consumer.is_browsing {
                consumer.reader.is_waiting
            } else {
                is_starved
            };
            if is_starved && consumer.sent < consumer.limit && !self.is_draining {
                self.queues[slot].draining.push(consumer_slot);
                continue;
            }
            self.answer_drain(consumer_slot);
        }
    }

    /// Tells a consumer that this was all under its permit, and takes back what is left of it.
    pub(super) fn answer_drain(&mut self, consumer_slot: usize) {
        let consumer = &mut self.consumers[consumer_slot];
        consumer.is_draining = false;
        let keeps_credit = is_planted(Bug::DrainKeepsCredit);
        if !keeps_credit {
            consumer.limit = consumer.limit.min(consumer.sent);
        }
        let notice = Notice::Drained {
            port: consumer.port,
            sent: consumer.sent,
        };
        self.conns.tell(consumer.conn, notice);
        let queue = &mut self.queues[consumer.queue];
        queue.draining.retain(|other| *other != consumer_slot);
        if consumer.is_in_ring && !keeps_credit {
            consumer.is_in_ring = false;
            queue.ring.retain(|other| *other != consumer_slot);
            queue.browse_ring.retain(|other| *other != consumer_slot);
        }
    }
}

/// How a turn ended.
enum Served {
    OutOfPermit,
    /// One message for one of several.
    One,
    /// Nothing for this consumer, which excluded itself from some messages.
    Excluded,
    /// Nothing for anybody.
    Nothing,
}

#[inline]
fn delivered(
    entry: &mut Entry,
    now: Now,
    delivery: DeliveryId,
    queue: crate::vocab::QueueId,
    seq: u64,
    message: Arc<crate::vocab::Message>,
) -> Delivered {
    let first_acquirer = !entry.was_acquired;
    entry.was_acquired = true;
    Delivered {
        delivery,
        queue,
        seq: Seq(seq),
        delivery_count: entry.delivery_count,
        first_acquirer,
        ttl_ms: (entry.expires_ms != NEVER_MS)
            .then(|| entry.expires_ms.saturating_sub(now.mono_ms_up()).max(1)),
        annotations: entry
            .extra
            .as_ref()
            .and_then(|extra| extra.annotations.clone()),
        message,
    }
}
