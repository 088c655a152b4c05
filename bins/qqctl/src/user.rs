//! `qqctl user`: who may log in. Users are kept in the file that `[auth] users_file` names; the API shows them.

use argh::{ArgsInfo, FromArgs};

use crate::failure::Failure;
use crate::output::{Column, Text};
use crate::top::Context;

const COLUMNS: &[Column] = &[Column::new("NAME", "name", Text)];

/// Users that may log in.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "user", help_triggers("--help"))]
pub(crate) struct Args {
    #[argh(subcommand)]
    command: Command,
}

#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Command {
    List(List),
}

/// List users. To change them, edit the users file and send the daemon SIGHUP.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "list", help_triggers("--help"))]
struct List {}

impl Args {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let Command::List(List {}) = self.command;
        context
            .output
            .list(&context.client.get("/api/v1/users")?, COLUMNS)
    }
}
