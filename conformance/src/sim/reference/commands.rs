//! What the broker was told, applied to the reference.

use std::collections::{BTreeMap, VecDeque};

use qq_core::broker::Now;
use qq_core::filter::{FilterSpec, SectionName};
use qq_core::vocab::{
    Address, Cause, Command, ConnId, ConsumerSpec, LinkKey, Outcome, Port, ProducerSpec, QueueId,
};

use super::burial::{Sureness, is_used_up};

use super::queue::{Peer, Queue, Wants};
use super::stream::{reader_of, start_of};
use super::{
    Change, Confirming, Consumer, Input, News, PortKind, Producer, Reference, Refused, To, down_ms,
};

impl Reference {
    pub(super) fn apply(&mut self, now: Now, input: Input, refused: &Refused) {
        match input {
            Input::Commands(conn, commands) => {
                for command in commands {
                    self.command(now, conn, command, refused);
                }
            }
            Input::Gone(conn) => self.lose_connection(now, conn),
            Input::Declared(spec, id, owner) => {
                let name = spec.name.clone();
                if self.queues.get(&name).is_some_and(|queue| queue.id == id) {
                    return;
                }
                self.names.insert(id, name.clone());
                self.queues.insert(name, Queue::new(id, *spec, owner));
            }
            Input::Purged(name, count) => self.purge(&name, count),
            Input::Deleted(name) => self.delete(now, &name, None),
            Input::Damaged(name) => self.damage(now, &name),
            Input::Topology(change, is_done) => self.change(now, change, is_done),
        }
    }

    fn command(&mut self, now: Now, conn: ConnId, command: Command, refused: &Refused) {
        match command {
            Command::OpenProducer { port, spec } => self.open_producer(now, (conn, port), *spec),
            Command::OpenConsumer { port, spec } => self.open_consumer(now, (conn, port), *spec),
            Command::Publish {
                port,
                ticket,
                message,
                ..
            } => {
                let is_refused = refused.publishes.contains(&(conn, port, ticket));
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
            } => self.settle(now, (conn, port), (first.0, last.0), &outcome, confirm),
            Command::Extend {
                port,
                first,
                last,
                lock_ms,
                ..
            } => self.extend(now, (conn, port), (first.0, last.0), lock_ms),
            Command::Relock { port, lock } => {
                if let Some(PortKind::Consumer(consumer)) = self.ports.get_mut(&(conn, port)) {
                    consumer.lock = lock;
                }
            }
            // No simulated client asks about queues; those that an operator deletes come as an input of their own.
            Command::Stage {
                port,
                ticket,
                txn,
                message,
            } => {
                let is_refused = refused.publishes.contains(&(conn, port, ticket));
                self.stage((conn, port), ticket.0, txn, message, is_refused);
            }
            Command::StageSettle {
                port,
                first,
                last,
                txn,
                outcome,
            } => self.stage_settle((conn, port), (first.0, last.0), txn, outcome),
            Command::Discharge { txn, fail } => {
                let has_fault = refused.discharges.contains(&(conn, txn));
                self.discharge(now, conn, txn, fail, has_fault);
            }
            Command::Ask { .. }
            | Command::Describe { .. }
            | Command::Reported { .. }
            | Command::Note(_)
            | Command::Manage { .. } => {}
            Command::Close { port, lost, forget } => self.end(now, (conn, port), lost, forget),
        }
    }

    /// A face ends a port; for good, when what was kept for it is to be forgotten.
    fn end(&mut self, now: Now, peer: Peer, lost: bool, forget: bool) {
        let (mut place, mut subscription) = (None, None);
        if let Some(PortKind::Consumer(consumer)) = self.ports.get(&peer).filter(|_| forget) {
            let name = &consumer.queue;
            place = consumer.reader.clone().map(|reader| (name.clone(), reader));
            subscription = consumer.exchange.as_ref().map(|_| name.clone());
        }
        self.close(now, peer, lost);
        if let Some(name) = subscription {
            self.end_subscription(now, &name);
        }
        if let Some((name, reader)) = place
            && let Some(queue) = self.queues.get_mut(&name)
        {
            queue.offsets.remove(&reader);
        }
    }

