//! Connections, sessions, links.

use std::collections::BTreeMap;

use qq_core::admin::{ConnDetail, ConnRow, LinkRole, LinkRow, Reply, Request};
use qq_core::vocab::{ConnId, NodeKind, Port};
use serde_json::{Map, Value, json};

use super::{Answer, Call, all, ask, moment, unexpected};
use crate::backend::Backend;
use crate::problem::Problem;
use crate::response::Response;

fn conn_json(row: &ConnRow) -> Value {
    json!({
        "id": row.conn.0.to_string(),
        "protocol": if row.about.protocol.is_empty() { "amqp" } else { row.about.protocol },
        "peer": row.about.peer,
        "container": row.about.container,
        "user": row.about.user,
        "product": row.about.product,
        "connected_at": moment(row.connected_at_ms),
        "producer_count": row.producers,
        "consumer_count": row.consumers,
        "in_flight": row.in_flight,
        "pressed": row.is_pressed,
    })
}

fn link_json(row: &LinkRow) -> Value {
    let node = match row.node {
        NodeKind::Queue => "queue",
        NodeKind::Stream => "stream",
        NodeKind::Exchange => "exchange",
        NodeKind::Anonymous => "anonymous",
    };
    json!({
        "id": format!("{}-{}", row.conn.0, row.port.0),
        "connection": row.conn.0.to_string(),
        "name": row.name,
        "role": match row.role { LinkRole::Producer => "producer", LinkRole::Consumer => "consumer" },
        "address": row.address,
        "node": node,
        "channel": row.channel,
        "credit": row.credit,
        "delivery_count": row.delivery_count,
        "unsettled": row.unsettled,
        "browsing": row.is_browsing,
        "settled": row.is_settled,
        "filter": row.filter,
        "waits": row.waits,
    })
}

fn detail_json(detail: &ConnDetail) -> Value {
    let mut value = conn_json(&detail.row);
    let details: Map<String, Value> = detail
        .details
        .iter()
        .map(|(name, text)| (name.clone(), Value::from(text.as_str())))
        .collect();
    value["fresh"] = detail.is_fresh.into();
    value["details"] = details.into();
    value["sessions"] = json!(detail.sessions);
    value["links"] = detail.links.iter().map(link_json).collect();
    value
}

pub(crate) fn list(backend: &dyn Backend, call: &Call) -> Answer {
    let mut rows = all(
        backend,
        |from| Request::Connections { from },
        |reply| match reply {
            Reply::Connections(page) => Some(page),
            _ => None,
        },
    )?;
    let is_wanted = call.searched();
    rows.retain(|row| {
        let texts = [
            Some(&row.about.peer),
            row.about.container.as_ref(),
            row.about.user.as_ref(),
        ];
        texts.into_iter().flatten().any(|text| is_wanted(text))
    });
    rows.sort_unstable_by_key(|row| row.conn);
    call.cut_as(&rows, conn_json)
}

fn conn_of(text: &str) -> Result<ConnId, Problem> {
    let number = text
        .parse()
        .ok()
        .filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    number
        .map(ConnId)
        .ok_or_else(|| Problem::missing("not found", "no connection has such an id"))
}

fn link_of(text: &str) -> Result<(ConnId, Port), Problem> {
    let missing = || Problem::missing("not found", "no link has such an id");
    let (conn, port) = text.split_once('-').ok_or_else(missing)?;
    let port = port.parse().map_err(|_| missing())?;
    Ok((conn_of(conn)?, Port(port)))
}

fn detail(backend: &dyn Backend, id: &str) -> Result<ConnDetail, Problem> {
    let conn = conn_of(id)?;
    match ask(backend, Request::Connection { conn })? {
        Reply::Connection(detail) => Ok(*detail),
        _ => Err(unexpected()),
    }
}

pub(crate) fn one(backend: &dyn Backend, call: &Call) -> Answer {
    let detail = detail(backend, call.name())?;
    Ok(Response::json(200, &detail_json(&detail)))
}

/// Sessions are known to their connection alone, which is asked.
pub(crate) fn sessions(backend: &dyn Backend, call: &Call) -> Answer {
    let Some(conn) = call.param("connection") else {
        return Err(Problem::invalid("connection is missing: whose sessions")
            .with_field(Some("connection".to_owned())));
    };
    call.cut(&detail(backend, conn)?.sessions)
}

pub(crate) fn close(backend: &dyn Backend, call: &Call) -> Answer {
    let conn = conn_of(call.name())?;
    let reason = call.param("reason").filter(|reason| !reason.is_empty());
    let reason = reason.unwrap_or("an operator closed the connection");
    let text = reason
        .chars()
        .filter(|c| !c.is_control())
        .take(255)
        .collect();
    ask(backend, Request::CloseConnection { conn, text })?;
    Ok(Response::json(200, &json!({"closed": true})))
}

fn link_rows(
    backend: &dyn Backend,
    conn: Option<ConnId>,
    node: Option<&str>,
) -> Result<Vec<LinkRow>, Problem> {
    let request = |from| Request::Links {
        from,
        conn,
        node: node.map(str::to_owned),
    };
    let mut rows = all(backend, request, |reply| match reply {
        Reply::Links(page) => Some(page),
        _ => None,
    })?;
    rows.sort_unstable_by_key(|row| (row.conn, row.port));
    Ok(rows)
}

pub(crate) fn links(backend: &dyn Backend, call: &Call) -> Answer {
    let conn = call.param("connection").map(conn_of).transpose()?;
    let rows = link_rows(backend, conn, call.param("queue"))?;
    call.cut_as(&rows, link_json)
}

pub(crate) fn of_queue(backend: &dyn Backend, call: &Call) -> Answer {
    super::queues::detail(backend, call)?;
    let rows = link_rows(backend, None, Some(call.name()))?;
    let consumers = rows.iter().filter(|row| row.role == LinkRole::Consumer);
    Ok(Response::json(
        200,
        &consumers.map(link_json).collect::<Vec<_>>(),
    ))
}

pub(crate) fn link(backend: &dyn Backend, call: &Call) -> Answer {
    let (conn, port) = link_of(call.name())?;
    match ask(backend, Request::Link { conn, port })? {
        Reply::Link(row) => Ok(Response::json(200, &link_json(&row))),
        _ => Err(unexpected()),
    }
}

pub(crate) fn close_link(backend: &dyn Backend, call: &Call) -> Answer {
    let (conn, port) = link_of(call.name())?;
    ask(backend, Request::CloseLink { conn, port })?;
    Ok(Response::json(200, &json!({"closed": true})))
}

pub(crate) fn consumers(backend: &dyn Backend, _call: &Call) -> Answer {
    let rows = super::queues::rows(backend)?;
    let by_name: BTreeMap<&str, u64> = rows
        .iter()
        .filter(|row| row.consumers > 0)
        .map(|row| (row.spec.name.as_str(), row.consumers))
        .collect();
    let list: Vec<Value> = by_name
        .iter()
        .map(|(queue, count)| json!({"queue": queue, "consumer_count": count}))
        .collect();
    Ok(Response::json(200, &list))
}
