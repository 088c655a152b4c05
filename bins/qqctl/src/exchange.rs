//! `qqctl exchange`: exchanges and what they are bound to.

use argh::{ArgsInfo, FromArgs};
use serde_json::json;

use crate::ask::confirm;
use crate::binding::{self, Bind, Unbind};
use crate::client::{query, segment};
use crate::failure::Failure;
use crate::output::{Column, Flag, Number, Text};
use crate::top::Context;

const COLUMNS: &[Column] = &[
    Column::new("NAME", "name", Text),
    Column::new("TYPE", "type", Text),
    Column::new("DURABLE", "durable", Flag),
    Column::new("AUTO-DELETE", "auto_delete", Flag),
    Column::new("BINDINGS", "binding_count", Number),
    Column::new("ALTERNATE", "alternate_exchange", Text),
];

/// Exchanges: where messages are routed from.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "exchange", help_triggers("--help"))]
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
    Bind(Bind),
    Unbind(Unbind),
    Bindings(Bindings),
}

/// List exchanges.
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

/// Create an exchange; the same once more is no error.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "create", help_triggers("--help"))]
struct Create {
    /// its name
    #[argh(positional)]
    name: String,
    /// direct, topic, fanout or headers (default: direct)
    #[argh(option, arg_name = "type", default = "String::from(\"direct\")")]
    exchange_type: String,
    /// it survives a restart; so it is unless --transient is given
    #[argh(switch)]
    durable: bool,
    /// it does not survive a restart
    #[argh(switch)]
    transient: bool,
    /// it is deleted when the last of its bindings goes
    #[argh(switch)]
    auto_delete: bool,
    /// where messages go that none of its bindings takes
    #[argh(option, arg_name = "name")]
    alternate_exchange: Option<String>,
}

/// Show an exchange.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "get", help_triggers("--help"))]
struct Get {
    /// its name
    #[argh(positional)]
    name: String,
}

/// Delete an exchange with its bindings.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "delete", help_triggers("--help"))]
struct Delete {
    /// its name
    #[argh(positional)]
    name: String,
    /// only when nothing is bound to it
    #[argh(switch)]
    if_unused: bool,
    /// do not ask
    #[argh(switch)]
    force: bool,
}

/// List what is bound to an exchange.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "bindings", help_triggers("--help"))]
struct Bindings {
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
                    ("limit", args.limit.map(|limit| limit.to_string())),
                    ("offset", args.offset.map(|offset| offset.to_string())),
                ]);
                output.list(&client.get(&format!("/api/v1/exchanges{query}"))?, COLUMNS)
            }
            Command::Create(args) => create(context, args),
            Command::Get(args) => output.fields(&client.get(&path(&args.name))?),
            Command::Delete(args) => {
                confirm(args.force, &format!("Delete the exchange {:?}", args.name))?;
                let query = query(&[("if_unused", args.if_unused.then(|| "true".to_owned()))]);
                let answer = client.delete(&format!("{}{query}", path(&args.name)))?;
                output.done(&answer, &format!("exchange {} deleted", args.name))
            }
            Command::Bind(args) => args.run(context),
            Command::Unbind(args) => args.run(context),
            Command::Bindings(args) => {
                let answer = client.get(&format!("{}/bindings", path(&args.name)))?;
                output.list(&answer, binding::COLUMNS)
            }
        }
    }
}

fn create(context: &Context, args: &Create) -> Result<(), Failure> {
    if args.durable && args.transient {
        return Err(Failure::Usage(
            "--durable and --transient contradict each other".to_owned(),
        ));
    }
    let mut body = json!({
        "type": args.exchange_type,
        "durable": !args.transient,
        "auto_delete": args.auto_delete,
    });
    if let Some(name) = &args.alternate_exchange {
        body["alternate_exchange"] = json!(name);
    }
    let answer = context.client.put(&path(&args.name), &body)?;
    context
        .output
        .done(&answer, &format!("exchange {} is there", args.name))
}

fn path(name: &str) -> String {
    format!("/api/v1/exchanges/{}", segment(name))
}
