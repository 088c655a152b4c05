//! `qqctl stream`: append-only logs, which share the names of the queues.

use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};

use crate::amount::{Size, SpanMs};
use crate::ask::confirm;
use crate::client::{query, segment};
use crate::failure::Failure;
use crate::output::{Bytes, Column, Flag, Number, Text};
use crate::top::Context;

const COLUMNS: &[Column] = &[
    Column::new("NAME", "name", Text),
    Column::new("MESSAGES", "messages", Number),
    Column::new("SIZE", "bytes", Bytes),
    Column::new("CONSUMERS", "consumer_count", Number),
    Column::new("PRODUCERS", "producer_count", Number),
    Column::new("DURABLE", "durable", Flag),
    Column::new("STATE", "state", Text),
];

/// Streams: logs that reading does not empty.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "stream", help_triggers("--help"))]
pub(crate) struct Args {
    #[argh(subcommand)]
    command: Command,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Command {
    List(List),
    Create(Create),
    Get(Get),
    Delete(Delete),
}

/// List streams.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "list", help_triggers("--help"))]
struct List {
    /// only those with this text in their name
    #[argh(option, arg_name = "text")]
    search: Option<String>,
    /// show at most so many
    #[argh(option, arg_name = "count")]
    limit: Option<u64>,
    /// leave out so many first
    #[argh(option, arg_name = "count")]
    offset: Option<u64>,
}

/// Create a stream; the same once more is no error.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "create", help_triggers("--help"))]
struct Create {
    /// its name
    #[argh(positional)]
    name: String,
    /// messages older than this may go
    #[argh(option, arg_name = "time")]
    max_age: Option<SpanMs>,
    /// beyond this size the oldest messages go
    #[argh(option, arg_name = "size")]
    max_bytes: Option<Size>,
    /// beyond this number the oldest messages go
    #[argh(option, arg_name = "count")]
    max_messages: Option<u64>,
    /// it does not survive a restart
    #[argh(switch)]
    transient: bool,
}

/// Show a stream with its settings.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "get", help_triggers("--help"))]
struct Get {
    /// its name
    #[argh(positional)]
    name: String,
}

/// Delete a stream with its messages.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "delete", help_triggers("--help"))]
struct Delete {
    /// its name
    #[argh(positional)]
    name: String,
    /// do not ask
    #[argh(switch)]
    force: bool,
}

impl Args {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let Context { client, output } = context;
        match &self.command {
            Command::List(args) => {
                let query = query(&[
                    ("search", args.search.clone()),
                    ("limit", args.limit.map(|limit| limit.to_string())),
                    ("offset", args.offset.map(|offset| offset.to_string())),
                ]);
                output.list(&client.get(&format!("/api/v1/streams{query}"))?, COLUMNS)
            }
            Command::Create(args) => {
                let fields = [
                    ("max_age_ms", args.max_age.map(|span| json!(span.0))),
                    ("max_bytes", args.max_bytes.map(|size| json!(size.0))),
                    ("max_messages", args.max_messages.map(|count| json!(count))),
                    ("durable", args.transient.then_some(Value::Bool(false))),
                ];
                let set = fields
                    .into_iter()
                    .filter_map(|(field, value)| Some((field.to_owned(), value?)));
                let answer = client.put(&path(&args.name), &Value::Object(set.collect()))?;
                output.done(&answer, &format!("stream {} is there", args.name))
            }
            Command::Get(args) => output.fields(&client.get(&path(&args.name))?),
            Command::Delete(args) => {
                confirm(
                    args.force,
                    &format!("Delete the stream {:?} with its messages", args.name),
                )?;
                let answer = client.delete(&format!("{}?delete=true", path(&args.name)))?;
                output.done(&answer, &format!("stream {} deleted", args.name))
            }
        }
    }
}

fn path(name: &str) -> String {
    format!("/api/v1/streams/{}", segment(name))
}
