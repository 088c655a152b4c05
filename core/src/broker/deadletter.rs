//! Dead letters: where a message goes that cannot stay in its queue.
//!
//! It leaves and arrives in one batch, so after any crash it is in exactly one place. Its times to live end, its count
//! begins anew, and its history says where it failed. Full queues take it all the same: their limits are for publishers.
//!
//! Where it goes: to the dead-letter exchange of its queue, else to the queue `<name>.dlq`, which also takes what the
//! exchange cannot route. A message that would go round without any consumer's doing is dropped and counted.

use std::sync::Arc;

use smallvec::SmallVec;

use super::paging::fetch;
use super::publish::{Taken, deadline_from};
use super::{Broker, FailurePolicy, Overflow, QueueSpec, quoted};
use crate::filter::MessageView;
use crate::planted::{Bug, is_planted};
use crate::queue::{Clock, Entry, READ_SHARE, Span};
use crate::route::Routed;
use crate::store::{Op, StoredMessage};
use crate::vocab::{Cause, Message, QueueId, Seq};

/// What the name of a queue's own dead-letter queue ends with.
const SUFFIX: &str = ".dlq";

impl QueueSpec {
    /// Whether messages that fail for this cause become dead letters.
    fn keeps_dead(&self, cause: Cause) -> bool {
        let has_target =
            self.dead_letter_exchange.is_some() || self.dead_letter_routing_key.is_some();
        let is_asked = has_target || self.overflow == Overflow::RejectDlx;
        !self.is_stream()
            && self.failure_policy != FailurePolicy::Drop
            && (cause != Cause::Overflow || is_asked)
    }

    /// The queue for the dead letters of a queue.
    fn for_dead_letters_of(source: &Self, name: String) -> Self {
        Self {
            durable: source.durable && !source.exclusive,
            failure_policy: FailurePolicy::Drop,
            max_deliveries: 0,
            ..Self::new(name)
        }
    }
}

impl Broker {
    /// A waiting or acquired message cannot stay in its queue: it becomes a dead letter, or is dropped. When its body is
    /// not in memory, it stays until that came. Says whether there was such a message that was not doomed before.
    pub(super) fn fail_entry(&mut self, at: Clock, slot: usize, seq: u64, cause: Cause) -> bool {
        let queue = &mut self.queues[slot];
        if !queue.spec.keeps_dead(cause) {
            return self.remove_entry(slot, seq).is_some();
        }
        if queue.backlog.away_len(seq).is_some() {
            let is_new = queue.doomed.insert(seq, cause).is_none();
            self.fetch_doomed(at, slot);
            return is_new;
        }
        if is_planted(Bug::DeadLetterCopied)
            && let Some(entry) = self.queues[slot].backlog.entry_mut(seq)
        {
            entry.is_durable = false;
        }
        let Some(entry) = self.remove_entry(slot, seq) else {
            return false;
        };
        self.bury(at, slot, &entry, cause);
        true
    }

    /// Whether one more failed attempt is one too many.
    pub(super) fn is_last_attempt(&self, slot: usize, seq: u64) -> bool {
        let queue = &self.queues[slot];
        let max = queue.spec.max_deliveries;
        if max == 0 || queue.spec.failure_policy == FailurePolicy::Infinite {
            return false;
        }
        let Some(entry) = queue.backlog.entry(seq) else {
            return false;
        };
        entry.attempts() >= max - 1 + u32::from(is_planted(Bug::AttemptsOffByOne))
    }

    /// A new message that its queue does not take, with its body; says whether the store keeps it.
    pub(super) fn bury_new(
        &mut self,
        at: Clock,
        slot: usize,
        entry: &Entry,
        cause: Cause,
    ) -> Taken {
        if self.queues[slot].spec.keeps_dead(cause) && !(entry.is_durable && self.is_disk_short) {
            self.bury(at, slot, entry, cause)
        } else {
            Taken::Volatile
        }
    }

