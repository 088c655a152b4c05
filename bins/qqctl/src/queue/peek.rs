//! `qqctl queue peek`: looks at messages without taking them.

use argh::{ArgsInfo, FromArgs};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::client::query;
use crate::failure::Failure;
use crate::output::{Bytes, Column, Number, Text};
use crate::top::Context;

use super::path;

const COLUMNS: &[Column] = &[
    Column::new("POSITION", "position", Text),
    Column::new("ID", "id", Text),
    Column::new("STATE", "state", Text),
    Column::new("ATTEMPT", "attempt", Number),
    Column::new("PUBLISHED", "published_at", Text),
    Column::new("SIZE", "payload_bytes", Bytes),
    Column::new("HEADERS", "headers", Text),
    Column::new("PAYLOAD", "shown", Text),
];

/// Look at messages without taking them, oldest first.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "peek", help_triggers("--help"))]
pub(super) struct Peek {
    /// the queue
    #[argh(positional)]
    name: String,
    /// show at most so many (default: 10)
    #[argh(option, arg_name = "count", default = "10")]
    limit: u64,
    /// begin at this position
    #[argh(option, arg_name = "position")]
    from: Option<u64>,
    /// bytes of each payload that are fetched
    #[argh(option, arg_name = "count")]
    payload_max: Option<u64>,
    /// show those that consumers have as well
    #[argh(switch)]
    held: bool,
}

impl Peek {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let query = query(&[
            ("limit", Some(self.limit.to_string())),
            ("from", self.from.map(|from| from.to_string())),
            ("payload_max", self.payload_max.map(|max| max.to_string())),
            ("held", self.held.then(|| "true".to_owned())),
        ]);
        let answer = context
            .client
            .get(&format!("{}/messages{query}", path(&self.name)))?;
        context.output.list_as(&answer, COLUMNS, |row| {
            let shown = shown(row);
            row["shown"] = Value::String(shown);
        })
    }
}

/// The payload as text, or what stands for bytes that are none.
fn shown(row: &Value) -> String {
    let encoded = row["payload"].as_str().unwrap_or_default();
    match BASE64_STANDARD.decode(encoded).map(String::from_utf8) {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => "(bytes)".to_owned(),
        Err(_) => encoded.to_owned(),
    }
}
