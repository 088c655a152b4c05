//! Messages in: PUBLISH and PUBLISH_BATCH become publishes, verdicts become answers.

use bytes::Bytes;
use qq_proto_binary::connection::ReplyTo;
use qq_proto_binary::error::{ErrorCode, text};
use qq_proto_binary::message::{
    PublishBatchRequest, PublishBatchResponse, PublishRequest, PublishResponse, PublishResult,
};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::stored;

use super::ports::{PortState, Producer};
use super::{BinaryFace, refusal};
use crate::broker::Now;
use crate::vocab::{
    Address, Command, DEDUP_ID_LEN_MAX, Delay, Envelope, Format, Message, Port, ProducerSpec,
    Refusal, RuleId, Ticket, Verdict, Wishes,
};

/// Part 3, 3.2.1 of AMQP: the priority of a message that names none.
const DEFAULT_PRIORITY: u8 = 4;
/// Queues that a connection keeps open to publish to, above which those without a publish on its way are closed.
const PRODUCERS_KEPT_MAX: usize = 128;
/// Queues with publishes on their way.
const PRODUCERS_MAX: usize = 2_048;

/// One publish without a verdict.
#[derive(Debug)]
pub(super) struct Unanswered {
    /// Bytes that it holds of the face's window.
    cost: usize,
    /// By which its queue may know it already.
    key: Option<Bytes>,
    whose: Whose,
}

/// Who waits for the verdict.
#[derive(Debug)]
pub(super) enum Whose {
    /// A PUBLISH, and the id of its message.
    One(ReplyTo, String),
    /// A message of a PUBLISH_BATCH: the batch, and its place in it.
    Part(usize, usize),
    /// A CALL, by its correlation id.
    Call(String),
}

/// A PUBLISH_BATCH of which not all messages have their verdict.
#[derive(Debug)]
pub(super) struct Batch {
    reply_to: ReplyTo,
    /// With the ids of those messages that may still be taken.
    results: Vec<PublishResult>,
    left: usize,
}

/// A reason not to try a publish at all.
pub(super) type Obstacle = (ErrorCode, String);

impl BinaryFace {
    pub(super) fn on_publish(&mut self, now: Now, reply_to: ReplyTo, mut publish: PublishRequest) {
        if let Err((code, text)) = self.check_publish(&publish) {
            return self.refuse(reply_to, code, &text);
        }
        let vetted = match self.vet(&publish.queue, &publish.payload) {
            Ok(vetted) => vetted,
            Err((code, text)) => return self.refuse(reply_to, code, &text),
        };
        let message_id = self.id_of(now, &mut publish);
        let message = message_of(now, &publish, &message_id);
        let whose = Whose::One(reply_to, message_id);
        self.send(publish.queue, message, vetted, whose);
    }

    pub(super) fn on_publish_batch(
        &mut self,
        now: Now,
        reply_to: ReplyTo,
        request: PublishBatchRequest,
    ) {
        let count = request.messages.len();
        let key = self.batches.insert(Batch {
            reply_to,
            results: vec![PublishResult::default(); count],
            // One more, so that the batch lives until all of it is looked at.
            left: count + 1,
        });
        for (at, mut publish) in request.messages.into_iter().enumerate() {
            let checked = self.check_publish(&publish);
            let vetted = match checked.and_then(|()| self.vet(&publish.queue, &publish.payload)) {
                Ok(vetted) => vetted,
                Err((code, text)) => {
                    self.end_part(key, at, Some((code, &text)));
                    continue;
                }
            };
            let message_id = self.id_of(now, &mut publish);
            let message = message_of(now, &publish, &message_id);
            if let Some(batch) = self.batches.get_mut(key) {
                batch.results[at].message_id = message_id;
            }
            self.send(publish.queue, message, vetted, Whose::Part(key, at));
        }
        self.finish_part(key);
    }

    fn check_publish(&self, publish: &PublishRequest) -> Result<(), Obstacle> {
        if self.is_pressed {
            return Err((ErrorCode::Failed, text::MEMORY_PRESSURE.to_owned()));
        }
        let key = publish.idempotency_key.as_ref();
        if key.is_some_and(|key| key.len() > DEDUP_ID_LEN_MAX) {
            let text =
                format!("invalid request: an idempotency_key has {DEDUP_ID_LEN_MAX} bytes at most");
            return Err((ErrorCode::InvalidRequest, text));
        }
        Ok(())
    }

    fn id_of(&mut self, now: Now, publish: &mut PublishRequest) -> String {
        match publish.message_id.take() {
            Some(id) if !id.is_empty() => id,
            _ => self.ids.next(now.wall_ms),
        }
    }

    /// Hands a message to the broker.
    pub(super) fn send(&mut self, queue: String, message: Message, vetted: RuleId, whose: Whose) {
        let port = match self.producers.get(&queue) {
            Some(port) => *port,
            None => match self.open_producer(queue) {
                Some(port) => port,
                None => {
                    let text = "too many queues with messages on their way";
                    return self.conclude(whose, Some((ErrorCode::Failed, text)));
                }
            },
        };
        let cost = message.cost();
        let key = message.envelope.dedup_id().cloned();
        let Some(producer) = self.ports.producer(port) else {
            return;
        };
        let ticket = Ticket(producer.first_ticket + producer.unanswered.len() as u64);
        producer
            .unanswered
            .push_back(Some(Unanswered { cost, key, whose }));
        self.unanswered += 1;
        self.unanswered_bytes += cost;
        self.commands.push(Command::Publish {
            port,
            ticket,
            message: message.share(),
            vetted,
        });
    }