    /// A new message for which a queue with `overflow = reject-dlx` has no room.
    pub(super) fn bury_refused(&mut self, at: Clock, slot: usize, entry: &Entry) {
        let is_kept = !is_planted(Bug::RefusedNotKept);
        if self.queues[slot].spec.overflow == Overflow::RejectDlx && is_kept {
            self.bury_new(at, slot, entry, Cause::Overflow);
        }
    }

    /// Lays a message that is in no queue any more to where the dead letters of `source` go.
    fn bury(&mut self, at: Clock, source: usize, entry: &Entry, cause: Cause) -> Taken {
        let body = entry.body();
        let mut envelope = body.envelope.clone();
        let mut deaths = envelope.deaths.as_deref().cloned().unwrap_or_default();
        deaths.ttl_ms = envelope.ttl_ms.take().or(deaths.ttl_ms);
        deaths.expires_at_ms = envelope.expires_at_ms.take().or(deaths.expires_at_ms);
        deaths.add(&self.queues[source].spec.name, cause, at.wall_ms);
        envelope.delivery_count = 0;
        envelope.wishes = None;
        let mut targets = self.decide_grave(source, &body, at);
        self.with_groups_of(&mut targets);
        targets.retain(|target| {
            let is_round = deaths.is_round(&self.queues[*target].spec.name);
            self.tally.dropped += u64::from(is_round);
            !is_round
        });
        if targets.is_empty() {
            log::debug!(
                "a dead letter of the queue {} went round and is dropped",
                quoted(&self.queues[source].spec.name)
            );
            return Taken::Volatile;
        }
        self.tally.dead_lettered += 1;
        self.queues[source].totals.dead_lettered += 1;
        envelope.deaths = Some(Arc::new(deaths));
        let message = Message {
            envelope,
            format: body.format,
            payload: body.payload.clone(),
        };
        self.lay(at, &targets, &message.share(), entry)
    }

    /// Puts a message that left another queue to the tail of these, whatever their limits, in the batch in which it left.
    pub(super) fn lay(
        &mut self,
        at: Clock,
        targets: &[usize],
        message: &Arc<Message>,
        old: &Entry,
    ) -> Taken {
        let annotations = old
            .extra
            .as_ref()
            .and_then(|extra| extra.annotations.clone());
        let cost = message.cost();
        let mut places: SmallVec<[(QueueId, Seq); 1]> = SmallVec::new();
        for &slot in targets {
            let queue = &self.queues[slot];
            let is_durable = queue.keeps(&message.envelope) && !is_planted(Bug::DeadLetterVolatile);
            let expires_ms = deadline_from(at.mono_ms + 1, queue.ttl_ms(&message.envelope));
            let mut entry = queue.entry(Arc::clone(message), expires_ms, is_durable);
            if is_planted(Bug::DeathKeepsCount) {
                entry.delivery_count = old.delivery_count;
            }
            if annotations.is_some() {
                entry
                    .extra
                    .get_or_insert_default()
                    .annotations
                    .clone_from(&annotations);
            }
            places.extend(self.place(at, slot, cost, entry));
        }
        let is_stored = !places.is_empty();
        if is_stored {
            self.gate.add(Op::Enqueued(StoredMessage {
                message: Arc::clone(message),
                arrived_at_ms: at.wall_ms,
                places: places.clone(),
            }));
        }
        if annotations.is_some() {
            for (queue, seq) in places {
                self.gate.add(Op::Returned {
                    queue,
                    seq,
                    delivery_count: 0,
                    annotations: annotations.clone(),
                });
            }
        }
        for &slot in targets {
            let queue = &self.queues[slot];
            if queue.drops_head() && queue.is_over_limit() {
                self.overflown.push((slot, queue.id));
            }
        }
        if is_stored {
            Taken::Durable
        } else {
            Taken::Volatile
        }
    }

