//! Opening producers and consumers.

use bytes::Bytes;

use super::conn::PortKind;
use super::filtered::Wanted;
use super::lock::Locks;
use super::paging::damaged;
use super::ports::{Consumer, LastRoute, LinkOwner, Producer, Reader, Role, Target};
use super::stream::Progress;
use super::subscription::Source;
use super::{Broker, FailurePolicy, QueueSpec, quoted};
use crate::planted::{Bug, is_planted};
use crate::queue::{Chunks, Clock, Lifetime, NEVER_MS};
use crate::store::BatchId;
use crate::vocab::{
    Address, ConsumerOpened, ConsumerSpec, LifetimePolicy, LinkKey, NodeKind, Notice, Port,
    ProducerOpened, ProducerSpec, Reason, Refusal, SubscriptionSpec,
};

impl Broker {
    /// Executes `OpenProducer`.
    pub(super) fn open_producer(&mut self, at: Clock, conn: usize, port: Port, spec: ProducerSpec) {
        let key = spec.key.clone();
        let resolved = self
            .make_room(at, conn, port, spec.key, Role::Producer)
            .and_then(|()| self.resolve_target(conn, port, spec.address));
        let (target, opened) = match resolved {
            Ok(resolved) => resolved,
            Err(refusal) => return self.refuse(conn, port, refusal),
        };
        let queue = match target {
            Target::Queue(queue) => Some(queue),
            _ => None,
        };
        let slot = self.producers.insert(Producer {
            conn,
            port,
            key: key.clone(),
            target,
            last_route: LastRoute::default(),
            run: None,
            held: (BatchId(0), 0),
            may_store: false,
        });
        // What is not bound to a queue may go to one that is stored.
        let may_store = queue.is_none_or(|queue| self.queues[queue].is_durable);
        if let Some(queue) = queue {
            self.queues[queue].producers.insert(slot);
        }
        if let Some(key) = key {
            self.links
                .insert((key, Role::Producer), LinkOwner { conn, port });
        }
        let owner = self.conns.conn_mut(conn);
        owner.insert_port(port, PortKind::Producer(slot));
        owner.producers += 1;
        owner.storers += usize::from(may_store);
        self.producers[slot].may_store = may_store;
        self.conns.tell(
            conn,
            Notice::ProducerOpened {
                port,
                opened: Box::new(opened),
            },
        );
        self.press(conn);
    }

    /// Executes `OpenConsumer`.
    pub(super) fn open_consumer(&mut self, at: Clock, conn: usize, port: Port, spec: ConsumerSpec) {
        let wanted = match spec.filter.clone().map(Wanted::new).transpose() {
            Ok(wanted) => wanted.map(Box::new),
            Err(refusal) => return self.refuse(conn, port, refusal),
        };
        let resolved = self
            .make_room(at, conn, port, spec.key.clone(), Role::Consumer)
            .and_then(|()| self.resolve_source(at, conn, port, &spec));
        let (queue, opened, subscription) = match resolved {
            Ok(resolved) => resolved,
            Err(refusal) => return self.refuse(conn, port, refusal),
        };
        let progress = match self.tracked_reader(queue, &spec) {
            Ok(reader) => reader.map(Progress::new),
            Err(refusal) => return self.refuse(conn, port, refusal),
        };
        let key = spec.key;
        let serial = self.next_consumer;
        self.next_consumer += 1;
        let slot = self.consumers.insert(Consumer {
            conn,
            port,
            key: key.clone(),
            serial,
            queue,
            is_browsing: opened.browse,
            is_settled: spec.settled,
            default_outcome: spec.default_outcome,
            sent: 0,
            limit: 0,
            is_in_ring: false,
            is_draining: false,
            unsettled: Chunks::default(),
            browse_from: opened.next.map_or(0, |next| next.0),
            reader: Reader::default(),
            parked_from: 0,
            has_excluded: false,
            progress,
            subscription,
            wanted,
            locks: Locks::new(spec.lock.in_force(self.queues[queue].spec.lock_timeout_ms)),
        });
        // From now on the name stands for a position, also if nothing is read.
        self.store_progress(slot);
        if let Some(key) = key {
            self.links
                .insert((key, Role::Consumer), LinkOwner { conn, port });
        }
        self.conns
            .conn_mut(conn)
            .insert_port(port, PortKind::Consumer(slot));
        let queue = &mut self.queues[queue];
        queue.consumers.insert(slot);
        queue.had_consumer = true;
        queue.idle_ms = NEVER_MS;
        queue.takers += usize::from(!opened.browse);
        if let Some(wanted) = &self.consumers[slot].wanted {
            queue.publisher_askers += usize::from(wanted.filter.wants_publisher());
            if !opened.browse {
                queue.filtered.push(slot);
            }
        }
        let opened = Box::new(opened);
        let notice = Notice::ConsumerOpened { port, opened };
        self.conns.tell(conn, notice);
        self.stand_by(slot);
    }

