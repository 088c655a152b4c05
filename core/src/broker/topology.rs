//! Declaring queues.

use std::sync::Arc;

use super::{
    Broker, FailurePolicy, MANAGEMENT_NODE, PRIORITY_LEVELS_MAX, QueueKind, QueueSpec, missing,
    quoted,
};
use crate::queue::Queue;
use crate::route::NAME_LEN_MAX;
use crate::store::Op;
use crate::vocab::{ConnId, QueueId, Reason, Refusal};

impl QueueSpec {
    /// Checks a name's length and characters.
    ///
    /// # Errors
    /// `Invalid`, with the rule.
    pub fn check_name(name: &str) -> Result<(), Refusal> {
        if matches!(name, "." | "..") {
            return Err(Refusal {
                reason: Reason::Invalid,
                text: format!("{} cannot be a name: no URL could hold it", quoted(name)),
            });
        }
        if name.is_empty() || name.len() > NAME_LEN_MAX || name.chars().any(char::is_control) {
            let text = format!(
                "{} cannot be a name: it must have 1 to {NAME_LEN_MAX} bytes and no control characters",
                quoted(name)
            );
            return Err(Refusal {
                reason: Reason::Invalid,
                text,
            });
        }
        Ok(())
    }

    /// Whether a name is kept for the broker itself.
    #[must_use]
    pub fn is_reserved(name: &str) -> bool {
        name.starts_with("amq.") || name.starts_with('_') || name == MANAGEMENT_NODE
    }

    /// Checks the fields other than the name.
    ///
    /// # Errors
    /// `Invalid` for values that no queue can have.
    pub fn check_fields(&self) -> Result<(), Refusal> {
        if let Some(field) = self.unfit_for_kind() {
            let text = match self.kind {
                QueueKind::Queue => format!("{field} is for streams"),
                QueueKind::Stream => format!("a stream has no {field}"),
            };
            return Err(Refusal {
                reason: Reason::Invalid,
                text: format!("the queue {}: {text}", quoted(&self.name)),
            });
        }
        let refuse = |rule: &str| {
            let text = format!("the queue {}: {rule}", quoted(&self.name));
            let reason = Reason::Invalid;
            Err(Refusal { reason, text })
        };
        if self.max_priority > PRIORITY_LEVELS_MAX {
            return refuse("max_priority is 32 at most");
        }
        if let Some(subject) = &self.schema {
            Self::check_name(subject)?;
        }
        if self.expires_ms == Some(0) {
            return refuse("expires_ms must be 1 at least");
        }
        if self.lock_timeout_ms == Some(0) {
            return refuse("lock_timeout_ms must be 1 at least");
        }
        let has_target =
            self.dead_letter_exchange.is_some() || self.dead_letter_routing_key.is_some();
        if self.failure_policy == FailurePolicy::Drop && has_target {
            let rule = "failure_policy drop and a target for dead letters exclude each other";
            return refuse(rule);
        }
        let backoff = self.retry_backoff;
        if backoff.is_some_and(|wait| wait.min_ms > wait.max_ms || wait.factor == 0) {
            let rule = "retry_backoff needs a min of at most its max and a factor of 1 at least";
            return refuse(rule);
        }
        Ok(())
    }

    /// The name of a field that is set and that its kind does not have.
    fn unfit_for_kind(&self) -> Option<&'static str> {
        if self.kind == QueueKind::Queue {
            return self.max_age_ms.map(|_| "max_age");
        }
        let bare = Self {
            durable: self.durable,
            max_length: self.max_length,
            max_bytes: self.max_bytes,
            max_age_ms: self.max_age_ms,
            schema: self.schema.clone(),
            schema_mode: self.schema_mode,
            ..Self::stream(self.name.clone())
        };
        if self.max_age_ms == Some(0) {
            return Some("max_age of 0");
        }
        self.difference(&bare)
    }

    /// The name of the first field in which two definitions differ.
    pub(super) fn difference(&self, other: &Self) -> Option<&'static str> {
        [
            ("kind", self.kind == other.kind),
            ("durable", self.durable == other.durable),
            ("exclusive", self.exclusive == other.exclusive),
            ("auto_delete", self.auto_delete == other.auto_delete),
            (
                "message_ttl_ms",
                self.message_ttl_ms == other.message_ttl_ms,
            ),
            ("max_length", self.max_length == other.max_length),
            ("max_bytes", self.max_bytes == other.max_bytes),
            ("max_age", self.max_age_ms == other.max_age_ms),
            ("overflow", self.overflow == other.overflow),
            ("expires_ms", self.expires_ms == other.expires_ms),
            ("max_priority", self.max_priority == other.max_priority),
            (
                "max_deliveries",
                self.max_deliveries == other.max_deliveries,
            ),
            (
                "failure_policy",
                self.failure_policy == other.failure_policy,
            ),
            (
                "dead_letter_exchange",
                self.dead_letter_exchange == other.dead_letter_exchange,
            ),
            (
                "dead_letter_routing_key",
                self.dead_letter_routing_key == other.dead_letter_routing_key,
            ),
            ("retry_backoff", self.retry_backoff == other.retry_backoff),
            (
                "lock_timeout_ms",
                self.lock_timeout_ms == other.lock_timeout_ms,
            ),
            (
                "single_active_consumer",
                self.single_active_consumer == other.single_active_consumer,
            ),
            (
                "dedup_window_ms",
                self.dedup_window_ms == other.dedup_window_ms,
            ),
            ("schema", self.schema == other.schema),
            ("schema_mode", self.schema_mode == other.schema_mode),
            ("groups_only", self.groups_only == other.groups_only),
            ("group_of", self.group_of == other.group_of),
        ]
        .into_iter()
        .find_map(|(field, is_same)| (!is_same).then_some(field))
    }
}

