//! Where a message goes whose producer is not bound to one queue.
//!
//! A producer remembers where its last message went: usually that is where the next one goes as well. What was routed by
//! the name of a queue holds for as long as the queue is there, everything else until the topology changes.

use super::Broker;
use super::ports::{Basis, Target};
use crate::filter::MessageView;
use crate::planted::{Bug, is_planted};
use crate::route::{ExchangeId, QueueRef, Routed};
use crate::vocab::{Address, Message, Reason, Verdict};

/// Longer keys and addresses are looked up each time, so that a producer cannot make the broker keep megabytes.
const REMEMBERED_LEN_MAX: usize = 1_024;
/// A route to more queues is found each time.
const REMEMBERED_QUEUES_MAX: usize = 1_024;

/// Where a message goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Route {
    /// To one queue.
    One(usize),
    /// To the queues in `Broker::route`.
    Many,
}

impl Broker {
    /// The queues for a message whose producer is not bound to one queue.
    pub(super) fn decide_route(
        &mut self,
        wall_ms: i64,
        conn: usize,
        producer: usize,
        message: &Message,
    ) -> Result<Route, Verdict> {
        let subject = || message.envelope.subject.clone();
        match &self.producers[producer].target {
            Target::Queue(queue) => Ok(Route::One(*queue)),
            Target::Exchange { id, key } => {
                let (id, key) = (*id, key.clone().or_else(subject).unwrap_or_default());
                self.route_by_exchange(wall_ms, producer, id, &key, message, Some(&key))
            }
            Target::DefaultExchange { key } => {
                let key = key.clone().or_else(subject).ok_or(Verdict::Unroutable)?;
                if let Some(route) = self.remembered(producer, &key) {
                    return Ok(route);
                }
                let name = std::str::from_utf8(&key).map_err(|_| invalid())?;
                self.route_by_name(conn, producer, name, false, Some(&key))
            }
            Target::Anonymous => self.route_by_address(wall_ms, conn, producer, message),
        }
    }

    /// Every message names its own address.
    fn route_by_address(
        &mut self,
        wall_ms: i64,
        conn: usize,
        producer: usize,
        message: &Message,
    ) -> Result<Route, Verdict> {
        let envelope = &message.envelope;
        let to = envelope.to.as_ref().filter(|to| !to.is_empty());
        let to = to.ok_or_else(invalid)?;
        if let Some(route) = self.remembered(producer, to) {
            return Ok(route);
        }
        let text = std::str::from_utf8(to).map_err(|_| invalid())?;
        let (name, key) = match Address::parse(text).map_err(|_| invalid())? {
            Address::Queue(name) | Address::QueueOrNew(name) => {
                return self.route_by_name(conn, producer, &name, true, Some(to));
            }
            Address::Name(name) => {
                let is_exchange = !self.queue_names.contains_key(name.as_str())
                    && self.exchanges.find(&name).is_some();
                if !is_exchange {
                    return self.route_by_name(conn, producer, &name, true, Some(to));
                }
                (name, None)
            }
            Address::Exchange { name, key } => (name, key),
            Address::Stream(name) | Address::StreamOrNew(name) => {
                let slot = self.queue_names.get(name.as_str());
                if !slot.is_some_and(|slot| self.queues[*slot].is_stream()) {
                    return Err(Verdict::Unroutable);
                }
                return self.route_by_name(conn, producer, &name, false, Some(to));
            }
            Address::Anonymous
            | Address::Subscription
            | Address::Group { .. }
            | Address::Dynamic { .. } => {
                return Err(invalid());
            }
        };
        // Where the message's subject is the key, the address alone does not say where the next one goes.
        let remembered_as = key.is_some().then_some(&to[..]);
        let key = key.as_ref().map(String::as_bytes);
        let key = key.or(envelope.subject.as_deref());
        if name.is_empty() {
            let key = key.ok_or(Verdict::Unroutable)?;
            let name = std::str::from_utf8(key).map_err(|_| invalid())?;
            return self.route_by_name(conn, producer, name, false, remembered_as);
        }
        let id = self.exchanges.find(&name).ok_or(Verdict::Unroutable)?;
        let key = key.unwrap_or_default();
        self.route_by_exchange(wall_ms, producer, id, key, message, remembered_as)
    }

