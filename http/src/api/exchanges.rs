//! Exchanges and bindings.

use std::sync::Arc;

use qq_core::admin::{self, BindingFilter, ExchangeRow, Reply, Request};
use qq_core::route::{BindingSpec, ExchangeKind, ExchangeSpec};
use serde_json::json;

use super::{Answer, Call, all, ask, unexpected};
use crate::backend::Backend;
use crate::problem::Problem;
use crate::response::Response;

/// All exchanges with a name, in no order.
pub(crate) fn rows(backend: &dyn Backend) -> Result<Vec<ExchangeRow>, Problem> {
    all(
        backend,
        |from| Request::Exchanges { from },
        |reply| match reply {
            Reply::Exchanges(page) => Some(page),
            _ => None,
        },
    )
}

/// All bindings that are wanted, in order.
pub(crate) fn specs(
    backend: &dyn Backend,
    filter: &BindingFilter,
) -> Result<Vec<Arc<BindingSpec>>, Problem> {
    let request = |from| Request::Bindings {
        from,
        filter: filter.clone(),
    };
    let mut found = all(backend, request, |reply| match reply {
        Reply::Bindings(page) => Some(page),
        _ => None,
    })?;
    found.sort_by(|a, b| key(a).cmp(&key(b)));
    Ok(found)
}

fn key(spec: &BindingSpec) -> (&str, Option<&str>, Option<&str>, &str) {
    (
        &spec.exchange,
        spec.queue.as_deref(),
        spec.to_exchange.as_deref(),
        &spec.routing_key,
    )
}

pub(crate) fn list(backend: &dyn Backend, call: &Call) -> Answer {
    let is_wanted = call.searched();
    let mut rows = rows(backend)?;
    rows.push(ExchangeRow {
        spec: Arc::new(ExchangeSpec::new("", ExchangeKind::Direct)),
        is_predeclared: true,
        binding_count: 0,
    });
    rows.retain(|row| is_wanted(&row.spec.name));
    rows.sort_unstable_by(|a, b| a.spec.name.cmp(&b.spec.name));
    call.cut(&rows)
}

/// The exchange that the path names.
fn detail(backend: &dyn Backend, call: &Call) -> Result<ExchangeRow, Problem> {
    let name = call.name().to_owned();
    match ask(backend, Request::Exchange { name })? {
        Reply::Exchange(exchange) => Ok(exchange),
        _ => Err(unexpected()),
    }
}

pub(crate) fn one(backend: &dyn Backend, call: &Call) -> Answer {
    Ok(Response::json(200, &detail(backend, call)?))
}

pub(crate) fn declare(backend: &dyn Backend, call: &Call) -> Answer {
    let spec = admin::exchange_spec(call.name(), call.object()?)
        .map_err(|bad| Problem::invalid(bad.text).with_field(bad.field))?;
    match ask(backend, Request::DeclareExchange { spec })? {
        Reply::ExchangeDeclared { is_new, exchange } => {
            Ok(Response::json(if is_new { 201 } else { 200 }, &exchange))
        }
        _ => Err(unexpected()),
    }
}

pub(crate) fn delete(backend: &dyn Backend, call: &Call) -> Answer {
    let request = Request::DeleteExchange {
        name: call.name().to_owned(),
        if_unused: call.flag("if_unused")?,
    };
    ask(backend, request)?;
    Ok(Response::json(200, &json!({"deleted": true})))
}

pub(crate) fn of_exchange(backend: &dyn Backend, call: &Call) -> Answer {
    detail(backend, call)?;
    let filter = BindingFilter {
        exchange: Some(call.name().to_owned()),
        ..BindingFilter::default()
    };
    call.cut_as(&specs(backend, &filter)?, |spec| &**spec)
}

pub(crate) fn of_queue(backend: &dyn Backend, call: &Call) -> Answer {
    super::queues::detail(backend, call)?;
    let filter = BindingFilter {
        queue: Some(call.name().to_owned()),
        ..BindingFilter::default()
    };
    call.cut_as(&specs(backend, &filter)?, |spec| &**spec)
}

pub(crate) fn bindings(backend: &dyn Backend, call: &Call) -> Answer {
    let param = |name| call.param(name).map(str::to_owned);
    let filter = BindingFilter {
        exchange: param("exchange"),
        queue: param("queue"),
        to_exchange: param("to_exchange"),
    };
    call.cut_as(&specs(backend, &filter)?, |spec| &**spec)
}

pub(crate) fn bind(backend: &dyn Backend, call: &Call) -> Answer {
    let spec: BindingSpec = call.read()?;
    match ask(backend, Request::Bind { spec: spec.clone() })? {
        Reply::Bound { is_new } => Ok(Response::json(if is_new { 201 } else { 200 }, &spec)),
        _ => Err(unexpected()),
    }
}

pub(crate) fn unbind(backend: &dyn Backend, call: &Call) -> Answer {
    let param = |name| call.param(name).map(str::to_owned);
    let Some(exchange) = param("exchange") else {
        return Err(Problem::invalid("exchange is missing").with_field(Some("exchange".to_owned())));
    };
    let arguments = match call.param("arguments") {
        None | Some("") => Default::default(),
        Some(text) => serde_json::from_value(super::json(text.as_bytes())?).map_err(|error| {
            Problem::invalid(format!("arguments: {error}")).with_field(Some("arguments".to_owned()))
        })?,
    };
    let spec = BindingSpec {
        exchange,
        queue: param("queue"),
        to_exchange: param("to_exchange"),
        routing_key: param("routing_key").unwrap_or_default(),
        arguments,
    };
    ask(backend, Request::Unbind { spec })?;
    Ok(Response::json(200, &json!({"deleted": true})))
}
