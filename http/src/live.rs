//! Live updates: server-sent events, and the same over a WebSocket. One set each second until the peer goes.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::{self, Call, node, queues};
use crate::guard::Head;
use crate::path;
use crate::problem::Problem;
use crate::server::Shared;

/// Between two sets.
const EVERY: Duration = Duration::from_secs(1);

/// How events are written.
enum Form {
    Events,
    WebSocket,
}

/// What a subscriber was told of queues: depth, in flight, consumers.
type Told = HashMap<String, (u64, u64, u64)>;

/// Serves a subscriber until it goes or the server stops.
pub(crate) fn serve(
    mut socket: &TcpStream,
    shared: &Shared,
    head: &Head,
    path: &str,
    query: &str,
) -> std::io::Result<()> {
    let params = path::query(query).unwrap_or_default();
    let unknown = params.iter().find(|(name, _)| name != "queue");
    if unknown.is_some() {
        let response = Problem::invalid("queue is the only parameter of live updates").response();
        return socket.write_all(&response.encode(false, false));
    }
    let queue = params.first().map(|(_, name)| name.clone());
    let form = if path.ends_with("/ws") {
        let Some(accept) = crate::websocket::accept(head) else {
            let detail = "this is where a WebSocket begins; /api/v1/events has the same as server-sent events";
            let response = Problem::invalid(detail).response();
            return socket.write_all(&response.encode(false, false));
        };
        socket.write_all(accept.as_bytes())?;
        Form::WebSocket
    } else {
        socket.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
              X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nretry: 2000\n\n",
        )?;
        Form::Events
    };
    let mut told = Told::new();
    let mut next = Instant::now();
    while !shared.is_stopping() {
        for (kind, data) in events(shared, queue.as_deref(), &mut told) {
            match form {
                Form::Events => write!(&mut socket, "event: {kind}\ndata: {data}\n\n")?,
                Form::WebSocket => {
                    let text = json!({"type": kind, "data": data}).to_string();
                    socket.write_all(&crate::websocket::text_frame(text.as_bytes()))?;
                }
            }
        }
        next += EVERY;
        while Instant::now() < next && !shared.is_stopping() {
            // What the peer sends is read and forgotten; that it went is seen.
            let mut buffer = [0u8; 1024];
            match socket.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(len)
                    if matches!(form, Form::WebSocket)
                        && crate::websocket::is_close(&buffer[..len]) =>
                {
                    return socket.write_all(&crate::websocket::close_frame());
                }
                Ok(_) => std::thread::sleep(Duration::from_millis(10)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// One set.
fn events(shared: &Shared, queue: Option<&str>, told: &mut Told) -> Vec<(&'static str, Value)> {
    let backend = &*shared.backend;
    let mut events = Vec::new();
    events.extend(node::stats_json(backend).ok().map(|stats| ("stats", stats)));
    if let Some(name) = queue {
        let call = Call {
            parts: vec![name.to_owned()],
            ..Call::default()
        };
        let detail = queues::one(backend, &call).ok();
        let detail = detail.and_then(|response| api::json(&response.body).ok());
        events.push(("queue", detail.unwrap_or(Value::Null)));
        return events;
    }
    let Ok(rows) = queues::rows(backend) else {
        return events;
    };
    let mut now = Told::with_capacity(rows.len());
    for row in &rows {
        let name = &row.spec.name;
        let state = (row.depth, row.in_flight, row.consumers);
        let before = told.get(name);
        if before.is_none_or(|before| (before.0, before.1) != (state.0, state.1)) {
            let data = json!({"name": name, "depth": row.depth, "in_flight": row.in_flight});
            events.push(("queue_depth", data));
        }
        if before.map_or(0, |before| before.2) != state.2 {
            let data = json!({"name": name, "consumer_count": row.consumers});
            events.push(("consumer_change", data));
        }
        now.insert(name.clone(), state);
    }
    *told = now;
    events
}
