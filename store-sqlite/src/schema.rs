//! The database: its tables, how it is made, opened and brought up to date.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use qq_core::store::StoreError;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, Transaction};

use crate::config::{StoreConfig, database, database_new, salvage_done, wal};
use crate::fault::reading;
use crate::state::State;
use crate::walscan;

/// The version of tables and bytes that this version writes, in `user_version`.
pub const FORMAT: i32 = 1;

/// In the header of every store: "QQS" and whether every commit waited for the disk.
const APPLICATION_SYNCED: i32 = 0x5151_5301;
const APPLICATION_LAZY: i32 = 0x5151_5300;

/// Chosen by measurement: see `examples/journal.rs`.
const PAGE_BYTES: u32 = 4096;

/// The write-ahead log shrinks to this when it begins anew.
const WAL_KEPT_BYTES: i64 = 16 << 20;

/// How long a writer from outside, such as a person with a database shell, is waited for.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Brings a database from the version of its index to the next.
pub(crate) type Step = fn(&Transaction<'_>) -> rusqlite::Result<()>;

/// From an empty file on; the last one makes [`FORMAT`].
pub(crate) const STEPS: &[Step] = &[make_tables];

fn make_tables(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute_batch(
        "CREATE TABLE journal(id INTEGER PRIMARY KEY, head BLOB NOT NULL, body BLOB NOT NULL);
         CREATE TABLE definition(kind INTEGER NOT NULL, name INTEGER NOT NULL, value BLOB NOT NULL,
             PRIMARY KEY(kind, name)) WITHOUT ROWID;
         CREATE TABLE gone(first INTEGER PRIMARY KEY, last INTEGER NOT NULL);
         CREATE TABLE state(id INTEGER PRIMARY KEY, value BLOB NOT NULL);",
    )?;
    let state = State {
        row_first: 1,
        row_next: 1,
        key_next: 1,
        ..State::default()
    };
    tx.execute(
        "INSERT INTO state(id, value) VALUES(1, ?1)",
        [state.write()],
    )?;
    Ok(())
}

fn io(what: &str, path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::fatal(format!("{what} {}: {error}", path.display()))
}

/// Makes a folder's entries safe.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|e| io("cannot sync", dir, &e))
}

/// Opens the store in a folder, and makes one when there is none.
pub(crate) fn open(config: &StoreConfig) -> Result<Connection, StoreError> {
    let path = database(&config.dir);
    if salvage_done(&config.dir).exists() {
        return Err(StoreError::damaged(format!(
            "a salvage of the store in {} was interrupted: salvage it again",
            config.dir.display()
        )));
    }
    if !path.exists() {
        if fs::metadata(wal(&config.dir)).is_ok_and(|meta| meta.len() > 0) {
            return Err(StoreError::damaged(format!(
                "{} is missing, but its log {} is there: restore a backup, or salvage",
                path.display(),
                wal(&config.dir).display()
            )));
        }
        make(config, &path)?;
    }
    refuse_strangers(&path)?;
    if is_synced(&path)? {
        walscan::check(&wal(&config.dir))?;
    }
    let mut conn = open_connection(&path)?;
    set_up(&conn, config).map_err(|e| reading(&path.display().to_string(), &e))?;
    migrate(&mut conn, config, STEPS)?;
    mark(&conn, config.sync_writes)
        .map_err(|e| reading("cannot note how commits are synced", &e))?;
    // The log is made by now, and stays; SQLite does not say when the sync of its name failed.
    sync_dir(&config.dir)?;
    Ok(conn)
}

/// A file that is empty, unreadable or something else is left alone.
fn refuse_strangers(path: &Path) -> Result<(), StoreError> {
    let meta = fs::metadata(path).map_err(|e| io("cannot read", path, &e))?;
    if meta.len() == 0 {
        return Err(StoreError::damaged(format!(
            "{} is empty, and a store never is: restore a backup, or remove the file to begin anew",
            path.display()
        )));
    }
    File::open(path).map_err(|e| io("cannot read", path, &e))?;
    Ok(())
}

