//! `qwer-q`: the broker under the name and with the flags of QWER-Q. `serve` is the daemon `qqd` with other defaults;
//! everything else is a client of the binary protocol.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a command line owns files, sockets and clocks so that the pure crates need none"
)]

mod args;
mod client;
mod command;
mod peek;
mod serve;

use std::process::ExitCode;

use args::{Args, Command, Parsed};

/// Exit code of a command that the broker refused.
const EXIT_REFUSED: u8 = 1;
/// Exit code of what the user has to put right.
const EXIT_USAGE: u8 = 2;
/// Exit code when there is no broker.
const EXIT_UNREACHABLE: u8 = 3;

/// Why a command ends without success.
#[derive(Debug)]
enum Failure {
    /// The broker said no.
    Refused(String),
    /// A file or an argument is wrong.
    Usage(String),
    /// The broker cannot be reached, or went away.
    Unreachable(String),
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    let parsed = match args::parse(&args) {
        Parsed::Run(parsed) => parsed,
        Parsed::Help(text) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Parsed::Wrong(text) => return complain(&text, EXIT_USAGE),
    };
    match run(*parsed) {
        Ok(code) => code,
        Err(Failure::Refused(text)) => complain(&text, EXIT_REFUSED),
        Err(Failure::Usage(text)) => complain(&text, EXIT_USAGE),
        Err(Failure::Unreachable(text)) => complain(&text, EXIT_UNREACHABLE),
    }
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Serve(serve) => {
            let token = args.token.or_else(|| serve::variable("QWERQ_AUTH_TOKEN"));
            serve::serve(serve, token)
        }
        Command::Version(_) => {
            println!("qwer-q {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::SUCCESS)
        }
        Command::Queue(queue) => command::queue(queue.command, &args.broker, args.token),
        Command::Schema(schema) => command::schema(schema.command, &args.broker, args.token),
    }
}

fn complain(text: &str, code: u8) -> ExitCode {
    eprintln!("qwer-q: {text}");
    ExitCode::from(code)
}