    fn open_producer(&mut self, queue: String) -> Option<Port> {
        if self.producers.len() >= PRODUCERS_KEPT_MAX {
            self.close_idle_producers();
        }
        if self.producers.len() >= PRODUCERS_MAX {
            return None;
        }
        let port = self.ports.insert(PortState::Producer(Producer {
            queue: queue.clone(),
            rule: None,
            first_ticket: 0,
            unanswered: std::collections::VecDeque::new(),
        }));
        self.commands.push(Command::OpenProducer {
            port,
            spec: Box::new(ProducerSpec {
                key: None,
                address: Address::QueueOrNew(queue.clone()),
            }),
        });
        self.producers.insert(queue, port);
        Some(port)
    }

    fn close_idle_producers(&mut self) {
        let (ports, commands) = (&mut self.ports, &mut self.commands);
        self.producers.retain(|_, port| {
            let is_idle = ports
                .producer(*port)
                .is_none_or(|producer| producer.unanswered.is_empty());
            if is_idle {
                ports.remove(*port);
                commands.push(Command::Close {
                    port: *port,
                    forget: true,
                    lost: false,
                });
            }
            !is_idle
        });
    }

    pub(super) fn on_confirm(
        &mut self,
        port: Port,
        first: Ticket,
        last: Ticket,
        verdict: &Verdict,
    ) {
        let refused = refusal::of_verdict(verdict);
        for ticket in first.0..=last.0 {
            let Some(producer) = self.ports.producer(port) else {
                return;
            };
            let Some(at) = ticket
                .checked_sub(producer.first_ticket)
                .and_then(|at| usize::try_from(at).ok())
            else {
                continue;
            };
            let Some(slot) = producer.unanswered.get_mut(at) else {
                return;
            };
            let unanswered = slot.take();
            while let Some(None) = producer.unanswered.front() {
                producer.unanswered.pop_front();
                producer.first_ticket += 1;
            }
            let Some(unanswered) = unanswered else {
                continue;
            };
            if *verdict == Verdict::Duplicate {
                let key = unanswered.key.as_deref().unwrap_or_default();
                let text = refusal::duplicate(&String::from_utf8_lossy(key));
                self.end_unanswered(unanswered, Some((ErrorCode::Failed, &text)));
            } else {
                let refused = refused.as_ref().map(|(code, text)| (*code, &**text));
                self.end_unanswered(unanswered, refused);
            }
        }
    }

    /// Nobody will hear of what is on its way to that queue.
    pub(super) fn end_producer(&mut self, producer: Producer, refusal: &Refusal) {
        self.producers.remove(&producer.queue);
        let refused = (refusal::code_of(refusal.reason), refusal.text.as_str());
        for unanswered in producer.unanswered.into_iter().flatten() {
            self.end_unanswered(unanswered, Some(refused));
        }
    }

    fn end_unanswered(&mut self, unanswered: Unanswered, refused: Option<(ErrorCode, &str)>) {
        self.unanswered -= 1;
        self.unanswered_bytes -= unanswered.cost;
        self.conclude(unanswered.whose, refused);
    }

    /// Tells whoever waits for it what became of a publish.
    fn conclude(&mut self, whose: Whose, refused: Option<(ErrorCode, &str)>) {
        match (whose, refused) {
            (Whose::One(reply_to, message_id), None) => {
                self.reply(reply_to, &Reply::Published(PublishResponse { message_id }));
            }
            (Whose::One(reply_to, _), Some((code, text))) => self.refuse(reply_to, code, text),
            (Whose::Part(key, at), refused) => self.end_part(key, at, refused),
            (Whose::Call(correlation), None) => self.note_call_sent(&correlation),
            (Whose::Call(correlation), Some((code, text))) => {
                self.refuse_call(&correlation, code, text);
            }
        }
    }

    fn end_part(&mut self, key: usize, at: usize, refused: Option<(ErrorCode, &str)>) {
        let Some(batch) = self.batches.get_mut(key) else {
            return;
        };
        if let Some((code, text)) = refused {
            batch.results[at] = PublishResult {
                message_id: String::new(),
                code: code.number(),
                message: text.to_owned(),
            };
        }
        self.finish_part(key);
    }

    fn finish_part(&mut self, key: usize) {
        let Some(batch) = self.batches.get_mut(key) else {
            return;
        };
        batch.left -= 1;
        if batch.left == 0 {
            let batch = self.batches.remove(key);
            let response = PublishBatchResponse {
                results: batch.results,
            };
            self.reply(batch.reply_to, &Reply::PublishedBatch(response));
        }
    }
}

fn message_of(now: Now, publish: &PublishRequest, message_id: &str) -> Message {
    let priority = publish
        .priority
        .map(|priority| u8::try_from(priority).unwrap_or(u8::MAX));
    let group_id = (!publish.ordering_key.is_empty())
        .then(|| Bytes::copy_from_slice(publish.ordering_key.as_bytes()));
    Message {
        envelope: Envelope {
            durable: !publish.transient,
            priority: priority.unwrap_or(DEFAULT_PRIORITY),
            has_priority: priority.is_some(),
            ttl_ms: (publish.ttl_ms > 0).then_some(publish.ttl_ms),
            group_id,
            wishes: wishes_of(publish),
            ..Envelope::default()
        },
        format: Format::Binary,
        payload: stored::of_publish(publish, message_id, now.wall_ms),
    }
}

fn wishes_of(publish: &PublishRequest) -> Option<Box<Wishes>> {
    let key = publish.idempotency_key.as_ref();
    Wishes {
        delay: (publish.delay_ms > 0).then_some(Delay::For(publish.delay_ms)),
        dedup_id: key
            .filter(|key| !key.is_empty())
            .map(|key| Bytes::copy_from_slice(key.as_bytes())),
    }
    .some()
}
