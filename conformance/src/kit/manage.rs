//! Management over AMQP: the node `$management`, to test it and to make queues of a special kind by it.

use super::{Kit, Peer, unsupported};
use crate::script::Done;
use crate::wire::{Value, message, perf, text};
use crate::{broke, ensure, same};

/// The node's address.
pub const NODE: &str = "$management";
/// Target address of the link on which answers come.
const ME: &str = "answers-of-the-operator";

/// A connection with a link to the node and one from it.
pub struct Operator {
    /// The connection: handle 0 sends requests, handle 1 gets answers.
    pub peer: Peer,
    next: u32,
    /// Requests went out since the last credit for answers.
    is_open_handed: bool,
}

/// What was answered.
#[derive(Debug)]
pub struct Told {
    /// `statusCode`.
    pub status: i32,
    /// Properties of the answer.
    pub properties: Value,
    /// Application properties.
    pub told: Value,
    /// The map in the body.
    pub body: Value,
}

/// What a map of strings holds under a key; null when it is not there.
pub fn entry(map: &Value, key: &str) -> Value {
    let Value::Map(pairs) = map else {
        return Value::Null;
    };
    let found = pairs.iter().find(|(known, _)| known.words() == Some(key));
    found.map_or(Value::Null, |(_, value)| value.clone())
}

/// A map of strings.
pub fn map(pairs: &[(&str, Value)]) -> Value {
    let pairs = pairs.iter();
    Value::Map(
        pairs
            .map(|(key, value)| (text(key), value.clone()))
            .collect(),
    )
}

impl Kit {
    /// A connection to the node; brokers without it do not support what a script needs it for.
    pub fn operator(&mut self) -> Done<Operator> {
        if self.env.template != "{}" {
            return unsupported("addresses here are not names of queues");
        }
        let mut peer = self.session_as("operator")?;
        let target = perf("target").with("address", NODE);
        let attach = peer
            .sender_attach("requests", 0, "x")
            .with("target", target);
        peer.send(0, attach);
        let answer = peer.want("attach")?;
        if answer.field("target").is_null() {
            return unsupported("no node for management");
        }
        let source = perf("source").with("address", NODE);
        let attach = peer.receiver_attach("answers", 1, "x");
        let target = perf("target").with("address", ME);
        peer.attach(attach.with("source", source).with("target", target))?;
        Ok(Operator {
            peer,
            next: 0,
            is_open_handed: false,
        })
    }

    /// Makes a queue that this script calls `name`, with these settings.
    pub fn declare(&mut self, name: &str, settings: &[(&str, Value)]) -> Done {
        let mut operator = self.operator()?;
        let name = self.addr(name);
        let create = [("operation", "CREATE"), ("type", "queue"), ("name", &name)];
        let told = operator.ask(&create, map(settings))?;
        ensure!(
            [200, 201].contains(&told.status),
            "the queue {name} was not made: {told:?}"
        );
        operator.peer.close()
    }
}

impl Operator {
    /// Sends a request, answered to `reply_to`, whether there is credit for it or not; returns its delivery-id, which is
    /// its message-id as well.
    pub fn request(&mut self, told: &[(&str, &str)], body: Value, reply_to: &str) -> Done<u32> {
        let id = self.next;
        self.next += 1;
        let properties = perf("properties")
            .with("message-id", u64::from(id))
            .with("reply-to", reply_to);
        let told = told.iter().map(|(key, value)| (*key, text(value)));
        let told = map(&told.collect::<Vec<_>>());
        let payload = [
            properties.value().bytes(),
            message::section(message::code::APPLICATION_PROPERTIES, told),
            message::section(message::code::VALUE, body),
        ];
        self.peer.publish(0, id, &payload.concat());
        Ok(id)
    }

    /// Asks and waits for the answer.
    pub fn ask(&mut self, told: &[(&str, &str)], body: Value) -> Done<Told> {
        if !self.is_open_handed {
            self.is_open_handed = true;
            self.peer.credit(1, 100);
        }
        self.peer.credit_wait(0)?;
        let id = self.request(told, body, ME)?;
        same!(self.peer.outcome(id)?, "accepted", "outcome of the request");
        let answer = self.answer()?;
        same!(
            field(&answer.properties, "correlation-id"),
            Value::Ulong(id.into()),
            "correlation-id of the answer"
        );
        Ok(answer)
    }

    /// The next answer, which must come.
    pub fn answer(&mut self) -> Done<Told> {
        let got = self.peer.must_get("answers")?;
        if !got.settled {
            self.peer.settle(got.id, "accepted");
        }
        read(&got.payload)
    }

    /// A request whose answer goes to the link for answers, without waiting for anything.
    pub fn send(&mut self, told: &[(&str, &str)]) -> Done<u32> {
        self.request(told, Value::Null, ME)
    }
}

/// A field of described properties.
fn field(properties: &Value, name: &str) -> Value {
    crate::wire::perf_of(properties).map_or(Value::Null, |p| p.field(name).clone())
}

/// Reads an answer.
pub fn read(payload: &[u8]) -> Done<Told> {
    let sections = message::sections(payload).map_err(|e| broke!("{e:?}"))?;
    let of = |code| {
        let found = sections.iter().find(|s| s.code == code);
        found.map(|s| s.value.clone())
    };
    let inner = |code| match of(code) {
        Some(Value::Described(_, value)) => *value,
        _ => Value::Null,
    };
    let told = inner(message::code::APPLICATION_PROPERTIES);
    let Value::Int(status) = entry(&told, "statusCode") else {
        return Err(broke!("no statusCode that is an int: {told:?}"));
    };
    Ok(Told {
        status,
        properties: of(message::code::PROPERTIES).unwrap_or(Value::Null),
        body: inner(message::code::VALUE),
        told,
    })
}
