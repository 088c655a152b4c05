//! `qqctl connection`: who is connected.

use argh::{ArgsInfo, FromArgs};

use crate::ask::confirm;
use crate::client::{query, segment};
use crate::failure::Failure;
use crate::output::{Column, Flag, Number, Text};
use crate::top::Context;

const COLUMNS: &[Column] = &[
    Column::new("ID", "id", Text),
    Column::new("PROTOCOL", "protocol", Text),
    Column::new("PEER", "peer", Text),
    Column::new("CONTAINER", "container", Text),
    Column::new("USER", "user", Text),
    Column::new("PRODUCERS", "producer_count", Number),
    Column::new("CONSUMERS", "consumer_count", Number),
    Column::new("IN-FLIGHT", "in_flight", Number),
    Column::new("PRESSED", "pressed", Flag),
];

/// Connections of clients.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "connection", help_triggers("--help"))]
pub(crate) struct Args {
    #[argh(subcommand)]
    command: Command,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Command {
    List(List),
    Get(Get),
    Close(Close),
}

/// List connections, the oldest first.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "list", help_triggers("--help"))]
struct List {
    /// only those with this text in peer, container or user
    #[argh(option, arg_name = "text")]
    search: Option<String>,
    /// show at most so many
    #[argh(option, arg_name = "count")]
    limit: Option<u64>,
    /// leave out so many first
    #[argh(option, arg_name = "count")]
    offset: Option<u64>,
}

/// Show a connection with its sessions and links.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "get", help_triggers("--help"))]
struct Get {
    /// the connection's id
    #[argh(positional)]
    id: String,
}

/// Close a connection; its client is told.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "close", help_triggers("--help"))]
struct Close {
    /// the connection's id
    #[argh(positional)]
    id: String,
    /// what the client is told
    #[argh(option, arg_name = "text")]
    reason: Option<String>,
    /// do not ask
    #[argh(switch)]
    force: bool,
}

impl Args {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.command {
            Command::List(args) => {
                let query = query(&[
                    ("search", args.search.clone()),
                    ("limit", args.limit.map(|limit| limit.to_string())),
                    ("offset", args.offset.map(|offset| offset.to_string())),
                ]);
                let answer = context.client.get(&format!("/api/v1/connections{query}"))?;
                context.output.list(&answer, COLUMNS)
            }
            Command::Get(args) => {
                let answer = context.client.get(&path(&args.id))?;
                context.output.fields(&answer)
            }
            Command::Close(args) => {
                confirm(args.force, &format!("Close the connection {:?}", args.id))?;
                let query = query(&[("reason", args.reason.clone())]);
                let answer = context
                    .client
                    .delete(&format!("{}{query}", path(&args.id)))?;
                context
                    .output
                    .done(&answer, &format!("connection {} closed", args.id))
            }
        }
    }
}

fn path(id: &str) -> String {
    format!("/api/v1/connections/{}", segment(id))
}
