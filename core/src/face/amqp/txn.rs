//! Transactions of AMQP 1.0 part 4: the coordinator, and what links of the connection do under a transaction.
//!
//! A transaction lives as long as its control link and may be used on every link of the connection. What it holds is with
//! the broker (publishes, settlements); here is what the peer has to hear: which deliveries end with the discharge. After
//! a roll-back, a delivery that the peer has not settled is still its own, to be settled anew; one that it has settled
//! goes back to the queue.
//!
//! One that nobody works in for too long is rolled back. Its id is remembered, so that whoever comes back to it hears
//! what became of it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use qq_proto_amqp::condition;
use qq_proto_amqp::connection::{IncomingId, LinkId, LinkReply};
use qq_proto_amqp::performative::{
    AmqpError, Attach, Coordinator, DeliveryState, RcvSettleMode, TargetKind,
};
use qq_proto_amqp::section::{BodyKind, Sections};
use qq_proto_amqp::types::{Described, Symbol, Value};

use super::attach::{REJECTED, has_outcome};
use super::ports::PortState;
use super::{AmqpFace, push_settle, refusal};
use crate::broker::Now;
use crate::vocab::{Command, DeliveryId, Outcome, Port, Refusal, TxnId};

const UNKNOWN_ID: Symbol = Symbol::from_static("amqp:transaction:unknown-id");
const ROLLBACK: Symbol = Symbol::from_static("amqp:transaction:rollback");
const TIMEOUT: Symbol = Symbol::from_static("amqp:transaction:timeout");

/// What the coordinator can do (part 4, 4.5.7).
const CAPABILITIES: [Symbol; 3] = [
    Symbol::from_static("amqp:local-transactions"),
    Symbol::from_static("amqp:multi-txns-per-ssn"),
    Symbol::from_static("amqp:multi-ssns-per-txn"),
];

const DECLARE: (u64, &str) = (0x31, "amqp:declare:list");
const DISCHARGE: (u64, &str) = (0x32, "amqp:discharge:list");

const TIMEOUT_TEXT: &str = "nothing was done in this transaction for too long; it is rolled back";

/// Messages to the coordinator that may be on their way.
const CONTROL_CREDIT: u32 = 64;

/// How many transactions a connection may have, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct TxnLimits {
    /// Open at a time.
    pub open_max: usize,
    /// One in which nothing is done for so long is rolled back.
    pub idle_timeout: Duration,
}

impl Default for TxnLimits {
    fn default() -> Self {
        Self {
            open_max: 256,
            idle_timeout: Duration::from_secs(300),
        }
    }
}

/// The transactions of a connection.
#[derive(Debug, Default)]
pub(super) struct Txns {
    open: BTreeMap<u64, OpenTxn>,
    next: u64,
    /// No transaction has to be looked at before: none is idle for long enough.
    look_at: Option<Duration>,
}

#[derive(Debug)]
struct OpenTxn {
    /// The control link's.
    port: Port,
    /// Deliveries with an outcome under it.
    retired: Vec<(Port, u64)>,
    /// One of its messages was refused before the broker saw it.
    is_failed: bool,
    /// When it was declared, or something was done under it.
    used_at: Duration,
    state: TxnState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TxnState {
    /// Work may be added.
    Open,
    /// The broker does it; the peer waits for the answer to this delivery.
    Committing(IncomingId),
    /// Rolled back; the peer has not heard of it.
    TimedOut,
}

/// An outcome that takes effect with a transaction.
#[derive(Debug)]
pub(super) struct Retired {
    outcome: DeliveryState,
    /// The peer forgot the delivery.
    is_settled: bool,
}

/// What a message to the coordinator asks.
#[derive(Debug, PartialEq)]
enum Asked {
    Declare { is_global: bool },
    Discharge { txn_id: Bytes, fail: bool },
}

impl AmqpFace {
    pub(super) fn open_coordinator(&mut self, link: LinkId, attach: Attach) {
        let target = Coordinator {
            capabilities: CAPABILITIES.to_vec(),
        };
        let takes_rejected = has_outcome(&attach, &REJECTED);
        let reply = LinkReply {
            source: attach.source,
            target: Some(TargetKind::Coordinator(target)),
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: RcvSettleMode::First,
            max_message_size: Some(self.config.connection.message_size_max),
            ..LinkReply::default()
        };
        self.ports.insert(
            link,
            PortState::Coordinator {
                used: 0,
                takes_rejected,
            },
        );
        // Both fail only when the connection is closing: nobody waits for the answer.
        let _ = self.conn.accept_link(link, reply);
        let _ = self.conn.grant(link, CONTROL_CREDIT);
    }

