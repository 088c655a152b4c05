//! Consumers: CONSUME and UNSUBSCRIBE, how many deliveries the broker may make, and the deliveries themselves.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use qq_proto_binary::connection::{Delivery, ReplyTo, UsageError};
use qq_proto_binary::error::{ErrorCode, text};
use qq_proto_binary::message::{ConsumeRequest, ConsumerClosed, UnsubscribeRequest};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::stored::Stored;

use super::ports::{Consumer, PortState};
use super::settle::push_settle;
use super::{BinaryFace, held, refusal};
use crate::face::mapping;
use crate::vocab::{
    Address, Command, ConsumerOpened, ConsumerSpec, Delivered, Format, LockSpec, Outcome, Port,
    Refusal, StreamRead, SubscriptionSpec,
};

/// What a prefetch of 0 means.
const PREFETCH: u32 = 100;
/// Bytes that wait for the socket, above which the broker gets no new permits.
const UNSENT_MAX: usize = 256 * 1024;

/// A message as a record of the protocol. None: it cannot be read.
pub(super) fn record_of(delivered: &Delivered) -> Option<Cow<'_, Bytes>> {
    match delivered.message.format {
        Format::Binary => Some(Cow::Borrowed(&delivered.message.payload)),
        Format::Amqp(_) => {
            let id = format!("{}-{}", delivered.queue.0, delivered.seq.0);
            mapping::record_of(&delivered.message.payload, &id).map(Cow::Owned)
        }
    }
}

/// Where a consumer takes its messages from: a group has a name.
fn source(queue: String, group: String) -> Address {
    match group.is_empty() {
        true => Address::QueueOrNew(queue),
        false => Address::Group {
            queue,
            name: group,
            may_make_queue: true,
        },
    }
}

impl BinaryFace {
    pub(super) fn on_consume(&mut self, reply_to: ReplyTo, request: ConsumeRequest) {
        let group = request.group.unwrap_or_default();
        let whose = (request.queue.clone(), group.clone());
        let prefetch = match request.prefetch {
            0 => PREFETCH,
            asked => asked,
        };
        let asked_ms = u64::from(request.visibility_timeout) * 1_000;
        let lock = LockSpec {
            asked_ms: (asked_ms > 0).then_some(asked_ms),
            fallback_ms: Some(self.config.lock_timeout_ms),
        };
        let prefetch = u64::from(prefetch.min(self.config.prefetch_max));
        if let Some(port) = self.consumers.get(&whose).copied()
            && let Some(consumer) = self.ports.consumer(port)
        {
            consumer.prefetch = prefetch;
            if std::mem::replace(&mut consumer.lock, lock) != lock {
                self.commands.push(Command::Relock { port, lock });
            }
            consumer.is_auto = request.auto_ack;
            if consumer.is_open {
                self.update_permit(port);
                self.reply(reply_to, &Reply::Done);
            } else {
                consumer.waiting.push(reply_to);
            }
            return;
        }
        if self.consumers.len() + self.readers.len() >= self.config.consumers_max {
            let text = "too many consumers on this connection";
            return self.refuse(reply_to, ErrorCode::Failed, text);
        }
        let port = self.ports.insert(PortState::Consumer(Consumer {
            queue: request.queue.clone(),
            group: group.clone(),
            is_reader: false,
            prefetch,
            lock,
            is_auto: request.auto_ack,
            is_open: false,
            waiting: vec![reply_to],
            seen: 0,
            ended: 0,
            limit: 0,
            confirming: BTreeMap::new(),
        }));
        self.commands.push(Command::OpenConsumer {
            port,
            spec: Box::new(ConsumerSpec {
                key: None,
                address: source(request.queue, group),
                browse: false,
                // Messages that count as acknowledged are settled by the face, since a consumer may change its mind.
                settled: false,
                default_outcome: Outcome::Released,
                filter: None,
                stream: StreamRead::default(),
                subscription: SubscriptionSpec::default(),
                lock,
            }),
        });
        self.consumers.insert(whose, port);
    }

    pub(super) fn on_consumer_opened(&mut self, port: Port, opened: &ConsumerOpened) {
        let Some(consumer) = self.ports.consumer(port) else {
            return;
        };
        consumer.is_open = true;
        let waiting = std::mem::take(&mut consumer.waiting);
        if consumer.is_reader {
            self.answer_seek(waiting, opened);
        } else {
            for reply_to in waiting {
                self.reply(reply_to, &Reply::Done);
            }
        }
        self.update_permit(port);
    }

    pub(super) fn on_unsubscribe(&mut self, reply_to: ReplyTo, request: &UnsubscribeRequest) {
        let group = request.group.clone().unwrap_or_default();
        let Some(port) = self.consumers.remove(&(request.queue.clone(), group)) else {
            if self.stop_reading(&request.queue) {
                return self.reply(reply_to, &Reply::Done);
            }
            return self.refuse(reply_to, ErrorCode::NotFound, text::CONSUMER_NOT_FOUND);
        };
        if let Some(PortState::Consumer(consumer)) = self.ports.remove(port) {
            self.held.forget(port);
            self.commands.push(Command::Close {
                port,
                forget: true,
                lost: false,
            });
            self.release_waiting(port, consumer);
        }
        self.reply(reply_to, &Reply::Done);
    }

