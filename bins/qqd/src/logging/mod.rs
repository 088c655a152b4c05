//! Logging: one line per record, written by a thread of its own behind a bounded queue, so that a slow disk or terminal
//! never holds up a connection. Lines that find the queue full are dropped, counted, and the count is logged.

mod format;
mod writer;

use std::io::IsTerminal;

use env_logger::{Builder, Target, WriteStyle};
use log::LevelFilter;

use crate::config::{Logging, Origin, Problem};
pub(crate) use writer::Log;

/// Starts logging. Called once.
pub(crate) fn start(logging: &Logging) -> Result<Log, Problem> {
    let path = logging.file.0.clone();
    let has_colors = path.is_none() && std::io::stderr().is_terminal();
    let (log, lines) = Log::start(path.clone()).map_err(|error| {
        let path = path.unwrap_or_else(|| "standard error".to_owned());
        Problem::new(
            Origin::File { path, line: 0 },
            format!("log file cannot be opened: {error}"),
        )
    })?;
    let mut builder = Builder::new();
    // Everything passes here; the level is held by the log crate, where SIGHUP can change it.
    builder
        .filter_level(LevelFilter::Trace)
        .target(Target::Pipe(Box::new(lines)));
    builder.write_style(if has_colors {
        WriteStyle::Always
    } else {
        WriteStyle::Never
    });
    match logging.format.value() {
        "JSON" => builder.format(format::json),
        _ => builder.format(format::pretty),
    };
    builder.init();
    set_level(logging);
    Ok(log)
}

/// Changes what is logged.
pub(crate) fn set_level(logging: &Logging) {
    log::set_max_level(logging.level.value().parse().unwrap_or(LevelFilter::Info));
}
