//! CALL: a message to a queue, and the answer to it.
//!
//! Answers come to a queue that belongs to the connection and that is made with its first CALL. They are told apart by
//! their correlation id; one that nobody waits for any more is dropped. Nothing of it holds up the connection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use qq_proto_binary::connection::ReplyTo;
use qq_proto_binary::error::{ErrorCode, text};
use qq_proto_binary::message::{CallRequest, CallResponse, PublishRequest};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::stored::{self, Stored};

use super::consume::record_of;
use super::publish::Whose;
use super::{BinaryFace, ids, refusal};
use crate::broker::Now;
use crate::face::mapping::{CORRELATION_ID, REPLY_TO};
use crate::schema::Rule;
use crate::vocab::{
    Address, Command, ConsumerSpec, Delivered, Envelope, Format, LifetimePolicy, LockSpec, Message,
    Note, Outcome, Port, Refusal, StreamRead, SubscriptionSpec,
};

/// What a time-out of 0 means.
const TIMEOUT_MS: u32 = 30_000;
/// Answers that the broker may hand over ahead.
const PERMITS: u64 = 256;

/// The calls of one connection.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The queue for answers, once somebody asked for it.
    port: Option<Port>,
    /// Its name, once it is there.
    queue: Option<String>,
    /// Calls that wait for that, in their order.
    parked: Vec<(String, CallRequest)>,
    /// By correlation id.
    waiting: BTreeMap<String, Waiting>,
    by_due: BTreeSet<(Duration, String)>,
    /// Answers that came, and how many may.
    seen: u64,
    limit: u64,
}

#[derive(Debug)]
struct Waiting {
    reply_to: ReplyTo,
    due: Duration,
    /// The queue that was called.
    queue: String,
    /// What that asks of answers, once the broker has the call.
    rule: Option<Arc<Rule>>,
}

impl Calls {
    /// The port of the queue for answers.
    pub(super) const fn port(&self) -> Option<Port> {
        self.port
    }

    /// When the next call ends without an answer.
    pub(super) fn due_at(&self) -> Option<Duration> {
        self.by_due.first().map(|(due, _)| *due)
    }

    fn take(&mut self, correlation: &str) -> Option<Waiting> {
        let waiting = self.waiting.remove(correlation)?;
        self.by_due.remove(&(waiting.due, correlation.to_owned()));
        Some(waiting)
    }
}

impl BinaryFace {
    pub(super) fn on_call(&mut self, now: Now, reply_to: ReplyTo, call: CallRequest) {
        if self.is_pressed {
            return self.refuse(reply_to, ErrorCode::Failed, text::MEMORY_PRESSURE);
        }
        let timeout_ms = match call.timeout_ms {
            0 => TIMEOUT_MS,
            asked => asked,
        };
        let due = now
            .mono
            .saturating_add(Duration::from_millis(u64::from(timeout_ms)));
        let correlation = ids::text(&self.ids.next(now.wall_ms)).to_owned();
        self.calls.by_due.insert((due, correlation.clone()));
        let waiting = Waiting {
            reply_to,
            due,
            queue: call.queue.clone(),
            rule: None,
        };
        self.calls.waiting.insert(correlation.clone(), waiting);
        match self.calls.queue.clone() {
            Some(queue) => self.send_call(now, &queue, correlation, call),
            None => {
                self.calls.parked.push((correlation, call));
                self.open_calls();
            }
        }
    }

    fn open_calls(&mut self) {
        if self.calls.port.is_some() {
            return;
        }
        let port = self.ports.reserve();
        self.calls.port = Some(port);
        let lifetime = LifetimePolicy::DeleteOnClose;
        self.commands.push(Command::OpenConsumer {
            port,
            spec: Box::new(ConsumerSpec {
                key: None,
                address: Address::Dynamic { lifetime },
                browse: false,
                settled: true,
                default_outcome: Outcome::Released,
                filter: None,
                stream: StreamRead::default(),
                subscription: SubscriptionSpec::default(),
                lock: LockSpec::default(),
            }),
        });
        (self.calls.seen, self.calls.limit) = (0, PERMITS);
        self.commands.push(Command::Permit {
            port,
            limit: PERMITS,
            drain: false,
        });
    }

    pub(super) fn on_calls_opened(&mut self, now: Now, queue: &str) {
        self.calls.queue = Some(queue.to_owned());
        for (correlation, call) in std::mem::take(&mut self.calls.parked) {
            self.send_call(now, queue, correlation, call);
        }
    }

