//! The whole topology.

use std::sync::Arc;

use qq_core::admin::{self, BindingFilter, Definitions, Reply, Request};
use qq_core::broker::{GroupSpec, QueueSpec};
use serde_json::{Map, Value, json};

use super::{Answer, Call, ask, unexpected};
use crate::backend::Backend;
use crate::problem::Problem;
use crate::response::Response;

pub(crate) fn export(backend: &dyn Backend, _call: &Call) -> Answer {
    let rows = super::queues::rows(backend)?;
    let mut queues: Vec<QueueSpec> = rows
        .iter()
        .filter(|row| !row.spec.exclusive && !QueueSpec::is_reserved(&row.spec.name))
        .map(|row| QueueSpec::clone(&row.spec))
        .collect();
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    let mut exchanges: Vec<_> = super::exchanges::rows(backend)?
        .into_iter()
        .filter(|row| !row.is_predeclared)
        .map(|row| (*row.spec).clone())
        .collect();
    exchanges.sort_by(|a, b| a.name.cmp(&b.name));
    let mut bindings = super::exchanges::specs(backend, &BindingFilter::default())?;
    let is_known = |name: &String| {
        queues
            .binary_search_by(|queue| queue.name.cmp(name))
            .is_ok()
    };
    bindings.retain(|spec| spec.queue.as_ref().is_none_or(is_known));
    let groups = rows.iter().filter_map(|row| row.spec.group_of.as_deref());
    let mut groups: Vec<GroupSpec> = groups
        .filter(|group| is_known(&group.queue))
        .cloned()
        .collect();
    groups.sort_by(|a, b| (&a.queue, &a.name).cmp(&(&b.queue, &b.name)));
    let definitions = Definitions {
        version: 1,
        queues,
        exchanges,
        bindings: bindings.into_iter().map(Arc::unwrap_or_clone).collect(),
        groups,
        schemas: Vec::new(),
    };
    let mut value = json!(definitions);
    value["schemas"] = super::schemas::definitions(backend)?.into();
    Ok(Response::json(200, &value))
}

pub(crate) fn import(backend: &dyn Backend, call: &Call) -> Answer {
    let mut body = call.object()?;
    let mut definitions = Definitions {
        bindings: values(&mut body, "bindings")?,
        groups: values(&mut body, "groups")?,
        ..Definitions::default()
    };
    for (queue, settings) in named(&mut body, "schemas", "queue")? {
        let schema = super::schemas::defined(queue, settings)?;
        definitions.schemas.push(schema);
    }
    for (name, settings) in named(&mut body, "queues", "name")? {
        let base = &backend.node().queue_defaults;
        definitions
            .queues
            .push(admin::queue_spec(base, &name, settings).map_err(|bad| of(&name, bad))?);
    }
    for (name, settings) in named(&mut body, "exchanges", "name")? {
        definitions
            .exchanges
            .push(admin::exchange_spec(&name, settings).map_err(|bad| of(&name, bad))?);
    }
    let version = body.remove("version").and_then(|version| version.as_u64());
    definitions.version = version
        .and_then(|version| u32::try_from(version).ok())
        .unwrap_or(0);
    if let Some(other) = body.keys().next() {
        let detail = format!(
            "{other:?} is not known; there are version, queues, exchanges, bindings, groups and schemas"
        );
        return Err(Problem::invalid(detail));
    }
    let definitions = Box::new(definitions);
    match ask(backend, Request::Import { definitions })? {
        Reply::Imported(done) => Ok(Response::json(200, &done)),
        _ => Err(unexpected()),
    }
}

fn of(name: &str, bad: admin::BadSetting) -> Problem {
    Problem::invalid(format!("{name:?}: {}", bad.text)).with_field(bad.field)
}

fn list(body: &mut Map<String, Value>, key: &str) -> Result<Vec<Value>, Problem> {
    match body.remove(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(Problem::invalid(format!("{key} must be a list"))),
    }
}

/// Values that are read as they are.
fn values<T: serde::de::DeserializeOwned>(
    body: &mut Map<String, Value>,
    key: &str,
) -> Result<Vec<T>, Problem> {
    let values = list(body, key)?.into_iter().map(serde_json::from_value);
    values
        .collect::<Result<_, _>>()
        .map_err(|error| Problem::invalid(format!("{key}: {error}")))
}

/// A name and its settings.
type Named = (String, Map<String, Value>);

/// Names, each the `field` of an object, and the settings beside them.
fn named(body: &mut Map<String, Value>, key: &str, field: &str) -> Result<Vec<Named>, Problem> {
    let mut found = Vec::new();
    for item in list(body, key)? {
        let Value::Object(mut settings) = item else {
            return Err(Problem::invalid(format!("{key} must be a list of objects")));
        };
        let Some(Value::String(name)) = settings.remove(field) else {
            return Err(Problem::invalid(format!("{key}: a {field} is missing")));
        };
        // An export says it of every queue, and exports no exclusive one.
        if settings.get("exclusive") == Some(&Value::Bool(false)) {
            settings.remove("exclusive");
        }
        found.push((name, settings));
    }
    Ok(found)
}