    /// A message to the coordinator.
    pub(super) fn on_control(
        &mut self,
        now: Now,
        link: LinkId,
        delivery: Option<IncomingId>,
        payload: &Bytes,
    ) {
        let Some(entry) = self.ports.entry_of(link) else {
            return;
        };
        let port = entry.port;
        let PortState::Coordinator { used, .. } = &mut entry.state else {
            return;
        };
        *used += 1;
        if *used >= CONTROL_CREDIT / 2 {
            *used = 0;
            // Fails only when the link is on its way out.
            let _ = self.conn.grant(link, CONTROL_CREDIT);
        }
        let Some(delivery) = delivery else {
            let text =
                "messages to the coordinator must not be settled: the outcome is their answer";
            return self.end_link(port, link, refusal::error(condition::NOT_ALLOWED, text));
        };
        match asked_of(payload) {
            Some(Asked::Declare { is_global }) => self.declare(now, port, delivery, is_global),
            Some(Asked::Discharge { txn_id, fail }) => {
                self.on_discharge(port, delivery, &txn_id, fail)
            }
            None => {
                let text = "the coordinator takes declare and discharge as the value of a message";
                let error = refusal::error(condition::DECODE_ERROR, text);
                self.refuse_control(port, delivery, error);
            }
        }
    }

    fn declare(&mut self, now: Now, port: Port, delivery: IncomingId, is_global: bool) {
        if is_global {
            let text = "distributed transactions are not offered; leave global-id out";
            let error = refusal::error(condition::NOT_IMPLEMENTED, text);
            return self.refuse_control(port, delivery, error);
        }
        if self.txns.open.len() >= self.config.txns.open_max {
            self.forget_timed_out();
        }
        if self.txns.open.len() >= self.config.txns.open_max {
            let text = "too many transactions are open on this connection; discharge some";
            let error = refusal::error(condition::RESOURCE_LIMIT_EXCEEDED, text);
            return self.refuse_control(port, delivery, error);
        }
        let txn = self.txns.next;
        self.txns.next += 1;
        self.txns.open.insert(
            txn,
            OpenTxn {
                port,
                retired: Vec::new(),
                is_failed: false,
                used_at: now.mono,
                state: TxnState::Open,
            },
        );
        let due = now.mono.saturating_add(self.config.txns.idle_timeout);
        self.txns.look_at.get_or_insert(due);
        self.answer(delivery, DeliveryState::Declared { txn_id: id_of(txn) });
    }

    /// Makes room: a transaction that timed out and that nobody came back to.
    fn forget_timed_out(&mut self) {
        let is_over = |(_, txn): &(&u64, &OpenTxn)| txn.state == TxnState::TimedOut;
        let oldest = self.txns.open.iter().find(is_over).map(|(id, _)| *id);
        if let Some(oldest) = oldest {
            self.txns.open.remove(&oldest);
        }
    }

