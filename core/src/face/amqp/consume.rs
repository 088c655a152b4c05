//! Links on which the peer receives: permits and settlements up, messages down.

use std::collections::BTreeMap;

use qq_proto_amqp::condition;
use qq_proto_amqp::connection::{LinkId, OutgoingDelivery};
use qq_proto_amqp::performative::{Attach, DeliveryState, Modified};

use qq_proto_amqp::types::{Symbol, Value};

use super::attach::{consumer_reply, consumer_spec};
use super::deliver::{message_format, tag_of};
use super::outcome::{outcome_of, with_earlier};
use super::ports::{Consumer, PortState};
use super::{AmqpFace, push_extend, push_settle, refusal};
use crate::broker::Now;
use crate::planted::{Bug, is_planted};
use crate::vocab::{Command, ConsumerOpened, Delivered, DeliveryId, NodeKind, Outcome, Port};

impl AmqpFace {
    pub(super) fn open_consumer(&mut self, link: LinkId, attach: Box<Attach>) {
        let spec = match consumer_spec(&self.container, &attach) {
            Ok(spec) => spec,
            Err(refusal) => return self.refuse_link(link, &refusal),
        };
        let consumer = Consumer {
            message_size_max: attach.max_message_size.unwrap_or(0),
            attach: Some(attach),
            is_settled: spec.settled,
            is_stream: false,
            seen: 0,
            limit: 0,
            is_draining: false,
            is_drain_asked: false,
            stale_drains: 0,
            annotations: BTreeMap::new(),
            confirming: BTreeMap::new(),
            retired: BTreeMap::new(),
        };
        let port = self.ports.insert(link, PortState::Consumer(consumer));
        self.commands.push(Command::OpenConsumer {
            port,
            spec: Box::new(spec),
        });
    }

    pub(super) fn on_consumer_opened(&mut self, port: Port, opened: &ConsumerOpened) {
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let link = entry.link;
        let PortState::Consumer(consumer) = &mut entry.state else {
            return;
        };
        let Some(attach) = consumer.attach.take() else {
            return;
        };
        consumer.is_stream = opened.kind == NodeKind::Stream;
        let reply = consumer_reply(&attach, opened, self.config.connection.message_size_max);
        // Fails only when the connection is closing: nobody waits for the answer.
        let _ = self.conn.accept_link(link, reply);
        // A flow that came with the attach is in force already.
        self.update_permit(port);
    }

    pub(super) fn on_flow(&mut self, link: LinkId, drain: bool) {
        let Some(entry) = self.ports.entry_of(link) else {
            return;
        };
        let port = entry.port;
        let consumer = match &mut entry.state {
            PortState::Consumer(consumer) => consumer,
            PortState::Replies(_) => return self.on_replies_flow(port, drain),
            _ => return,
        };
        consumer.is_draining = drain;
        if !drain {
            consumer.stale_drains += u32::from(core::mem::take(&mut consumer.is_drain_asked));
        }
        self.update_permit(port);
    }

    /// Tells the broker how many deliveries this consumer can take: the link's credit, in slices of what the
    /// connection can hold unsent.
    pub(super) fn update_permit(&mut self, port: Port) {
        let slice = u64::from(self.config.permit_slice);
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let link = entry.link;
        let PortState::Consumer(consumer) = &mut entry.state else {
            return;
        };
        if consumer.attach.is_some() {
            return;
        }
        let credit = u64::from(self.conn.credit(link));
        if consumer.is_draining && credit == 0 {
            consumer.is_draining = false;
            consumer.stale_drains += u32::from(core::mem::take(&mut consumer.is_drain_asked));
            // Fails only when the link is on its way out.
            let _ = self.conn.drained(link);
            return;
        }
        let room = slice.saturating_sub(self.conn.unsent(link) as u64);
        let limit = consumer.seen + credit.min(room);
        // Without room the broker would answer at once that it delivered nothing more, and be asked again, for ever.
        let is_drain_due = consumer.is_draining && !consumer.is_drain_asked && room > 0;
        let ahead = consumer.limit.saturating_sub(consumer.seen);
        let is_worth_it = limit < consumer.limit
            || is_drain_due
            || (limit > consumer.limit
                && (ahead == 0 || limit - consumer.limit >= slice / 4 || credit <= slice / 4));
        if is_worth_it {
            consumer.limit = limit;
            // The broker answers every drain in turn, the older one under the older permit.
            consumer.stale_drains += u32::from(consumer.is_drain_asked);
            consumer.is_drain_asked = consumer.is_draining;
            self.commands.push(Command::Permit {
                port,
                limit,
                drain: consumer.is_draining,
            });
        }
        if credit > room && !self.thirsty.contains(&port) {
            self.thirsty.push(port);
        }
    }