/// What the header says about how commits were made safe. It is told apart without SQLite, which repairs as it opens.
pub(crate) fn is_synced(path: &Path) -> Result<bool, StoreError> {
    use std::io::Read;
    let mut header = [0; 72];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut header))
        .map_err(|e| io("cannot read the header of", path, &e))?;
    let id = i32::from_be_bytes([header[68], header[69], header[70], header[71]]);
    if !header.starts_with(b"SQLite format 3\0")
        || ![APPLICATION_SYNCED, APPLICATION_LAZY].contains(&id)
    {
        return Err(StoreError::damaged(format!(
            "{} is not a store, or its first page is damaged: restore a backup, or salvage",
            path.display()
        )));
    }
    Ok(id == APPLICATION_SYNCED)
}

pub(crate) fn open_connection(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(|e| reading(&path.display().to_string(), &e))
}

fn set_up(conn: &Connection, config: &StoreConfig) -> rusqlite::Result<()> {
    conn.busy_timeout(BUSY_WAIT)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    let synchronous = if config.sync_writes { "FULL" } else { "NORMAL" };
    conn.pragma_update(None, "synchronous", synchronous)?;
    // Checkpoints come when the store says so, and nothing is written before a commit says so.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "cache_spill", false)?;
    conn.pragma_update(None, "journal_size_limit", WAL_KEPT_BYTES)?;
    conn.pragma_update(None, "cache_size", -((config.cache_bytes / 2048) as i64))?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    if config.pages_max > 0 {
        conn.pragma_update(None, "max_page_count", config.pages_max)?;
    }
    Ok(())
}

/// Makes an empty store under another name, makes it safe, and gives it its name.
fn make(config: &StoreConfig, path: &Path) -> Result<(), StoreError> {
    let new = database_new(&config.dir);
    for left_over in [
        new.clone(),
        with_suffix(&new, "-wal"),
        with_suffix(&new, "-shm"),
        with_suffix(&new, "-journal"),
    ] {
        if left_over.exists() {
            fs::remove_file(&left_over).map_err(|e| io("cannot remove", &left_over, &e))?;
        }
    }
    make_database(&new)?;
    File::open(&new)
        .and_then(|file| file.sync_all())
        .map_err(|e| io("cannot sync", &new, &e))?;
    fs::rename(&new, path).map_err(|e| io("cannot name", path, &e))?;
    sync_dir(&config.dir)
}

/// Makes an empty store in one file.
pub(crate) fn make_database(path: &Path) -> Result<(), StoreError> {
    let make = || -> rusqlite::Result<()> {
        let mut conn = Connection::open(path)?;
        conn.pragma_update(None, "page_size", PAGE_BYTES)?;
        conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        conn.pragma_update(None, "application_id", APPLICATION_SYNCED)?;
        let tx = conn.transaction()?;
        for step in STEPS {
            step(&tx)?;
        }
        tx.pragma_update(None, "user_version", FORMAT)?;
        tx.commit()?;
        conn.close().map_err(|(_, error)| error)
    };
    make().map_err(|e| reading(&format!("cannot make {}", path.display()), &e))
}

fn with_suffix(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Brings a database up to date, step by step in one transaction, after a copy of it was put aside.
pub(crate) fn migrate(
    conn: &mut Connection,
    config: &StoreConfig,
    steps: &[Step],
) -> Result<(), StoreError> {
    let path = database(&config.dir);
    let newest = steps.len() as i32;
    let version: i32 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|e| reading(&path.display().to_string(), &e))?;
    if version > newest {
        return Err(StoreError::fatal(format!(
            "{} has format {version}, written by a newer version of this program; this one knows formats up to {newest}. \
             Run the newer version, or restore a backup that this one wrote",
            path.display()
        )));
    }
    if version < 1 {
        return Err(StoreError::damaged(format!(
            "{} has no format: {version}",
            path.display()
        )));
    }
    if version == newest {
        return Ok(());
    }
    let copy = config.dir.join(format!("store-format-{version}.db"));
    let failed = |e: rusqlite::Error| {
        StoreError::fatal(format!(
            "cannot bring {} from format {version} to {newest}: {e}; it is unchanged",
            path.display()
        ))
    };
    if !copy.exists() {
        let part = config.dir.join(format!("store-format-{version}.db.part"));
        let _ = fs::remove_file(&part);
        copy_database(conn, &part).map_err(failed)?;
        File::open(&part)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&part, &copy))
            .map_err(|e| io("cannot write", &copy, &e))?;
        sync_dir(&config.dir)?;
    }
    log::info!(
        "the store goes from format {version} to {newest}; the old one is kept as {}",
        copy.display()
    );
    let tx = conn.transaction().map_err(failed)?;
    for step in &steps[version as usize..] {
        step(&tx).map_err(failed)?;
    }
    tx.pragma_update(None, "user_version", newest)
        .map_err(failed)?;
    tx.commit().map_err(failed)
}

