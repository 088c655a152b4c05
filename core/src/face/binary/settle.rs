//! How deliveries end: ACK, NACK, and time; and how they are kept for longer: EXTEND_VISIBILITY.
//!
//! The broker counts the time. What it took back is not held here any more, so a late ACK finds no message; one that was
//! on its way up at that moment, and whose success somebody waits for, is answered so as well.

use qq_proto_binary::connection::ReplyTo;
use qq_proto_binary::error::{ErrorCode, text};
use qq_proto_binary::message::{AckRequest, ExtendVisibilityRequest, NackRequest};
use qq_proto_binary::reply::Reply;

use super::BinaryFace;
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

/// Appends a settlement that nobody waits for, as part of the last one when it continues it.
pub(super) fn push_settle(commands: &mut Vec<Command>, port: Port, token: u64, outcome: Outcome) {
    if let Some(Command::Settle {
        port: last_port,
        last,
        outcome: last_outcome,
        confirm: false,
        ..
    }) = commands.last_mut()
        && *last_port == port
        && last.0 + 1 == token
        && outcome == Outcome::Accepted
        && *last_outcome == outcome
    {
        last.0 = token;
        return;
    }
    let delivery = DeliveryId(token);
    commands.push(Command::Settle {
        port,
        first: delivery,
        last: delivery,
        outcome,
        confirm: false,
    });
}

impl BinaryFace {
    pub(super) fn on_ack(&mut self, reply_to: ReplyTo, ack: &AckRequest) {
        let ids = self.named(&ack.message_id, ack.delivery_id, ack.delivery_id_last);
        self.settle(reply_to, &ids, &Outcome::Accepted);
    }

    pub(super) fn on_nack(&mut self, reply_to: ReplyTo, nack: &NackRequest) {
        let ids = self.named(&nack.message_id, nack.delivery_id, nack.delivery_id_last);
        let outcome = if nack.requeue {
            FAILED
        } else {
            Outcome::Rejected { reason: None }
        };
        self.settle(reply_to, &ids, &outcome);
    }

    pub(super) fn on_extend(&mut self, reply_to: ReplyTo, extend: &ExtendVisibilityRequest) {
        let ids = self.named(&extend.message_id, extend.delivery_id, 0);
        let Some(delivery) = ids.first().and_then(|id| self.held.delivery(*id)) else {
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

    /// The deliveries that a request names, in their order.
    fn named(&mut self, message_id: &str, first: u64, last: u64) -> Vec<u64> {
        if first > 0 {
            // Backwards names nothing; without a last one it is the first alone.
            return match last {
                0 => self.held.ids_in(first..=first),
                last if last < first => Vec::new(),
                last => self.held.ids_in(first..=last),
            };
        }
        self.held.latest_of(message_id).into_iter().collect()
    }

    fn settle(&mut self, reply_to: ReplyTo, ids: &[u64], outcome: &Outcome) {
        if ids.is_empty() {
            return self.refuse(reply_to, ErrorCode::NotFound, text::MESSAGE_NOT_FOUND);
        }
        let mut ended: Vec<(Port, u64)> = ids
            .iter()
            .filter_map(|id| self.held.take(*id))
            .map(|delivery| (delivery.port, delivery.token))
            .collect();
        ended.sort_unstable();
        if reply_to.is_confirmed() {
            self.settle_confirmed(reply_to, &ended, outcome);
        } else {
            for (port, token) in &ended {
                push_settle(&mut self.commands, *port, *token, outcome.clone());
            }
            self.reply(reply_to, &Reply::Done);
        }
        self.count_ended(&ended);
    }

    /// Settles in as few ranges as there are, and answers when the last one is durable.
    fn settle_confirmed(&mut self, reply_to: ReplyTo, ended: &[(Port, u64)], outcome: &Outcome) {
        let runs = ended
            .chunk_by(|(port, token), (next_port, next)| port == next_port && *token + 1 == *next);
        let left = runs.clone().count();
        let key = self.settling.insert(Settling {
            reply_to,
            left,
            is_late: false,
        });
        for run in runs {
            let (port, last) = run[run.len() - 1];
            self.commands.push(Command::Settle {
                port,
                first: DeliveryId(run[0].1),
                last: DeliveryId(last),
                outcome: outcome.clone(),
                confirm: true,
            });
            match self.ports.consumer(port) {
                Some(consumer) => {
                    consumer.confirming.insert(last, (run[0].1, key));
                }
                None => self.end_settling(key),
            }
        }
    }

    fn count_ended(&mut self, ended: &[(Port, u64)]) {
        for run in ended.chunk_by(|(port, _), (next, _)| port == next) {
            let port = run[0].0;
            if let Some(consumer) = self.ports.consumer(port) {
                consumer.ended += run.len() as u64;
                self.update_permit(port);
            }
        }
    }

    pub(super) fn on_settled(&mut self, port: Port, first: DeliveryId, last: DeliveryId) {
        let Some(consumer) = self.ports.consumer(port) else {
            return;
        };
        let mut later = consumer.confirming.split_off(&first.0);
        let mut rest = later.split_off(&(last.0 + 1));
        consumer.confirming.append(&mut rest);
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
        let mut ended = Vec::new();
        for id in self.held.of_broker(port, first.0..=last.0) {
            ended.extend(self.held.take(id).map(|delivery| (port, delivery.token)));
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
        self.count_ended(&ended);
    }
}
