//! Messages in: PUBLISH and PUBLISH_BATCH become publishes, verdicts become answers.

use bytes::Bytes;
use qq_proto_binary::connection::ReplyTo;
use qq_proto_binary::error::{ErrorCode, text};
use qq_proto_binary::message::{PublishBatchResponse, PublishResult};
use qq_proto_binary::publish::Publish;
use qq_proto_binary::reply::Reply;
use qq_proto_binary::stored;

use super::ids::{self, Id};
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
    /// By which its queue may know it already. Few have one.
    key: Option<Box<Bytes>>,
    whose: Whose,
}

/// The id of a message.
#[derive(Debug)]
pub(super) enum Name {
    /// Made here.
    Made(Id),
    /// The publisher's own.
    Given(String),
}

impl Name {
    /// UTF-8.
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Made(id) => id,
            Self::Given(id) => id.as_bytes(),
        }
    }

    fn into_string(self) -> String {
        match self {
            Self::Made(id) => ids::text(&id).to_owned(),
            Self::Given(id) => id,
        }
    }
}

/// Who waits for the verdict.
#[derive(Debug)]
pub(super) enum Whose {
    /// A PUBLISH, and the id of its message.
    One(ReplyTo, Name),
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
    pub(super) fn on_publish(&mut self, now: Now, reply_to: ReplyTo, publish: &Publish) {
        let vetted = match self.check_publish(publish) {
            Ok(vetted) => vetted,
            Err((code, text)) => return self.refuse(reply_to, code, &text),
        };
        let name = self.name_of(now, publish);
        let message = message_of(now, publish, name.as_bytes());
        let port = self.port_of(publish);
        self.send(port, message, vetted, Whose::One(reply_to, name));
    }

    pub(super) fn on_publish_batch(&mut self, now: Now, reply_to: ReplyTo, messages: &[Publish]) {
        let count = messages.len();
        let key = self.batches.insert(Batch {
            reply_to,
            results: vec![PublishResult::default(); count],
            // One more, so that the batch lives until all of it is looked at.
            left: count + 1,
        });
        for (at, publish) in messages.iter().enumerate() {
            let vetted = match self.check_publish(publish) {
                Ok(vetted) => vetted,
                Err((code, text)) => {
                    self.end_part(key, at, Some((code, &text)));
                    continue;
                }
            };
            let name = self.name_of(now, publish);
            let message = message_of(now, publish, name.as_bytes());
            if let Some(batch) = self.batches.get_mut(key) {
                batch.results[at].message_id = name.into_string();
            }
            let port = self.port_of(publish);
            self.send(port, message, vetted, Whose::Part(key, at));
        }
        self.finish_part(key);
    }

    /// Whether a publish may be tried at all, and the rule that its payload keeps.
    fn check_publish(&mut self, publish: &Publish) -> Result<RuleId, Obstacle> {
        if self.is_pressed {
            return Err((ErrorCode::Failed, text::MEMORY_PRESSURE.to_owned()));
        }
        if publish.idempotency_key().len() > DEDUP_ID_LEN_MAX {
            let text =
                format!("invalid request: an idempotency_key has {DEDUP_ID_LEN_MAX} bytes at most");
            return Err((ErrorCode::InvalidRequest, text));
        }
        match self.has_rules {
            true => self.vet(publish.queue(), publish.payload()),
            false => Ok(RuleId::NONE),
        }
    }

    fn name_of(&mut self, now: Now, publish: &Publish) -> Name {
        match publish.message_id() {
            "" => Name::Made(self.ids.next(now.wall_ms)),
            id => Name::Given(id.to_owned()),
        }
    }

