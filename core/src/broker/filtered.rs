//! Consumers with filters: they pick messages out of their turn, and each message is looked at once for each of them.
//!
//! Such a consumer walks through the queue by itself: `browse_from` is the position that it looks at next, and what it
//! passed over is not looked at again, however many messages come later. A message that another consumer gives back
//! is looked at then and there; if it is wanted and lies behind, it stands in `again`. Bodies that are not in memory are
//! fetched in small requests, as for browsing consumers.
//!
//! Cost: one evaluation for each message and each consumer with a filter, and for consumers without one nothing. A
//! turn of a queue looks at [`LOOKS_MAX`] messages at most and goes on in the next turn of the broker, so that the other
//! consumers of the queue and all other queues are served in between.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Broker, Now};
use crate::filter::{Filter, FilterSpec, MessageView};
use crate::planted::{Bug, is_planted};
use crate::queue::{Clock, Entry};
use crate::vocab::{ConnId, Message, Reason, Refusal};

/// Messages that are looked at in one turn of a queue, for all of its consumers with filters together.
pub(super) const LOOKS_MAX: usize = 2_048;

/// Messages that one consumer looks at before the next has its turn.
const LOOKS_PER_CONSUMER_MAX: usize = 128;

/// What a consumer wants.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) filter: Filter,
    /// Wanted messages behind the consumer's position that somebody gave back.
    again: BTreeSet<u64>,
    /// The last turn ended before the end of the queue.
    pub(super) has_more: bool,
}

/// What a look through the queue gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This position is the consumer's.
    Message(u64),
    /// There is nothing for it now: what follows comes with an event.
    Nothing,
    /// It is another consumer's turn.
    More,
}

impl Wanted {
    /// Compiles a filter.
    pub(super) fn new(spec: FilterSpec) -> Result<Self, Refusal> {
        let filter = Filter::compile(spec).map_err(|error| Refusal {
            reason: Reason::Invalid,
            text: error.to_string(),
        })?;
        Ok(Self {
            filter,
            again: BTreeSet::new(),
            has_more: false,
        })
    }

    /// Whether the filter lets a message pass. The entry need not have the body.
    pub(super) fn is_wanted(
        &self,
        entry: &Entry,
        message: &Message,
        consumer: ConnId,
        at: Clock,
    ) -> bool {
        let publisher = entry.extra.as_ref().and_then(|extra| extra.publisher);
        let view = MessageView::new(message, at.wall_ms)
            .attempted(entry.delivery_count, !entry.was_acquired)
            .local(publisher == Some(consumer));
        self.filter.is_passed(&view) || is_planted(Bug::FilterIgnored)
    }
}

impl Broker {
    /// The next message that a consumer with a filter wants; it has its body.
    pub(super) fn find_wanted(&mut self, at: Clock, slot: usize, consumer_slot: usize) -> Found {
        let found = match self.find_again(slot, consumer_slot) {
            Some(found) => found,
            None => self.look_on(at, slot, consumer_slot),
        };
        let is_over = found == Found::More && self.looks_left == 0;
        let consumer = &mut self.consumers[consumer_slot];
        if let Some(wanted) = &mut consumer.wanted {
            wanted.has_more = is_over;
        }
        if is_over { Found::Nothing } else { found }
    }

    /// The oldest message that came back and is wanted.
    fn find_again(&mut self, slot: usize, consumer_slot: usize) -> Option<Found> {
        let persisted = self.gate.persisted();
        let queue = &self.queues[slot];
        let consumer = &mut self.consumers[consumer_slot];
        let wanted = consumer.wanted.as_mut()?;
        while let Some(&seq) = wanted.again.first() {
            match queue.backlog.entry(seq) {
                Some(entry) if entry.lacks_body() => {}
                Some(entry) if !entry.is_free() => {
                    wanted.again.pop_first();
                    continue;
                }
                Some(entry) if entry.batch > persisted => return Some(Found::Nothing),
                Some(_) => {
                    wanted.again.pop_first();
                    return Some(Found::Message(seq));
                }
                None if queue.backlog.live_from(seq) == Some(seq) => {}
                None => {
                    wanted.again.pop_first();
                    continue;
                }
            }
            // Its body left meanwhile: the consumer goes back to it, and meets what is behind it on its way. None of that
            // may come before it while it is fetched.
            wanted.again.clear();
            consumer.browse_from = consumer.browse_from.min(seq);
            return None;
        }
        None
    }

