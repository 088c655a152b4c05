//! Requests to `$management`: what a message asks for, in the style of the AMQP management draft.
//!
//! The application properties `operation`, `type` and `name` say what is to be done to what, the body says how. What
//! cannot be is answered; only a message that no answer can reach is refused.

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::section::{BodyKind, SectionError, Sections};
use qq_proto_amqp::types::{Map, Value};
use serde_json::{Map as Object, Value as Json, json};

use super::answer::Answer;
use super::json::{text_of, to_object};
use super::list::{COUNT_DEFAULT, COUNT_MAX, Listing};
use crate::admin::{self, BindingFilter, Request};
use crate::broker::{MANAGEMENT_NODE, QueueSpec, quoted};
use crate::route::BindingSpec;
use crate::vocab::{Address, Refusal};

/// What can be managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Queue,
    Stream,
    Exchange,
    Binding,
}

/// Names of kinds and what can be done to them.
const KINDS: [(&str, Kind, &[&str]); 4] = [
    (
        "queue",
        Kind::Queue,
        &["CREATE", "READ", "DELETE", "PURGE", "QUERY"],
    ),
    (
        "stream",
        Kind::Stream,
        &["CREATE", "READ", "DELETE", "PURGE", "QUERY"],
    ),
    (
        "exchange",
        Kind::Exchange,
        &["CREATE", "READ", "DELETE", "QUERY"],
    ),
    (
        "binding",
        Kind::Binding,
        &["CREATE", "DELETE", "BIND", "UNBIND", "QUERY"],
    ),
];

/// The type of the node itself in the draft.
const NODE_TYPE: &str = "org.amqp.management";

/// A message that can be answered.
#[derive(Debug, PartialEq)]
pub(super) struct Letter {
    /// Where the answer goes, as the request says it.
    pub(super) reply_to: String,
    /// What the answer is to be known by.
    pub(super) correlation: Option<Value>,
    /// What is asked, or what is wrong with it.
    pub(super) asked: Result<Asked, Answer>,
}

/// What a request comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Asked {
    /// A question to the broker.
    One(Kind, Box<Request>),
    /// Two: the second when the first found a stream.
    OfStream(Box<Request>, Box<Request>),
    /// A list.
    List(Box<Listing>),
    /// It is known here.
    Known(Answer),
}

/// Why a message cannot be answered.
#[derive(Debug, PartialEq)]
pub(super) enum Unanswerable {
    /// It is no message.
    Undecodable(SectionError),
    /// It does not say where to, or nothing that can be.
    ReplyTo(String),
}

impl From<SectionError> for Unanswerable {
    fn from(error: SectionError) -> Self {
        Self::Undecodable(error)
    }
}

/// Reads a message; `defaults` is what queues are like.
pub(super) fn read(payload: &Bytes, defaults: &QueueSpec) -> Result<Letter, Unanswerable> {
    let (payload, sections) = scan(payload)?;
    let properties = sections.properties(&payload)?.unwrap_or_default();
    let reply_to = match properties.reply_to.as_ref().map(text_of) {
        Some(Some(text)) if !text.is_empty() => text.to_owned(),
        _ => {
            let text = "a request needs a reply-to: the target address of a receiver from \
                 $management, or the name of a queue";
            return Err(Unanswerable::ReplyTo(text.to_owned()));
        }
    };
    Ok(Letter {
        reply_to,
        correlation: properties.correlation_id.or(properties.message_id),
        asked: asked_of(&payload, &sections, defaults),
    })
}

/// Finds the sections. Some clients leave the body out where there is nothing to say.
fn scan(payload: &Bytes) -> Result<(Bytes, Sections), SectionError> {
    match Sections::scan(payload) {
        Err(SectionError::NoBody) => {
            let mut whole = BytesMut::from(&payload[..]);
            whole.extend_from_slice(&[0x00, 0x53, 0x77, 0x40]);
            let whole = whole.freeze();
            let sections = Sections::scan(&whole)?;
            Ok((whole, sections))
        }
        found => Ok((payload.clone(), found?)),
    }
}

/// The queue that an address of a reply names.
pub(super) fn queue_of(reply_to: &str) -> Result<String, Unanswerable> {
    let of_refusal = |refusal: Refusal| Unanswerable::ReplyTo(refusal.text);
    match Address::parse(reply_to).map_err(of_refusal)? {
        Address::Name(name) | Address::Queue(name) if name != MANAGEMENT_NODE => {
            QueueSpec::check_name(&name).map_err(of_refusal)?;
            Ok(name)
        }
        _ => Err(Unanswerable::ReplyTo(format!(
            "the reply-to {} is no queue",
            quoted(reply_to)
        ))),
    }
}

/// The application properties and the body of a request.
struct Form {
    properties: Map,
    body: Object<String, Json>,
}

