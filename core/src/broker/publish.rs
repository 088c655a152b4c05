//! Publishing: where a message goes, whether it fits, and when its producer hears.

use std::sync::Arc;

use bytes::Bytes;

use super::conn::PortKind;
use super::ports::{LastRoute, Target};
use super::{Broker, Now, Overflow};
use crate::planted::{Bug, is_planted};
use crate::queue::{Clock, Entry, NEVER_MS};
use crate::route::is_predeclared;
use crate::store::{BatchId, Op, StoredMessage};
use crate::vocab::{Address, Message, Port, QueueId, Reason, Seq, Ticket, Verdict};

/// A time to live beyond this (about a hundred years) is none: it keeps deadlines far from the end of every clock.
const TTL_MAX_MS: u64 = 100 * 366 * 24 * 3_600_000;

/// How an accepted message was taken in.
enum Taken {
    /// Nothing to wait for.
    Volatile,
    /// The open batch holds it.
    Durable,
}

impl Broker {
    /// Executes `Publish`.
    #[inline]
    pub(super) fn publish(
        &mut self,
        now: Now,
        at: Clock,
        conn: usize,
        port: Port,
        ticket: Ticket,
        message: Arc<Message>,
    ) {
        let Some(PortKind::Producer(slot)) = self.conns.conn(conn).port(port) else {
            return;
        };
        let decided = match self.producers[slot].target {
            Target::Queue(queue) => Ok(queue),
            _ => self.decide_route(conn, slot, &message),
        };
        let producer_verdict = match decided.and_then(|queue| self.enqueue(now, at, queue, message))
        {
            Ok(Taken::Volatile) => Verdict::Accepted,
            Ok(Taken::Durable) => {
                let id = self.conns.conn(conn).id;
                self.gate.accept(&mut self.producers[slot], id, ticket);
                return;
            }
            Err(verdict) => verdict,
        };
        if self.producers[slot].answer(ticket, producer_verdict, &mut self.conns) {
            self.runs.push(slot);
        }
    }

    /// The queue for a message whose producer is not bound to one.
    fn decide_route(
        &mut self,
        conn: usize,
        producer: usize,
        message: &Message,
    ) -> Result<usize, Verdict> {
        let found = &self.producers[producer];
        let text = match &found.target {
            Target::Unbound => return Err(Verdict::Unroutable),
            Target::DefaultExchange { key } => key
                .as_ref()
                .or(message.envelope.subject.as_ref())
                .ok_or(Verdict::Unroutable)?,
            Target::Anonymous => message
                .envelope
                .to
                .as_ref()
                .filter(|to| !to.is_empty())
                .ok_or(Verdict::Rejected(Reason::Invalid))?,
            Target::Queue(queue) => return Ok(*queue),
        };
        if let Some(last) = &found.last_route
            && last.text == *text
            && self
                .queues
                .get(last.slot)
                .is_some_and(|queue| queue.id == last.queue)
        {
            return Ok(last.slot);
        }
        let is_address = matches!(found.target, Target::Anonymous);
        let text = &text.clone();
        let name = queue_name(text, is_address, message)?;
        let slot = match self.queue_names.get(name.as_str()) {
            Some(slot) => *slot,
            None if is_address && names_a_queue(text) => {
                self.auto_create(name).map_err(|_| Verdict::Unroutable)?
            }
            None => return Err(Verdict::Unroutable),
        };
        let queue = &self.queues[slot];
        if queue
            .owner
            .is_some_and(|owner| owner != self.conns.conn(conn).id)
        {
            return Err(Verdict::Rejected(Reason::Locked));
        }
        // A copy, since a slice would keep the buffer that the message came in. Not kept where the queue also depends
        // on the message's subject.
        let is_fixed = !is_address || !name_depends_on_subject(text);
        self.producers[producer].last_route = is_fixed.then(|| LastRoute {
            text: Bytes::copy_from_slice(text),
            slot,
            queue: queue.id,
        });
        Ok(slot)
    }

