//! Publishing in the reference: where a message belongs, and whether all of its queues take it.

use std::collections::BTreeSet;
use std::sync::Arc;

use qq_core::broker::{Now, Overflow};
use qq_core::vocab::{Cause, Message};

use super::burial::Sureness;
use super::queue::{Entry, Peer};
use super::{News, PortKind, Published, Reference, To, due_ms_of, ttl_of, up_ms};
use crate::sim::letter;

impl Reference {
    /// The queues that a producer's message belongs to; none when the producer or its queue is gone.
    fn places_of(&self, peer: Peer, message: &Message) -> Option<BTreeSet<String>> {
        let Some(PortKind::Producer(producer)) = self.ports.get(&peer) else {
            return None;
        };
        match &producer.to {
            To::Queue(name) => {
                let is_there = self.queues.contains_key(name);
                is_there.then(|| BTreeSet::from([name.clone()]))
            }
            To::Exchange(name, key) => {
                let key = key.clone().unwrap_or_else(|| letter::subject_of(message));
                let properties = letter::properties_of(&message.payload);
                Some(self.topology.route(name, &key, &properties))
            }
        }
    }

    fn is_to_exchange(&self, peer: Peer) -> bool {
        match self.ports.get(&peer) {
            Some(PortKind::Producer(producer)) => matches!(producer.to, To::Exchange(..)),
            _ => false,
        }
    }

    pub(super) fn publish(
        &mut self,
        now: Now,
        peer: Peer,
        ticket: u64,
        message: Arc<Message>,
        is_refused: bool,
    ) {
        let Some(names) = self.places_of(peer, &message) else {
            return;
        };
        let number = letter::number_of(&message.payload).unwrap_or(u64::MAX);
        let is_full = |name: &&String| {
            let queue = self.queues.get(*name);
            queue.is_some_and(|queue| queue.refuses(message.payload.len()))
        };
        let full: Vec<String> = names.iter().filter(is_full).cloned().collect();
        if is_refused && full.is_empty() && !self.may_refuse {
            let text = format!("message {number} is refused though {names:?} have room");
            return self.broken(text);
        }
        let must_refuse = !full.is_empty();
        let mut needs_store = false;
        if must_refuse || is_refused {
            // Which of several full ones is asked first, is the broker's affair.
            let sureness = if self.may_refuse || full.len() > 1 {
                Sureness::Perhaps
            } else {
                Sureness::Done
            };
            for name in full {
                self.set_aside(now, peer, &name, &message, sureness);
            }
        } else {
            if self.is_to_exchange(peer) {
                self.tell_routed(number, &message, &names);
            }
            for name in &names {
                needs_store |= self.enqueue(now, name, &message);
            }
        }
        let published = Published {
            number,
            needs_store,
            is_refused: must_refuse || is_refused,
            is_unroutable: names.is_empty(),
        };
        if let Some(PortKind::Producer(producer)) = self.ports.get_mut(&peer)
            && producer.unanswered.insert(ticket, published).is_some()
        {
            let text = format!("ticket {ticket} of {peer:?} is used twice");
            return self.broken(text);
        }
        self.pass(now);
    }

    fn tell_routed(&mut self, number: u64, message: &Message, names: &BTreeSet<String>) {
        let copy_of = |name: &String| {
            let queue = self.queues.get(name)?;
            let is_durable = queue.is_durable() && message.envelope.durable;
            Some((name.clone(), is_durable))
        };
        let copies = names.iter().filter_map(copy_of).collect();
        self.news.push(News::Routed(number, copies));
    }

    fn entry_of(&self, now: Now, name: &str, message: &Arc<Message>) -> Option<Entry> {
        let queue = self.queues.get(name)?;
        let ttl_ms = ttl_of(message.envelope.ttl_ms, queue.spec.message_ttl_ms);
        Some(Entry {
            number: letter::number_of(&message.payload).unwrap_or(u64::MAX),
            count: message.envelope.delivery_count,
            message: Arc::clone(message),
            is_durable: message.envelope.durable && queue.is_durable(),
            annotations: None,
            had_owner: false,
            excluded: Vec::new(),
            owner: None,
            expires_ms: ttl_ms.map(|ttl| if ttl == 0 { 0 } else { up_ms(now) + ttl }),
            due_ms: due_ms_of(message, now.wall_ms, now),
        })
    }

    /// A message that one of its queues refuses: a queue may keep such as dead letters.
    fn set_aside(
        &mut self,
        now: Now,
        peer: Peer,
        name: &str,
        message: &Arc<Message>,
        sureness: Sureness,
    ) {
        let keeps = |name: &str| {
            let queue = self.queues.get(name);
            queue.is_some_and(|queue| queue.spec.overflow == Overflow::RejectDlx)
        };
        if keeps(name)
            && let Some(entry) = self.entry_of(now, name, message)
        {
            if self.is_to_exchange(peer) {
                self.tell_routed(entry.number, message, &BTreeSet::from([name.to_owned()]));
            }
            self.bury(now, name, (None, entry), Cause::Overflow, sureness);
        }
    }

    /// Puts a message into a queue that has room for it; says whether the store must have it before it is confirmed.
    fn enqueue(&mut self, now: Now, name: &str, message: &Arc<Message>) -> bool {
        let Some(entry) = self.entry_of(now, name, message) else {
            return false;
        };
        if entry.expires_ms == Some(0) {
            // Where memory or disk are short, there may be no room for it anywhere.
            let sureness = if self.may_refuse {
                Sureness::Perhaps
            } else {
                Sureness::Done
            };
            let is_stored = self.bury(now, name, (None, entry), Cause::Expired, sureness);
            return is_stored && !self.may_refuse;
        }
        let Some(queue) = self.queues.get_mut(name) else {
            return false;
        };
        let is_durable = entry.is_durable;
        if is_durable {
            self.issued.insert((queue.id, queue.next), entry.number);
        }
        for (seq, entry) in queue.push(entry) {
            let gone = (Some(seq), entry);
            self.bury(now, name, gone, Cause::Overflow, Sureness::Done);
        }
        is_durable
    }
}