    fn on_discharge(&mut self, port: Port, delivery: IncomingId, txn_id: &Bytes, fail: bool) {
        let known = number_of(txn_id)
            .and_then(|txn| Some((txn, self.txns.open.get_mut(&txn)?)))
            .filter(|(_, open)| open.port == port);
        let Some((txn, open)) = known else {
            let text = "this control link has no such transaction";
            return self.refuse_control(port, delivery, refusal::error(UNKNOWN_ID, text));
        };
        match open.state {
            TxnState::Open if fail || open.is_failed => {
                self.roll_back(txn);
                self.txns.open.remove(&txn);
                if fail {
                    self.answer(delivery, DeliveryState::Accepted);
                } else {
                    let text = "one of its messages was not valid";
                    self.refuse_control(port, delivery, refusal::error(ROLLBACK, text));
                }
            }
            TxnState::Open => {
                open.state = TxnState::Committing(delivery);
                let txn = TxnId(txn);
                self.commands.push(Command::Discharge { txn, fail });
            }
            TxnState::TimedOut => {
                self.txns.open.remove(&txn);
                if fail {
                    self.answer(delivery, DeliveryState::Accepted);
                } else {
                    let error = refusal::error(TIMEOUT, TIMEOUT_TEXT);
                    self.refuse_control(port, delivery, error);
                }
            }
            TxnState::Committing(_) => {
                let text = "this transaction is being discharged";
                self.refuse_control(port, delivery, refusal::error(UNKNOWN_ID, text));
            }
        }
    }

    /// The broker discharged a transaction. Roll-backs that the peer asked for were answered before.
    pub(super) fn on_discharged(&mut self, txn: TxnId, fault: Option<&Refusal>) {
        let Some(open) = self.txns.open.get(&txn.0) else {
            return;
        };
        let (TxnState::Committing(delivery), port) = (open.state, open.port) else {
            return;
        };
        let retired = self.txns.open.remove(&txn.0).map(|open| open.retired);
        for (port, token) in retired.into_iter().flatten() {
            self.end_retired(port, token, fault.is_none());
        }
        match fault {
            None => self.answer(delivery, DeliveryState::Accepted),
            Some(fault) => {
                let error = refusal::error(ROLLBACK, &fault.text);
                self.refuse_control(port, delivery, error);
            }
        }
    }

    /// The transaction of a delivery is over.
    fn end_retired(&mut self, port: Port, token: u64, is_done: bool) {
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let link = entry.link;
        let PortState::Consumer(consumer) = &mut entry.state else {
            return;
        };
        let Some(retired) = consumer.retired.remove(&token) else {
            return;
        };
        // The calls to the connection fail only when the peer settled meanwhile, or the link is on its way out.
        match (is_done, retired.is_settled) {
            (true, is_settled) => {
                consumer.annotations.remove(&token);
                if !is_settled {
                    let state = Some(retired.outcome);
                    let _ = self.conn.settle_outgoing(link, token, state);
                }
            }
            (false, true) => {
                consumer.annotations.remove(&token);
                let outcome = undone(&retired.outcome);
                push_settle(&mut self.commands, port, token, outcome, false);
            }
            (false, false) => {
                let _ = self.conn.reopen_outgoing(link, token);
            }
        }
    }

    /// Undoes what an open transaction holds.
    fn roll_back(&mut self, txn: u64) {
        let Some(open) = self.txns.open.get_mut(&txn) else {
            return;
        };
        let retired = std::mem::take(&mut open.retired);
        // First, so that what follows finds the deliveries free.
        self.commands.push(Command::Discharge {
            txn: TxnId(txn),
            fail: true,
        });
        for (port, token) in retired {
            self.end_retired(port, token, false);
        }
    }

    /// A control link is gone: what it has not discharged is rolled back (part 4, 4.3).
    pub(super) fn roll_back_all(&mut self, port: Port) {
        let of_link = |(_, txn): &(&u64, &OpenTxn)| txn.port == port;
        let txns: Vec<u64> = (self.txns.open.iter().filter(of_link))
            .map(|(id, _)| *id)
            .collect();
        for txn in txns {
            let state = self.txns.open.get(&txn).map(|open| open.state);
            if state == Some(TxnState::Open) {
                self.roll_back(txn);
            }
            // One that is being committed ends without anybody to tell, but its deliveries have to hear of it.
            if !matches!(state, Some(TxnState::Committing(_))) {
                self.txns.open.remove(&txn);
            }
        }
    }

