//! `qqctl schema`: which message type a queue takes.

use argh::{ArgsInfo, FromArgs};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::ask::confirm;
use crate::client::segment;
use crate::failure::Failure;
use crate::output::{Column, Format, Number, Text};
use crate::top::Context;

const COLUMNS: &[Column] = &[
    Column::new("QUEUE", "queue", Text),
    Column::new("MESSAGE TYPE", "message_type", Text),
    Column::new("VERSION", "version", Number),
];

/// Schemas: which message type a queue takes.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "schema", help_triggers("--help"))]
pub(crate) struct Args {
    #[argh(subcommand)]
    command: Command,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Command {
    List(List),
    Get(Get),
    Register(Register),
    Delete(Delete),
}

/// List schemas.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "list", help_triggers("--help"))]
struct List {}

/// Show the schema of a queue.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "get", help_triggers("--help"))]
struct Get {
    /// the queue
    #[argh(positional)]
    queue: String,
}

/// Give a queue a schema, or a new version of the one that it has.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "register",
    help_triggers("--help"),
    example = "qqctl schema register -q orders -p order.proto -m shop.Order"
)]
struct Register {
    /// the queue
    #[argh(option, short = 'q', arg_name = "name")]
    queue: String,
    /// a .proto file, or a descriptor set
    #[argh(option, short = 'p', arg_name = "file")]
    proto: String,
    /// the message type, with its package
    #[argh(option, short = 'm', arg_name = "type")]
    message: String,
    /// what a new version may change: none, backward, forward or full
    #[argh(option, arg_name = "rule")]
    compatibility: Option<String>,
}

/// Take the schema of a queue away.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "delete", help_triggers("--help"))]
struct Delete {
    /// the queue
    #[argh(positional)]
    queue: String,
    /// do not ask
    #[argh(switch)]
    force: bool,
}

impl Args {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let Context { client, output } = context;
        match &self.command {
            Command::List(List {}) => output.list(&client.get("/api/v1/schemas")?, COLUMNS),
            Command::Get(args) => {
                let mut answer = client.get(&path(&args.queue))?;
                if let (Format::Table, Some(fields)) = (output.format, answer.json.as_object_mut())
                {
                    // It says the same as the text, for programs.
                    fields.remove("descriptor");
                }
                output.fields(&answer)
            }
            Command::Register(args) => register(context, args),
            Command::Delete(args) => {
                confirm(
                    args.force,
                    &format!("Take the schema of {:?} away", args.queue),
                )?;
                let answer = client.delete(&path(&args.queue))?;
                output.done(&answer, &format!("{} has no schema any more", args.queue))
            }
        }
    }
}

fn register(context: &Context, args: &Register) -> Result<(), Failure> {
    let bytes = std::fs::read(&args.proto)
        .map_err(|error| Failure::Usage(format!("{} cannot be read: {error}", args.proto)))?;
    let mut body = json!({ "message_type": args.message });
    match String::from_utf8(bytes) {
        // A descriptor set is Protobuf, whose first byte is a control character.
        Ok(text) if !text.starts_with('\n') || text.contains("syntax") => {
            body["proto"] = json!(text)
        }
        Ok(text) => body["descriptor"] = json!(BASE64_STANDARD.encode(text)),
        Err(error) => body["descriptor"] = json!(BASE64_STANDARD.encode(error.as_bytes())),
    }
    if let Some(rule) = &args.compatibility {
        body["compatibility"] = json!(rule);
    }
    let answer = context.client.put(&path(&args.queue), &body)?;
    let version = answer.json["version"].as_u64().unwrap_or(0);
    let sentence = format!(
        "Schema registered for queue {:?} (version {version})",
        args.queue
    );
    context.output.done(&answer, &sentence)
}

fn path(queue: &str) -> String {
    format!("/api/v1/schemas/{}", segment(queue))
}
