//! Live updates: server-sent events, and the same over a WebSocket. One set each second until the peer goes.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::{Call, node, queues};
use crate::guard::Head;
use crate::path;
use crate::problem::Problem;
use crate::server::{Shared, is_timeout};
use crate::websocket::{self, Heard};

/// Between two sets.
const EVERY: Duration = Duration::from_secs(1);

/// How events are written.
enum Form {
    Events,
    WebSocket(websocket::Reader),
}

/// What a subscriber wants.
#[derive(Debug, PartialEq, Eq)]
enum Topic {
    /// The node and what changes of every queue.
    All,
    /// The node alone.
    Node,
    /// The node and one queue.
    Queue(String),
}

impl Topic {
    fn of(query: &str) -> Result<Self, &'static str> {
        let params = path::query(query).ok_or("the query is not percent-encoded UTF-8")?;
        match &params[..] {
            [] => Ok(Self::All),
            [(name, value)] if name == "queue" => Ok(Self::Queue(value.clone())),
            [(name, value)] if name == "only" && value == "stats" => Ok(Self::Node),
            _ => Err("live updates take either queue, the name of one, or only=stats"),
        }
    }
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
    let topic = match Topic::of(query) {
        Ok(topic) => topic,
        Err(detail) => {
            let response = Problem::invalid(detail).response();
            return socket.write_all(&response.encode(false, false));
        }
    };
    let mut form = if path.ends_with("/ws") {
        let Some(accept) = websocket::accept(head) else {
            let detail = "this is where a WebSocket begins; /api/v1/events has the same as server-sent events";
            let response = Problem::invalid(detail).response();
            return socket.write_all(&response.encode(false, false));
        };
        socket.write_all(accept.as_bytes())?;
        Form::WebSocket(websocket::Reader::default())
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
        for (kind, data) in events(shared, &topic, &mut told) {
            match form {
                Form::Events => write!(&mut socket, "event: {kind}\ndata: {data}\n\n")?,
                Form::WebSocket(_) => {
                    let text = json!({"type": kind, "data": data}).to_string();
                    socket.write_all(&websocket::text_frame(text.as_bytes()))?;
                }
            }
        }
        next = due_after(next, Instant::now());
        while Instant::now() < next && !shared.is_stopping() {
            let mut buffer = [0u8; 1024];
            match socket.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(len) => {
                    if let Form::WebSocket(reader) = &mut form
                        && !answer_frames(socket, reader, &buffer[..len])?
                    {
                        return Ok(());
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// When the next set is due. What a slow broker or peer kept from being sent is not made up for.
fn due_after(due: Instant, now: Instant) -> Instant {
    (due + EVERY).max(now)
}

/// Answers what a peer says; false when that was its last word.
fn answer_frames(
    mut socket: &TcpStream,
    reader: &mut websocket::Reader,
    bytes: &[u8],
) -> std::io::Result<bool> {
    for heard in reader.handle_input(bytes) {
        match heard {
            Heard::Ping(payload) => socket.write_all(&websocket::pong_frame(&payload))?,
            Heard::Close(code) => {
                socket.write_all(&websocket::close_frame(code))?;
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// One set.
fn events(shared: &Shared, topic: &Topic, told: &mut Told) -> Vec<(&'static str, Value)> {
    let backend = &*shared.backend;
    let mut events = Vec::new();
    events.extend(node::stats_json(backend).ok().map(|stats| ("stats", stats)));
    match topic {
        Topic::Node => return events,
        Topic::Queue(name) => {
            let call = Call {
                parts: vec![name.clone()],
                ..Call::default()
            };
            // One that is gone is told of as null.
            let detail = queues::detail(backend, &call).ok();
            events.push(("queue", json!(detail)));
            return events;
        }
        Topic::All => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_said_in_one_way() {
        assert_eq!(Topic::of(""), Ok(Topic::All));
        assert_eq!(Topic::of("only=stats"), Ok(Topic::Node));
        assert_eq!(Topic::of("queue=a%2Fb"), Ok(Topic::Queue("a/b".to_owned())));
        for wrong in [
            "queue=%zz",
            "only=queues",
            "only",
            "queues=a",
            "queue=a&only=stats",
        ] {
            assert!(Topic::of(wrong).is_err(), "{wrong}");
        }
    }
    #[test]
    fn sets_that_were_missed_are_not_sent_afterwards() {
        let due = Instant::now();
        let in_time = due + EVERY / 2;
        assert_eq!(due_after(due, in_time), due + EVERY);
        let late = due + 60 * EVERY;
        assert_eq!(due_after(due, late), late);
    }
}