    /// The queues for a dead letter: one at least.
    fn decide_grave(
        &mut self,
        source: usize,
        message: &Message,
        at: Clock,
    ) -> SmallVec<[usize; 1]> {
        let spec = Arc::clone(&self.queues[source].spec);
        let mut found = SmallVec::new();
        if spec.dead_letter_exchange.is_some() || spec.dead_letter_routing_key.is_some() {
            let exchange = spec.dead_letter_exchange.as_deref().unwrap_or_default();
            let key = match &spec.dead_letter_routing_key {
                Some(key) => key.as_bytes(),
                None => message.envelope.subject.as_deref().unwrap_or_default(),
            };
            self.route_dead_letter(exchange, key, message, at.wall_ms, &mut found);
        }
        if found.is_empty() {
            found.push(self.own_grave(&spec));
        }
        found
    }

    /// The queues to which an exchange routes a dead letter.
    fn route_dead_letter(
        &mut self,
        exchange: &str,
        key: &[u8],
        message: &Message,
        wall_ms: i64,
        found: &mut SmallVec<[usize; 1]>,
    ) {
        if exchange.is_empty() {
            let name = std::str::from_utf8(key).unwrap_or_default();
            found.extend(self.queue_names.get(name).copied());
            return;
        }
        let Some(id) = self.exchanges.find(exchange) else {
            return;
        };
        let mut queues = std::mem::take(&mut self.route);
        let headers = MessageView::new(message, wall_ms);
        let routed = self.exchanges.route(id, key, &headers, &mut queues);
        if matches!(routed, Routed::Queues) {
            found.extend(queues.iter().map(|queue| queue.slot));
        }
        self.route = queues;
    }

    /// The dead-letter queue of a queue; made when there is none. The limit of queues does not hold for it, since there
    /// is one for each of them at most.
    fn own_grave(&mut self, source: &QueueSpec) -> usize {
        let name = match &source.group_of {
            Some(of) => format!("{}.{}{SUFFIX}", of.queue, of.name),
            None => format!("{}{SUFFIX}", source.name),
        };
        match self.queue_names.get(name.as_str()) {
            Some(slot) => *slot,
            None => self.make_queue_beyond(QueueSpec::for_dead_letters_of(source, name), None),
        }
    }

    /// Asks for the bodies of doomed messages, one request at a time; buries those whose bodies came another way.
    fn fetch_doomed(&mut self, at: Clock, slot: usize) {
        loop {
            let queue = &mut self.queues[slot];
            if queue.doomed_span.is_some() || queue.is_damaged {
                return;
            }
            let Some((&seq, &cause)) = queue.doomed.first_key_value() else {
                return;
            };
            if queue.backlog.away_len(seq).is_none() {
                queue.doomed.remove(&seq);
                let is_waiting = queue
                    .backlog
                    .entry(seq)
                    .is_some_and(|entry| !entry.is_acquired);
                if is_waiting {
                    self.fail_entry(at, slot, seq, cause);
                }
                continue;
            }
            let span = queue.backlog.span_to_read(seq, READ_SHARE);
            queue.doomed_span = Some(span);
            self.actions.push_back(fetch(queue.id, span));
            return;
        }
    }

    /// Bodies of doomed messages came.
    pub(super) fn bury_doomed(
        &mut self,
        at: Clock,
        slot: usize,
        messages: Vec<(Seq, Arc<Message>)>,
    ) {
        self.queues[slot].doomed_span = None;
        for (Seq(seq), message) in messages {
            let queue = &mut self.queues[slot];
            let Some(cause) = queue.doomed.get(&seq).copied() else {
                continue;
            };
            if queue.backlog.away_len(seq).is_none() {
                continue;
            }
            queue.doomed.remove(&seq);
            if let Some(mut entry) = self.remove_entry(slot, seq) {
                entry.message = Some(message);
                self.bury(at, slot, &entry, cause);
            }
        }
        self.fetch_doomed(at, slot);
        if self.queues[slot].spec.overflow == Overflow::DropHead {
            self.drop_overflow(at, slot);
        }
    }

    /// Whether the answer to this request is for doomed messages.
    pub(super) fn is_for_doomed(&self, slot: usize, span: Span) -> bool {
        self.queues[slot].doomed_span == Some(span)
    }
}
