//! `qqctl user`: who may log in. Users are kept in the file that `[auth] users_file` names; the API shows them.

use argh::{ArgsInfo, FromArgs};

use crate::failure::Failure;
use crate::output::{Column, Number, Text};
use crate::top::Context;

const COLUMNS: &[Column] = &[Column::new("NAME", "name", Text)];

const TOKEN_COLUMNS: &[Column] = &[
    Column::new("NAME", "name", Text),
    Column::new("LINE", "line", Number),
];

/// Users and tokens that may log in.
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
    Tokens(Tokens),
}

/// List users. To change them, edit the users file and send the daemon SIGHUP.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "list", help_triggers("--help"))]
struct List {}

/// List tokens by name and line, without the tokens. To change them, edit the tokens file and send the daemon SIGHUP.
#[derive(FromArgs, ArgsInfo)]
#[argh(subcommand, name = "tokens", help_triggers("--help"))]
struct Tokens {}

impl Args {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (path, columns) = match self.command {
            Command::List(List {}) => ("/api/v1/users", COLUMNS),
            Command::Tokens(Tokens {}) => ("/api/v1/tokens", TOKEN_COLUMNS),
        };
        context.output.list(&context.client.get(path)?, columns)
    }
}