    /// A link of this key that is there already is taken over: its deliveries end as lost.
    fn steal(&mut self, now: Now, key: Option<&LinkKey>, is_producer: bool) {
        let Some(key) = key else {
            return;
        };
        if let Some(old) = self.links.get(&(key.clone(), is_producer)).copied() {
            self.close(now, old, true);
            self.closing.insert(old);
        }
    }

    /// Exchanges and bindings change, and links of exchanges that are gone go.
    fn change(&mut self, now: Now, change: Change, is_done: bool) {
        self.is_rerouted = true;
        let has_queue = |name: &str| {
            let found = self.queues.get(name);
            found.is_some_and(|queue| queue.owner.is_none())
        };
        let is_allowed = self.topology.allows(&change, has_queue);
        if is_allowed != is_done {
            let text = format!("done = {is_done}, and it should not be so: {change:?}");
            return self.broken(text);
        }
        if is_done {
            let gone = self.topology.change(change);
            self.close_links_to(now, &gone);
        }
    }

    fn close_links_to(&mut self, now: Now, gone: &[String]) {
        let is_gone = |port: &PortKind| match port {
            PortKind::Producer(producer) => {
                matches!(&producer.to, To::Exchange(name, _) if gone.contains(name))
            }
            PortKind::Consumer(consumer) => {
                let exchange = consumer.exchange.as_ref();
                exchange.is_some_and(|name| gone.contains(name))
            }
        };
        let ports = self.ports.iter().filter(|(_, port)| is_gone(port));
        let ports: Vec<Peer> = ports.map(|(peer, _)| *peer).collect();
        for peer in ports {
            self.close(now, peer, true);
            self.closing.insert(peer);
        }
    }

    /// The queue that an address means to a connection.
    pub(super) fn find(&self, conn: ConnId, address: &Address) -> Option<String> {
        let (Address::Name(name)
        | Address::Queue(name)
        | Address::QueueOrNew(name)
        | Address::Stream(name)) = address
        else {
            return None;
        };
        let queue = self.queues.get(name)?;
        let is_free = queue.owner.is_none_or(|owner| owner == conn);
        is_free.then(|| name.clone())
    }

    /// What an address means to a producer.
    fn find_target(&self, conn: ConnId, address: &Address) -> Option<To> {
        match address {
            Address::Exchange { name, key } => {
                let is_there = self.topology.exchanges.contains_key(name);
                is_there.then(|| To::Exchange(name.clone(), key.clone()))
            }
            Address::Name(name)
                if !self.queues.contains_key(name)
                    && self.topology.exchanges.contains_key(name) =>
            {
                Some(To::Exchange(name.clone(), None))
            }
            _ => self.find(conn, address).map(To::Queue),
        }
    }

    fn open_producer(&mut self, now: Now, peer: Peer, spec: ProducerSpec) {
        self.steal(now, spec.key.as_ref(), true);
        let found = self.find_target(peer.0, &spec.address);
        self.opening.insert(peer, found.is_some());
        let Some(to) = found else {
            return;
        };
        if let Some(key) = &spec.key {
            self.links.insert((key.clone(), true), peer);
        }
        let producer = Producer {
            to,
            key: spec.key,
            unanswered: BTreeMap::new(),
        };
        self.ports.insert(peer, PortKind::Producer(producer));
    }

