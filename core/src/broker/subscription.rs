//! Subscriptions: a consumer of an exchange gets a queue of its own, bound for it.
//!
//! A subscription is a queue under a reserved name and its binding, nothing else, so recovery, limits, paging and numbers
//! need no second copy of themselves. What survives its link carries the link's identity in its name, by which the next
//! link of that identity finds it:
//!
//! | subscription | name |
//! | --- | --- |
//! | ends with its link | `amq.sub-` and numbers |
//! | kept (expiry policy never) | `amq.sub-CONTAINER.LINK` |
//! | shared by the links of one container | `amq.sub-CONTAINER.NAME`, the link's name up to the first `|` |
//! | shared by everybody (`global`) | `amq.sub-*.NAME` |
//!
//! A shared one that is not kept ends in `.volatile`, and goes with the last of its links.

use super::{Broker, FailurePolicy, QueueSpec, quoted};
use crate::queue::Clock;
use crate::route::{BindingSpec, ExchangeId, ExchangeKind, NAME_LEN_MAX};
use crate::vocab::{
    ConsumerOpened, ConsumerSpec, ExpiryPolicy, LinkKey, NodeKind, Port, Reason, Refusal,
    SubscriptionSpec, TerminusDurability,
};

const PREFIX: &str = "amq.sub-";

/// What a consumer of a subscription holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) exchange: Option<ExchangeId>,
    /// It outlives its links.
    pub(super) is_kept: bool,
    /// Other links may read it as well.
    pub(super) is_shared: bool,
}

impl SubscriptionSpec {
    pub(super) fn is_kept(&self) -> bool {
        self.expiry == ExpiryPolicy::Never
    }

    fn is_durable(&self) -> bool {
        self.is_kept() && self.durability != TerminusDurability::None
    }

    /// What of it is in effect: deliveries that are unsettled when a link goes return to the queue, so of a durable
    /// terminus its existence and configuration are kept, and a terminus ends with its link or never.
    fn effective(&self) -> Self {
        Self {
            durability: if self.is_durable() {
                TerminusDurability::Configuration
            } else {
                TerminusDurability::None
            },
            expiry: if self.is_kept() {
                ExpiryPolicy::Never
            } else {
                ExpiryPolicy::LinkDetach
            },
            is_shared: self.is_shared,
            is_global: self.is_shared && self.is_global,
        }
    }
}

/// The queue of a consumer, what the consumer is told, and what it holds if that is a subscription.
pub(super) type Source = (usize, ConsumerOpened, Option<Held>);

impl Broker {
    /// The queue of a subscription to an exchange, made and bound where it is not there.
    pub(super) fn subscribe(
        &mut self,
        at: Clock,
        conn: usize,
        port: Port,
        consumer: &ConsumerSpec,
        exchange: &str,
        routing_key: Option<&str>,
    ) -> Result<Source, Refusal> {
        let spec = &consumer.subscription;
        let binding = self.wanted_binding(exchange, routing_key)?;
        let id = self.exchanges.find(exchange);
        let held = Held {
            exchange: id,
            is_kept: spec.is_kept(),
            is_shared: spec.is_shared,
        };
        let name = match kept_name(consumer.key.as_ref(), spec)? {
            Some(name) => name,
            None => {
                let id = self.conns.conn(conn).id;
                format!("{PREFIX}{}-{}-{}", id.0, port.0, self.next_queue)
            }
        };
        let binding = BindingSpec {
            queue: Some(name.clone()),
            ..binding
        };
        let known = self.queue_names.get(name.as_str()).copied();
        let slot = match known {
            Some(slot) if self.resumes(slot, spec, &binding)? => {
                // The store is told of a binding once.
                if self.exchanges.decide_bind(&binding)? {
                    self.bind_slot(binding, Some(slot));
                }
                slot
            }
            Some(slot) => self.replace(at, slot, spec, id, binding)?,
            None => {
                self.exchanges.decide_bind(&binding)?;
                self.make_subscription(spec, binding)?
            }
        };
        let opened = ConsumerOpened {
            kind: NodeKind::Exchange,
            name: exchange.to_owned(),
            browse: false,
            subscription: spec.effective(),
            next: None,
        };
        Ok((slot, opened, Some(held)))
    }