    pub(super) fn on_deliver(&mut self, port: Port, delivered: Delivered) {
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let link = entry.link;
        let PortState::Consumer(consumer) = &mut entry.state else {
            return;
        };
        consumer.seen += 1;
        let token = delivered.delivery.0;
        if self.conn.credit(link) == 0 {
            // The peer took its credit back while this was on its way.
            if !consumer.is_settled {
                push_settle(&mut self.commands, port, token, Outcome::Released, false);
            }
            return;
        }
        let (head, rest) = self.head.write(&delivered, consumer.is_stream);
        let payload = rest.as_ref().unwrap_or(&delivered.message.payload);
        let size_max = consumer.message_size_max;
        if size_max > 0 && (head.len() + payload.len()) as u64 > size_max {
            return self.end_oversized(port, link);
        }
        let out = OutgoingDelivery {
            tag: tag_of(token),
            token,
            settled: consumer.is_settled,
            message_format: message_format(delivered.message.format),
            head,
            payload,
            batchable: false,
        };
        if self.conn.send(link, out).is_err() {
            // The link is on its way out: its end puts the message back.
            return;
        }
        // What is settled already never comes back.
        if let Some(annotations) = delivered.annotations.filter(|_| !consumer.is_settled) {
            consumer.annotations.insert(token, annotations);
        }
        if consumer.seen + u64::from(self.config.permit_slice) / 2 >= consumer.limit {
            self.update_permit(port);
        }
    }

    /// The next message is larger than the peer takes (part 2, 2.7.3): the link ends and the message goes to others.
    fn end_oversized(&mut self, port: Port, link: LinkId) {
        self.forget_port(port);
        self.commands.push(Command::Close {
            port,
            forget: false,
            lost: false,
        });
        let text = "the next message is larger than the max-message-size of this link";
        let error = refusal::error(condition::MESSAGE_SIZE_EXCEEDED, text);
        // Fails only when the peer's detach came in the same read: the link is gone either way.
        let _ = self.conn.detach(link, true, Some(error));
    }

    pub(super) fn on_drained(&mut self, port: Port) {
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let link = entry.link;
        let PortState::Consumer(consumer) = &mut entry.state else {
            return;
        };
        if consumer.stale_drains > 0 {
            consumer.stale_drains -= 1;
            if !consumer.is_drain_asked && consumer.stale_drains == 0 {
                // The drain was taken back meanwhile, but the broker counts the permit as used up all the same.
                consumer.limit = consumer.seen;
                self.update_permit(port);
            }
            return;
        }
        consumer.is_drain_asked = false;
        let is_slice_used_up = consumer.seen == consumer.limit;
        // The broker counts a drained permit as used up.
        consumer.limit = consumer.seen;
        if is_slice_used_up && self.conn.credit(link) > 0 {
            // The slice is used up, not the queue: go on as output drains.
            return self.update_permit(port);
        }
        consumer.is_draining = false;
        if is_planted(Bug::DrainUnanswered) {
            return;
        }
        // Fails only when the link is on its way out.
        let _ = self.conn.drained(link);
    }