    /// The broker ended a consumer, or never made it.
    pub(super) fn end_consumer(&mut self, port: Port, mut consumer: Consumer, refusal: &Refusal) {
        match consumer.is_reader {
            true => self.readers.remove(&consumer.queue),
            false => (self.consumers).remove(&(consumer.queue.clone(), consumer.group.clone())),
        };
        self.held.forget(port);
        if consumer.is_open {
            let closed = ConsumerClosed {
                queue: consumer.queue.clone(),
                group: consumer.group.clone(),
                code: refusal::code_of(refusal.reason).number(),
                message: refusal.text.clone(),
            };
            // Fails only when the connection is closing: nobody is left to hear it.
            let _ = self.conn.close_consumer(&closed);
        } else {
            for reply_to in std::mem::take(&mut consumer.waiting) {
                self.refuse_with(reply_to, refusal);
            }
        }
        self.release_waiting(port, consumer);
    }

    /// Answers those who wait for something of a consumer that is gone. Its settlements were executed before it went, and
    /// are answered when they are durable.
    pub(super) fn release_waiting(&mut self, port: Port, consumer: Consumer) {
        for reply_to in consumer.waiting {
            self.reply(reply_to, &Reply::Done);
        }
        if !consumer.confirming.is_empty() {
            self.departed.insert(port, consumer.confirming);
        }
    }

    /// Tells the broker how many deliveries a consumer can take: its prefetch, in slices of what the connection holds
    /// unsent.
    pub(super) fn update_permit(&mut self, port: Port) {
        let unsent = self.conn.unsent_bytes();
        let slice = u64::from(self.config.permit_slice);
        let Some(consumer) = self.ports.consumer(port) else {
            return;
        };
        if !consumer.is_open {
            return;
        }
        let room = if unsent < UNSENT_MAX { slice } else { 0 };
        // A reader of a stream is held back by its socket alone.
        let wanted = match consumer.is_reader {
            true => u64::MAX,
            false => consumer.ended + consumer.prefetch,
        };
        let limit = wanted.min(consumer.seen + room);
        let ahead = consumer.limit.saturating_sub(consumer.seen);
        let step = (slice.min(wanted - consumer.ended) / 4).max(1);
        let is_worth_it = limit > consumer.limit && (ahead == 0 || limit - consumer.limit >= step);
        // Lowered when the prefetch was.
        let is_too_much = consumer.limit > wanted.max(consumer.seen);
        if is_worth_it || is_too_much {
            consumer.limit = limit.max(consumer.seen);
            self.commands.push(Command::Permit {
                port,
                limit: consumer.limit,
                drain: false,
            });
        }
        if wanted > consumer.seen + room && !self.thirsty.contains(&port) {
            self.thirsty.push(port);
        }
    }

    pub(super) fn on_deliver(&mut self, port: Port, delivered: &Delivered) {
        let Some(consumer) = self.ports.consumer(port) else {
            return;
        };
        consumer.seen += 1;
        let token = delivered.delivery.0;
        let record = record_of(delivered);
        let stored = record
            .as_deref()
            .and_then(|record| Stored::read(record).ok());
        let sent = stored.as_ref().map(|stored| {
            self.conn.deliver(&Delivery {
                stored,
                queue: &consumer.queue,
                attempt: delivered.delivery_count.saturating_add(1),
                delivery_id: self.held.next_id(),
                group: &consumer.group,
            })
        });
        match sent {
            Some(Ok(())) if !consumer.is_auto => {
                let id = stored.map_or("", |stored| stored.message_id);
                self.held.push(held::Delivery {
                    port,
                    token,
                    message_id: held::MessageId::new(id),
                });
            }
            Some(Ok(())) => {
                self.held.skip();
                consumer.ended += 1;
                push_settle(&mut self.commands, port, token, Outcome::Accepted);
            }
            // The connection is closing: its end puts the message back.
            Some(Err(error)) if error != UsageError::TooLarge => return,
            // Too large for the peer's layout, or no message at all: it would be the same the next time.
            _ => {
                consumer.ended += 1;
                let text = "the message does not fit a frame of its consumer";
                let reason = Some((
                    Bytes::from_static(b"undeliverable"),
                    Bytes::from_static(text.as_bytes()),
                ));
                let outcome = Outcome::Rejected { reason };
                push_settle(&mut self.commands, port, token, outcome);
            }
        }
        let step = u64::from(self.config.permit_slice) / 2;
        if consumer.seen + step >= consumer.limit {
            self.update_permit(port);
        }
    }
}
