//! Publishing in the reference: where a message belongs, and whether all of its queues take it.

use std::collections::BTreeSet;
use std::sync::Arc;

use qq_core::broker::{Now, Overflow};
use qq_core::vocab::{Cause, Message, QueueId};

use super::burial::Sureness;
use super::queue::{Entry, Peer, Seen};
use super::{News, PortKind, Published, Reference, To, down_ms, due_ms_of, ttl_of, up_ms};
use crate::sim::letter;

impl Reference {
    /// The queues that a producer's message belongs to; none when the producer or its queue is gone.
    pub(super) fn places_of(&self, peer: Peer, message: &Message) -> Option<BTreeSet<String>> {
        let Some(PortKind::Producer(producer)) = self.ports.get(&peer) else {
            return None;
        };
        let names = match &producer.to {
            To::Queue(name) => {
                let is_there = self.queues.contains_key(name);
                is_there.then(|| BTreeSet::from([name.clone()]))
            }
            To::Exchange(name, key) => {
                let key = key.clone().unwrap_or_else(|| letter::subject_of(message));
                let properties = letter::properties_of(&message.payload);
                Some(self.topology.route(name, &key, &properties))
            }
        };
        names.map(|names| self.with_groups(names))
    }

    pub(super) fn is_to_exchange(&self, peer: Peer) -> bool {
        match self.ports.get(&peer) {
            Some(PortKind::Producer(producer)) => Self::is_shared_out(&producer.to),
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
        let Some(mut names) = self.places_of(peer, &message) else {
            return;
        };
        let number = letter::number_of(&message.payload).unwrap_or(u64::MAX);
        let is_unroutable = names.is_empty();
        if let Some(seen) = self.drop_duplicates(now, &message, &mut names) {
            let published = Published {
                number,
                needs_store: false,
                is_refused: false,
                is_unroutable,
                is_duplicate: true,
                repeats: seen.is_durable.then_some(seen.number),
            };
            return self.await_answer(peer, ticket, published);
        }
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
            let is_posted = self.is_to_exchange(peer);
            needs_store = self.take_in(now, is_posted, number, &message, &names).1;
        }
        let published = Published {
            number,
            needs_store,
            is_refused: must_refuse || is_refused,
            is_unroutable,
            is_duplicate: false,
            repeats: None,
        };
        self.await_answer(peer, ticket, published);
        self.pass(now);
    }

    /// A message needs an answer.
    pub(super) fn await_answer(&mut self, peer: Peer, ticket: u64, published: Published) {
        if let Some(PortKind::Producer(producer)) = self.ports.get_mut(&peer)
            && producer.unanswered.insert(ticket, published).is_some()
        {
            let text = format!("ticket {ticket} of {peer:?} is used twice");
            self.broken(text);
        }
    }

    /// Puts a message into its queues, which have room for it; returns its places that the store is told of, and
    /// whether it must have something of the message before that is confirmed.
    pub(super) fn take_in(
        &mut self,
        now: Now,
        is_posted: bool,
        number: u64,
        message: &Arc<Message>,
        names: &BTreeSet<String>,
    ) -> (Vec<(QueueId, u64)>, bool) {
        if is_posted {
            self.tell_routed(number, message, names);
        }
        let (mut places, mut needs_store) = (Vec::new(), false);
        for name in names {
            let place = self.queues.get(name).map(|queue| (queue.id, queue.next));
            needs_store |= self.enqueue(now, name, message);
            let is_stored = |place: &(QueueId, u64)| self.issued.contains_key(place);
            places.extend(place.filter(is_stored));
        }
        (places, needs_store)
    }

    /// Leaves out the queues that had the message. When all of them had, it is a duplicate.
    pub(super) fn drop_duplicates(
        &mut self,
        now: Now,
        message: &Message,
        names: &mut BTreeSet<String>,
    ) -> Option<Seen> {
        let mut newest = None;
        let before = names.clone();
        names.retain(|name| {
            let queue = self.queues.get(name);
            let known = queue.and_then(|queue| queue.known(message, down_ms(now)));
            newest = known.or(newest);
            known.is_none()
        });
        let newest = newest.filter(|_| names.is_empty())?;
        let number = letter::number_of(&message.payload).unwrap_or(u64::MAX);
        for name in before {
            self.news.push(News::Dropped(number, name));
        }
        Some(newest)
    }

    fn tell_routed(&mut self, number: u64, message: &Message, names: &BTreeSet<String>) {
        let copy_of = |name: &String| {
            let queue = self.queues.get(name)?;
            let is_durable = queue.keeps(message);
            Some((name.clone(), is_durable))
        };
        let copies = names.iter().filter_map(copy_of).collect();
        self.news.push(News::Routed(number, copies));
    }

    fn entry_of(&self, now: Now, name: &str, message: &Arc<Message>) -> Option<Entry> {
        let queue = self.queues.get(name)?;
        let is_stream = queue.spec.is_stream();
        let ttl_ms = ttl_of(message.envelope.ttl_ms, queue.spec.message_ttl_ms);
        let ttl_ms = ttl_ms.filter(|_| !is_stream);
        Some(Entry {
            number: letter::number_of(&message.payload).unwrap_or(u64::MAX),
            count: match is_stream {
                true => 0,
                false => message.envelope.delivery_count,
            },
            message: Arc::clone(message),
            is_durable: queue.keeps(message),
            annotations: None,
            had_owner: false,
            excluded: Vec::new(),
            owner: None,
            expires_ms: ttl_ms.map(|ttl| if ttl == 0 { 0 } else { up_ms(now) + ttl }),
            due_ms: due_ms_of(message, now.wall_ms, now).filter(|_| !is_stream),
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
        if let Some(key) = message.envelope.dedup_id()
            && queue.spec.dedup_window_ms > 0
        {
            let seen = Seen {
                until_ms: up_ms(now) + queue.spec.dedup_window_ms,
                number: entry.number,
                is_durable,
            };
            queue.seen.insert(key.clone(), seen);
            if is_durable {
                self.keyed.insert((queue.id, queue.next), key.clone());
            }
        }
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
