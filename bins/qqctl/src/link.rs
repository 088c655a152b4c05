//! `qqctl link`: links with their credit, and why nothing flows over one.

use argh::{ArgsInfo, FromArgs};
use serde_json::Value;

use crate::ask::confirm;
use crate::client::{query, segment};
use crate::failure::Failure;
use crate::output::{Column, Flag, Number, Text, plain};
use crate::top::Context;

pub(crate) const COLUMNS: &[Column] = &[
    Column::new("ID", "id", Text),
    Column::new("ROLE", "role", Text),
    Column::new("ADDRESS", "address", Text),
    Column::new("NAME", "name", Text),
    Column::new("CREDIT", "credit", Number),
    Column::new("UNSETTLED", "unsettled", Number),
    Column::new("BROWSES", "browsing", Flag),
    Column::new("FILTER", "filter", Text),
];

/// Links: producers and consumers.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "link", help_triggers("--help"))]
pub(crate) struct Args {
    #[argh(subcommand)]
    command: Command,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Command {
    List(List),
    Why(Why),
    Close(Close),
}

/// List links.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "list", help_triggers("--help"))]
struct List {
    /// only those of this connection
    #[argh(option, arg_name = "id")]
    connection: Option<String>,
    /// only those of this queue
    #[argh(option, arg_name = "name")]
    queue: Option<String>,
    /// show at most so many
    #[argh(option, arg_name = "count")]
    limit: Option<u64>,
    /// leave out so many first
    #[argh(option, arg_name = "count")]
    offset: Option<u64>,
}

/// Say why nothing flows over a link.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "why", help_triggers("--help"))]
struct Why {
    /// the link's id, as `link list` shows it, or its name
    #[argh(positional)]
    link: String,
}

/// Close a link; its client is told.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "close", help_triggers("--help"))]
struct Close {
    /// the link's id
    #[argh(positional)]
    id: String,
    /// do not ask
    #[argh(switch)]
    force: bool,
}

impl Args {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.command {
            Command::List(args) => {
                let query = query(&[
                    ("connection", args.connection.clone()),
                    ("queue", args.queue.clone()),
                    ("limit", args.limit.map(|limit| limit.to_string())),
                    ("offset", args.offset.map(|offset| offset.to_string())),
                ]);
                let answer = context.client.get(&format!("/api/v1/links{query}"))?;
                context.output.list(&answer, COLUMNS)
            }
            Command::Why(args) => why(context, &args.link),
            Command::Close(args) => {
                confirm(args.force, &format!("Close the link {:?}", args.id))?;
                let answer = context
                    .client
                    .delete(&format!("/api/v1/links/{}", segment(&args.id)))?;
                context
                    .output
                    .done(&answer, &format!("link {} closed", args.id))
            }
        }
    }
}

fn why(context: &Context, link: &str) -> Result<(), Failure> {
    let by_id = context
        .client
        .get(&format!("/api/v1/links/{}", segment(link)));
    let answer = match by_id {
        Ok(answer) => answer,
        // Perhaps it is a name: those are what people know their links by.
        Err(Failure::Refused(text)) => {
            let all = context.client.get("/api/v1/links?limit=10000")?;
            let rows = all.json.as_array().map(Vec::as_slice).unwrap_or_default();
            let named: Vec<&Value> = rows
                .iter()
                .filter(|row| row["name"].as_str() == Some(link))
                .collect();
            match named[..] {
                [] => return Err(Failure::Refused(text)),
                [one] => context
                    .client
                    .get(&format!("/api/v1/links/{}", segment(&plain(&one["id"]))))?,
                _ => {
                    let ids: Vec<String> = named.iter().map(|row| plain(&row["id"])).collect();
                    return Err(Failure::Refused(format!(
                        "{} links have the name {link:?}: {}",
                        named.len(),
                        ids.join(", ")
                    )));
                }
            }
        }
        Err(failure) => return Err(failure),
    };
    let row = &answer.json;
    let text = format!(
        "link {} ({}), {} of {}: credit {}, unsettled {}\n{}",
        plain(&row["id"]),
        plain(&row["name"]),
        plain(&row["role"]),
        plain(&row["address"]),
        plain(&row["credit"]),
        plain(&row["unsettled"]),
        reasons(row),
    );
    context.output.text(&answer, &text)
}

/// The reasons that an answer gives, one per line.
pub(crate) fn reasons(row: &Value) -> String {
    let list = row.get("waits").or_else(|| row.get("why"));
    let reasons: Vec<String> = list
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|why| format!("  {}: {}\n", plain(&why["code"]), plain(&why["text"])))
        .collect();
    if reasons.is_empty() {
        return "  nothing holds it back\n".to_owned();
    }
    reasons.concat()
}
