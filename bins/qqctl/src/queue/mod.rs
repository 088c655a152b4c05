//! `qqctl queue`: queues and the messages in them.

mod create;
mod peek;
pub(crate) mod stream;

use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};

use crate::ask::confirm;
use crate::binding;
use crate::client::{query, segment};
use crate::failure::Failure;
use crate::link;
use crate::long::move_all;
use crate::output::{Bytes, Column, Flag, Number, Text, plain, thousands};
use crate::publish::Publish;
use crate::top::Context;

use create::Create;
use peek::Peek;

const COLUMNS: &[Column] = &[
    Column::new("NAME", "name", Text),
    Column::new("MESSAGES", "depth", Number),
    Column::new("IN-FLIGHT", "in_flight", Number),
    Column::new("SIZE", "bytes", Bytes),
    Column::new("CONSUMERS", "consumer_count", Number),
    Column::new("PRODUCERS", "producer_count", Number),
    Column::new("DURABLE", "durable", Flag),
    Column::new("STATE", "state", Text),
];

/// Queues, and the messages in them.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "queue", help_triggers("--help"))]
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
    Purge(Purge),
    Publish(Publish),
    Peek(Peek),
    Move(Move),
    Redrive(Redrive),
    Bindings(Bindings),
    Consumers(Consumers),
}

/// List queues.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "list", help_triggers("--help"))]
struct List {
    /// only those with this text in their name
    #[argh(option, arg_name = "text")]
    search: Option<String>,
    /// order: name, depth, in_flight, messages, bytes or consumer_count; with a minus the largest first
    #[argh(option, arg_name = "field")]
    sort: Option<String>,
    /// show at most so many
    #[argh(option, arg_name = "count")]
    limit: Option<u64>,
    /// leave out so many first
    #[argh(option, arg_name = "count")]
    offset: Option<u64>,
}

/// Show a queue with its settings.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "get", help_triggers("--help"))]
struct Get {
    /// its name
    #[argh(positional)]
    name: String,
}

/// Delete a queue with its messages.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "delete", help_triggers("--help"))]
struct Delete {
    /// its name
    #[argh(positional)]
    name: String,
    /// only when it has no messages
    #[argh(switch)]
    if_empty: bool,
    /// only when it has no consumers
    #[argh(switch)]
    if_unused: bool,
    /// do not ask
    #[argh(switch)]
    force: bool,
}

/// Remove the messages of a queue that no consumer has.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "purge", help_triggers("--help"))]
struct Purge {
    /// its name
    #[argh(positional)]
    name: String,
    /// do not ask
    #[argh(switch)]
    force: bool,
}

/// Move waiting messages to another queue, oldest first.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "move", help_triggers("--help"))]
struct Move {
    /// where they are
    #[argh(positional)]
    from: String,
    /// where they go
    #[argh(positional)]
    to: String,
    /// move at most so many
    #[argh(option, arg_name = "count")]
    limit: Option<u64>,
    /// do not ask
    #[argh(switch)]
    force: bool,
}

/// Move dead letters back to where they came from; their attempts count from the beginning.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "redrive",
    help_triggers("--help"),
    example = "qqctl queue redrive orders.dlq --limit 100"
)]
struct Redrive {
    /// the queue of dead letters
    #[argh(positional)]
    name: String,
    /// move all of them to this queue instead
    #[argh(option, arg_name = "queue")]
    to: Option<String>,
    /// move at most so many
    #[argh(option, arg_name = "count")]
    limit: Option<u64>,
}

/// List what leads to a queue.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "bindings", help_triggers("--help"))]
struct Bindings {
    /// its name
    #[argh(positional)]
    name: String,
}

/// List the consumers of a queue.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "consumers", help_triggers("--help"))]
struct Consumers {
    /// its name
    #[argh(positional)]
    name: String,
}

impl Args {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let Context { client, output } = context;
        match &self.command {
            Command::List(args) => {
                let query = query(&[
                    ("search", args.search.clone()),
                    ("sort", args.sort.clone()),
                    ("limit", args.limit.map(|limit| limit.to_string())),
                    ("offset", args.offset.map(|offset| offset.to_string())),
                ]);
                output.list(&client.get(&format!("/api/v1/queues{query}"))?, COLUMNS)
            }
            Command::Create(args) => args.run(context),
            Command::Get(args) => output.fields(&client.get(&path(&args.name))?),
            Command::Delete(args) => delete(context, args),
            Command::Purge(args) => purge(context, args),
            Command::Publish(args) => args.run(context),
            Command::Peek(args) => args.run(context),
            Command::Move(args) => {
                confirm(
                    args.force,
                    &format!("Move messages of {:?} to {:?}", args.from, args.to),
                )?;
                let path = format!("{}/move", path(&args.from));
                moved(context, &path, &json!({ "to": args.to }), args.limit)
            }
            Command::Redrive(args) => {
                let body = args
                    .to
                    .as_ref()
                    .map_or_else(|| json!({}), |to| json!({ "to": to }));
                moved(
                    context,
                    &format!("{}/redrive", path(&args.name)),
                    &body,
                    args.limit,
                )
            }
            Command::Bindings(args) => {
                let answer = client.get(&format!("{}/bindings", path(&args.name)))?;
                output.list(&answer, binding::COLUMNS)
            }
            Command::Consumers(args) => {
                let answer = client.get(&format!("{}/consumers", path(&args.name)))?;
                output.list(&answer, link::COLUMNS)
            }
        }
    }
}

fn delete(context: &Context, args: &Delete) -> Result<(), Failure> {
    confirm(
        args.force,
        &format!("Delete the queue {:?} with its messages", args.name),
    )?;
    let is_set = |flag: bool| flag.then(|| "true".to_owned());
    let query = query(&[
        ("delete", is_set(true)),
        ("if_empty", is_set(args.if_empty)),
        ("if_unused", is_set(args.if_unused)),
    ]);
    let answer = context
        .client
        .delete(&format!("{}{query}", path(&args.name)))?;
    let sentence = format!(
        "queue {} deleted with {} messages",
        args.name,
        plain(&answer.json["purged"])
    );
    context.output.done(&answer, &sentence)
}

fn purge(context: &Context, args: &Purge) -> Result<(), Failure> {
    confirm(
        args.force,
        &format!("Remove the messages of {:?}", args.name),
    )?;
    let answer = context
        .client
        .post(&format!("{}/purge", path(&args.name)), &json!({}))?;
    let count = answer.json["purged"].as_u64().unwrap_or(0);
    context.output.done(
        &answer,
        &format!("{} messages removed from {}", thousands(count), args.name),
    )
}

fn moved(context: &Context, path: &str, body: &Value, limit: Option<u64>) -> Result<(), Failure> {
    let answer = move_all(context, path, body, limit)?;
    let count = |field: &str| thousands(answer.json[field].as_u64().unwrap_or(0));
    context.output.done(
        &answer,
        &format!("{} messages moved, {} left", count("moved"), count("left")),
    )
}

/// Where the API has a queue.
fn path(name: &str) -> String {
    format!("/api/v1/queues/{}", segment(name))
}
