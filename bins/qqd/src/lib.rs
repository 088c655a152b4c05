//! The broker daemon as a library, so that it can be served under another name: `qqd` is the program. Reads the
//! configuration, binds every port, then hands store, broker and faces to a runtime. It decides nothing about messages.
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
mod http;
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
use std::sync::OnceLock;

pub use args::split_equals;
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

/// The name that the program has in what it prints.
static PROGRAM: OnceLock<&str> = OnceLock::new();

/// What a start is told, and told again when it reads its configuration anew.
#[derive(Clone, Debug, Default)]
struct Given {
    args: Args,
    /// Values for variables of the configuration, before those of the environment.
    settings: Vec<(String, String)>,
    /// One more token that opens QWER-Q.
    token: Option<String>,
}

/// Serves as `program`, with these values for variables of the configuration and perhaps a token that opens QWER-Q;
/// returns when a signal or a failure ends it.
pub fn serve(
    program: &'static str,
    settings: Vec<(String, String)>,
    token: Option<String>,
) -> ExitCode {
    let _ = PROGRAM.set(program);
    start(Given {
        args: Args::default(),
        settings,
        token,
    })
}

/// The program `qqd`: does what its arguments say.
pub fn run(args: &[String]) -> ExitCode {
    match args::parse(args) {
        Parsed::Run(args) => start(Given {
            args,
            ..Given::default()
        }),
        Parsed::Help(text) => say(&text),
        Parsed::Wrong(text) => complain([text]),
    }
}

fn start(given: Given) -> ExitCode {
    if given.args.task() == Some(Task::Version) {
        return say(&format!("qqd {}\n", env!("CARGO_PKG_VERSION")));
    }
    let (mut config, users) = match read(&given) {
        Ok(read) => read,
        Err(problems) => return complain(problems),
    };
    match given.args.task() {
        None => serve::serve(given.clone(), &config, users),
        Some(Task::PrintConfig) => say(&config.print()),
        Some(Task::CheckConfig) => {
            if let Err(text) = serve::check(&given, &config) {
                return complain([text]);
            }
            for remark in &config.remarks {
                eprintln!("{}: {remark}", program());
            }
            say("configuration is valid\n")
        }
        Some(task) => maintain::maintain(task, &config),
    }
}

/// Reads the configuration and the files that it names.
fn read(given: &Given) -> Result<(Config, Users), Vec<Problem>> {
    let source = given
        .args
        .config
        .as_deref()
        .map(Source::read)
        .transpose()
        .map_err(|problem| vec![problem])?;
    let environment = std::env::vars_os().filter_map(|(name, value)| {
        Some((
            name.into_string().ok()?,
            value.to_string_lossy().into_owned(),
        ))
    });
    let is_given = |name: &str| given.settings.iter().any(|(given, _)| given == name);
    let variables = environment
        .filter(|(name, _)| !is_given(name))
        .chain(given.settings.iter().cloned());
    let config = config::load(source.as_ref(), variables)?;
    let users = match &config.auth.users_file.0 {
        Some(path) => Users::read(path).map_err(|problem| vec![problem])?,
        None => Users::default(),
    };
    Ok((config, users))
}

fn program() -> &'static str {
    PROGRAM.get().copied().unwrap_or("qqd")
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
        let _ = writeln!(err, "{}: {problem}", program());
    }
    ExitCode::from(EXIT_USAGE)
}
