//! What the broker was told, applied to the reference.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use qq_core::broker::Now;
use qq_core::vocab::{
    Address, Command, ConnId, ConsumerSpec, LinkKey, Message, Outcome, Port, ProducerSpec, Ticket,
};

use super::queue::{Entry, Peer, Queue};
use super::{
    Confirming, Consumer, Input, News, PortKind, Producer, Published, Reference, down_ms, ttl_of,
    up_ms,
};
use crate::sim::letter;

type Refused = BTreeSet<(ConnId, Port, Ticket)>;

impl Reference {
    pub(super) fn apply(&mut self, now: Now, input: Input, refused: &Refused) {
        match input {
            Input::Commands(conn, commands) => {
                for command in commands {
                    self.command(now, conn, command, refused);
                }
            }
            Input::Gone(conn) => self.lose_connection(conn),
            Input::Declared(spec, id, owner) => {
                let name = spec.name.clone();
                if self.queues.get(&name).is_some_and(|queue| queue.id == id) {
                    return;
                }
                self.names.insert(id, name.clone());
                self.queues.insert(name, Queue::new(id, *spec, owner));
            }
            Input::Purged(name, count) => self.purge(&name, count),
            Input::Deleted(name) => self.delete(&name, None),
            Input::Damaged(name) => self.damage(&name),
        }
    }

    fn command(&mut self, now: Now, conn: ConnId, command: Command, refused: &Refused) {
        match command {
            Command::OpenProducer { port, spec } => self.open_producer((conn, port), *spec),
            Command::OpenConsumer { port, spec } => self.open_consumer((conn, port), *spec),
            Command::Publish {
                port,
                ticket,
                message,
                ..
            } => {
                let is_refused = refused.contains(&(conn, port, ticket));
                self.publish(now, (conn, port), ticket.0, message, is_refused);
            }
            Command::Permit { port, limit, drain } => {
                if let Some(PortKind::Consumer(consumer)) = self.ports.get_mut(&(conn, port)) {
                    if consumer.is_draining {
                        consumer.older.push_back(consumer.limit);
                        self.loose.insert(consumer.queue.clone());
                    }
                    (consumer.limit, consumer.is_draining) = (limit, drain);
                }
            }
            Command::Settle {
                port,
                first,
                last,
                outcome,
                confirm,
            } => self.settle((conn, port), first.0, last.0, &outcome, confirm),
            // No simulated client asks about queues; those that an operator deletes come as an input of their own.
            // No simulated queue has locks.
            Command::Extend { .. } | Command::Relock { .. } => {}
            Command::Stage { .. } | Command::StageSettle { .. } | Command::Discharge { .. } => {
                panic!("no client of the simulator makes transactions")
            }
            Command::Ask { .. }
            | Command::Describe { .. }
            | Command::Reported { .. }
            | Command::Manage { .. } => {}
            Command::Close { port, lost, .. } => self.close((conn, port), lost),
        }
    }

    /// A link of this key that is there already is taken over: its deliveries end as lost.
    fn steal(&mut self, key: Option<&LinkKey>, is_producer: bool) {
        let Some(key) = key else {
            return;
        };
        if let Some(old) = self.links.get(&(key.clone(), is_producer)).copied() {
            self.close(old, true);
            self.closing.insert(old);
        }
    }

    /// The queue that an address means to a connection.
    fn find(&self, conn: ConnId, address: &Address) -> Option<String> {
        let (Address::Name(name) | Address::Queue(name)) = address else {
            return None;
        };
        let queue = self.queues.get(name)?;
        let is_free = queue.owner.is_none_or(|owner| owner == conn);
        is_free.then(|| name.clone())
    }

    fn open_producer(&mut self, peer: Peer, spec: ProducerSpec) {
        self.steal(spec.key.as_ref(), true);
        let found = self.find(peer.0, &spec.address);
        self.opening.insert(peer, found.is_some());
        let Some(queue) = found else {
            return;
        };
        if let Some(key) = &spec.key {
            self.links.insert((key.clone(), true), peer);
        }
        let producer = Producer {
            queue,
            key: spec.key,
            unanswered: BTreeMap::new(),
        };
        self.ports.insert(peer, PortKind::Producer(producer));
    }