    pub(super) fn on_outcome(
        &mut self,
        now: Now,
        link: LinkId,
        token: u64,
        state: Option<&DeliveryState>,
        settled: bool,
    ) {
        let Some(entry) = self.ports.entry_of(link) else {
            return;
        };
        let port = entry.port;
        let consumer = match &mut entry.state {
            PortState::Consumer(consumer) => consumer,
            PortState::Replies(_) => return self.on_reply_outcome(port, token, state, settled),
            _ => return,
        };
        if !settled && let Some(DeliveryState::Received { .. }) = state {
            // Not an outcome: the peer is still at work on it.
            return push_extend(&mut self.commands, port, token);
        }
        if let Some(retired) = consumer.retired.get_mut(&token) {
            // Its transaction decides. What else the peer says is that it forgets the delivery.
            if settled {
                retired.settle();
            }
            return;
        }
        if let Some(DeliveryState::Transactional { txn_id, outcome }) = state {
            return self.on_retired(now, link, token, txn_id, outcome.as_deref(), settled);
        }
        let outcome = match state {
            Some(state) => outcome_of(state),
            // Settled without a state: the message goes back untouched, so that it is neither lost nor held.
            None => settled.then_some(Outcome::Released),
        };
        let outcome = match outcome {
            Some(outcome) => outcome,
            None if settled => Outcome::Released,
            None => return,
        };
        if consumer.confirming.contains_key(&token) {
            // The outcome was applied at its first statement; now the peer settles too.
            return;
        }
        let earlier = consumer.annotations.remove(&token);
        let outcome = match outcome {
            Outcome::Modified { .. } => with_earlier(outcome, earlier.as_ref()),
            other => other,
        };
        if !settled && let Some(state) = state {
            consumer.confirming.insert(token, state.clone());
        }
        push_settle(&mut self.commands, port, token, outcome, !settled);
    }

    pub(super) fn on_settled(&mut self, port: Port, first: DeliveryId, last: DeliveryId) {
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let link = entry.link;
        let PortState::Consumer(consumer) = &mut entry.state else {
            return;
        };
        for token in first.0..=last.0 {
            if let Some(state) = consumer.confirming.remove(&token) {
                // Fails only when the peer settled meanwhile, or the link is on its way out.
                let _ = self.conn.settle_outgoing(link, token, Some(state));
            }
        }
    }

    /// The peer held deliveries for too long. They are settled for it, so that both sides forget them: what it says
    /// later is about nothing.
    pub(super) fn on_lock_lost(&mut self, port: Port, first: DeliveryId, last: DeliveryId) {
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let link = entry.link;
        let PortState::Consumer(consumer) = &mut entry.state else {
            return;
        };
        for token in first.0..=last.0 {
            consumer.annotations.remove(&token);
            consumer.confirming.remove(&token);
            // A transaction that was to settle it fails at its discharge.
            consumer.retired.remove(&token);
            let state = DeliveryState::Modified(Box::new(Modified {
                delivery_failed: true,
                ..Modified::default()
            }));
            // Fails only when the peer's settlement crossed the notice, or the link is on its way out.
            let _ = self.conn.settle_outgoing(link, token, Some(state));
        }
    }

    /// Tells a receiver of a queue with a single active consumer whether it is that, as other brokers do: a property of
    /// the link's flow.
    pub(super) fn on_activity(&mut self, port: Port, is_active: bool) {
        if let Some(entry) = self.ports.entry(port) {
            let state = vec![(Value::Symbol(ACTIVE), Value::Bool(is_active))];
            // Fails only when the link is on its way out.
            let _ = self.conn.tell_link_state(entry.link, state);
        }
    }
}

/// Property of flows: whether the receiver is the one that is served.
const ACTIVE: Symbol = Symbol::from_static("rabbitmq:active");
