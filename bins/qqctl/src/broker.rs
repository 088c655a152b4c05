//! `qqctl broker` and `qqctl cluster`: the node as a whole.

use argh::{ArgsInfo, FromArgs};
use serde_json::Value;

use crate::client::Answer;
use crate::definitions::{Export, Import};
use crate::failure::Failure;
use crate::output::{Column, Text, bytes, plain, thousands};
use crate::top::Context;

const ALARMS: &[Column] = &[
    Column::new("ALARM", "name", Text),
    Column::new("TEXT", "text", Text),
];

/// The broker as a whole.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "broker", help_triggers("--help"))]
pub(crate) struct Args {
    #[argh(subcommand)]
    command: Command,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Command {
    Status(Status),
    Health(Health),
    Stats(Stats),
    Config(Config),
    Limits(Limits),
    Alarms(Alarms),
    Export(Export),
    Import(Import),
}

/// Say in short how the broker is.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "status", help_triggers("--help"))]
struct Status {}

/// Check whether the broker should get traffic; the exit code says it too.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "health", help_triggers("--help"))]
struct Health {
    /// ask only whether it lives: what a restart cannot mend, such as a full disk, does not count
    #[argh(switch)]
    live: bool,
}

/// Show the broker in numbers.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "stats", help_triggers("--help"))]
struct Stats {}

/// Show the configuration in effect, secrets masked.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "config", help_triggers("--help"))]
struct Config {}

/// Show the limits in effect.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "limits", help_triggers("--help"))]
struct Limits {}

/// List what is wrong right now.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "alarms", help_triggers("--help"))]
struct Alarms {}

/// The cluster.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "cluster", help_triggers("--help"))]
pub(crate) struct ClusterArgs {
    #[argh(subcommand)]
    command: ClusterCommand,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum ClusterCommand {
    Status(ClusterStatus),
}

/// Show the nodes of the cluster.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "status", help_triggers("--help"))]
struct ClusterStatus {}

impl Args {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let Context { client, output } = context;
        match &self.command {
            Command::Status(Status {}) => {
                let answer = client.get("/api/v1/stats")?;
                output.text(&answer, &status(&answer.json))
            }
            Command::Health(Health { live }) => {
                let path = if *live { "live" } else { "ready" };
                let answer = client.get(&format!("/api/v1/health/{path}"))?;
                output.done(
                    &answer,
                    &format!("the broker is {}", plain(&answer.json["status"])),
                )
            }
            Command::Stats(Stats {}) => output.fields(&client.get("/api/v1/stats")?),
            Command::Config(Config {}) => output.fields(&client.get("/api/v1/config")?),
            Command::Limits(Limits {}) => output.fields(&client.get("/api/v1/limits")?),
            Command::Alarms(Alarms {}) => alarms(context, &client.get("/api/v1/alarms")?),
            Command::Export(args) => args.run(context),
            Command::Import(args) => args.run(context),
        }
    }
}

impl ClusterArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let ClusterCommand::Status(ClusterStatus {}) = self.command;
        context
            .output
            .fields(&context.client.get("/api/v1/cluster")?)
    }
}

fn alarms(context: &Context, answer: &Answer) -> Result<(), Failure> {
    if answer.json.as_array().is_some_and(Vec::is_empty) {
        return context.output.done(answer, "no alarms");
    }
    context.output.list(answer, ALARMS)
}

fn status(stats: &Value) -> String {
    let count = |field: &str| thousands(stats[field].as_u64().unwrap_or(0));
    let size = |field: &str| bytes(stats[field].as_u64().unwrap_or(0));
    let alarms = match plain(&stats["alarms"]) {
        none if none.is_empty() => "running".to_owned(),
        names => format!("running with alarms: {names}"),
    };
    format!(
        "State        {alarms}\n\
         Version      {} on {}, store {}\n\
         Uptime       {} (since {})\n\
         Queues       {}, with {} messages ({} in flight)\n\
         Exchanges    {}, with {} bindings\n\
         Connections  {}, with {} producers and {} consumers\n\
         Messages     {} in memory, {} allowed\n\
         Process      {} in memory\n",
        plain(&stats["version"]),
        plain(&stats["runtime"]),
        plain(&stats["store"]),
        plain(&stats["uptime"]),
        plain(&stats["started_at"]),
        count("queue_count"),
        count("messages"),
        count("in_flight"),
        count("exchange_count"),
        count("binding_count"),
        count("connection_count"),
        count("producer_count"),
        count("consumer_count"),
        size("queued_bytes"),
        size("memory_limit_bytes"),
        size("memory_alloc_bytes"),
    )
}
