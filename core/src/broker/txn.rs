//! Transactions: publishes and settlements that take effect together or not at all.
//!
//! A publish is routed when it is staged, so that its producer hears at once whether it has a place, and kept here; a
//! settlement is only noted, its message stays with its consumer. The discharge decides whether everything can be done
//! (queues still there, room in all of them, consumers still there) and then does all of it in one go: what is durable of
//! it enters one batch, which a store keeps or loses as a whole. Nothing of an undischarged transaction is stored, so a
//! crash rolls it back.
//!
//! A publish that was refused makes its transaction fail at the discharge: whoever sent it settled never heard of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::conn::PortKind;
use super::ports::Target;
use super::routing::Route;
use super::{Broker, Now, quoted};
use crate::planted::{Bug, is_planted};
use crate::queue::Clock;
use crate::route::QueueRef;
use crate::vocab::{
    ConnId, DeliveryId, Envelope, Message, Notice, Outcome, Port, Reason, Refusal, RuleId, Ticket,
    TxnId, Verdict,
};

/// One part of a transaction.
#[derive(Debug)]
enum Work {
    Publish {
        queues: SmallVec<[QueueRef; 1]>,
        message: Arc<Message>,
        /// Which rules of the queues it was found to keep: those before this one.
        rules_before: RuleId,
    },
    Settle {
        port: Port,
        first: DeliveryId,
        last: DeliveryId,
        outcome: Outcome,
    },
}

/// What is to take effect together.
#[derive(Debug, Default)]
pub(super) struct Txn {
    work: Vec<Work>,
    /// What its messages cost (see `Message::cost`).
    bytes: usize,
    /// Why it can only be rolled back.
    fault: Option<Refusal>,
}

/// Transactions by connection, so that those of one connection stand together.
pub(super) type Txns = BTreeMap<(ConnId, TxnId), Txn>;

impl Txn {
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn fail(&mut self, reason: Reason, text: &str) {
        let text = text.to_owned();
        self.fault.get_or_insert(Refusal { reason, text });
    }
}

impl Broker {
    /// Executes `Stage`.
    pub(super) fn stage(
        &mut self,
        now: Now,
        conn: usize,
        port: Port,
        ticket: Ticket,
        txn: TxnId,
        message: Arc<Message>,
    ) {
        let key = (self.conns.conn(conn).id, txn);
        let Some(PortKind::Producer(slot)) = self.conns.conn(conn).port(port) else {
            // Its face has not heard yet that the producer is gone; nobody would answer for the message.
            let txn = self.txns.entry(key).or_default();
            return txn.fail(Reason::NotFound, "a sender of one of its messages is gone");
        };
        let decided = match self.producers[slot].target {
            Target::Queue(queue) => Ok(Route::One(queue)),
            _ => self.decide_route(now.wall_ms, conn, slot, &message),
        };
        let decided = decided.and_then(|route| {
            self.vet(route, RuleId::NONE, &message)?;
            Ok(self.with_groups(route))
        });
        let verdict = match decided {
            Err(verdict) => verdict,
            Ok(route) => {
                let queues = match route {
                    Route::One(slot) => smallvec::smallvec![QueueRef {
                        id: self.queues[slot].id,
                        slot,
                    }],
                    Route::Many => self.route.iter().copied().collect(),
                };
                self.stage_routed(key, queues, message)
            }
        };
        if verdict != Verdict::Accepted {
            let text = "one of its messages was refused; roll it back and begin a new one";
            let txn = self.txns.entry(key).or_default();
            match &verdict {
                Verdict::Rejected(reason) => txn.fail(*reason, text),
                Verdict::Unfit(_) => txn.fail(Reason::Undecodable, text),
                Verdict::Full(_) => txn.fail(Reason::LimitExceeded, text),
                _ => txn.fail(Reason::NotFound, text),
            }
        }
        if self.producers[slot].answer(ticket, verdict, &mut self.conns) {
            self.runs.push(slot);
        }
    }

    fn stage_routed(
        &mut self,
        key: (ConnId, TxnId),
        queues: SmallVec<[QueueRef; 1]>,
        message: Arc<Message>,
    ) -> Verdict {
        let cost = message.cost().saturating_mul(queues.len().max(1));
        let limits = &self.config.limits;
        let txn = self.txns.entry(key).or_default();
        let is_large = txn.work.len() >= limits.txn_parts_max
            || txn.bytes.saturating_add(cost) > limits.txn_bytes_max
            || self.bytes.saturating_add(cost) > limits.memory_max_bytes;
        if is_large {
            return Verdict::Rejected(Reason::LimitExceeded);
        }
        let len = message.payload.len();
        let small = |to: &&QueueRef| !self.queues[to.slot].fits_alone(len);
        if let Some(to) = queues.iter().find(small) {
            return self.full(to.slot);
        }
        let txn = self.txns.entry(key).or_default();
        txn.bytes += cost;
        self.bytes += cost;
        let rules_before = RuleId(self.next_rule);
        txn.work.push(Work::Publish {
            queues,
            message,
            rules_before,
        });
        Verdict::Accepted
    }

    /// Executes `StageSettle`.
    pub(super) fn stage_settle(
        &mut self,
        conn: usize,
        port: Port,
        (first, last): (DeliveryId, DeliveryId),
        txn: TxnId,
        outcome: Outcome,
    ) {
        let key = (self.conns.conn(conn).id, txn);
        let txn = self.txns.entry(key).or_default();
        if let Some(Work::Settle {
            port: last_port,
            last: end,
            outcome: last_outcome,
            ..
        }) = txn.work.last_mut()
            && *last_port == port
            && end.0.checked_add(1) == Some(first.0)
            && *last_outcome == outcome
        {
            *end = last;
        } else if txn.work.len() >= self.config.limits.txn_parts_max {
            txn.fail(
                Reason::LimitExceeded,
                "the transaction has too many parts; make smaller ones",
            );
        } else {
            txn.work.push(Work::Settle {
                port,
                first,
                last,
                outcome,
            });
        }
    }

