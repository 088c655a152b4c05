//! One process at a time: two that wrote the same store would each confirm what the other overwrites.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use qq_core::store::StoreError;

use crate::config::lock;

/// Locks the store in a folder until the file is closed, by the end of the process at the latest.
///
/// # Errors
/// When another process has it; the text names it.
pub(crate) fn acquire(dir: &Path) -> Result<File, StoreError> {
    let path = lock(dir);
    let failed =
        |e: std::io::Error| StoreError::fatal(format!("cannot lock {}: {e}", path.display()));
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            return Err(StoreError::fatal(format!(
                "the store in {} is in use by process {}",
                dir.display(),
                holder.trim()
            )));
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    file.set_len(0).map_err(failed)?;
    file.rewind().map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}
