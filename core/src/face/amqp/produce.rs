//! Links on which the peer sends: publishes up, verdicts and credit down.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use qq_proto_amqp::connection::{IncomingId, LinkId};
use qq_proto_amqp::performative::{AmqpError, Attach, DeliveryState, RcvSettleMode};
use qq_proto_amqp::types::Symbol;

use super::attach::{RELEASED, has_outcome, producer_reply, producer_spec};
use super::ports::{PortState, Producer, Unanswered};
use super::txn::id_of;
use super::{AmqpFace, publish, refusal};
use crate::broker::Now;
use crate::schema::Rule;
use crate::vocab::{
    Command, NodeKind, Port, ProducerOpened, Reason, RuleId, Ticket, TxnId, Verdict,
};

impl AmqpFace {
    pub(super) fn open_producer(&mut self, link: LinkId, attach: Box<Attach>) {
        let spec = match producer_spec(&self.container, &attach) {
            Ok(spec) => spec,
            Err(refusal) => return self.refuse_link(link, &refusal),
        };
        let is_second =
            self.config.senders_second && attach.rcv_settle_mode == RcvSettleMode::Second;
        let unfinished = is_second.then(BTreeSet::new);
        let producer = Producer {
            takes_released: has_outcome(&attach, &RELEASED),
            attach: Some(attach),
            name: String::new(),
            rule: None,
            is_exchange: false,
            first_ticket: 0,
            unanswered: VecDeque::new(),
            unfinished,
        };
        let port = self.ports.insert(link, PortState::Producer(producer));
        self.commands.push(Command::OpenProducer {
            port,
            spec: Box::new(spec),
        });
    }

    pub(super) fn on_producer_opened(&mut self, port: Port, opened: &ProducerOpened) {
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let link = entry.link;
        let PortState::Producer(producer) = &mut entry.state else {
            return;
        };
        let Some(attach) = producer.attach.take() else {
            return;
        };
        producer.name.clone_from(&opened.name);
        producer.rule.clone_from(&opened.rule);
        producer.is_exchange = opened.kind == NodeKind::Exchange;
        let mode = match producer.unfinished {
            Some(_) => RcvSettleMode::Second,
            None => RcvSettleMode::First,
        };
        let size_max = self.config.connection.message_size_max;
        let reply = producer_reply(&attach, opened, mode, size_max);
        // Fails only when the connection is closing: nobody waits for the answer.
        let _ = self.conn.accept_link(link, reply);
        self.replenish(port);
    }

