//! Producers and consumers.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::conn::{Conns, PortKind};
use super::filtered::Wanted;
use super::lock::Locks;
use super::stream::Progress;
use super::subscription::Held;
use super::{Broker, Now};
use crate::queue::{Chunks, Clock, View};
use crate::route::{ExchangeId, QueueRef};
use crate::store::BatchId;
use crate::vocab::{LinkKey, Message, Notice, Outcome, Port, Ticket, Verdict};

/// Which end of a link the peer has; part of a link's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Producer,
    Consumer,
}

/// Who holds a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkOwner {
    pub(super) conn: usize,
    pub(super) port: Port,
}

/// Where a producer's messages go.
#[derive(Debug)]
pub(super) enum Target {
    /// Slot of a queue; deletion of the queue closes the producer, so the slot is always right.
    Queue(usize),
    /// The exchange without a name: to the queue that the key, or else the subject, names.
    DefaultExchange { key: Option<Bytes> },
    /// An exchange with a name: to where its bindings lead by the key, or else the subject. Deletion of the exchange
    /// closes the producer.
    Exchange { id: ExchangeId, key: Option<Bytes> },
    /// Every message names its own address.
    Anonymous,
}

/// Until when a remembered route holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Basis {
    /// As long as its queue is there: it was found by name.
    Queue,
    /// Until the bindings change: as long as their generation is this.
    Topology(u64),
}

/// Where a producer's last message went: usually the next one goes there as well.
#[derive(Debug)]
pub(super) struct LastRoute {
    /// Its key or address.
    pub(super) text: Vec<u8>,
    pub(super) basis: Basis,
    /// None when nothing is remembered.
    pub(super) queues: SmallVec<[QueueRef; 1]>,
}

impl Default for LastRoute {
    fn default() -> Self {
        Self {
            text: Vec::new(),
            basis: Basis::Queue,
            queues: SmallVec::new(),
        }
    }
}

/// Verdicts of one kind on tickets without a gap.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) first: Ticket,
    pub(super) last: Ticket,
    pub(super) verdict: Verdict,
}

/// One producer.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) conn: usize,
    pub(super) port: Port,
    pub(super) key: Option<LinkKey>,
    pub(super) target: Target,
    pub(super) last_route: LastRoute,
    /// Verdicts that are not told yet.
    pub(super) run: Option<Run>,
    /// Where its newest run stands in the open batch: batch and index.
    pub(super) held: (BatchId, usize),
    /// Its messages may go to a queue that the store knows.
    pub(super) may_store: bool,
}

/// One consumer.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) conn: usize,
    pub(super) port: Port,
    pub(super) key: Option<LinkKey>,
    /// Never reused, unlike the slot.
    pub(super) serial: u64,
    pub(super) queue: usize,
    pub(super) is_browsing: bool,
    pub(super) is_settled: bool,
    pub(super) default_outcome: Outcome,
    pub(super) sent: u64,
    pub(super) limit: u64,
    /// Stands in its queue's ring.
    pub(super) is_in_ring: bool,
    pub(super) is_draining: bool,
    /// Positions of unsettled deliveries, by delivery.
    pub(super) unsettled: Chunks<u64>,
    /// Browsing, or with a filter: the next position to look at.
    pub(super) browse_from: u64,
    /// Browsing, or with a filter: bodies that the index does not have.
    pub(super) reader: Reader,
    /// See [`View`].
    pub(super) parked_from: u64,
    pub(super) has_excluded: bool,
    /// Only of named readers of streams.
    pub(super) progress: Option<Box<Progress>>,
    /// When it reads from an exchange.
    pub(super) subscription: Option<Held>,
    /// Only of consumers that do not want everything.
    pub(super) wanted: Option<Box<Wanted>>,
    /// When its unsettled deliveries return.
    pub(super) locks: Locks,
}

/// Bodies that a browsing consumer fetched for itself: what it reads is not near the queue's cursor.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// By position, oldest first.
    pub(super) ahead: VecDeque<(u64, Arc<Message>)>,
    /// More is on its way.
    pub(super) is_waiting: bool,
}