    /// Hands a message to the broker. No port: there are too many producers.
    pub(super) fn send(
        &mut self,
        port: Option<Port>,
        message: Message,
        vetted: RuleId,
        whose: Whose,
    ) {
        let Some(port) = port else {
            let text = "too many queues with messages on their way";
            return self.conclude(whose, Some((ErrorCode::Failed, text)));
        };
        let cost = message.cost();
        let key = message.envelope.dedup_id().cloned().map(Box::new);
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

    /// The producer for a publish: mostly that of the one before.
    fn port_of(&mut self, publish: &Publish) -> Option<Port> {
        if let Some(port) = self.last_producer
            && let Some(producer) = self.ports.producer(port)
            && publish.is_to(&producer.queue)
        {
            return Some(port);
        }
        self.producer_of(publish.queue())
    }

    /// The producer for a queue, if one more may be.
    pub(super) fn producer_of(&mut self, queue: &str) -> Option<Port> {
        let port = match self.producers.get(queue) {
            Some(port) => *port,
            None => self.open_producer(queue)?,
        };
        self.last_producer = Some(port);
        Some(port)
    }

    fn open_producer(&mut self, queue: &str) -> Option<Port> {
        if self.producers.len() >= PRODUCERS_KEPT_MAX {
            self.close_idle_producers();
        }
        if self.producers.len() >= PRODUCERS_MAX {
            return None;
        }
        let port = self.ports.insert(PortState::Producer(Producer {
            queue: queue.to_owned(),
            rule: None,
            first_ticket: 0,
            unanswered: std::collections::VecDeque::new(),
        }));
        self.commands.push(Command::OpenProducer {
            port,
            spec: Box::new(ProducerSpec {
                key: None,
                address: Address::QueueOrNew(queue.to_owned()),
            }),
        });
        self.producers.insert(queue.to_owned(), port);
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
        let Some(producer) = self.ports.producer(port) else {
            return;
        };
        // Answering makes no new publishes, so the list may be away meanwhile.
        let mut list = std::mem::take(&mut producer.unanswered);
        let mut first_ticket = producer.first_ticket;
        let refused = refusal::of_verdict(verdict);
        let refused = refused.as_ref().map(|(code, text)| (*code, &**text));
        for ticket in first.0.max(first_ticket)..=last.0 {
            let at = usize::try_from(ticket - first_ticket).unwrap_or(usize::MAX);
            let Some(unanswered) = list.get_mut(at).and_then(Option::take) else {
                continue;
            };
            while let Some(None) = list.front() {
                list.pop_front();
                first_ticket += 1;
            }
            if *verdict == Verdict::Duplicate {
                let key = unanswered.key.as_deref().map_or(&[][..], |key| key);
                let text = refusal::duplicate(&String::from_utf8_lossy(key));
                self.end_unanswered(unanswered, Some((ErrorCode::Failed, &text)));
            } else {
                self.end_unanswered(unanswered, refused);
            }
        }
        if let Some(producer) = self.ports.producer(port) {
            (producer.unanswered, producer.first_ticket) = (list, first_ticket);
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
            (Whose::One(reply_to, name), None) => {
                // Fails only when the connection is closing: nobody waits for the answer.
                let _ = self.conn.published(reply_to, name.as_bytes());
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

fn message_of(now: Now, publish: &Publish, message_id: &[u8]) -> Message {
    let priority = publish
        .priority()
        .map(|priority| u8::try_from(priority).unwrap_or(u8::MAX));
    let (ttl_ms, delay_ms) = (publish.ttl_ms(), publish.delay_ms());
    let some = |text: &str| (!text.is_empty()).then(|| Bytes::copy_from_slice(text.as_bytes()));
    let wishes = Wishes {
        delay: (delay_ms > 0).then_some(Delay::For(delay_ms)),
        dedup_id: some(publish.idempotency_key()),
    };
    Message {
        envelope: Envelope {
            durable: !publish.transient,
            priority: priority.unwrap_or(DEFAULT_PRIORITY),
            has_priority: priority.is_some(),
            ttl_ms: (ttl_ms > 0).then_some(ttl_ms),
            group_id: some(publish.ordering_key()),
            wishes: wishes.some(),
            ..Envelope::default()
        },
        format: Format::Binary,
        payload: stored::of_read(publish, message_id, now.wall_ms),
    }
}