    /// Makes the queue of a subscription and binds it as was decided.
    fn make_subscription(
        &mut self,
        spec: &SubscriptionSpec,
        binding: BindingSpec,
    ) -> Result<usize, Refusal> {
        let mut queue = QueueSpec {
            name: binding.queue.clone().unwrap_or_default(),
            durable: spec.is_durable(),
            exclusive: false,
            auto_delete: !spec.is_kept(),
            ..self.config.auto_create_spec.clone()
        };
        if !spec.is_kept() {
            // Nobody would look for the dead letters of a queue that goes with its link.
            queue.failure_policy = FailurePolicy::Drop;
            queue.max_deliveries = 0;
        }
        let slot = self.make_queue(queue, None)?;
        self.bind_slot(binding, Some(slot));
        Ok(slot)
    }

    /// A subscription takes the place of one whose queue is there: what can be refused is refused before that goes.
    fn replace(
        &mut self,
        at: Clock,
        old: usize,
        spec: &SubscriptionSpec,
        exchange: Option<ExchangeId>,
        binding: BindingSpec,
    ) -> Result<usize, Refusal> {
        let frees_binding = self
            .exchanges
            .bindings_to(self.queues[old].id)
            .next()
            .is_some();
        if let Err(refusal) = self.exchanges.decide_bind(&binding)
            && !(refusal.reason == Reason::LimitExceeded && frees_binding)
        {
            return Err(refusal);
        }
        // It may be the last binding of an exchange that goes with it, and the new one leads from there as well.
        self.exchanges.hold(exchange);
        self.delete_slot(at, old);
        let made = self.make_subscription(spec, binding);
        let removed = self.exchanges.release();
        self.note_removed(at, &removed);
        made
    }

    /// The binding of a subscription, still without its queue.
    fn wanted_binding(&self, exchange: &str, key: Option<&str>) -> Result<BindingSpec, Refusal> {
        let id = self.exchanges.find(exchange);
        let Some(spec) = id.and_then(|id| self.exchanges.spec(id)) else {
            let text = match exchange {
                "" => "the exchange without a name takes no subscriptions; receive from a queue"
                    .to_owned(),
                _ => format!("no exchange {} exists", quoted(exchange)),
            };
            return Err(Refusal {
                reason: Reason::NotFound,
                text,
            });
        };
        let key = match (key, spec.kind) {
            (Some(key), _) => key,
            (None, ExchangeKind::Topic) => "#",
            (None, ExchangeKind::Fanout | ExchangeKind::Headers) => "",
            (None, ExchangeKind::Direct) => {
                let text = format!(
                    "a receiver from the direct exchange {} needs a key: /exchanges/NAME/KEY",
                    quoted(exchange)
                );
                return Err(Refusal {
                    reason: Reason::Invalid,
                    text,
                });
            }
        };
        Ok(BindingSpec {
            exchange: exchange.to_owned(),
            routing_key: key.to_owned(),
            ..BindingSpec::default()
        })
    }