    /// To the queue of that name.
    fn route_by_name(
        &mut self,
        conn: usize,
        producer: usize,
        name: &str,
        can_be_made: bool,
        remembered_as: Option<&[u8]>,
    ) -> Result<Route, Verdict> {
        let slot = match self.queue_names.get(name) {
            Some(slot) => *slot,
            None if can_be_made => self
                .auto_create(name.to_owned())
                .map_err(|_| Verdict::Unroutable)?,
            None => return Err(Verdict::Unroutable),
        };
        let queue = &self.queues[slot];
        if queue
            .owner
            .is_some_and(|owner| owner != self.conns.conn(conn).id)
        {
            return Err(Verdict::Rejected(Reason::Locked));
        }
        let to = QueueRef { id: queue.id, slot };
        if let Some(text) = remembered_as {
            self.remember(producer, text, Basis::Queue, &[to]);
        }
        Ok(Route::One(slot))
    }

    /// To the queues that the bindings of an exchange say.
    fn route_by_exchange(
        &mut self,
        wall_ms: i64,
        producer: usize,
        exchange: ExchangeId,
        key: &[u8],
        message: &Message,
        remembered_as: Option<&[u8]>,
    ) -> Result<Route, Verdict> {
        if let Some(text) = remembered_as
            && let Some(route) = self.remembered(producer, text)
        {
            return Ok(route);
        }
        let mut queues = std::mem::take(&mut self.route);
        let headers = MessageView::new(message, wall_ms);
        let routed = self.exchanges.route(exchange, key, &headers, &mut queues);
        if let (Routed::Queues, Some(text)) = (routed, remembered_as)
            && !self.exchanges.has_read_headers()
        {
            let basis = Basis::Topology(self.exchanges.generation());
            self.remember(producer, text, basis, &queues);
        }
        let route = match (routed, &queues[..]) {
            (Routed::Queues, [queue]) => Ok(Route::One(queue.slot)),
            (Routed::Queues, _) => Ok(Route::Many),
            // Deleting an exchange closes its producers, so none publishes to one that is gone.
            (Routed::Unroutable | Routed::Gone, _) => Err(Verdict::Unroutable),
        };
        self.route = queues;
        route
    }

    /// Where the last message of this producer went, when that had the same key or address and nothing has changed.
    #[inline]
    fn remembered(&mut self, producer: usize, text: &[u8]) -> Option<Route> {
        let last = &self.producers[producer].last_route;
        if last.text != text {
            return None;
        }
        let first = *last.queues.first()?;
        let holds = match last.basis {
            Basis::Queue => self.is_queue(first.slot, first.id),
            Basis::Topology(generation) => {
                generation == self.exchanges.generation() || is_planted(Bug::RouteRemembered)
            }
        };
        if !holds {
            return None;
        }
        if last.queues.len() == 1 {
            return Some(Route::One(first.slot));
        }
        self.route.clear();
        self.route.extend_from_slice(&last.queues);
        Some(Route::Many)
    }

    fn remember(&mut self, producer: usize, text: &[u8], basis: Basis, queues: &[QueueRef]) {
        let last = &mut self.producers[producer].last_route;
        last.queues.clear();
        if text.len() > REMEMBERED_LEN_MAX || queues.len() > REMEMBERED_QUEUES_MAX {
            return;
        }
        // A copy, since a slice would keep the buffer that the message came in.
        last.text.clear();
        last.text.extend_from_slice(text);
        last.basis = basis;
        last.queues.extend_from_slice(queues);
    }
}

fn invalid() -> Verdict {
    Verdict::Rejected(Reason::Invalid)
}