    /// Looks at what follows, message by message.
    fn look_on(&mut self, at: Clock, slot: usize, consumer_slot: usize) -> Found {
        let persisted = self.gate.persisted();
        let mut left = LOOKS_PER_CONSUMER_MAX;
        loop {
            let queue = &mut self.queues[slot];
            let consumer = &mut self.consumers[consumer_slot];
            let Some(wanted) = &consumer.wanted else {
                return Found::Nothing;
            };
            let Some(seq) = queue.backlog.live_from(consumer.browse_from) else {
                return Found::Nothing;
            };
            if left == 0 || self.looks_left == 0 {
                return Found::More;
            }
            // What is packed is copied, since it is nowhere in this form; the rest is looked at where it is.
            let packed;
            let entry = match queue.backlog.entry(seq) {
                Some(entry) => entry,
                None => match queue.backlog.copy(seq) {
                    Some(copy) => {
                        packed = copy;
                        &packed
                    }
                    None => return Found::Nothing,
                },
            };
            if entry.is_aside() {
                // It is shown again when it stands in its turn.
                consumer.browse_from = seq + 1;
                continue;
            }
            let is_here = !entry.is_away();
            if is_here && !entry.is_acquired && entry.batch > persisted {
                return Found::Nothing;
            }
            let mut fetched = None;
            if !is_here {
                let (found, cost) = consumer.reader.take(seq);
                self.bytes -= cost;
                fetched = found;
            }
            let Some(body) = entry.message.as_ref().or(fetched.as_ref()) else {
                self.read(slot, consumer_slot, seq);
                return Found::Nothing;
            };
            left -= 1;
            self.looks_left -= 1;
            consumer.browse_from = seq + 1;
            let id = self.conns.conn(consumer.conn).id;
            let is_free = !entry.is_acquired && !entry.is_excluded(consumer.serial);
            if is_free && wanted.is_wanted(entry, body, id, at) {
                let body = Arc::clone(body);
                self.bytes += queue.backlog.make_ready(seq, body, at);
                return Found::Message(seq);
            }
        }
    }

    /// Shows a message that came back to the consumers with filters that are past it.
    pub(super) fn offer_again(&mut self, at: Clock, slot: usize, seq: u64) {
        let queue = &self.queues[slot];
        let Some(entry) = queue.backlog.entry(seq) else {
            return;
        };
        let Some(message) = &entry.message else {
            return;
        };
        for consumer_slot in &queue.filtered {
            let consumer = &mut self.consumers[*consumer_slot];
            let id = self.conns.conn(consumer.conn).id;
            if seq < consumer.browse_from
                && !entry.is_excluded(consumer.serial)
                && let Some(wanted) = &mut consumer.wanted
                && wanted.is_wanted(entry, message, id, at)
            {
                wanted.again.insert(seq);
            }
        }
    }

    /// Notes whether a queue has to be looked through in the next turn of the broker.
    pub(super) fn note_unfinished(&mut self, now: Now, slot: usize) {
        let queue = &self.queues[slot];
        if queue.filtered.is_empty() && queue.browse_ring.is_empty() && self.unfinished.is_empty() {
            // However many consumers without a filter there are.
            return;
        }
        let mut seekers = queue.filtered.iter().chain(&queue.browse_ring);
        let has_more = seekers.any(|consumer| {
            let consumer = &self.consumers[*consumer];
            let wanted = consumer.wanted.as_ref();
            consumer.is_in_ring && wanted.is_some_and(|wanted| wanted.has_more)
        });
        if has_more {
            self.unfinished.insert((slot, queue.id));
            self.resume_at = now.mono;
        } else {
            self.unfinished.remove(&(slot, queue.id));
        }
    }

    /// Goes on where the last turn ended.
    pub(super) fn resume_filters(&mut self) {
        for (slot, id) in std::mem::take(&mut self.unfinished) {
            if self.is_queue(slot, id) {
                self.mark_dirty(slot);
            }
        }
    }
}