    /// The transaction that a delivery belongs to.
    fn txn_of(&mut self, now: Now, state: Option<&DeliveryState>) -> Result<Option<u64>, Symbol> {
        match state {
            Some(DeliveryState::Transactional { txn_id, .. }) => {
                self.use_txn(now, txn_id).map(Some)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn on_delivery(
        &mut self,
        now: Now,
        link: LinkId,
        delivery: Option<IncomingId>,
        state: Option<Box<DeliveryState>>,
        message_format: u32,
        payload: Bytes,
    ) {
        let txn = self.txn_of(now, state.as_deref());
        let Some(entry) = self.ports.entry_of(link) else {
            return;
        };
        let port = entry.port;
        let producer = match &mut entry.state {
            PortState::Producer(producer) => producer,
            PortState::Coordinator { .. } => return self.on_control(now, link, delivery, &payload),
            PortState::Manager { .. } => {
                let is_transactional = !matches!(txn, Ok(None));
                return self.on_request(link, delivery, is_transactional, &payload);
            }
            PortState::Consumer(_) | PortState::Replies(_) => return,
        };
        let txn = match txn {
            Ok(txn) => txn,
            Err(condition) => return self.end_without_txn(port, link, condition),
        };
        let message = match publish::message_of(message_format, payload) {
            Ok(message) => message,
            Err(error) => {
                self.fail_txn(txn);
                let error = refusal::of_section(&error);
                return self.refuse_message(link, port, delivery, error);
            }
        };
        let mut vetted = RuleId::NONE;
        // What belongs to a transaction the broker checks, which has to remember that it failed.
        if let (Some(rule), None) = (&producer.rule, txn) {
            if let Err(unfit) = rule.check_message(&message) {
                let error = refusal::of_unfit(&unfit, &producer.name);
                return self.refuse_message(link, port, delivery, error);
            }
            vetted = rule.id;
        }
        let cost = u32::try_from(message.cost()).unwrap_or(u32::MAX);
        let ticket = Ticket(producer.first_ticket + producer.unanswered.len() as u64);
        producer.unanswered.push_back(Unanswered {
            delivery,
            cost,
            txn,
            is_answered: false,
        });
        self.unanswered += 1;
        self.unanswered_bytes += cost as usize;
        self.commands.push(match txn {
            None => Command::Publish {
                port,
                ticket,
                message,
                vetted,
            },
            Some(txn) => Command::Stage {
                port,
                ticket,
                txn: TxnId(txn),
                message,
            },
        });
    }

    pub(super) fn on_ruled(&mut self, port: Port, rule: Option<Arc<Rule>>) {
        if let Some(entry) = self.ports.entry(port)
            && let PortState::Producer(producer) = &mut entry.state
        {
            producer.rule = rule;
        }
    }

    /// A message that is none, or none for its queue: rejected; where the sender settled it and so cannot hear that, the link goes.
    fn refuse_message(
        &mut self,
        link: LinkId,
        port: Port,
        delivery: Option<IncomingId>,
        error: AmqpError,
    ) {
        match delivery {
            Some(delivery) => {
                self.settle_incoming(delivery, DeliveryState::Rejected(Some(Box::new(error))));
                self.replenish(port);
            }
            None => self.end_link(port, link, error),
        }
    }

    pub(super) fn on_confirm(
        &mut self,
        port: Port,
        first: Ticket,
        last: Ticket,
        verdict: &Verdict,
    ) {
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let PortState::Producer(producer) = &mut entry.state else {
            return;
        };
        for ticket in first.0..=last.0 {
            let Some(index) = ticket.checked_sub(producer.first_ticket) else {
                continue;
            };
            let Some(unanswered) = producer
                .unanswered
                .get_mut(usize::try_from(index).unwrap_or(usize::MAX))
            else {
                break;
            };
            if unanswered.is_answered {
                continue;
            }
            unanswered.is_answered = true;
            self.unanswered -= 1;
            self.unanswered_bytes -= unanswered.cost as usize;
            if let Some(delivery) = unanswered.delivery {
                let txn = unanswered.txn;
                let state = within(txn, state_of(verdict, producer));
                // Fails only when its session ended or the peer settled meanwhile: nobody is left to hear the verdict.
                let is_last = producer.unfinished.is_none();
                let told = self.conn.settle(delivery, state, is_last);
                if let (Some(unfinished), Ok(())) = (&mut producer.unfinished, told) {
                    unfinished.insert(delivery.id);
                }
            }
        }
        while producer
            .unanswered
            .front()
            .is_some_and(|unanswered| unanswered.is_answered)
        {
            producer.unanswered.pop_front();
            producer.first_ticket += 1;
        }
        self.replenish(port);
    }

    /// The peer settled one of its deliveries: the last step of the second mode (part 2, 2.6.12).
    pub(super) fn on_finished(&mut self, link: LinkId, delivery: IncomingId) {
        let Some(entry) = self.ports.entry_of(link) else {
            return;
        };
        let port = entry.port;
        if let PortState::Producer(producer) = &mut entry.state
            && let Some(unfinished) = &mut producer.unfinished
            && unfinished.remove(&delivery.id)
        {
            self.replenish(port);
        }
    }

    fn settle_incoming(&mut self, delivery: IncomingId, state: DeliveryState) {
        // Fails only when its session ended meanwhile: nobody is left to hear the verdict.
        let _ = self.conn.settle(delivery, state, true);
    }

    /// Gives credit back for answered messages, in halves of the window so that flows are rare.
    pub(super) fn replenish(&mut self, port: Port) {
        if self.is_pressed {
            return;
        }
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let link = entry.link;
        let PortState::Producer(producer) = &mut entry.state else {
            return;
        };
        if producer.attach.is_some() {
            return;
        }
        let unfinished = producer.unfinished.as_ref().map_or(0, BTreeSet::len);
        let held = producer.unanswered.len() + unfinished;
        let unanswered = u32::try_from(held).unwrap_or(u32::MAX);
        let target = self.config.credit_max.saturating_sub(unanswered);
        // The connection counts a delivery with its first frame, so that no credit in use is taken back.
        let credit = self.conn.credit(link);
        if target > credit && credit <= self.config.credit_max / 2 {
            // Flows of a window half full of unanswered messages would be one-credit trickles.
            let gain = target - credit;
            if gain >= self.config.credit_max / 4 || credit == 0 {
                // Fails only when the link is on its way out.
                let _ = self.conn.grant(link, target);
            }
        }
    }

    pub(super) fn on_pressure(&mut self, on: bool) {
        self.is_pressed = on;
        if !on {
            for port in self.ports.ports() {
                self.replenish(port);
            }
        }
    }
}

/// A state as it stands under a transaction (part 4, 4.4.1).
fn within(txn: Option<u64>, state: DeliveryState) -> DeliveryState {
    match txn {
        None => state,
        Some(txn) => DeliveryState::Transactional {
            txn_id: id_of(txn),
            outcome: Some(Box::new(state)),
        },
    }
}

fn state_of(verdict: &Verdict, producer: &Producer) -> DeliveryState {
    match verdict {
        Verdict::Accepted | Verdict::Duplicate => DeliveryState::Accepted,
        Verdict::Unroutable if producer.takes_released => DeliveryState::Released,
        Verdict::Unroutable => DeliveryState::Rejected(Some(Box::new(refusal::rejection(
            Reason::NotFound,
            &producer.name,
        )))),
        Verdict::Unfit(unfit) => {
            DeliveryState::Rejected(Some(Box::new(refusal::of_unfit(unfit, &producer.name))))
        }
        Verdict::Rejected(reason) => {
            DeliveryState::Rejected(Some(Box::new(refusal::rejection(*reason, &producer.name))))
        }
        Verdict::Full(queue) => {
            let exchange = producer.is_exchange.then_some(producer.name.as_str());
            DeliveryState::Rejected(Some(Box::new(refusal::full(queue, exchange))))
        }
    }
}