    fn refuse(&mut self, conn: usize, port: Port, refusal: Refusal) {
        log::debug!(
            "port {} of connection {}: {}",
            port.0,
            self.conns.conn(conn).id.0,
            refusal.text
        );
        self.conns.tell(
            conn,
            Notice::Refused {
                port,
                refusal: Box::new(refusal),
            },
        );
    }

    /// Sees to it that the port is free, and takes the link from an older holder of its key (AMQP 1.0 part 2, 2.6.1).
    fn make_room(
        &mut self,
        at: Clock,
        conn: usize,
        port: Port,
        key: Option<LinkKey>,
        role: Role,
    ) -> Result<(), Refusal> {
        if self.conns.conn(conn).is_taken(port) {
            let text = format!("port {} is in use, which is a fault of the broker", port.0);
            return Err(Refusal {
                reason: Reason::Internal,
                text,
            });
        }
        if let Some(key) = key
            && let Some(owner) = self.links.get(&(key, role)).copied()
            && !is_planted(Bug::StolenLinkStays)
        {
            let text = "a newer link of the same name and container took over".to_owned();
            self.evict(
                at,
                owner.conn,
                owner.port,
                Refusal {
                    reason: Reason::Stolen,
                    text,
                },
            );
        }
        Ok(())
    }

    fn resolve_target(
        &mut self,
        conn: usize,
        port: Port,
        address: Address,
    ) -> Result<(Target, ProducerOpened), Refusal> {
        let queue = match address {
            Address::Anonymous => {
                let opened = ProducerOpened {
                    kind: NodeKind::Anonymous,
                    name: String::new(),
                    rule: None,
                };
                return Ok((Target::Anonymous, opened));
            }
            Address::Exchange { name, key } => return self.resolve_exchange(name, key),
            Address::Name(name)
                if !self.queue_names.contains_key(&name)
                    && self.exchanges.find(&name).is_some() =>
            {
                return self.resolve_exchange(name, None);
            }
            other => self.resolve_queue(conn, port, other)?,
        };
        let found = &self.queues[queue];
        let opened = ProducerOpened {
            kind: match found.is_stream() {
                true => NodeKind::Stream,
                false => NodeKind::Queue,
            },
            name: found.spec.name.clone(),
            rule: found.rule.clone(),
        };
        Ok((Target::Queue(queue), opened))
    }

    fn resolve_exchange(
        &self,
        name: String,
        key: Option<String>,
    ) -> Result<(Target, ProducerOpened), Refusal> {
        let key = key.map(Bytes::from);
        let target = if name.is_empty() {
            Target::DefaultExchange { key }
        } else {
            let id = self
                .exchanges
                .find(&name)
                .ok_or_else(|| no_exchange(&name))?;
            Target::Exchange { id, key }
        };
        let kind = NodeKind::Exchange;
        let opened = ProducerOpened {
            kind,
            name,
            rule: None,
        };
        Ok((target, opened))
    }

    fn resolve_source(
        &mut self,
        at: Clock,
        conn: usize,
        port: Port,
        spec: &ConsumerSpec,
    ) -> Result<Source, Refusal> {
        let (slot, opened, held) = match &spec.address {
            Address::Exchange { name, key: by } => {
                self.subscribe(at, conn, port, spec, name, by.as_deref())?
            }
            Address::Subscription => {
                self.find_subscription(spec.key.as_ref(), &spec.subscription)?
            }
            other => {
                let slot = match other {
                    Address::Group {
                        queue,
                        name,
                        may_make_queue,
                    } => self.resolve_group(conn, port, queue, name, *may_make_queue)?,
                    other => self.resolve_queue(conn, port, other.clone())?,
                };
                let queue = &self.queues[slot];
                let opened = ConsumerOpened {
                    kind: NodeKind::Queue,
                    name: queue.spec.name.clone(),
                    browse: spec.browse,
                    subscription: SubscriptionSpec::default(),
                    next: None,
                };
                match queue.is_stream() {
                    true => (slot, self.read_stream(at, slot, spec, opened)?, None),
                    false => (slot, opened, None),
                }
            }
        };
        match self.queues[slot].is_damaged {
            true => Err(damaged(&self.queues[slot].spec.name)),
            false => Ok((slot, opened, held)),
        }
    }

