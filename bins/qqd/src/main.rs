//! `qqd`: the broker daemon. Reads the configuration, binds every port, then hands store, broker and faces to a
//! runtime. It decides nothing about messages.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the daemon owns files, sockets, threads and clocks so that the pure crates need none"
)]

mod args;
mod binary;
mod config;
#[cfg(feature = "sqlite")]
mod disk;
mod face;
mod files;
mod listen;
mod logging;
mod login;
mod maintain;
mod memory;
mod runtime;
mod serve;
mod signals;
mod storage;

use std::io::Write;
use std::process::ExitCode;

use args::{Args, Parsed, Task};
use config::{Config, Problem, Source};
use login::Users;

/// Exit code of a broker that stopped by itself, and of a store that is damaged.
const EXIT_FAILED: u8 = 1;
/// Exit code of everything that the user has to put right before a start can work.
const EXIT_USAGE: u8 = 2;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    match args::parse(&args) {
        Parsed::Run(args) => start(args),
        Parsed::Help(text) => say(&text),
        Parsed::Wrong(text) => complain([text]),
    }
}

fn start(args: Args) -> ExitCode {
    if args.task() == Some(Task::Version) {
        return say(&format!("qqd {}\n", env!("CARGO_PKG_VERSION")));
    }
    let (mut config, users) = match read(&args) {
        Ok(read) => read,
        Err(problems) => return complain(problems),
    };
    match args.task() {
        None => serve::serve(args, &config, users),
        Some(Task::PrintConfig) => say(&config.print()),
        Some(Task::CheckConfig) => {
            for remark in &config.remarks {
                eprintln!("qqd: {remark}");
            }
            say("configuration is valid\n")
        }
        Some(task) => maintain::maintain(task, &config),
    }
}

/// Reads the configuration and the files that it names.
fn read(args: &Args) -> Result<(Config, Users), Vec<Problem>> {
    let source = args
        .config
        .as_deref()
        .map(Source::read)
        .transpose()
        .map_err(|problem| vec![problem])?;
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        Some((
            name.into_string().ok()?,
            value.to_string_lossy().into_owned(),
        ))
    });
    let config = config::load(source.as_ref(), variables)?;
    let users = match &config.auth.users_file.0 {
        Some(path) => Users::read(path).map_err(|problem| vec![problem])?,
        None => Users::default(),
    };
    Ok((config, users))
}

/// Prints to standard output; a reader that went away is no failure.
fn say(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    ExitCode::SUCCESS
}

/// One line per problem on standard error.
fn complain(problems: impl IntoIterator<Item = impl std::fmt::Display>) -> ExitCode {
    let mut err = std::io::stderr().lock();
    for problem in problems {
        let _ = writeln!(err, "qqd: {problem}");
    }
    ExitCode::from(EXIT_USAGE)
}
