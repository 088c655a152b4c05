//! How deliveries end: ACK, NACK, and time; and how they are kept for longer: EXTEND_VISIBILITY.
//!
//! The broker counts the time. What it took back is not held here any more, so a late ACK finds no message; one that was
//! on its way up at that moment, and whose success somebody waits for, is answered so as well.

use std::ops::RangeInclusive;

use qq_proto_binary::connection::ReplyTo;
use qq_proto_binary::error::{ErrorCode, text};
use qq_proto_binary::message::{AckRequest, ExtendVisibilityRequest, NackRequest};
use qq_proto_binary::reply::Reply;

use super::BinaryFace;
use crate::planted::{Bug, is_planted};
use crate::vocab::{Command, DeliveryId, Outcome, Port};

/// An ACK or NACK whose success the peer wants to hear.
#[derive(Debug)]
pub(super) struct Settling {
    reply_to: ReplyTo,
    /// Settlements that are not durable yet.
    left: usize,
    /// The broker had taken a message back before.
    is_late: bool,
}

/// A delivery counts as failed.
const FAILED: Outcome = Outcome::Modified {
    failed: true,
    undeliverable_here: false,
    annotations: None,
};

/// Deliveries of one consumer that the broker numbered one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    port: Port,
    first: u64,
    last: u64,
}

impl Run {
    const fn of(port: Port, token: u64) -> Self {
        Self {
            port,
            first: token,
            last: token,
        }
    }
}

/// Adds deliveries to the last of some runs, or begins another.
fn extend_runs(runs: &mut Vec<Run>, next: Run) {
    match runs.last_mut() {
        Some(run) if run.port == next.port && run.last + 1 == next.first => run.last = next.last,
        _ => runs.push(next),
    }
}

/// Appends a settlement that nobody waits for, as part of the last one when it continues it.
pub(super) fn push_settle(commands: &mut Vec<Command>, port: Port, token: u64, outcome: Outcome) {
    push_run(commands, Run::of(port, token), outcome);
}

fn push_run(commands: &mut Vec<Command>, run: Run, outcome: Outcome) {
    if let Some(Command::Settle {
        port: last_port,
        last,
        outcome: last_outcome,
        confirm: false,
        ..
    }) = commands.last_mut()
        && *last_port == run.port
        && last.0 + 1 == run.first
        && outcome == Outcome::Accepted
        && *last_outcome == outcome
    {
        last.0 = run.last;
        return;
    }
    commands.push(Command::Settle {
        port: run.port,
        first: DeliveryId(run.first),
        last: DeliveryId(run.last),
        outcome,
        confirm: false,
    });
}

impl BinaryFace {
    pub(super) fn on_ack(&mut self, reply_to: ReplyTo, ack: &AckRequest) {
        let named = self.named(&ack.message_id, ack.delivery_id, ack.delivery_id_last);
        self.settle(reply_to, named, &Outcome::Accepted);
    }

    pub(super) fn on_nack(&mut self, reply_to: ReplyTo, nack: &NackRequest) {
        let named = self.named(&nack.message_id, nack.delivery_id, nack.delivery_id_last);
        let outcome = if nack.requeue {
            FAILED
        } else {
            Outcome::Rejected { reason: None }
        };
        self.settle(reply_to, named, &outcome);
    }

    pub(super) fn on_extend(&mut self, reply_to: ReplyTo, extend: &ExtendVisibilityRequest) {
        let named = self.named(&extend.message_id, extend.delivery_id, 0);
        let Some(delivery) = named.and_then(|numbers| self.held.first_in(numbers)) else {
            return self.refuse(reply_to, ErrorCode::NotFound, text::MESSAGE_NOT_FOUND);
        };
        let (port, token) = (delivery.port, DeliveryId(delivery.token));
        let ask = self.await_answer(reply_to);
        self.commands.push(Command::Extend {
            port,
            first: token,
            last: token,
            lock_ms: Some(u64::from(extend.extension_seconds) * 1_000),
            ask: Some(ask),
        });
    }

    /// The numbers of the deliveries that a request names.
    fn named(&mut self, message_id: &str, first: u64, last: u64) -> Option<RangeInclusive<u64>> {
        match (first, last) {
            (0, _) => self.held.latest_of(message_id).map(|id| id..=id),
            // Without a last one it is the first alone; backwards names nothing.
            (_, 0) => Some(first..=first),
            _ => Some(first..=last + u64::from(is_planted(Bug::AckTooWide))),
        }
    }