impl Reader {
    /// Takes the body of a position, and drops those before it; also returns what all of these cost.
    pub(super) fn take(&mut self, seq: u64) -> (Option<Arc<Message>>, usize) {
        let mut cost = 0;
        while let Some((at, message)) = self.ahead.pop_front_if(|(at, _)| *at <= seq) {
            cost += message.cost();
            if at == seq {
                return (Some(message), cost);
            }
        }
        (None, cost)
    }

    /// What it holds costs so much (see `Message::cost`).
    pub(super) fn cost(&self) -> usize {
        self.ahead.iter().map(|(_, message)| message.cost()).sum()
    }
}

impl Consumer {
    /// Whether it has the message of a position.
    pub(super) fn holds(&self, position: u64) -> bool {
        let mut from = 0;
        while let Some(delivery) = self.unsettled.live_from(from) {
            if self.unsettled.entry(delivery) == Some(&position) {
                return true;
            }
            from = delivery + 1;
        }
        false
    }

    #[inline]
    pub(super) fn view(&self) -> View {
        View {
            consumer: self.serial,
            parked_from: self.parked_from,
            has_excluded: self.has_excluded,
        }
    }
}

impl Producer {
    /// Adds a verdict to the run, or tells the run and begins a new one. Returns whether a run was begun where none was.
    #[inline]
    pub(super) fn answer(&mut self, ticket: Ticket, verdict: Verdict, conns: &mut Conns) -> bool {
        match &mut self.run {
            Some(run) if run.last.0.checked_add(1) == Some(ticket.0) && run.verdict == verdict => {
                run.last = ticket;
                false
            }
            run => {
                let old = run.replace(Run::new(ticket, verdict));
                match old {
                    Some(old) => {
                        conns.tell(self.conn, old.notice(self.port));
                        false
                    }
                    None => true,
                }
            }
        }
    }

    /// Tells what is not told yet.
    pub(super) fn tell_run(&mut self, conns: &mut Conns) {
        if let Some(run) = self.run.take() {
            conns.tell(self.conn, run.notice(self.port));
        }
    }
}

impl Run {
    /// A verdict on one ticket.
    pub(super) fn new(ticket: Ticket, verdict: Verdict) -> Self {
        Self {
            first: ticket,
            last: ticket,
            verdict,
        }
    }

    pub(super) fn notice(self, port: Port) -> Notice {
        Notice::Confirm {
            port,
            first: self.first,
            last: self.last,
            verdict: self.verdict,
        }
    }
}

impl Broker {
    /// Tells every pending run. A slot may have changed hands since: then its new run is told early, which is harmless.
    pub(super) fn tell_runs(&mut self) {
        for slot in self.runs.drain(..) {
            if let Some(producer) = self.producers.get_mut(slot) {
                producer.tell_run(&mut self.conns);
            }
        }
    }

    /// The consumer behind a port.
    #[inline]
    pub(super) fn consumer_slot(&self, conn: usize, port: Port) -> Option<usize> {
        match self.conns.conn(conn).port(port)? {
            PortKind::Consumer(slot) => Some(slot),
            PortKind::Producer(_) => None,
        }
    }

    /// Executes `Permit`.
    pub(super) fn permit(
        &mut self,
        now: Now,
        at: Clock,
        conn: usize,
        port: Port,
        limit: u64,
        drain: bool,
    ) {
        let Some(slot) = self.consumer_slot(conn, port) else {
            return;
        };
        if self.consumers[slot].is_draining {
            // The older request is answered under the older permit.
            self.dispatch(now, at, self.consumers[slot].queue);
        }
        if self.consumers[slot].is_draining {
            // Its next message waits for its body, and every request has an answer of its own.
            self.answer_drain(slot);
        }
        let may_serve = self.may_serve(slot);
        let consumer = &mut self.consumers[slot];
        consumer.limit = limit;
        let queue = &mut self.queues[consumer.queue];
        if consumer.limit > consumer.sent && !consumer.is_in_ring && may_serve {
            consumer.is_in_ring = true;
            if consumer.is_browsing {
                queue.browse_ring.push_back(slot);
            } else {
                queue.ring.push_back(slot);
            }
        }
        if drain && !consumer.is_draining {
            consumer.is_draining = true;
            queue.draining.push(slot);
        }
        if consumer.is_in_ring || consumer.is_draining {
            let queue = consumer.queue;
            self.mark_dirty(queue);
        }
    }
}