    /// Rolls back what was idle for too long.
    pub(super) fn expire_txns(&mut self, now: Now) {
        if self.txns.look_at.is_none_or(|at| at > now.mono) {
            return;
        }
        let timeout = self.config.txns.idle_timeout;
        let mut idle = Vec::new();
        let mut next: Option<Duration> = None;
        for (txn, open) in &self.txns.open {
            let due = open.used_at.saturating_add(timeout);
            if open.state != TxnState::Open {
                continue;
            }
            if due <= now.mono {
                idle.push(*txn);
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        self.txns.look_at = next;
        for txn in idle {
            log::debug!("{}: transaction {txn} timed out", self.peer.address);
            self.roll_back(txn);
            if let Some(open) = self.txns.open.get_mut(&txn) {
                open.state = TxnState::TimedOut;
            }
        }
    }

    /// When [`AmqpFace::expire_txns`] wants to be called.
    pub(super) fn txns_due(&self) -> Option<Duration> {
        self.txns.look_at
    }

    /// The transaction that a state names, which is in use with this; an error when nothing may be added to it.
    pub(super) fn use_txn(&mut self, now: Now, txn_id: &Bytes) -> Result<u64, Symbol> {
        let known = number_of(txn_id).and_then(|txn| Some((txn, self.txns.open.get_mut(&txn)?)));
        match known {
            Some((txn, open)) if open.state == TxnState::Open => {
                open.used_at = now.mono;
                Ok(txn)
            }
            Some((_, open)) if open.state == TxnState::TimedOut => Err(TIMEOUT),
            _ => Err(UNKNOWN_ID),
        }
    }

    /// A message under this transaction was refused before the broker saw it.
    pub(super) fn fail_txn(&mut self, txn: Option<u64>) {
        if let Some(open) = txn.and_then(|txn| self.txns.open.get_mut(&txn)) {
            open.is_failed = true;
        }
    }

    /// Ends a link that named a transaction to which nothing can be added (part 4, 4.4.1).
    pub(super) fn end_without_txn(&mut self, port: Port, link: LinkId, condition: Symbol) {
        let text = if condition == TIMEOUT {
            TIMEOUT_TEXT
        } else {
            "there is no such transaction, or it is discharged"
        };
        self.end_link(port, link, refusal::error(condition, text));
    }

    /// Takes a link down for what the peer did on it.
    pub(super) fn end_link(&mut self, port: Port, link: LinkId, error: AmqpError) {
        self.roll_back_all(port);
        let entry = self.forget_port(port);
        let is_of_broker = entry.is_none_or(|entry| entry.state.is_of_broker());
        if is_of_broker {
            self.commands.push(Command::Close {
                port,
                forget: true,
                lost: false,
            });
        }
        // Fails only when the peer's detach came in the same read: the link is gone either way.
        let _ = self.conn.detach(link, true, Some(error));
    }

    /// An outcome under a transaction: the message stays with the consumer until the discharge (part 4, 4.4.2).
    pub(super) fn on_retired(
        &mut self,
        now: Now,
        link: LinkId,
        token: u64,
        txn_id: &Bytes,
        state: Option<&DeliveryState>,
        is_settled: bool,
    ) {
        // Settled without an outcome: the message goes back.
        let released = is_settled.then_some(&DeliveryState::Released);
        let Some(state) = state.or(released) else {
            return;
        };
        let Some(outcome) = super::outcome::outcome_of(state) else {
            return;
        };
        let txn = self.use_txn(now, txn_id);
        let Some(entry) = self.ports.entry_of(link) else {
            return;
        };
        let port = entry.port;
        let txn = match txn {
            Ok(txn) => txn,
            Err(condition) => return self.end_without_txn(port, link, condition),
        };
        let PortState::Consumer(consumer) = &mut entry.state else {
            return;
        };
        if consumer.confirming.contains_key(&token) {
            return;
        }
        let retired = Retired {
            outcome: state.clone(),
            is_settled,
        };
        consumer.retired.insert(token, retired);
        let outcome = super::outcome::with_earlier(outcome, consumer.annotations.get(&token));
        if let Some(open) = self.txns.open.get_mut(&txn) {
            open.retired.push((port, token));
        }
        push_stage(&mut self.commands, port, token, TxnId(txn), outcome);
    }

    fn answer(&mut self, delivery: IncomingId, state: DeliveryState) {
        // Fails only when its session ended meanwhile.
        let _ = self.conn.settle(delivery, state, true);
    }

    /// Refuses what the coordinator was asked: by the outcome, or by the end of the link where its source does not take
    /// `rejected` (part 4, 4.2 and 4.3).
    fn refuse_control(&mut self, port: Port, delivery: IncomingId, error: AmqpError) {
        let Some(entry) = self.ports.entry(port) else {
            return;
        };
        let link = entry.link;
        match entry.state {
            PortState::Coordinator {
                takes_rejected: true,
                ..
            } => self.answer(delivery, DeliveryState::Rejected(Some(Box::new(error)))),
            _ => self.end_link(port, link, error),
        }
    }
}

/// What becomes of a message whose consumer settled it under a transaction that was rolled back: the attempt counts,
/// unless all it wanted was to give the message back.
fn undone(outcome: &DeliveryState) -> Outcome {
    match outcome {
        DeliveryState::Released => Outcome::Released,
        _ => Outcome::Modified {
            failed: true,
            undeliverable_here: false,
            annotations: None,
        },
    }
}

impl Retired {
    pub(super) fn settle(&mut self) {
        self.is_settled = true;
    }
}

/// A transaction's id on the wire: eight bytes that are not used again on the connection.
pub(super) fn id_of(txn: u64) -> Bytes {
    Bytes::copy_from_slice(&txn.to_be_bytes())
}

fn number_of(txn_id: &Bytes) -> Option<u64> {
    Some(u64::from_be_bytes(txn_id[..].try_into().ok()?))
}

/// Appends a settlement under a transaction, as part of the last one when it continues it.
fn push_stage(commands: &mut Vec<Command>, port: Port, token: u64, txn: TxnId, outcome: Outcome) {
    if let Some(Command::StageSettle {
        port: last_port,
        last,
        txn: last_txn,
        outcome: last_outcome,
        ..
    }) = commands.last_mut()
        && (*last_port, *last_txn) == (port, txn)
        && last.0 + 1 == token
        && *last_outcome == outcome
    {
        last.0 = token;
        return;
    }
    let delivery = DeliveryId(token);
    commands.push(Command::StageSettle {
        port,
        first: delivery,
        last: delivery,
        txn,
        outcome,
    });
}

/// Reads a message to the coordinator: its value is a described list (part 4, 4.5.2 and 4.5.3).
fn asked_of(payload: &Bytes) -> Option<Asked> {
    let body = Sections::scan(payload).ok()?.body;
    if body.kind != BodyKind::Value {
        return None;
    }
    let (Value::Described(section), _) = Value::decode(&payload.slice(body.range)).ok()? else {
        return None;
    };
    let Value::Described(described) = section.value else {
        return None;
    };
    let Value::List(fields) = &described.value else {
        return None;
    };
    if is_described(&described, DECLARE) {
        let is_global = fields.first().is_some_and(|id| *id != Value::Null);
        return Some(Asked::Declare { is_global });
    }
    if !is_described(&described, DISCHARGE) {
        return None;
    }
    let Some(Value::Binary(txn_id)) = fields.first() else {
        return None;
    };
    let fail = match fields.get(1) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(fail)) => *fail,
        Some(_) => return None,
    };
    Some(Asked::Discharge {
        txn_id: Bytes::copy_from_slice(txn_id),
        fail,
    })
}

fn is_described(described: &Described, (code, name): (u64, &str)) -> bool {
    match &described.descriptor {
        Value::Ulong(number) => *number == code,
        Value::Symbol(symbol) => symbol.as_str() == name,
        _ => false,
    }
}
