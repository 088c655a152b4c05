//! The history of a dead letter as message annotations.
//!
//! `x-opt-deaths` is a list of maps, newest first, one for each queue and reason; the other annotations say the newest
//! again for consumers that look no further. `x-opt-death-ttl` and `x-opt-death-expiry` keep what the message lost.

use qq_proto_amqp::types::{Map, Str, Symbol, Value};

use crate::vocab::{Death, Deaths};

fn key(name: &str) -> Value {
    Symbol::new(name).map_or(Value::Null, Value::Symbol)
}

fn text(text: &str) -> Value {
    Value::Str(Str::from(text))
}

/// What consumers read of it.
pub(super) fn annotations_of(deaths: &Deaths) -> Map {
    let mut map = Map::default();
    map.push((
        key("x-opt-deaths"),
        Value::List(deaths.list.iter().map(map_of).collect()),
    ));
    if let Some(newest) = deaths.list.first() {
        map.push((key("x-opt-death-reason"), text(newest.cause.name())));
        map.push((key("x-opt-death-queue"), text(&newest.queue)));
        map.push((key("x-opt-death-time"), Value::Timestamp(newest.at_ms)));
        let count = deaths.list.iter().map(|death| u64::from(death.count)).sum();
        map.push((key("x-opt-death-count"), Value::Ulong(count)));
    }
    if let Some(ttl_ms) = deaths.ttl_ms {
        map.push((key("x-opt-death-ttl"), Value::Ulong(ttl_ms)));
    }
    if let Some(expires_at_ms) = deaths.expires_at_ms {
        map.push((key("x-opt-death-expiry"), Value::Timestamp(expires_at_ms)));
    }
    map
}

fn map_of(death: &Death) -> Value {
    Value::Map(
        [
            (key("queue"), text(&death.queue)),
            (key("reason"), text(death.cause.name())),
            (key("count"), Value::Ulong(u64::from(death.count))),
            (key("time"), Value::Timestamp(death.at_ms)),
        ]
        .into_iter()
        .collect(),
    )
}
