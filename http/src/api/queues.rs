//! Queues.

use qq_core::admin::{self, QueueDetail, QueueRow, Reply, Request};
use serde_json::json;

use super::{Answer, Call, all, ask, unexpected};
use crate::backend::Backend;
use crate::problem::Problem;
use crate::response::Response;

/// All queues, in no order.
pub(crate) fn rows(backend: &dyn Backend) -> Result<Vec<QueueRow>, Problem> {
    all(
        backend,
        |from| Request::Queues { from },
        |reply| match reply {
            Reply::Queues(page) => Some(page),
            _ => None,
        },
    )
}

pub(crate) fn list(backend: &dyn Backend, call: &Call) -> Answer {
    list_of(backend, call, false)
}

pub(crate) fn streams(backend: &dyn Backend, call: &Call) -> Answer {
    list_of(backend, call, true)
}

fn list_of(backend: &dyn Backend, call: &Call, is_stream: bool) -> Answer {
    let key = call.param("sort").unwrap_or("name");
    let (key, is_reversed) = match key.strip_prefix('-') {
        Some(key) => (key, true),
        None => (key, false),
    };
    let number: fn(&QueueRow) -> u64 = match key {
        "name" => |_| 0,
        "depth" => |row| row.depth,
        "in_flight" => |row| row.in_flight,
        "messages" => |row| row.depth + row.in_flight,
        "bytes" => |row| row.bytes,
        "consumer_count" => |row| row.consumers,
        _ => {
            let detail = "sort must be name, depth, in_flight, messages, bytes or consumer_count, with a minus or without";
            return Err(Problem::invalid(detail).with_field(Some("sort".to_owned())));
        }
    };
    let is_wanted = call.searched();
    let mut rows = rows(backend)?;
    rows.retain(|row| row.spec.is_stream() == is_stream && is_wanted(&row.spec.name));
    rows.sort_unstable_by(|a, b| {
        let by_number = number(a).cmp(&number(b));
        let by_name = a.spec.name.cmp(&b.spec.name);
        match (is_reversed, key) {
            (true, "name") => by_name.reverse(),
            (true, _) => by_number.reverse().then(by_name),
            (false, _) => by_number.then(by_name),
        }
    });
    call.cut(&rows)
}

/// The queue that the path names.
pub(crate) fn detail(backend: &dyn Backend, call: &Call) -> Result<QueueDetail, Problem> {
    let name = call.name().to_owned();
    match ask(backend, Request::Queue { name })? {
        Reply::Queue(queue) => Ok(*queue),
        _ => Err(unexpected()),
    }
}

pub(crate) fn one(backend: &dyn Backend, call: &Call) -> Answer {
    Ok(Response::json(200, &detail(backend, call)?))
}

/// As [`detail`], if it is a stream.
fn stream_detail(backend: &dyn Backend, call: &Call) -> Result<QueueDetail, Problem> {
    let queue = detail(backend, call)?;
    if !queue.row.spec.is_stream() {
        return Err(Problem::missing("stream not found", "this is a queue"));
    }
    Ok(queue)
}

pub(crate) fn stream(backend: &dyn Backend, call: &Call) -> Answer {
    let queue = stream_detail(backend, call)?;
    Ok(Response::json(200, &queue.stream_view()))
}

pub(crate) fn declare_stream(backend: &dyn Backend, call: &Call) -> Answer {
    let spec = admin::stream_spec(call.name(), call.object()?)
        .map_err(|bad| Problem::invalid(bad.text).with_field(bad.field))?;
    let spec = Box::new(spec);
    match ask(backend, Request::DeclareQueue { spec })? {
        Reply::QueueDeclared { is_new, queue } => {
            let status = if is_new { 201 } else { 200 };
            Ok(Response::json(status, &queue.stream_view()))
        }
        _ => Err(unexpected()),
    }
}

pub(crate) fn delete_stream(backend: &dyn Backend, call: &Call) -> Answer {
    stream_detail(backend, call)?;
    delete(backend, call)
}

pub(crate) fn declare(backend: &dyn Backend, call: &Call) -> Answer {
    let base = &backend.node().queue_defaults;
    let spec = admin::queue_spec(base, call.name(), call.object()?)
        .map_err(|bad| Problem::invalid(bad.text).with_field(bad.field))?;
    let spec = Box::new(spec);
    match ask(backend, Request::DeclareQueue { spec })? {
        Reply::QueueDeclared { is_new, queue } => {
            Ok(Response::json(if is_new { 201 } else { 200 }, &queue))
        }
        _ => Err(unexpected()),
    }
}

pub(crate) fn delete(backend: &dyn Backend, call: &Call) -> Answer {
    let (if_empty, if_unused) = (call.flag("if_empty")?, call.flag("if_unused")?);
    if !call.flag("delete")? {
        if if_empty || if_unused {
            let detail = "if_empty and if_unused are conditions of delete=true; without it the queue is purged";
            return Err(Problem::invalid(detail));
        }
        return purge(backend, call);
    }
    let request = Request::DeleteQueue {
        name: call.name().to_owned(),
        if_unused,
        if_empty,
    };
    match ask(backend, request)? {
        Reply::QueueDeleted { messages } => Ok(Response::json(
            200,
            &json!({"purged": messages, "deleted": true}),
        )),
        _ => Err(unexpected()),
    }
}

pub(crate) fn purge(backend: &dyn Backend, call: &Call) -> Answer {
    let name = call.name().to_owned();
    match ask(backend, Request::Purge { name })? {
        Reply::Purged { messages } => Ok(Response::json(200, &json!({"purged": messages}))),
        _ => Err(unexpected()),
    }
}