    /// Puts a message into a queue, if it fits.
    #[inline]
    fn enqueue(
        &mut self,
        now: Now,
        at: Clock,
        slot: usize,
        message: Arc<Message>,
    ) -> Result<Taken, Verdict> {
        let cost = message.cost();
        if self.bytes.saturating_add(cost) > self.config.limits.memory_max_bytes {
            return Err(Verdict::Rejected(Reason::LimitExceeded));
        }
        let queue = &mut self.queues[slot];
        let payload_len = message.payload.len();
        let drops_head = queue.spec.overflow == Overflow::DropHead;
        if queue.is_full_for(payload_len) {
            let fits_alone = queue
                .spec
                .max_bytes
                .is_none_or(|max| payload_len as u64 <= max);
            if !drops_head || !fits_alone {
                return Err(Verdict::Rejected(Reason::LimitExceeded));
            }
        }
        let expires_ms = deadline_ms(now, message.envelope.ttl_ms, queue.spec.message_ttl_ms);
        let is_durable = message.envelope.durable && queue.is_durable;
        let mut entry = Entry::new(message, expires_ms, BatchId(0), is_durable);
        if entry.is_expired(at) {
            self.tally.expired += 1;
            return Ok(Taken::Volatile);
        }
        if is_durable {
            if self.is_disk_short {
                return Err(Verdict::Rejected(Reason::LimitExceeded));
            }
            let op = Op::Enqueued(StoredMessage {
                message: entry.body(),
                arrived_at_ms: now.wall_ms,
                places: smallvec::smallvec![(queue.id, Seq(queue.backlog.next_seq()))],
            });
            let batch = self.gate.add(op);
            if !is_planted(Bug::DeliverBeforeSafe) {
                entry.batch = batch;
            }
            self.gate.wake(slot, queue.id);
        }
        self.bytes += cost;
        queue.backlog.push(entry, at);
        if !queue.is_dirty {
            queue.is_dirty = true;
            self.dirty.push(slot);
        }
        if queue.backlog.expiry_ms() < queue.armed_ms {
            self.arm(slot);
        }
        if drops_head {
            self.drop_overflow(slot);
        }
        Ok(if is_durable && !is_planted(Bug::AcceptBeforeSafe) {
            Taken::Durable
        } else {
            Taken::Volatile
        })
    }

    fn drop_overflow(&mut self, slot: usize) {
        while self.queues[slot].is_over_limit() {
            let Some(seq) = self.queues[slot].backlog.head() else {
                break;
            };
            self.remove_entry(slot, seq);
            self.tally.dropped += 1;
        }
    }

    /// Takes a message out of its queue for good. Inlined as [`crate::queue::Backlog::remove`] is.
    #[inline(always)]
    pub(super) fn remove_entry(&mut self, slot: usize, seq: u64) -> Option<Entry> {
        let queue = &mut self.queues[slot];
        let entry = queue.backlog.remove(seq)?;
        self.bytes -= entry.cost();
        if entry.is_durable {
            self.gate.add(Op::Removed {
                queue: queue.id,
                seq: Seq(seq),
            });
        }
        if queue.lifetime.is_some() && queue.backlog.len() == 0 {
            self.outlived.push((slot, queue.id));
        }
        Some(entry)
    }

    /// Whether a slot still is that queue.
    pub(super) fn is_queue(&self, slot: usize, id: QueueId) -> bool {
        self.queues.get(slot).is_some_and(|queue| queue.id == id)
    }
}

/// The end of the smaller time to live, rounded up so that nothing expires early.
fn deadline_ms(now: Now, message_ttl_ms: Option<u64>, queue_ttl_ms: Option<u64>) -> u64 {
    let ttl_ms = match (message_ttl_ms, queue_ttl_ms) {
        (None, None) => return NEVER_MS,
        (Some(a), Some(b)) => a.min(b),
        (Some(ttl_ms), None) | (None, Some(ttl_ms)) => ttl_ms,
    };
    if ttl_ms > TTL_MAX_MS {
        return NEVER_MS;
    }
    // Nothing lives for no time, whatever the fraction of the millisecond.
    if ttl_ms == 0 {
        return 0;
    }
    now.mono_ms_up().saturating_add(ttl_ms)
}

/// The name of the queue that a key or an address means.
fn queue_name(text: &[u8], is_address: bool, message: &Message) -> Result<String, Verdict> {
    let invalid = Verdict::Rejected(Reason::Invalid);
    let text = std::str::from_utf8(text).map_err(|_| invalid.clone())?;
    if !is_address {
        return Ok(text.to_owned());
    }
    match Address::parse(text).map_err(|_| invalid.clone())? {
        Address::Name(name) | Address::Queue(name) => Ok(name),
        Address::Exchange { name, key } if name.is_empty() => {
            match (key, &message.envelope.subject) {
                (Some(key), _) => Ok(key),
                (None, Some(subject)) => String::from_utf8(subject.to_vec()).map_err(|_| invalid),
                (None, None) => Err(Verdict::Unroutable),
            }
        }
        Address::Exchange { name, .. } if is_predeclared(&name) => Err(Verdict::Unroutable),
        Address::Exchange { .. } | Address::Stream(_) => Err(Verdict::Unroutable),
        Address::Anonymous | Address::Dynamic { .. } => Err(invalid),
    }
}

/// Whether an address names a queue itself, so that the queue may be made for it.
fn names_a_queue(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| {
        matches!(
            Address::parse(text),
            Ok(Address::Name(_) | Address::Queue(_))
        )
    })
}

fn name_depends_on_subject(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| {
        matches!(
            Address::parse(text),
            Ok(Address::Exchange { key: None, .. })
        )
    })
}