    /// The queue that an address means; made when it may be.
    fn resolve_queue(
        &mut self,
        conn: usize,
        port: Port,
        address: Address,
    ) -> Result<usize, Refusal> {
        let refused = |reason, text| Err(Refusal { reason, text });
        let mut may_make = false;
        let is_stream = matches!(address, Address::Stream(_) | Address::StreamOrNew(_));
        let name = match address {
            Address::Name(name) | Address::Queue(name) => name,
            Address::Stream(name) => name,
            Address::QueueOrNew(name) | Address::StreamOrNew(name) => {
                may_make = true;
                name
            }
            Address::Dynamic { lifetime } => return self.make_dynamic(conn, port, lifetime),
            Address::Exchange { name, .. } => return Err(no_exchange(&name)),
            Address::Group { .. } => {
                let text = "a group gets its messages from its queue: send to that";
                return refused(Reason::Invalid, text.to_owned());
            }
            Address::Anonymous | Address::Subscription => {
                return refused(Reason::Invalid, "an address is missing".to_owned());
            }
        };
        if let Some(&slot) = self.queue_names.get(name.as_str()) {
            self.check_owner(slot, Some(self.conns.conn(conn).id))?;
            if is_stream && !self.queues[slot].is_stream() {
                let text = format!("no stream {0} exists; {0} is a queue", quoted(&name));
                return refused(Reason::NotFound, text);
            }
            return Ok(slot);
        }
        match (is_stream, may_make) {
            (true, true) => self.make_stream(name),
            (false, true) => self.make_asked(name),
            (true, false) if !self.may_auto_create(&name) => {
                let text = format!(
                    "no stream {} exists; declare it as [[stream]] in the configuration",
                    quoted(&name)
                );
                refused(Reason::NotFound, text)
            }
            (true, false) => self.make_stream(name),
            (false, false) => self.auto_create(name),
        }
    }

    fn make_stream(&mut self, name: String) -> Result<usize, Refusal> {
        let id = self.declare_queue(QueueSpec::stream(name), None)?;
        Ok(self.queue_slots[&id])
    }

    /// Whether a node of this name is made when somebody addresses it.
    fn may_auto_create(&self, name: &str) -> bool {
        let mut excepted = self.config.auto_create_except.iter();
        self.config.auto_create_queues
            && !excepted.any(|beginning| name.starts_with(beginning.as_str()))
            && !QueueSpec::is_reserved(name)
    }

    /// The queue of a consumer group, made when there is none.
    fn resolve_group(
        &mut self,
        conn: usize,
        port: Port,
        queue: &str,
        group: &str,
        may_make_queue: bool,
    ) -> Result<usize, Refusal> {
        QueueSpec::check_name(group)?;
        let name = queue.to_owned();
        let source = if self.queue_names.contains_key(queue) || !may_make_queue {
            self.resolve_queue(conn, port, Address::Queue(name))?
        } else {
            // Whoever makes it reads it by groups: nobody would take what else it kept.
            let spec = QueueSpec {
                name,
                exclusive: false,
                groups_only: true,
                ..self.config.auto_create_spec.clone()
            };
            let id = self.declare_queue(spec, None)?;
            self.queue_slots[&id]
        };
        self.join_group(source, group)
    }

    /// Makes a queue for a face whose protocol knows no declaration before use.
    fn make_asked(&mut self, name: String) -> Result<usize, Refusal> {
        let spec = QueueSpec {
            name,
            exclusive: false,
            ..self.config.auto_create_spec.clone()
        };
        let id = self.declare_queue(spec, None)?;
        Ok(self.queue_slots[&id])
    }

    /// Makes a queue that somebody addressed, where that is switched on.
    pub(super) fn auto_create(&mut self, name: String) -> Result<usize, Refusal> {
        QueueSpec::check_name(&name)?;
        if !self.may_auto_create(&name) {
            let is_exchange = self.exchanges.find(&name).is_some();
            if is_exchange {
                let text = format!(
                    "no queue {0} exists; to receive from the exchange {0} write /exchanges/NAME or /exchanges/NAME/KEY",
                    quoted(&name)
                );
                return Err(Refusal {
                    reason: Reason::NotFound,
                    text,
                });
            }
            let text = format!(
                "no queue or exchange {} exists; declare it as [[queue]] or [[exchange]] in the configuration, or set \
                 auto_create_queues = true",
                quoted(&name)
            );
            return Err(Refusal {
                reason: Reason::NotFound,
                text,
            });
        }
        let spec = QueueSpec {
            name,
            exclusive: false,
            ..self.config.auto_create_spec.clone()
        };
        self.make_queue(spec, None)
    }

    /// A queue for one link, under a name that no other link of this process gets.
    fn make_dynamic(
        &mut self,
        conn: usize,
        port: Port,
        policy: LifetimePolicy,
    ) -> Result<usize, Refusal> {
        let id = self.conns.conn(conn).id;
        let mut name = format!("amq.gen-{}-{}", id.0, port.0);
        if self.queue_names.contains_key(name.as_str()) {
            // A node that outlived its link, and the port's number came round.
            name = format!("{name}-{}", self.next_queue);
        }
        let mut spec = QueueSpec::new(name);
        spec.durable = false;
        // Whoever made it is the only one who knows of it.
        spec.failure_policy = FailurePolicy::Drop;
        spec.max_deliveries = 0;
        let slot = self.make_queue(spec, None)?;
        self.queues[slot].lifetime = Some(Lifetime {
            policy,
            maker: Some((id, port)),
        });
        Ok(slot)
    }
}

fn no_exchange(name: &str) -> Refusal {
    Refusal {
        reason: Reason::NotFound,
        text: format!("no exchange {} exists", quoted(name)),
    }
}