impl Form {
    fn of(payload: &Bytes, sections: &Sections) -> Result<Self, Answer> {
        let properties = match &sections.application_properties {
            None => Map::new(),
            Some(range) => match Value::decode(&payload.slice(range.value.clone())) {
                Ok((Value::Map(map), _)) => map,
                _ => return Err(Answer::invalid("the application properties are no map")),
            },
        };
        let not_a_map = || Answer::invalid("the body must be an amqp-value that is a map or null");
        if sections.body.kind != BodyKind::Value {
            return Err(not_a_map());
        }
        let body = match Value::decode(&payload.slice(sections.body.range.clone())) {
            Ok((Value::Described(section), _)) => section.value,
            Ok(_) => return Err(not_a_map()),
            Err(error) => return Err(Answer::invalid(format!("the body: {error}"))),
        };
        let body = match body {
            Value::Null => Object::new(),
            Value::Map(map) => to_object(&map).map_err(Answer::invalid)?,
            _ => return Err(not_a_map()),
        };
        Ok(Self { properties, body })
    }

    fn property(&self, wanted: &str) -> Option<&Value> {
        let mut all = self.properties.iter();
        all.find_map(|(key, value)| (text_of(key) == Some(wanted)).then_some(value))
            .filter(|value| **value != Value::Null)
    }

    fn text(&self, name: &str) -> Result<Option<&str>, Answer> {
        match self.property(name).map(text_of) {
            None => Ok(None),
            Some(Some(text)) => Ok(Some(text)),
            Some(None) => Err(wrong_property(name, "must be a string")),
        }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Answer> {
        let wrong = || wrong_property(name, "must be a whole number that is not negative");
        match self.property(name).map(super::json::to_json) {
            None => Ok(None),
            Some(Ok(Json::Number(number))) => number.as_u64().map(Some).ok_or_else(wrong),
            Some(_) => Err(wrong()),
        }
    }

    /// The name of what the request is about.
    fn name(&self) -> Result<String, Answer> {
        let name = match self.text("name")? {
            Some(name) => Some(name),
            None => self.text("identity")?,
        };
        let name = name.ok_or_else(|| wrong_property("name", "is missing"))?;
        Ok(name.to_owned())
    }

    /// Takes a truth value out of the body, false when there is none.
    fn take_flag(&mut self, name: &str) -> Result<bool, Answer> {
        match self.body.remove(name) {
            None | Some(Json::Null) => Ok(false),
            Some(Json::Bool(flag)) => Ok(flag),
            Some(_) => Err(Answer::invalid_field(
                name,
                format!("{name} must be true or false"),
            )),
        }
    }

    /// Takes a text out of the body.
    fn take_text(&mut self, name: &str) -> Result<Option<String>, Answer> {
        match self.body.remove(name) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(Answer::invalid_field(
                name,
                format!("{name} must be a string"),
            )),
        }
    }

    /// Nothing is left in the body that nobody asked about: a misspelt condition deletes nothing.
    fn end(&self) -> Result<(), Answer> {
        match self.body.keys().next() {
            None => Ok(()),
            Some(name) => Err(Answer::invalid_field(
                name,
                format!("{} means nothing in this request", quoted(name)),
            )),
        }
    }
}

fn wrong_property(name: &str, text: &str) -> Answer {
    Answer::invalid_field(name, format!("the application property {name} {text}"))
}

fn asked_of(payload: &Bytes, sections: &Sections, defaults: &QueueSpec) -> Result<Asked, Answer> {
    let form = Form::of(payload, sections)?;
    let operation = form.text("operation")?;
    let operation = operation
        .ok_or_else(|| wrong_property("operation", "is missing"))?
        .to_owned();
    match operation.as_str() {
        "QUERY" => list_of(form),
        "BIND" | "UNBIND" => {
            if !matches!(kind_of(&form, "type")?, None | Some(Kind::Binding)) {
                return Err(not_for(&operation, &form));
            }
            binding_of(form, operation == "BIND")
        }
        "GET-TYPES" => {
            let types = KINDS.map(|(name, ..)| (name.to_owned(), json!([])));
            Ok(Asked::Known(Answer::read(Json::Object(
                types.into_iter().collect(),
            ))))
        }
        "GET-OPERATIONS" => {
            let types = KINDS.map(|(name, _, operations)| (name.to_owned(), json!(operations)));
            Ok(Asked::Known(Answer::read(Json::Object(
                types.into_iter().collect(),
            ))))
        }
        "CREATE" | "READ" | "UPDATE" | "DELETE" | "PURGE" => {
            let kind =
                kind_of(&form, "type")?.ok_or_else(|| wrong_property("type", "is missing"))?;
            match operation.as_str() {
                "CREATE" => create(form, kind, defaults),
                "READ" => one_of(form, kind),
                "DELETE" => delete(form, kind),
                "PURGE" => purge(form, kind),
                _ => Err(Answer::not_implemented(
                    "what exists keeps its settings; delete it and create it anew",
                )),
            }
        }
        _ => Err(Answer::not_implemented(format!(
            "{} is no operation here; GET-OPERATIONS lists them",
            quoted(&operation)
        ))),
    }
}