/// Copies a database as it is at this moment, whatever others do with it meanwhile.
pub(crate) fn copy_database(conn: &Connection, to: &Path) -> rusqlite::Result<()> {
    let mut copy = Connection::open(to)?;
    {
        let backup = Backup::new(conn, &mut copy)?;
        // All pages in one step are one snapshot; in several steps every commit in between begins the copy anew.
        let mut tries = 0;
        loop {
            match backup.step(-1)? {
                StepResult::Done => break,
                _ if tries < 50 => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(100));
                }
                _ => return Err(rusqlite::Error::QueryReturnedNoRows),
            }
        }
    }
    // A log of its own would have to be copied along with the file.
    copy.pragma_update(None, "journal_mode", "DELETE")?;
    copy.close().map_err(|(_, error)| error)
}

/// Notes in the header whether commits wait for the disk, before the first one counts on it.
fn mark(conn: &Connection, sync_writes: bool) -> rusqlite::Result<()> {
    let wanted = if sync_writes {
        APPLICATION_SYNCED
    } else {
        APPLICATION_LAZY
    };
    let is: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if is != wanted {
        conn.pragma_update(None, "application_id", wanted)?;
    }
    checkpoint(conn, "TRUNCATE").map(drop)
}

/// Moves the log into the database. Says whether everything was moved.
pub(crate) fn checkpoint(conn: &Connection, mode: &str) -> rusqlite::Result<bool> {
    let (busy, in_log, moved): (i64, i64, i64) = conn
        .prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(busy == 0 && in_log == moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_table(tx: &Transaction<'_>) -> rusqlite::Result<()> {
        tx.execute_batch("CREATE TABLE added(x); INSERT INTO added VALUES(7)")
    }

    fn fail(tx: &Transaction<'_>) -> rusqlite::Result<()> {
        tx.execute_batch("CREATE TABLE half(x); SELECT no_such_function()")
    }

    /// A store of format 1, and its connection.
    fn old_store(name: &str) -> (StoreConfig, Connection) {
        let name = format!("qq-store-schema-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a folder");
        let config = StoreConfig::new(&dir);
        make_database(&database(&dir)).expect("it is made");
        let conn = open_connection(&database(&dir)).expect("it opens");
        conn.pragma_update(None, "user_version", 1)
            .expect("it is written");
        set_up(&conn, &config).expect("it is set up");
        (config, conn)
    }

    fn version(conn: &Connection) -> i32 {
        conn.pragma_query_value(None, "user_version", |row| row.get(0))
            .expect("it can be read")
    }

    #[test]
    fn s15_an_older_format_is_brought_up_to_date_and_kept_aside() {
        let (config, mut conn) = old_store("older");
        migrate(&mut conn, &config, &[make_tables, add_table, |_| Ok(())])
            .expect("it is brought up to date");
        assert_eq!(version(&conn), 3);
        let added: i32 = conn
            .query_row("SELECT x FROM added", [], |row| row.get(0))
            .expect("the step was done");
        assert_eq!(added, 7);
        let copy =
            Connection::open(config.dir.join("store-format-1.db")).expect("it was put aside");
        assert_eq!(version(&copy), 1);
        assert!(
            copy.query_row("SELECT x FROM added", [], |_| Ok(()))
                .is_err()
        );
        copy.query_row("SELECT value FROM state", [], |_| Ok(()))
            .expect("it is whole");
        let _ = fs::remove_dir_all(&config.dir);
    }

    #[test]
    fn s15_a_step_that_fails_leaves_the_old_format_as_it_was() {
        let (config, mut conn) = old_store("fails");
        let error =
            migrate(&mut conn, &config, &[make_tables, add_table, fail]).expect_err("a step fails");
        assert!(
            error.text.contains("from format 1 to 3") && error.text.contains("unchanged"),
            "{}",
            error.text
        );
        assert_eq!(version(&conn), 1);
        assert!(
            conn.query_row("SELECT x FROM added", [], |_| Ok(()))
                .is_err()
        );
        migrate(&mut conn, &config, &[make_tables, add_table])
            .expect("another try goes on from there");
        assert_eq!(version(&conn), 2);
        let _ = fs::remove_dir_all(&config.dir);
    }
}
