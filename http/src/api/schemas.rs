//! Schemas of queues. Sources are compiled here, on the thread of the request; the broker decides and remembers.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use qq_core::admin::{Reply, Request};
use qq_core::schema::{Candidate, Compatibility, Fault, Schema, SchemaVersion, Source};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Call, ask, moment, unexpected};
use crate::backend::Backend;
use crate::problem::Problem;
use crate::response::Response;

/// What is registered.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Registration {
    message_type: String,
    /// The text of one `.proto` file.
    proto: Option<String>,
    /// Instead of it: a `FileDescriptorSet` in base64.
    descriptor: Option<String>,
    compatibility: Option<Compatibility>,
    refuse_unknown_fields: Option<bool>,
}

pub(crate) fn list(backend: &dyn Backend, _call: &Call) -> Answer {
    match ask(backend, Request::Schemas)? {
        Reply::Schemas(all) => {
            let all: Vec<Value> = all.iter().map(|version| short(version)).collect();
            Ok(Response::json(200, &all))
        }
        _ => Err(unexpected()),
    }
}

pub(crate) fn one(backend: &dyn Backend, call: &Call) -> Answer {
    let version = call.number("version", 1, u64::from(u32::MAX))?.unwrap_or(0);
    let request = Request::Schema {
        subject: call.name().to_owned(),
        version: u32::try_from(version).unwrap_or(u32::MAX),
    };
    match ask(backend, request)? {
        Reply::Schema(version) => Ok(Response::json(200, &long(&version))),
        _ => Err(unexpected()),
    }
}

pub(crate) fn versions(backend: &dyn Backend, call: &Call) -> Answer {
    let subject = call.name().to_owned();
    match ask(backend, Request::SchemaVersions { subject })? {
        Reply::Schemas(all) => {
            let all: Vec<Value> = all.iter().map(|version| long(version)).collect();
            Ok(Response::json(200, &all))
        }
        _ => Err(unexpected()),
    }
}

pub(crate) fn register(backend: &dyn Backend, call: &Call) -> Answer {
    let candidate = Box::new(candidate(call.name().to_owned(), call.read()?)?);
    match ask(backend, Request::RegisterSchema { candidate })? {
        Reply::Schema(version) => Ok(Response::json(201, &long(&version))),
        Reply::SchemaRefused(refused) if refused.findings.is_empty() => {
            let (reason, text) = (refused.reason, refused.text);
            Err(qq_core::vocab::Refusal { reason, text }.into())
        }
        Reply::SchemaRefused(refused) => {
            let field = refused
                .findings
                .first()
                .map(|finding| finding.field.clone());
            Err(Problem::new(409, "incompatible", refused.text).with_field(field))
        }
        _ => Err(unexpected()),
    }
}

/// Compiles what is to be registered under a name.
fn candidate(subject: String, registration: Registration) -> Result<Candidate, Problem> {
    let (source, text) = match (registration.proto, registration.descriptor) {
        (Some(text), None) => (Source::Text(text.clone()), Some(text)),
        (None, Some(text)) => {
            let set = BASE64_STANDARD
                .decode(text)
                .map_err(|error| Problem::invalid(format!("descriptor: {error}")))?;
            (Source::Descriptor(set.into()), None)
        }
        _ => return Err(Problem::invalid("either proto or descriptor must be given")),
    };
    let schema = Schema::compile(&source, &registration.message_type).map_err(refused)?;
    Ok(Candidate {
        subject,
        schema: Arc::new(schema),
        source: text,
        compatibility: registration.compatibility,
        refuses_unknown_fields: registration.refuse_unknown_fields,
    })
}

/// The newest version of every schema, as [`defined`] takes it.
pub(crate) fn definitions(backend: &dyn Backend) -> Result<Vec<Value>, Problem> {
    let Reply::Schemas(all) = ask(backend, Request::Schemas)? else {
        return Err(unexpected());
    };
    let definition = |version: &SchemaVersion| {
        let mut value = long(version);
        if let Some(fields) = value.as_object_mut() {
            // Of the two sources the text, where there is one: it can be read, and it makes the other.
            let double = fields.contains_key("proto").then_some("descriptor");
            for field in ["version", "created_at"].into_iter().chain(double) {
                fields.remove(field);
            }
        }
        value
    };
    Ok(all.iter().map(|version| definition(version)).collect())
}

/// A schema of an import: the queue and what is registered for it.
pub(crate) fn defined(
    queue: String,
    settings: serde_json::Map<String, Value>,
) -> Result<Candidate, Problem> {
    let registration = serde_json::from_value(Value::Object(settings));
    let registration =
        registration.map_err(|error| Problem::invalid(format!("schemas: {queue:?}: {error}")))?;
    candidate(queue, registration)
}

pub(crate) fn delete(backend: &dyn Backend, call: &Call) -> Answer {
    let subject = call.name().to_owned();
    match ask(backend, Request::DeleteSchema { subject })? {
        Reply::SchemaDeleted(versions) => Ok(Response::json(200, &json!({"deleted": versions}))),
        _ => Err(unexpected()),
    }
}

fn refused(fault: Fault) -> Problem {
    Problem::invalid(format!("no schema: {fault}"))
}

fn short(version: &SchemaVersion) -> Value {
    json!({
        "queue": version.subject,
        "message_type": version.message_type,
        "version": version.version,
    })
}

fn long(version: &SchemaVersion) -> Value {
    let mut value = short(version);
    value["created_at"] = moment(version.registered_at_ms).into();
    value["compatibility"] = version.compatibility.name().into();
    value["refuse_unknown_fields"] = version.refuses_unknown_fields.into();
    value["descriptor"] = BASE64_STANDARD.encode(&version.descriptor).into();
    if let Some(text) = &version.source {
        value["proto"] = text.as_str().into();
    }
    value
}