    /// Whether a subscription that is there goes on. One of another kind or with another binding is replaced, which is
    /// what asking for it anew means, unless somebody reads it.
    fn resumes(
        &self,
        slot: usize,
        spec: &SubscriptionSpec,
        binding: &BindingSpec,
    ) -> Result<bool, Refusal> {
        let queue = &self.queues[slot];
        let locked = |why: &str| {
            let text = format!("the subscription {} {why}", quoted(&queue.spec.name));
            Err(Refusal {
                reason: Reason::Locked,
                text,
            })
        };
        let is_shared = |slot: &usize| {
            self.consumers[*slot]
                .subscription
                .is_some_and(|held| held.is_shared)
        };
        let is_read = !queue.consumers.is_empty();
        if is_read && !(spec.is_shared && queue.consumers.iter().all(is_shared)) {
            return locked("is in use by a link that does not share it");
        }
        let bindings = || self.exchanges.bindings_to(queue.id);
        // Without any, its exchange was deleted since: it goes on with the new one.
        let is_bound_so =
            bindings().next().is_none() || bindings().any(|known| **known == *binding);
        let is_alike = is_bound_so
            && queue.is_durable == spec.is_durable()
            && queue.spec.auto_delete != spec.is_kept();
        match (is_alike, is_read) {
            (false, true) => locked("is in use with another exchange, key or durability"),
            (is_alike, _) => Ok(is_alike),
        }
    }

    /// The subscription that a link's identity names, for a link that gives no address (AMQP 1.0 part 3, 3.5.3 keeps what
    /// there is): it is looked at, read on or closed, which ends it.
    pub(super) fn find_subscription(
        &self,
        key: Option<&LinkKey>,
        spec: &SubscriptionSpec,
    ) -> Result<Source, Refusal> {
        let kept = SubscriptionSpec {
            expiry: ExpiryPolicy::Never,
            ..*spec
        };
        let name = kept_name(key, &kept)?;
        let slot = name.and_then(|name| self.queue_names.get(name.as_str()).copied());
        let Some(slot) = slot else {
            return Err(Refusal {
                reason: Reason::NotFound,
                text: "the link gives no source address, and no subscription of its name is kept"
                    .to_owned(),
            });
        };
        let queue = &self.queues[slot];
        if !queue.consumers.is_empty() {
            return Err(Refusal {
                reason: Reason::Locked,
                text: format!("the subscription {} is in use", quoted(&queue.spec.name)),
            });
        }
        let binding = self.exchanges.bindings_to(queue.id).next();
        let found = SubscriptionSpec {
            durability: if queue.is_durable {
                TerminusDurability::Configuration
            } else {
                TerminusDurability::None
            },
            ..kept
        };
        let opened = ConsumerOpened {
            kind: NodeKind::Exchange,
            name: binding.map_or_else(String::new, |binding| binding.exchange.clone()),
            browse: false,
            subscription: found.effective(),
            next: None,
        };
        let held = Held {
            exchange: binding.and_then(|binding| self.exchanges.find(&binding.exchange)),
            is_kept: true,
            is_shared: spec.is_shared,
        };
        Ok((slot, opened, Some(held)))
    }
}

/// The name of a subscription that other links may find; none for one that goes with its link.
pub(super) fn kept_name(
    key: Option<&LinkKey>,
    spec: &SubscriptionSpec,
) -> Result<Option<String>, Refusal> {
    if !spec.is_kept() && !spec.is_shared {
        return Ok(None);
    }
    let Some(key) = key else {
        return Err(Refusal {
            reason: Reason::Invalid,
            text: "a subscription that outlives its link or is shared needs a name".to_owned(),
        });
    };
    let mut name = String::from(PREFIX);
    if spec.is_shared && spec.is_global {
        name.push('*');
    } else {
        escape(&key.container, &mut name);
    }
    name.push('.');
    let link = match key.name.iter().position(|byte| *byte == b'|') {
        Some(at) if spec.is_shared => &key.name[..at],
        _ => &key.name[..],
    };
    escape(link, &mut name);
    if !spec.is_kept() {
        name.push_str(".volatile");
    }
    if name.len() > NAME_LEN_MAX {
        return Err(Refusal {
            reason: Reason::LimitExceeded,
            text: format!(
                "container and link make a name of {} bytes for their subscription, {NAME_LEN_MAX} are allowed",
                name.len()
            ),
        });
    }
    Ok(Some(name))
}

/// Writes what cannot be mistaken for a divider: letters, digits, `-` and `_` as they are, the rest percent-encoded.
pub(super) fn escape(text: &[u8], out: &mut String) {
    for byte in text {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            out.push(char::from(*byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}
