//! The whole command line: options that every command has, and the commands.

use argh::{ArgsInfo, FromArgs};

use crate::client::{Client, Settings};
use crate::failure::Failure;
use crate::output::{Format, Output};
use crate::{broker, connection, exchange, link, message, queue, schema, shell, user};

/// Where the API is when nobody says.
const API_URL: &str = "http://localhost:8080";

/// Manages a Quark-Queue broker over its HTTP API.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    help_triggers("--help"),
    note = "Options may stand anywhere: `qqctl queue list -o json` is `qqctl -o json queue list`.\n\
            Environment: QQ_API_URL, and to log in QQ_API_USER=name:password or QQ_API_TOKEN.",
    error_code(1, "the broker said no"),
    error_code(2, "the command line cannot be used"),
    error_code(3, "the broker cannot be reached")
)]
pub(crate) struct Top {
    /// address of the HTTP API (default: http://localhost:8080, or what QQ_API_URL says)
    #[argh(option, short = 'u', arg_name = "url")]
    api_url: Option<String>,
    /// how long to wait for an answer, in seconds (default: 30)
    #[argh(option, short = 't', arg_name = "seconds", default = "30")]
    timeout: u64,
    /// form of the output: table, json, yaml or pretty; -f is the same
    #[argh(
        option,
        short = 'o',
        arg_name = "format",
        default = "Format::default()"
    )]
    output: Format,
    /// print the body of the answer exactly as it came
    #[argh(switch)]
    raw: bool,
    /// say on standard error what is asked and answered; -d is the same
    #[argh(switch, short = 'D')]
    debug: bool,
    /// print the version
    #[argh(switch, short = 'V')]
    #[allow(dead_code, reason = "looked for before anything is parsed")]
    version: bool,
    #[argh(subcommand)]
    command: Command,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Command {
    Queue(queue::Args),
    Stream(queue::stream::Args),
    Exchange(exchange::Args),
    Schema(schema::Args),
    Connection(connection::Args),
    Link(link::Args),
    Message(message::Args),
    User(user::Args),
    Broker(broker::Args),
    Cluster(broker::ClusterArgs),
    Completion(shell::CompletionArgs),
    Config(shell::ConfigArgs),
}

/// What a command works with.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) output: Output,
}

impl Top {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.timeout == 0 {
            return Err(Failure::Usage("--timeout is at least 1 second".to_owned()));
        }
        let settings = settings(self.api_url, self.timeout, self.debug);
        let output = Output {
            format: self.output,
            raw: self.raw,
        };
        let command = match self.command {
            Command::Completion(args) => return shell::completion(&args),
            Command::Config(_) => return shell::config(&settings, output),
            command => command,
        };
        let context = Context {
            client: Client::new(&settings)?,
            output,
        };
        match command {
            Command::Queue(args) => args.run(&context),
            Command::Stream(args) => args.run(&context),
            Command::Exchange(args) => args.run(&context),
            Command::Schema(args) => args.run(&context),
            Command::Connection(args) => args.run(&context),
            Command::Link(args) => args.run(&context),
            Command::Message(args) => args.run(&context),
            Command::User(args) => args.run(&context),
            Command::Broker(args) => args.run(&context),
            Command::Cluster(args) => args.run(&context),
            Command::Completion(_) | Command::Config(_) => Ok(()),
        }
    }
}

/// The options and the environment as one.
pub(crate) fn settings(api_url: Option<String>, timeout_s: u64, debug: bool) -> Settings {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    Settings {
        api_url: api_url
            .or_else(|| variable("QQ_API_URL"))
            .unwrap_or_else(|| API_URL.to_owned()),
        timeout_s,
        debug,
        user: variable("QQ_API_USER"),
        token: variable("QQ_API_TOKEN"),
    }
}
