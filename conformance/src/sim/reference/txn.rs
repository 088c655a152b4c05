//! Transactions in the reference: what is staged takes effect in one go or not at all, and in one batch of the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qq_core::broker::Now;
use qq_core::store::{Batch, Op};
use qq_core::vocab::{ConnId, Message, Outcome, QueueId, TxnId};

use super::queue::Peer;
use super::{Mirror, News, PortKind, Published, Reference};
use crate::sim::letter;

/// One part.
#[derive(Debug)]
enum Part {
    /// A message, the queues that it goes to, and whether an exchange said so.
    Publish(Arc<Message>, BTreeMap<String, QueueId>, bool),
    /// Deliveries of a consumer, and how they end.
    Settle(Peer, (u64, u64), Outcome),
}

/// What is to take effect together.
#[derive(Debug, Default)]
pub(super) struct Txn {
    parts: Vec<Part>,
    /// It can only be rolled back.
    is_failed: bool,
}

/// A position of a queue to which something happens in a batch.
type Mark = (QueueId, u64, bool);

/// A discharge whose end its connection has to hear.
#[derive(Debug)]
pub(super) struct Discharged {
    is_done: bool,
    /// It may fail all the same: the broker is short of room.
    may_fail: bool,
    /// Positions that must be there, or be empty, before that is told.
    marks: BTreeSet<Mark>,
}

impl Reference {
    pub(super) fn stage(
        &mut self,
        peer: Peer,
        ticket: u64,
        txn: TxnId,
        message: Arc<Message>,
        is_refused: bool,
    ) {
        let number = letter::number_of(&message.payload).unwrap_or(u64::MAX);
        let key = (peer.0, txn);
        let Some(names) = self.places_of(peer, &message) else {
            self.txns.entry(key).or_default().is_failed = true;
            return;
        };
        let len = message.payload.len();
        let is_small = |name: &&String| {
            let queue = self.queues.get(*name);
            queue.is_some_and(|queue| !queue.fits_alone(len))
        };
        let must_refuse = names.iter().any(|name| is_small(&name));
        if is_refused && !must_refuse && !self.may_refuse {
            self.broken(format!("message {number} is refused in a transaction"));
        }
        let queues = names
            .iter()
            .filter_map(|name| Some((name.clone(), self.queues.get(name)?.id)));
        let queues: BTreeMap<String, QueueId> = queues.collect();
        let is_refused = is_refused || must_refuse;
        let published = Published {
            number,
            needs_store: false,
            is_refused,
            is_unroutable: names.is_empty(),
            is_duplicate: false,
            repeats: None,
        };
        let is_posted = self.is_to_exchange(peer);
        let staged = self.txns.entry(key).or_default();
        if is_refused || names.is_empty() {
            staged.is_failed = true;
        } else {
            staged.parts.push(Part::Publish(message, queues, is_posted));
        }
        self.await_answer(peer, ticket, published);
    }

    pub(super) fn stage_settle(
        &mut self,
        peer: Peer,
        range: (u64, u64),
        txn: TxnId,
        outcome: Outcome,
    ) {
        let staged = self.txns.entry((peer.0, txn)).or_default();
        staged.parts.push(Part::Settle(peer, range, outcome));
    }

    /// Whether all parts can take effect.
    fn can_discharge(&self, txn: &Txn) -> bool {
        let mut more: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for part in &txn.parts {
            match part {
                Part::Publish(message, queues, _) => {
                    for (name, id) in queues {
                        if self.names.get(id) != Some(name) {
                            return false;
                        }
                        let (len, bytes) = more.entry(name).or_default();
                        *len += 1;
                        *bytes += message.payload.len() as u64;
                    }
                }
                Part::Settle(peer, (first, last), _) => {
                    let Some(PortKind::Consumer(consumer)) = self.ports.get(peer) else {
                        return false;
                    };
                    let holds = |delivery| consumer.held.contains_key(&delivery);
                    if !consumer.is_browsing && !(*first..=*last).all(holds) {
                        return false;
                    }
                }
            }
        }
        let has_room = |(name, (len, bytes)): (&str, (u64, u64))| {
            let queue = self.queues.get(name);
            queue.is_some_and(|queue| queue.has_room_for(len, bytes))
        };
        !txn.is_failed && more.into_iter().all(has_room)
    }