    fn open_consumer(&mut self, now: Now, peer: Peer, spec: ConsumerSpec) {
        self.steal(now, spec.key.as_ref(), false);
        let found = self.find_source(now, peer, &spec);
        let is_sound = |name: &String| self.queues.get(name).is_some_and(|queue| !queue.is_damaged);
        let found = found.filter(is_sound);
        self.opening.insert(peer, found.is_some());
        let Some(queue) = found else {
            return;
        };
        if let Some(key) = &spec.key {
            self.links.insert((key.clone(), false), peer);
        }
        let stream = self
            .queues
            .get(&queue)
            .filter(|queue| queue.spec.is_stream());
        let start = stream.map(|stream| start_of(stream, &spec));
        let reader = stream.and_then(|stream| reader_of(stream, &spec));
        self.beginnings.extend(start.map(|start| (peer, start)));
        let consumer = Consumer {
            queue,
            key: spec.key,
            is_browsing: spec.browse || start.is_some(),
            wants: match spec.filter {
                Some(FilterSpec::Properties(SectionName::ApplicationProperties, wants)) => wants,
                _ => Wants::new(),
            },
            is_settled: spec.settled,
            default_outcome: spec.default_outcome,
            sent: 0,
            limit: 0,
            is_draining: false,
            older: VecDeque::new(),
            held: BTreeMap::new(),
            browse_from: start.unwrap_or(0),
            exchange: match spec.address {
                Address::Exchange { name, .. } => Some(name),
                _ => None,
            },
            reader,
            is_noted: false,
            lock: spec.lock,
            due_ms: BTreeMap::new(),
            serial: self.serials,
            told_active: None,
        };
        self.serials += 1;
        self.ports
            .insert(peer, PortKind::Consumer(Box::new(consumer)));
        self.stand_by(peer);
        self.keep_place(peer);
    }

    fn settle(
        &mut self,
        now: Now,
        peer: Peer,
        (first, last): (u64, u64),
        outcome: &Outcome,
        confirm: bool,
    ) {
        if !matches!(self.ports.get(&peer), Some(PortKind::Consumer(_))) {
            return;
        }
        let ends = self.settle_held(now, peer, (first, last), outcome);
        if confirm {
            self.keep_place(peer);
        }
        let place = match self.ports.get(&peer) {
            Some(PortKind::Consumer(consumer)) => {
                let id = self.queues.get(&consumer.queue).map(|queue| queue.id);
                let reader = consumer.reader.clone();
                reader.and_then(|reader| Some((id?, reader, consumer.place())))
            }
            _ => None,
        };
        if confirm {
            let list = self.confirming.entry(peer).or_default();
            list.push_back(Confirming {
                first,
                last,
                ends,
                place,
            });
        }
    }

    /// Ends deliveries of a consumer; returns what must be safe before that is confirmed.
    pub(super) fn settle_held(
        &mut self,
        now: Now,
        peer: Peer,
        (first, last): (u64, u64),
        outcome: &Outcome,
    ) -> Vec<(QueueId, u64, Option<u32>)> {
        let Some(PortKind::Consumer(consumer)) = self.ports.get_mut(&peer) else {
            return Vec::new();
        };
        let name = consumer.queue.clone();
        let ended: Vec<(u64, u64)> = consumer
            .held
            .range(first..=last)
            .map(|(delivery, seq)| (*delivery, *seq))
            .collect();
        consumer
            .held
            .retain(|delivery, _| !(first..=last).contains(delivery));
        consumer
            .due_ms
            .retain(|delivery, _| !(first..=last).contains(delivery));
        let mut ends = Vec::new();
        if consumer.reader.is_some() {
            // Nothing returns to a stream.
            consumer.is_noted = true;
            return ends;
        }
        for (_, seq) in ended {
            ends.extend(self.conclude(now, &name, peer, seq, outcome));
        }
        ends
    }

    /// A port goes: what a consumer holds ends as lost, or as its source says.
    fn close(&mut self, now: Now, peer: Peer, lost: bool) {
        self.keep_place(peer);
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
        let outcome = if lost {
            &Outcome::Lost
        } else {
            &consumer.default_outcome
        };
        let held = consumer.held.values().filter(|_| consumer.reader.is_none());
        for seq in held {
            self.conclude(now, &consumer.queue, peer, *seq, outcome);
        }
        self.hand_over(peer, &consumer.queue);
    }