    fn open_consumer(&mut self, peer: Peer, spec: ConsumerSpec) {
        self.steal(spec.key.as_ref(), false);
        let is_sound = |name: &String| self.queues.get(name).is_some_and(|queue| !queue.is_damaged);
        let found = self.find(peer.0, &spec.address).filter(is_sound);
        self.opening.insert(peer, found.is_some());
        let Some(queue) = found else {
            return;
        };
        if let Some(key) = &spec.key {
            self.links.insert((key.clone(), false), peer);
        }
        let consumer = Consumer {
            queue,
            key: spec.key,
            is_browsing: spec.browse,
            is_settled: spec.settled,
            default_outcome: spec.default_outcome,
            sent: 0,
            limit: 0,
            is_draining: false,
            older: VecDeque::new(),
            held: BTreeMap::new(),
            browse_from: 0,
        };
        self.ports.insert(peer, PortKind::Consumer(consumer));
    }

    fn publish(
        &mut self,
        now: Now,
        peer: Peer,
        ticket: u64,
        message: Arc<Message>,
        is_refused: bool,
    ) {
        let Some(PortKind::Producer(producer)) = self.ports.get_mut(&peer) else {
            return;
        };
        let Some(queue) = self.queues.get_mut(&producer.queue) else {
            return;
        };
        let number = letter::number_of(&message.payload).unwrap_or(u64::MAX);
        let must_refuse = queue.refuses(message.payload.len());
        let is_durable = message.envelope.durable && queue.is_durable();
        let ttl_ms = ttl_of(message.envelope.ttl_ms, queue.spec.message_ttl_ms);
        let is_dead = ttl_ms == Some(0);
        let published = Published {
            number,
            needs_store: is_durable && !is_dead,
            is_refused: must_refuse || is_refused,
        };
        if producer.unanswered.insert(ticket, published).is_some() {
            let text = format!("ticket {ticket} of {peer:?} is used twice");
            return self.broken(text);
        }
        if is_refused && !must_refuse && !self.may_refuse {
            let text = format!(
                "message {number} is refused though {} has room",
                queue.spec.name
            );
            return self.broken(text);
        }
        if must_refuse || is_refused {
            return;
        }
        if is_dead {
            self.news.push(News::Dropped(number));
            return;
        }
        let seq = queue.next;
        if is_durable {
            self.issued.insert((queue.id, seq), number);
        }
        let entry = Entry {
            number,
            count: message.envelope.delivery_count,
            message,
            is_durable,
            annotations: None,
            had_owner: false,
            excluded: Vec::new(),
            owner: None,
            expires_ms: ttl_ms.map(|ttl| up_ms(now) + ttl),
        };
        let dropped = queue.push(entry);
        self.news.extend(dropped.into_iter().map(News::Dropped));
        let over = queue.forget_expired(down_ms(now));
        self.news.extend(over.into_iter().map(News::Dropped));
    }

    fn settle(&mut self, peer: Peer, first: u64, last: u64, outcome: &Outcome, confirm: bool) {
        let Some(PortKind::Consumer(consumer)) = self.ports.get_mut(&peer) else {
            return;
        };
        let Some(queue) = self.queues.get_mut(&consumer.queue) else {
            return;
        };
        let ended: Vec<(u64, u64)> = consumer
            .held
            .range(first..=last)
            .map(|(delivery, seq)| (*delivery, *seq))
            .collect();
        let mut ends = Vec::new();
        for (delivery, seq) in ended {
            consumer.held.remove(&delivery);
            if let Some(end) = conclude(queue, peer, seq, outcome) {
                ends.push(end);
            }
        }
        if confirm {
            let list = self.confirming.entry(peer).or_default();
            list.push_back(Confirming { first, last, ends });
        }
    }

