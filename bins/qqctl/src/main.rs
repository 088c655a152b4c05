//! `qqctl`: the broker's command line. Every command is one or a few requests to the HTTP API; it links no runtime, no
//! store and no broker, so that it starts at once.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "a command line reads its environment and files"
)]

mod amount;
mod argv;
mod ask;
mod binding;
mod broker;
mod client;
mod complete;
mod connection;
mod definitions;
mod exchange;
mod failure;
mod link;
mod long;
mod message;
mod output;
mod publish;
mod queue;
mod schema;
mod shell;
mod top;
mod user;

use std::process::ExitCode;

use argh::{ArgsInfo, FromArgs};

use failure::Failure;
use top::Top;

fn main() -> ExitCode {
    match args().and_then(|args| run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let text = failure.to_string();
            if !text.is_empty() {
                eprintln!("qqctl: {}", output::visible(&text));
            }
            ExitCode::from(failure.code())
        }
    }
}

/// The words after the program's name. The API takes text, and another name or message than the one that was meant would
/// be worse than none.
fn args() -> Result<Vec<String>, Failure> {
    let read = |arg: std::ffi::OsString| {
        arg.into_string().map_err(|arg| {
            Failure::Usage(format!(
                "{arg:?} is not UTF-8; a message of any bytes is published with --message - from standard input"
            ))
        })
    };
    std::env::args_os().skip(1).map(read).collect()
}

fn run(args: &[String]) -> Result<(), Failure> {
    if let [command, words @ ..] = args
        && command == complete::COMMAND
    {
        return complete::run(words);
    }
    if args.iter().any(|arg| arg == "--version" || arg == "-V") {
        return output::print(concat!("qqctl ", env!("CARGO_PKG_VERSION"), "\n"));
    }
    let sorted = argv::sort(&Top::get_args_info(), args);
    if let Some(text) = sorted.unknown {
        return Err(Failure::Usage(text));
    }
    let words = sorted.words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match Top::from_args(&["qqctl"], &words) {
        Ok(top) => top.run(),
        Err(exit) if exit.status.is_ok() => output::print(&exit.output),
        Err(exit) => {
            let words: Vec<&str> = exit.output.split_whitespace().collect();
            Err(Failure::Usage(words.join(" ")))
        }
    }
}
