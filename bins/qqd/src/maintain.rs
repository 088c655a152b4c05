//! What is done with a store instead of serving it: checking, salvaging, copying, restoring.

use std::process::ExitCode;

use crate::args::Task;
use crate::complain;
use crate::config::Config;

/// Does it and reports on standard output.
#[cfg(feature = "sqlite")]
pub(crate) fn maintain(task: Task<'_>, config: &Config) -> ExitCode {
    use std::path::Path;

    use qq_store_sqlite::{backup, check, restore, salvage};

    if config.storage.backend.0 != "sqlite" {
        return no_store(task, config);
    }
    let dir = config.store_dir();
    let place = dir.display();
    let (done, what) = match task {
        Task::CheckStore => (check(&dir), format!("check of the store in {place}")),
        Task::Salvage => {
            let stamp = stamp();
            let what = format!("salvage of the store in {place}; old files end in {stamp}");
            (salvage(&dir, &stamp), what)
        }
        Task::Backup(dest) => {
            let what = format!("backup of the store in {place} to {dest}");
            (backup(&dir, Path::new(dest)), what)
        }
        Task::Restore(src) => {
            let what = format!("restoring the store in {place} from {src}");
            (restore(Path::new(src), &dir), what)
        }
        Task::CheckConfig | Task::PrintConfig | Task::Version => {
            unreachable!("these need no store")
        }
    };
    match done {
        Ok(report) => {
            // A salvage that lost something did what it could; a check that found something did not find a sound store.
            let is_well = report.is_sound() || task == Task::Salvage;
            crate::say(&format!("{what}\n{}\n", report.to_string().trim_end()));
            if is_well {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(crate::EXIT_FAILED)
            }
        }
        Err(error) => {
            complain([format!("{what}: {}", error.text)]);
            ExitCode::from(crate::EXIT_FAILED)
        }
    }
}

/// A build without the durable store.
#[cfg(not(feature = "sqlite"))]
pub(crate) fn maintain(task: Task<'_>, config: &Config) -> ExitCode {
    no_store(task, config)
}

fn no_store(task: Task<'_>, config: &Config) -> ExitCode {
    complain([format!(
        "{}: [storage] backend = {:?} keeps no files that this could work on",
        task.option(),
        config.storage.backend.0
    )])
}

/// The time as part of a file name: `20261130T092000Z`.
#[cfg(feature = "sqlite")]
fn stamp() -> String {
    jiff::Timestamp::now()
        .strftime("%Y%m%dT%H%M%SZ")
        .to_string()
}