    /// `fault` is what the broker says of it in this round, if it does: room may be short without the reference's
    /// knowledge.
    pub(super) fn discharge(
        &mut self,
        now: Now,
        conn: ConnId,
        id: TxnId,
        is_asked: bool,
        has_fault: bool,
    ) {
        let txn = self.txns.remove(&(conn, id)).unwrap_or_default();
        let is_done = !is_asked && self.can_discharge(&txn) && !(self.may_refuse && has_fault);
        let mut marks = BTreeSet::new();
        if is_done {
            for part in txn.parts {
                self.take_part(now, part, &mut marks);
            }
            if !marks.is_empty() {
                self.together.push(marks.clone());
            }
        }
        if !is_asked {
            let discharged = Discharged {
                is_done,
                may_fail: self.may_refuse,
                marks,
            };
            self.discharged.insert((conn, id), discharged);
        } else {
            self.rolled_back.insert((conn, id));
        }
        self.news.push(News::Discharged(conn, id, is_done));
    }

    fn take_part(&mut self, now: Now, part: Part, marks: &mut BTreeSet<Mark>) {
        match part {
            Part::Publish(message, queues, is_posted) => {
                let number = letter::number_of(&message.payload).unwrap_or(u64::MAX);
                let mut names: BTreeSet<String> = queues.keys().cloned().collect();
                if self.drop_duplicates(now, &message, &mut names).is_some() {
                    return;
                }
                let (places, _) = self.take_in(now, is_posted, number, &message, &names);
                marks.extend(places.into_iter().map(|(queue, seq)| (queue, seq, true)));
            }
            Part::Settle(peer, range, outcome) => {
                for (queue, seq, count) in self.settle_held(now, peer, range, &outcome) {
                    if count.is_none() {
                        marks.insert((queue, seq, false));
                    }
                }
            }
        }
        self.pass(now);
    }

    /// What is staged knows a queue by another id.
    pub(super) fn rename_staged(&mut self, old: QueueId, new: QueueId) {
        for part in self.txns.values_mut().flat_map(|txn| &mut txn.parts) {
            if let Part::Publish(_, queues, _) = part {
                for id in queues.values_mut().filter(|id| **id == old) {
                    *id = new;
                }
            }
        }
        for discharged in self.discharged.values_mut() {
            let marks = std::mem::take(&mut discharged.marks).into_iter();
            discharged.marks = marks
                .map(|(queue, seq, is_there)| {
                    (if queue == old { new } else { queue }, seq, is_there)
                })
                .collect();
        }
    }

    /// The store is told of a batch: what belongs together is in one.
    pub(super) fn check_together(&mut self, batch: &Batch) {
        let mut seen: BTreeSet<Mark> = BTreeSet::new();
        for op in &batch.ops {
            match op {
                Op::Enqueued(stored) => {
                    let places = stored.places.iter();
                    seen.extend(places.map(|(queue, seq)| (*queue, seq.0, true)));
                }
                Op::Removed { queue, seq, count } => {
                    seen.extend((seq.0..seq.0 + count).map(|seq| (*queue, seq, false)));
                }
                _ => {}
            }
        }
        let (begun, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.together)
            .into_iter()
            .partition(|marks| !marks.is_disjoint(&seen));
        self.together = waiting;
        for marks in begun {
            let missing: Vec<_> = marks.difference(&seen).collect();
            if !missing.is_empty() {
                let text = format!("a transaction is stored in parts: {missing:?} come later");
                self.broken(text);
            }
        }
    }

    pub(super) fn on_discharged(
        &mut self,
        mirror: &Mirror,
        key: (ConnId, TxnId),
        fault: Option<String>,
    ) {
        if self.rolled_back.remove(&key) {
            if let Some(text) = fault {
                self.broken(format!("{key:?} is rolled back with a fault: {text}"));
            }
            return;
        }
        let Some(discharged) = self.discharged.remove(&key) else {
            return self.broken(format!("{key:?} is discharged and was not to be"));
        };
        if discharged.is_done != fault.is_none() && !(fault.is_some() && discharged.may_fail) {
            let is_done = discharged.is_done;
            self.broken(format!(
                "{key:?} ends with {fault:?}, and done should be {is_done}"
            ));
        }
        let is_early = |(queue, seq, is_there): &&Mark| match mirror.safe.queues.get(queue) {
            // Deleted meanwhile.
            None => false,
            Some(kept) if *is_there => kept.next <= *seq,
            Some(kept) => kept.messages.contains_key(seq),
        };
        if fault.is_none()
            && let Some((queue, seq, _)) = discharged.marks.iter().find(is_early)
        {
            let queue = queue.0;
            self.broken(format!(
                "{key:?} is told before position {seq} of queue {queue} is safe"
            ));
        }
    }
}