    fn send_call(&mut self, now: Now, queue: &str, correlation: String, call: CallRequest) {
        let Some(waiting) = self.calls.waiting.get(&correlation) else {
            return;
        };
        // Nobody waits for it after that.
        let left = waiting.due.saturating_sub(now.mono);
        let mut headers = call.headers;
        headers.insert(REPLY_TO.to_owned(), queue.to_owned());
        headers.insert(CORRELATION_ID.to_owned(), correlation.clone());
        let publish = PublishRequest {
            payload: call.payload,
            headers,
            ..PublishRequest::default()
        };
        let vetted = match self.vet(&call.queue, &publish.payload) {
            Ok(vetted) => vetted,
            Err((code, text)) => return self.refuse_call(&correlation, code, &text),
        };
        let message_id = self.ids.next(now.wall_ms);
        let message = Message {
            envelope: Envelope {
                ttl_ms: Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1)),
                ..Envelope::default()
            },
            format: Format::Binary,
            payload: stored::of_publish(&publish, ids::text(&message_id), now.wall_ms),
        };
        let port = self.producer_of(&call.queue);
        self.send(port, message, vetted, Whose::Call(correlation));
    }

    pub(super) fn on_call_answer(&mut self, delivered: &Delivered) {
        self.calls.seen += 1;
        if self.calls.limit - self.calls.seen <= PERMITS / 2
            && let Some(port) = self.calls.port
        {
            self.calls.limit = self.calls.seen + PERMITS;
            self.commands.push(Command::Permit {
                port,
                limit: self.calls.limit,
                drain: false,
            });
        }
        let Some(record) = record_of(delivered) else {
            return;
        };
        let Ok(stored) = Stored::read(&record) else {
            return;
        };
        let headers: BTreeMap<String, String> = stored
            .headers()
            .flatten()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let waiting = headers
            .get(CORRELATION_ID)
            .and_then(|correlation| self.calls.take(correlation));
        let Some(waiting) = waiting else {
            return;
        };
        let payload = stored.payload();
        let rule = waiting.rule.or_else(|| self.rule_of(&waiting.queue));
        let asked = rule.as_ref().and_then(|rule| rule.reply.as_ref());
        if let Some(Err(unfit)) = asked.map(|asked| asked.check(&payload)) {
            let text = format!("{}the answer: {unfit}", text::SCHEMA_MISMATCH_PREFIX);
            return self.refuse(waiting.reply_to, ErrorCode::SchemaMismatch, &text);
        }
        let response = CallResponse { payload, headers };
        self.reply(waiting.reply_to, &Reply::Called(response));
    }

    /// The broker has a call: what its queue asks of answers is known from now on.
    pub(super) fn note_call_sent(&mut self, correlation: &str) {
        let Some(waiting) = self.calls.waiting.get(correlation) else {
            return;
        };
        let queue = waiting.queue.clone();
        self.commands
            .push(Command::Note(Note::Called(queue.clone())));
        let rule = self.rule_of(&queue);
        if let Some(waiting) = self.calls.waiting.get_mut(correlation) {
            waiting.rule = rule;
        }
    }

    pub(super) fn refuse_call(&mut self, correlation: &str, code: ErrorCode, text: &str) {
        if let Some(waiting) = self.calls.take(correlation) {
            self.refuse(waiting.reply_to, code, text);
        }
    }

    /// Ends the calls that nobody answered in time.
    pub(super) fn end_late_calls(&mut self, now: Now) {
        while let Some((due, correlation)) = self.calls.by_due.first().cloned()
            && due <= now.mono
        {
            if let Some(waiting) = self.calls.waiting.get(&correlation) {
                let note = Note::CallLate(waiting.queue.clone());
                self.commands.push(Command::Note(note));
            }
            self.refuse_call(&correlation, ErrorCode::CallTimeout, text::CALL_TIMEOUT);
        }
    }

    /// The queue for answers is gone, and with it all hope. The next call makes another.
    pub(super) fn end_calls(&mut self, refusal: &Refusal) {
        let calls = std::mem::take(&mut self.calls);
        if let Some(port) = calls.port {
            self.ports.release(port);
        }
        for waiting in calls.waiting.into_values() {
            let code = refusal::code_of(refusal.reason);
            self.refuse(waiting.reply_to, code, &refusal.text);
        }
    }
}