    fn settle(&mut self, reply_to: ReplyTo, named: Option<RangeInclusive<u64>>, outcome: &Outcome) {
        let mut runs = Vec::new();
        if let Some(numbers) = named {
            self.held.take(numbers, |delivery| {
                extend_runs(&mut runs, Run::of(delivery.port, delivery.token));
            });
        }
        if runs.is_empty() {
            return self.refuse(reply_to, ErrorCode::NotFound, text::MESSAGE_NOT_FOUND);
        }
        if runs.len() > 1 {
            // Deliveries of several consumers alternate.
            runs.sort_unstable();
            let mut joined = Vec::new();
            runs.into_iter()
                .for_each(|run| extend_runs(&mut joined, run));
            runs = joined;
        }
        if reply_to.is_confirmed() {
            self.settle_confirmed(reply_to, &runs, outcome);
        } else {
            for run in &runs {
                push_run(&mut self.commands, *run, outcome.clone());
            }
            self.reply(reply_to, &Reply::Done);
        }
        self.count_ended(&runs);
    }

    /// Settles runs, and answers when the last one is durable.
    fn settle_confirmed(&mut self, reply_to: ReplyTo, runs: &[Run], outcome: &Outcome) {
        let key = self.settling.insert(Settling {
            reply_to,
            left: runs.len(),
            is_late: false,
        });
        for run in runs {
            self.commands.push(Command::Settle {
                port: run.port,
                first: DeliveryId(run.first),
                last: DeliveryId(run.last),
                outcome: outcome.clone(),
                confirm: true,
            });
            match self.ports.consumer(run.port) {
                Some(consumer) => {
                    consumer.confirming.insert(run.last, (run.first, key));
                }
                None => self.end_settling(key),
            }
        }
    }

    fn count_ended(&mut self, runs: &[Run]) {
        for of_port in runs.chunk_by(|run, next| run.port == next.port) {
            let port = of_port[0].port;
            if let Some(consumer) = self.ports.consumer(port) {
                let count: u64 = of_port.iter().map(|run| run.last - run.first + 1).sum();
                consumer.ended += count;
                self.update_permit(port);
            }
        }
    }

    pub(super) fn on_settled(&mut self, port: Port, first: DeliveryId, last: DeliveryId) {
        let confirming = match self.ports.consumer(port) {
            Some(consumer) => Some(&mut consumer.confirming),
            None => self.departed.get_mut(&port),
        };
        let Some(confirming) = confirming else {
            return;
        };
        let mut later = confirming.split_off(&first.0);
        let mut rest = later.split_off(&(last.0 + 1));
        confirming.append(&mut rest);
        self.departed.retain(|_, left| !left.is_empty());
        for (_, key) in later.into_values() {
            self.end_settling(key);
        }
    }

    /// One settlement of an ACK or NACK is durable.
    pub(super) fn end_settling(&mut self, key: usize) {
        let Some(settling) = self.settling.get_mut(key) else {
            return;
        };
        settling.left -= 1;
        if settling.left == 0 {
            let Settling {
                reply_to, is_late, ..
            } = self.settling.remove(key);
            if is_late {
                return self.refuse(reply_to, ErrorCode::NotFound, text::MESSAGE_NOT_FOUND);
            }
            self.reply(reply_to, &Reply::Done);
        }
    }

    /// The broker took deliveries back whose time was over.
    pub(super) fn on_lock_lost(&mut self, port: Port, first: DeliveryId, last: DeliveryId) {
        let mut runs = Vec::new();
        for id in self.held.of_broker(port, first.0..=last.0) {
            self.held.take(id..=id, |delivery| {
                extend_runs(&mut runs, Run::of(port, delivery.token));
            });
        }
        if let Some(consumer) = self.ports.consumer(port) {
            for (_, (from, key)) in consumer.confirming.range(first.0..) {
                if *from <= last.0
                    && let Some(settling) = self.settling.get_mut(*key)
                {
                    settling.is_late = true;
                }
            }
        }
        self.count_ended(&runs);
    }
}