    fn lose_connection(&mut self, now: Now, conn: ConnId) {
        self.txns.retain(|(owner, _), _| *owner != conn);
        self.discharged.retain(|(owner, _), _| *owner != conn);
        self.rolled_back.retain(|(owner, _)| *owner != conn);
        let ports: Vec<Peer> = self
            .ports
            .range((conn, Port(0))..=(conn, Port(u32::MAX)))
            .map(|(peer, _)| *peer)
            .collect();
        for peer in ports {
            self.close(now, peer, true);
        }
        let owned = self
            .queues
            .values()
            .filter(|queue| queue.owner == Some(conn));
        let owned: Vec<String> = owned.map(|queue| queue.spec.name.clone()).collect();
        for name in owned {
            self.delete(now, &name, Some(conn));
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
        self.unsettle_burials(name);
        if is_wrong {
            let text = format!(
                "a purge of {name} takes {count} messages, not {}",
                waiting.len()
            );
            self.broken(text);
        }
    }

    /// Nobody may read from a queue any more.
    fn damage(&mut self, now: Now, name: &str) {
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
            self.close(now, peer, true);
            self.closing.insert(peer);
        }
    }

    /// A queue goes, with its ports; those of `gone` need not be told.
    pub(super) fn delete(&mut self, now: Now, name: &str, gone: Option<ConnId>) {
        let on_it = |port: &PortKind| match port {
            PortKind::Producer(producer) => {
                matches!(&producer.to, To::Queue(queue) if queue == name)
            }
            PortKind::Consumer(consumer) => consumer.queue == name,
        };
        let ports = self.ports.iter().filter(|(_, port)| on_it(port));
        let ports: Vec<Peer> = ports.map(|(peer, _)| *peer).collect();
        for peer in ports {
            self.close(now, peer, true);
            if Some(peer.0) != gone {
                self.closing.insert(peer);
            }
        }
        self.unsettle_burials(name);
        self.tell_gone(name);
        if let Some(queue) = self.queues.remove(name) {
            self.names.remove(&queue.id);
            self.forget_unnamed(queue.id);
        }
        self.is_rerouted = true;
        let exchanges = self.topology.forget_queue(name);
        self.close_links_to(now, &exchanges);
    }

    /// Ends one delivery; returns what must be safe before that is confirmed.
    fn conclude(
        &mut self,
        now: Now,
        name: &str,
        peer: Peer,
        seq: u64,
        outcome: &Outcome,
    ) -> Option<(QueueId, u64, Option<u32>)> {
        let queue = self.queues.get_mut(name)?;
        let id = queue.id;
        let entry = queue.entries.get_mut(&seq)?;
        let is_durable = entry.is_durable;
        let (failed, here, annotations) = match outcome {
            Outcome::Accepted => {
                queue.remove(seq);
                return is_durable.then_some((id, seq, None));
            }
            Outcome::Rejected { .. } => {
                self.fail(now, name, seq, Cause::Rejected);
                return is_durable.then_some((id, seq, None));
            }
            Outcome::Released => (false, false, &None),
            Outcome::Lost => (true, false, &None),
            Outcome::Modified {
                failed,
                undeliverable_here,
                annotations,
            } => (*failed, *undeliverable_here, annotations),
        };
        if annotations.is_some() {
            entry.annotations.clone_from(annotations);
        }
        if failed && is_used_up(&queue.spec, entry) {
            self.fail(now, name, seq, Cause::Attempts);
            return is_durable.then_some((id, seq, None));
        }
        entry.count += u32::from(failed);
        let count = entry.count;
        if let Some(wait) = queue.spec.retry_backoff
            && failed
        {
            let attempts = entry.count - entry.message.envelope.delivery_count;
            let grown = u64::from(wait.factor).pow(attempts - 1) * wait.min_ms;
            entry.due_ms = Some(down_ms(now) + grown.min(wait.max_ms));
        }
        if here {
            queue.exclude(seq, peer);
        }
        queue.give_back(seq);
        is_durable.then_some((id, seq, Some(count)))
    }

    /// A message that a consumer had cannot stay in its queue.
    fn fail(&mut self, now: Now, name: &str, seq: u64, cause: Cause) {
        let entry = self
            .queues
            .get_mut(name)
            .and_then(|queue| queue.remove(seq));
        if let Some(entry) = entry {
            self.bury(now, name, (Some(seq), entry), cause, Sureness::Done);
        }
    }
}
