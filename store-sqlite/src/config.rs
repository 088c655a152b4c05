//! What a store is opened with, and the names of its files.

use std::path::{Path, PathBuf};

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The folder that holds the store's files; made when it is missing.
    pub dir: PathBuf,
    /// Every flush waits until the disk has it. Without it a flush hands its data to the operating system: a crash of
    /// the process loses nothing, a crash of the machine loses the last seconds, but never the store's consistency.
    pub sync_writes: bool,
    /// Memory for pages and rows that were read or will be written, bytes.
    pub cache_bytes: usize,
    /// Free bytes of the file system below which the store is short of room; 0 never is.
    pub room_min_bytes: u64,
    /// Bytes kept aside in a file of their own and given up when the disk is full, so that what consumers settled can
    /// still be written; 0 keeps none. More than the log holds before it is moved into the database: with less that move
    /// has no room on a full disk, the log cannot begin anew, and soon nothing can be settled.
    pub ballast_bytes: u64,
    /// Pages that the database may have; 0 is as many as the disk holds. For tests of a full disk.
    pub pages_max: u32,
}

impl StoreConfig {
    /// The usual settings for a store in `dir`.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            sync_writes: true,
            cache_bytes: 32 << 20,
            room_min_bytes: 0,
            ballast_bytes: 24 << 20,
            pages_max: 0,
        }
    }
}

/// The database.
pub(crate) fn database(dir: &Path) -> PathBuf {
    dir.join("store.db")
}

/// SQLite's write-ahead log of the database.
pub(crate) fn wal(dir: &Path) -> PathBuf {
    dir.join("store.db-wal")
}

/// Where a database is made before it gets its name: a half-made one is never taken for a store.
pub(crate) fn database_new(dir: &Path) -> PathBuf {
    dir.join("store.db.new")
}

/// Locked while a process has the store.
pub(crate) fn lock(dir: &Path) -> PathBuf {
    dir.join("lock")
}

/// Room kept aside.
pub(crate) fn ballast(dir: &Path) -> PathBuf {
    dir.join("ballast")
}

/// Where a salvage makes the new store.
pub(crate) fn salvage_dir(dir: &Path) -> PathBuf {
    dir.join("salvage.new")
}

/// There while a salvage puts its new store in place.
pub(crate) fn salvage_done(dir: &Path) -> PathBuf {
    salvage_dir(dir).join("complete")
}