/// The kind that a property names.
fn kind_of(form: &Form, property: &str) -> Result<Option<Kind>, Answer> {
    let Some(text) = form.text(property)? else {
        return Ok(None);
    };
    let known = KINDS.iter().find(|(name, ..)| *name == text);
    match known {
        Some((_, kind, _)) => Ok(Some(*kind)),
        None => {
            let names = KINDS.map(|(name, ..)| name).join(", ");
            let text = format!("is {}, which is none of the types {names}", quoted(text));
            Err(wrong_property(property, &text))
        }
    }
}

fn not_for(operation: &str, form: &Form) -> Answer {
    let kind = form.text("type").ok().flatten().unwrap_or_default();
    Answer::not_implemented(format!("{operation} is not for the type {kind}"))
}

fn create(mut form: Form, kind: Kind, defaults: &QueueSpec) -> Result<Asked, Answer> {
    let settings = std::mem::take(&mut form.body);
    let request = match kind {
        Kind::Queue => {
            let spec = admin::queue_spec(defaults, &form.name()?, settings)?;
            Request::DeclareQueue {
                spec: Box::new(spec),
            }
        }
        Kind::Stream => {
            let spec = admin::stream_spec(&form.name()?, settings)?;
            Request::DeclareQueue {
                spec: Box::new(spec),
            }
        }
        Kind::Exchange => Request::DeclareExchange {
            spec: admin::exchange_spec(&form.name()?, settings)?,
        },
        Kind::Binding => {
            form.body = settings;
            return binding_of(form, true);
        }
    };
    Ok(Asked::One(kind, Box::new(request)))
}

fn one_of(form: Form, kind: Kind) -> Result<Asked, Answer> {
    form.end()?;
    let request = match kind {
        Kind::Queue | Kind::Stream => Request::Queue { name: form.name()? },
        Kind::Exchange => Request::Exchange { name: form.name()? },
        Kind::Binding => return Err(not_for("READ", &form)),
    };
    Ok(Asked::One(kind, Box::new(request)))
}

fn delete(mut form: Form, kind: Kind) -> Result<Asked, Answer> {
    if kind == Kind::Binding {
        return binding_of(form, false);
    }
    let name = form.name()?;
    let if_unused = form.take_flag("if_unused")?;
    let request = if kind == Kind::Exchange {
        Request::DeleteExchange { name, if_unused }
    } else {
        Request::DeleteQueue {
            name,
            if_unused,
            if_empty: form.take_flag("if_empty")?,
        }
    };
    form.end()?;
    of_kind(&form, kind, request)
}

fn purge(form: Form, kind: Kind) -> Result<Asked, Answer> {
    form.end()?;
    if !matches!(kind, Kind::Queue | Kind::Stream) {
        return Err(not_for("PURGE", &form));
    }
    let name = form.name()?;
    of_kind(&form, kind, Request::Purge { name })
}

/// What is done to a stream is not done to a queue of that name.
fn of_kind(form: &Form, kind: Kind, request: Request) -> Result<Asked, Answer> {
    let request = Box::new(request);
    if kind != Kind::Stream {
        return Ok(Asked::One(kind, request));
    }
    let look = Request::Queue { name: form.name()? };
    Ok(Asked::OfStream(Box::new(look), request))
}

fn binding_of(form: Form, is_new: bool) -> Result<Asked, Answer> {
    let spec: BindingSpec = serde_json::from_value(Json::Object(form.body))
        .map_err(|error| Answer::invalid(format!("the binding: {error}")))?;
    let request = match is_new {
        true => Request::Bind { spec },
        false => Request::Unbind { spec },
    };
    Ok(Asked::One(Kind::Binding, Box::new(request)))
}

/// Attributes that one request names at most: each costs a place in every row of the answer.
const NAMES_MAX: usize = 64;

fn names_of(names: Json) -> Option<Vec<String>> {
    let names: Vec<String> = serde_json::from_value(names).ok()?;
    (names.len() <= NAMES_MAX).then_some(names)
}

fn list_of(mut form: Form) -> Result<Asked, Answer> {
    let kind = match kind_of(&form, "entityType")? {
        Some(kind) => kind,
        None if form.text("type")? == Some(NODE_TYPE) => {
            return Err(wrong_property("entityType", "is missing"));
        }
        None => {
            kind_of(&form, "type")?.ok_or_else(|| wrong_property("entityType", "is missing"))?
        }
    };
    let offset = form.number("offset")?.unwrap_or(0);
    let count = form.number("count")?.unwrap_or(COUNT_DEFAULT);
    let attributes = match form.body.remove("attributeNames") {
        None | Some(Json::Null) => Vec::new(),
        Some(names) => names_of(names).ok_or_else(|| {
            let text = format!("attributeNames must be a list of at most {NAMES_MAX} strings");
            Answer::invalid_field("attributeNames", text)
        })?,
    };
    let mut filter = BindingFilter::default();
    if kind == Kind::Binding {
        filter.exchange = form.take_text("exchange")?;
        filter.queue = form.take_text("queue")?;
        filter.to_exchange = form.take_text("to_exchange")?;
    }
    form.end()?;
    Ok(Asked::List(Box::new(Listing {
        kind,
        filter,
        attributes,
        offset,
        count: count.clamp(1, COUNT_MAX),
        skipped: 0,
        rows: Vec::new(),
    })))
}