    /// Executes `Discharge`.
    pub(super) fn discharge(&mut self, now: Now, conn: usize, txn: TxnId, fail: bool) {
        let key = (self.conns.conn(conn).id, txn);
        let staged = self.txns.remove(&key).unwrap_or_default();
        self.bytes -= staged.bytes;
        let mut fault = None;
        if !fail || is_planted(Bug::RolledBackKept) {
            fault = self.decide_discharge(now.clock(), conn, &staged).err();
            if fault.is_none() {
                self.apply_discharge(now, conn, staged);
            }
        }
        let is_done = !fail && fault.is_none();
        let notice = Notice::Discharged {
            txn,
            fault: fault.map(Box::new),
        };
        if is_done && !is_planted(Bug::DischargeBeforeSafe) {
            self.gate.tell_when_safe(conn, &mut self.conns, notice);
        } else {
            self.conns.tell(conn, notice);
        }
    }

    /// Whether all parts of a transaction can take effect.
    fn decide_discharge(&mut self, at: Clock, conn: usize, txn: &Txn) -> Result<(), Refusal> {
        if let Some(fault) = &txn.fault {
            return Err(fault.clone());
        }
        let limit = |text: String| Refusal {
            reason: Reason::LimitExceeded,
            text,
        };
        if self.bytes.saturating_add(txn.bytes) > self.config.limits.memory_max_bytes {
            return Err(limit("the broker is full; try again later".to_owned()));
        }
        let mut more: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        let mut is_stored = false;
        let mut keys = 0;
        for work in &txn.work {
            match work {
                Work::Publish {
                    queues,
                    message,
                    rules_before,
                } => {
                    for queue in queues {
                        if !self.is_queue(queue.slot, queue.id) {
                            let text = "a queue of one of its messages was deleted".to_owned();
                            return Err(Refusal {
                                reason: Reason::Deleted,
                                text,
                            });
                        }
                        self.vet_anew(queue.slot, *rules_before, message)?;
                        let (len, bytes) = more.entry(queue.slot).or_default();
                        *len += 1;
                        *bytes = bytes.saturating_add(message.payload.len() as u64);
                        is_stored |= self.queues[queue.slot].keeps(&message.envelope);
                        let (slot, envelope) = (queue.slot, &message.envelope);
                        self.check_key_of_part(at, slot, envelope, &mut keys)?;
                    }
                }
                Work::Settle {
                    port, first, last, ..
                } => {
                    if !self.holds_all(conn, *port, *first, *last) {
                        let text = "a message that it settles is not with its receiver any more";
                        return Err(Refusal {
                            reason: Reason::NotFound,
                            text: text.to_owned(),
                        });
                    }
                }
            }
        }
        if is_stored && self.is_disk_short {
            return Err(Refusal {
                reason: Reason::DiskFull,
                text: "the disk is full; try again later".to_owned(),
            });
        }
        for (slot, (len, bytes)) in more {
            let queue = &self.queues[slot];
            if !queue.has_room_for(len, bytes) && !queue.drops_head() {
                let name = quoted(&queue.spec.name);
                return Err(limit(format!("the queue {name} has no room for all of it")));
            }
        }
        Ok(())
    }

    /// Whether the key of a message can be kept, if it is a new one.
    fn check_key_of_part(
        &mut self,
        at: Clock,
        slot: usize,
        envelope: &Envelope,
        ahead: &mut usize,
    ) -> Result<(), Refusal> {
        match self.check_duplicate(at, slot, envelope, ahead) {
            Err(Verdict::Rejected(reason)) => Err(Refusal {
                reason,
                text: "the key of one of its messages cannot be kept: it is too long, or the broker knows as many as \
                       it may (dedup_keys_max)"
                    .to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Whether a consumer holds all deliveries of a range.
    fn holds_all(&self, conn: usize, port: Port, first: DeliveryId, last: DeliveryId) -> bool {
        let Some(slot) = self.consumer_slot(conn, port) else {
            return false;
        };
        let consumer = &self.consumers[slot];
        if consumer.is_browsing && consumer.progress.is_none() {
            // What it was shown it does not hold, and its settlement changes nothing.
            return true;
        }
        let unsettled = &consumer.unsettled;
        (first.0..=last.0).all(|delivery| unsettled.live_from(delivery) == Some(delivery))
    }

    fn apply_discharge(&mut self, now: Now, conn: usize, txn: Txn) {
        let at: Clock = now.clock();
        for work in txn.work {
            match work {
                Work::Publish {
                    mut queues,
                    message,
                    ..
                } => {
                    queues.retain(|to| {
                        let envelope = &message.envelope;
                        let checked = self.check_duplicate(at, to.slot, envelope, &mut 0);
                        checked != Err(Verdict::Duplicate)
                    });
                    self.publisher = Some(self.conns.conn(conn).id);
                    self.apply_all(now, at, &queues, &message);
                    self.publisher = None;
                }
                Work::Settle {
                    port,
                    first,
                    last,
                    outcome,
                } => self.settle(at, conn, port, first..=last, &outcome, false),
            }
        }
    }

    /// A connection is gone, and its transactions with it.
    pub(super) fn forget_txns(&mut self, conn: ConnId) {
        let of_conn = (conn, TxnId(0))..=(conn, TxnId(u64::MAX));
        let keys: Vec<(ConnId, TxnId)> = self.txns.range(of_conn).map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(txn) = self.txns.remove(&key) {
                self.bytes -= txn.bytes;
            }
        }
    }
}