impl Broker {
    /// The slot of the queue of that name.
    ///
    /// # Errors
    /// `NotFound`.
    pub(super) fn slot_of(&self, name: &str) -> Result<usize, Refusal> {
        let found = self.queue_names.get(name).copied();
        found.ok_or_else(|| missing("queue", name))
    }

    /// Whether a connection may use a queue; without one the node itself asks.
    ///
    /// # Errors
    /// `Locked` when it belongs to another connection alone.
    pub(super) fn check_owner(&self, slot: usize, by: Option<ConnId>) -> Result<(), Refusal> {
        let queue = &self.queues[slot];
        if queue.owner.is_none() || queue.owner == by {
            return Ok(());
        }
        let name = quoted(&queue.spec.name);
        Err(Refusal {
            reason: Reason::Locked,
            text: format!("the queue {name} belongs to another connection alone"),
        })
    }

    /// Makes a queue, or finds it when it exists with the same fields. `owner` is the connection that asks; exclusive
    /// queues need one and are deleted with it.
    ///
    /// # Errors
    /// `Invalid` for a bad name, an exclusive queue without an owner, or other fields than the existing queue has (the
    /// text names the field); `NotAllowed` for reserved names; `Locked` when another connection holds it;
    /// `LimitExceeded` when there are too many queues.
    pub fn declare_queue(
        &mut self,
        spec: QueueSpec,
        owner: Option<ConnId>,
    ) -> Result<QueueId, Refusal> {
        self.check_declarable(&spec)?;
        if spec.exclusive && !owner.is_some_and(|owner| self.conn_slots.contains_key(&owner)) {
            let text = format!(
                "the queue {} is exclusive but no connection declares it",
                quoted(&spec.name)
            );
            return Err(Refusal {
                reason: Reason::Invalid,
                text,
            });
        }
        if let Some(&slot) = self.queue_names.get(spec.name.as_str()) {
            self.check_owner(slot, owner)?;
            let queue = &self.queues[slot];
            if let Some(field) = queue.spec.difference(&spec) {
                let text = format!(
                    "the queue {} exists with another {field}",
                    quoted(&spec.name)
                );
                return Err(Refusal {
                    reason: Reason::Invalid,
                    text,
                });
            }
            let id = queue.id;
            self.note_use(slot);
            return Ok(id);
        }
        let owner = owner.filter(|_| spec.exclusive);
        let slot = self.make_queue(spec, owner)?;
        Ok(self.queues[slot].id)
    }

    /// Whether a queue can be declared as far as it alone says.
    pub(super) fn check_declarable(&self, spec: &QueueSpec) -> Result<(), Refusal> {
        QueueSpec::check_name(&spec.name)?;
        if QueueSpec::is_reserved(&spec.name) {
            let text = format!(
                "{}: names that begin with 'amq.' or '_' are reserved, and so is '{MANAGEMENT_NODE}'",
                quoted(&spec.name)
            );
            return Err(Refusal {
                reason: Reason::NotAllowed,
                text,
            });
        }
        spec.check_fields()
    }

    /// Makes a queue of a name that is free and allowed; returns its slot.
    ///
    /// The answer to whoever asked does not wait at the gate: a message in the queue does, and its batch comes after
    /// the one that makes the queue, so nothing that is confirmed depends on a queue that is not safe.
    pub(super) fn make_queue(
        &mut self,
        spec: QueueSpec,
        owner: Option<ConnId>,
    ) -> Result<usize, Refusal> {
        if self.queues.len() >= self.config.limits.queues_max {
            self.tally.refusals.queues += 1;
            let text = format!(
                "there are {} queues, as many as limits allow; delete some or raise queues_max",
                self.queues.len()
            );
            return Err(Refusal {
                reason: Reason::LimitExceeded,
                text,
            });
        }
        Ok(self.make_queue_beyond(spec, owner))
    }

    /// As [`Broker::make_queue`], beyond the limit of queues.
    pub(super) fn make_queue_beyond(&mut self, spec: QueueSpec, owner: Option<ConnId>) -> usize {
        let id = QueueId(self.next_queue);
        let slot = self.apply_declared(id, Arc::new(spec));
        if self.queues[slot].is_durable {
            let spec = Arc::clone(&self.queues[slot].spec);
            self.gate.add(Op::QueueDeclared { queue: id, spec });
        }
        self.note_use(slot);
        self.queues[slot].owner = owner;
        if let Some(owner) = owner {
            self.exclusive.entry(owner).or_default().push((slot, id));
        }
        slot
    }

    pub(super) fn apply_declared(&mut self, id: QueueId, spec: Arc<QueueSpec>) -> usize {
        self.next_queue = self.next_queue.max(id.0 + 1);
        let name = spec.name.clone();
        log::debug!("queue {} is made", quoted(&name));
        let slot = self.queues.insert(Queue::new(id, spec));
        self.queue_names.insert(name, slot);
        self.queue_slots.insert(id, slot);
        self.update_rule(slot);
        slot
    }
}
