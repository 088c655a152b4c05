//! The store that the configuration names: opening it, and what its owner hears about it.

use qq_core::broker::Paging;
use qq_core::store::{Store, StoreError};
#[cfg(feature = "sqlite")]
use qq_store_sqlite::{SqliteStore, StoreConfig};

use crate::config::Config;

/// A store, not recovered yet.
pub(crate) struct Opened {
    pub(crate) store: Box<dyn Store>,
    /// Which bodies the broker may leave to it.
    pub(crate) paging: Option<Paging>,
    /// For the first line of the log: kind and place.
    pub(crate) place: String,
    /// What the owner should know.
    pub(crate) warning: Option<&'static str>,
}

/// Opens the configured store; takes its lock, if it has one.
///
/// # Errors
/// When another process uses it, or it cannot be read or made.
pub(crate) fn open(config: &Config) -> Result<Opened, StoreError> {
    match config.storage.backend.0 {
        #[cfg(feature = "sqlite")]
        "sqlite" => open_sqlite(config),
        #[cfg(feature = "memory")]
        "memory" => Ok(Opened {
            store: Box::new(qq_store_mem::MemStore::new()),
            paging: None,
            place: "memory (nothing survives a restart)".to_owned(),
            warning: None,
        }),
        other => Err(StoreError::fatal(format!(
            "no storage back end {other:?} in this build"
        ))),
    }
}

#[cfg(feature = "sqlite")]
fn open_sqlite(config: &Config) -> Result<Opened, StoreError> {
    let storage = &config.storage;
    let dir = config.store_dir();
    let store = SqliteStore::open(StoreConfig {
        sync_writes: storage.sync_writes,
        cache_bytes: config.page_cache_bytes(),
        room_min_bytes: config.disk_free_min_bytes(),
        ..StoreConfig::new(&dir)
    })?;
    Ok(Opened {
        store: Box::new(store),
        paging: Some(Paging {
            cache_bytes: config.body_cache_bytes(),
            ..Paging::default()
        }),
        place: format!("sqlite in {}", dir.display()),
        warning: (!storage.sync_writes).then_some(
            "[storage] sync_writes = false: messages are confirmed when the operating system has them, not the disk; \
             a power cut or a crash of the system loses those of the last moments (a crash of qqd alone does not)",
        ),
    })
}

#[cfg(not(any(feature = "sqlite", feature = "memory")))]
compile_error!("qqd needs a store: build with the feature sqlite or memory");