    /// A port goes: what a consumer holds ends as lost, or as its source says.
    fn close(&mut self, peer: Peer, lost: bool) {
        let Some(port) = self.ports.remove(&peer) else {
            return;
        };
        let (key, is_producer) = match &port {
            PortKind::Producer(producer) => (producer.key.clone(), true),
            PortKind::Consumer(consumer) => (consumer.key.clone(), false),
        };
        if let Some(key) = key {
            self.links.remove(&(key.clone(), is_producer));
            self.news.push(News::Cut(peer.0, key, is_producer));
        }
        let PortKind::Consumer(consumer) = port else {
            return;
        };
        let Some(queue) = self.queues.get_mut(&consumer.queue) else {
            return;
        };
        let outcome = if lost {
            &Outcome::Lost
        } else {
            &consumer.default_outcome
        };
        for seq in consumer.held.values() {
            conclude(queue, peer, *seq, outcome);
        }
    }

    fn lose_connection(&mut self, conn: ConnId) {
        let ports: Vec<Peer> = self
            .ports
            .range((conn, Port(0))..=(conn, Port(u32::MAX)))
            .map(|(peer, _)| *peer)
            .collect();
        for peer in ports {
            self.close(peer, true);
        }
        let owned = self
            .queues
            .values()
            .filter(|queue| queue.owner == Some(conn));
        let owned: Vec<String> = owned.map(|queue| queue.spec.name.clone()).collect();
        for name in owned {
            self.delete(&name, Some(conn));
        }
        self.confirming.retain(|(owner, _), _| *owner != conn);
        self.opening.retain(|(owner, _), _| *owner != conn);
        self.closing.retain(|(owner, _)| *owner != conn);
    }

    fn purge(&mut self, name: &str, count: usize) {
        let Some(queue) = self.queues.get_mut(name) else {
            return self.broken(format!("the queue {name} is purged and is not there"));
        };
        let waiting: Vec<u64> = queue.waiting.iter().copied().collect();
        let is_wrong = waiting.len() != count && !queue.saw_ttl;
        for seq in &waiting {
            queue.remove(*seq);
        }
        if is_wrong {
            let text = format!(
                "a purge of {name} takes {count} messages, not {}",
                waiting.len()
            );
            self.broken(text);
        }
    }

    /// Nobody may read from a queue any more.
    fn damage(&mut self, name: &str) {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.is_damaged = true;
        }
        let reads = |port: &PortKind| match port {
            PortKind::Producer(_) => false,
            PortKind::Consumer(consumer) => consumer.queue == name,
        };
        let ports = self.ports.iter().filter(|(_, port)| reads(port));
        let ports: Vec<Peer> = ports.map(|(peer, _)| *peer).collect();
        for peer in ports {
            self.close(peer, true);
            self.closing.insert(peer);
        }
    }

    /// A queue goes, with its ports; those of `gone` need not be told.
    fn delete(&mut self, name: &str, gone: Option<ConnId>) {
        let on_it = |port: &PortKind| match port {
            PortKind::Producer(producer) => producer.queue == name,
            PortKind::Consumer(consumer) => consumer.queue == name,
        };
        let ports = self.ports.iter().filter(|(_, port)| on_it(port));
        let ports: Vec<Peer> = ports.map(|(peer, _)| *peer).collect();
        for peer in ports {
            self.close(peer, true);
            if Some(peer.0) != gone {
                self.closing.insert(peer);
            }
        }
        if let Some(queue) = self.queues.remove(name) {
            self.names.remove(&queue.id);
        }
    }
}

/// Ends one delivery; returns what must be safe before that is confirmed.
fn conclude(
    queue: &mut Queue,
    peer: Peer,
    seq: u64,
    outcome: &Outcome,
) -> Option<(qq_core::vocab::QueueId, u64, Option<u32>)> {
    let id = queue.id;
    let entry = queue.entries.get_mut(&seq)?;
    let is_durable = entry.is_durable;
    match outcome {
        Outcome::Accepted | Outcome::Rejected { .. } => {
            queue.remove(seq);
            return is_durable.then_some((id, seq, None));
        }
        Outcome::Released => {}
        Outcome::Lost => entry.count += 1,
        Outcome::Modified {
            failed,
            undeliverable_here,
            annotations,
        } => {
            entry.count += u32::from(*failed);
            if annotations.is_some() {
                entry.annotations.clone_from(annotations);
            }
            if *undeliverable_here {
                queue.exclude(seq, peer);
            }
        }
    }
    let count = queue.entries.get(&seq).map_or(0, |entry| entry.count);
    queue.give_back(seq);
    is_durable.then_some((id, seq, Some(count)))
}
