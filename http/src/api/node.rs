//! The node: health, numbers, configuration.

use qq_core::admin::{NodeStats, Reply, Request};
use serde_json::{Value, json};

use super::{Answer, Call, ask, moment, unexpected};
use crate::backend::Backend;
use crate::problem::Problem;
use crate::response::Response;
use crate::routes::OPENAPI;

/// The wall clock, milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

pub(crate) fn node_stats(backend: &dyn Backend) -> Result<NodeStats, Problem> {
    match ask(backend, Request::Stats)? {
        Reply::Stats(stats) => Ok(*stats),
        _ => Err(unexpected()),
    }
}

fn health_json(status: &str, alarms: &[&str]) -> Value {
    json!({"status": status, "time": moment(now_ms()), "alarms": alarms})
}

pub(crate) fn health(_backend: &dyn Backend, _call: &Call) -> Answer {
    Ok(Response::json(200, &health_json("ok", &[])))
}

pub(crate) fn ready(backend: &dyn Backend, _call: &Call) -> Answer {
    let unready = |alarms: &[&str]| Ok(Response::json(503, &health_json("unavailable", alarms)));
    let Ok(stats) = node_stats(backend) else {
        return unready(&[]);
    };
    let alarms: Vec<&str> = stats.alarms.iter().map(|alarm| alarm.name).collect();
    if stats.is_draining || alarms.contains(&"disk") {
        return unready(&alarms);
    }
    Ok(Response::json(200, &health_json("ok", &alarms)))
}

pub(crate) fn metrics(backend: &dyn Backend, _call: &Call) -> Answer {
    let text = crate::metrics::text(backend)?;
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    Ok(Response::new(200, content_type, text.into_bytes()))
}

pub(crate) fn openapi(_backend: &dyn Backend, _call: &Call) -> Answer {
    Ok(Response::new(
        200,
        "application/json",
        OPENAPI.as_bytes().to_vec(),
    ))
}

pub(crate) fn stats_json(backend: &dyn Backend) -> Result<Value, Problem> {
    let stats = node_stats(backend)?;
    let node = backend.node();
    let uptime_ms = u64::try_from(now_ms() - node.started_at_ms).unwrap_or(0);
    let (memory, threads) = backend.process();
    let alarms: Vec<&str> = stats.alarms.iter().map(|alarm| alarm.name).collect();
    let uptime_s = uptime_ms / 1_000;
    Ok(json!({
        "uptime": format!("{}h{}m{}s", uptime_s / 3_600, uptime_s / 60 % 60, uptime_s % 60),
        "started_at": moment(node.started_at_ms),
        "queue_count": stats.queues,
        "memory_alloc_bytes": memory,
        "memory_limit_bytes": stats.memory_max_bytes,
        "num_goroutine": threads,
        "version": node.version,
        "runtime": node.runtime,
        "store": node.store,
        "uptime_ms": uptime_ms,
        "exchange_count": stats.exchanges,
        "binding_count": stats.bindings,
        "connection_count": stats.connections,
        "producer_count": stats.producers,
        "consumer_count": stats.consumers,
        "messages": stats.messages,
        "in_flight": stats.in_flight,
        "paged": stats.paged,
        "queued_bytes": stats.queued_bytes,
        "alarms": alarms,
        "totals": stats.totals,
    }))
}

pub(crate) fn stats(backend: &dyn Backend, _call: &Call) -> Answer {
    Ok(Response::json(200, &stats_json(backend)?))
}

pub(crate) fn alarms(backend: &dyn Backend, _call: &Call) -> Answer {
    Ok(Response::json(200, &node_stats(backend)?.alarms))
}

pub(crate) fn config(backend: &dyn Backend, _call: &Call) -> Answer {
    Ok(Response::json(200, &backend.node().config))
}

pub(crate) fn limits(backend: &dyn Backend, _call: &Call) -> Answer {
    Ok(Response::json(200, &backend.node().limits))
}

pub(crate) fn cluster(backend: &dyn Backend, _call: &Call) -> Answer {
    let node_id = &backend.node().node_id;
    Ok(Response::json(
        200,
        &json!({"enabled": false, "node_id": node_id, "nodes": []}),
    ))
}

pub(crate) fn users(backend: &dyn Backend, _call: &Call) -> Answer {
    let users: Vec<Value> = backend
        .users()
        .iter()
        .map(|name| json!({"name": name}))
        .collect();
    Ok(Response::json(200, &users))
}

pub(crate) fn tokens(backend: &dyn Backend, _call: &Call) -> Answer {
    let tokens: Vec<Value> = backend
        .tokens()
        .iter()
        .map(|token| json!({"name": token.name, "line": token.line}))
        .collect();
    Ok(Response::json(200, &tokens))
}
