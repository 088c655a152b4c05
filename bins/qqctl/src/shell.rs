//! `qqctl completion` and `qqctl config`: what has to do with the shell and not with the broker.

use argh::{ArgsInfo, FromArgs};
use serde_json::json;

use crate::client::{Answer, Settings};
use crate::complete;
use crate::failure::Failure;
use crate::output::{Output, print};

/// Print a script that makes a shell complete commands, options and names.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "completion",
    help_triggers("--help"),
    example = "source <(qqctl completion bash)"
)]
pub(crate) struct CompletionArgs {
    /// bash, zsh or fish
    #[argh(positional)]
    shell: String,
}

/// Show which broker would be talked to, and how.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "config", help_triggers("--help"))]
pub(crate) struct ConfigArgs {}

pub(crate) fn completion(args: &CompletionArgs) -> Result<(), Failure> {
    match complete::script(&args.shell) {
        Some(script) => print(&script),
        None => Err(Failure::Usage(format!(
            "there are completions for bash, zsh and fish, not for {:?}",
            args.shell
        ))),
    }
}

pub(crate) fn config(settings: &Settings, output: Output) -> Result<(), Failure> {
    let login = match (&settings.token, &settings.user) {
        (Some(_), _) => "token",
        (None, Some(_)) => "user and password",
        (None, None) => "none",
    };
    let json = json!({
        "api_url": settings.api_url,
        "timeout_s": settings.timeout_s,
        "login": login,
    });
    output.fields(&Answer {
        raw: format!("{json}\n"),
        json,
        total: None,
    })
}
