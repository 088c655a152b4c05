//! The store itself: one connection, one writer, one transaction and one sync for all batches that were submitted.

use std::fs::{self, File};
use std::sync::Arc;

use qq_core::store::{Batch, BatchId, Fetch, Op, Store, StoreError};
use qq_core::vocab::{Message, Seq};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::config::StoreConfig;
use crate::fault::{Trouble, WRITE_TRIES, trouble};
use crate::fetch::Cache;
use crate::plan::{Book, Plan};
use crate::room::Room;
use crate::tend::Tend;
use crate::{lock, schema};

/// Bytes written since the last checkpoint that begin one.
const CHECKPOINT_BYTES: u64 = 16 << 20;
/// What a commit writes beside its rows, about: the page with the state, leaves and the list of free pages.
const COMMIT_BYTES: u64 = 4 * 4096;

/// The durable store. See the crate for what it promises.
#[derive(Debug)]
pub struct SqliteStore {
    pub(crate) config: StoreConfig,
    pub(crate) conn: Connection,
    pub(crate) book: Book,
    pub(crate) cache: Cache,
    pub(crate) tend: Tend,
    pub(crate) room: Room,
    submitted: Vec<Batch>,
    /// Planned and not written.
    plans: Vec<Plan>,
    newest: Option<BatchId>,
    /// What only bodies tell is known too.
    pub(crate) is_recovered: bool,
    /// Rows below are safe.
    pub(crate) row_safe: u64,
    /// Bytes in the write-ahead log since the last checkpoint, about.
    pub(crate) wal_bytes: u64,
    /// Failed writes in a row.
    faults: u32,
    dead: Option<StoreError>,
    /// Held, not read.
    _lock: File,
}

impl SqliteStore {
    /// Opens the store in a folder, and makes one when there is none. [`Store::recover`] is to be called next.
    ///
    /// # Errors
    /// When another process has the store, when it is damaged, or when a newer version wrote it.
    pub fn open(config: StoreConfig) -> Result<Self, StoreError> {
        fs::create_dir_all(&config.dir)
            .map_err(|e| StoreError::fatal(format!("cannot make {}: {e}", config.dir.display())))?;
        let lock = lock::acquire(&config.dir)?;
        let conn = schema::open(&config)?;
        let cache = Cache::new(config.cache_bytes / 2);
        let room = Room::new(&config);
        let mut store = Self {
            config,
            conn,
            book: Book::default(),
            cache,
            tend: Tend::default(),
            room,
            submitted: Vec::new(),
            plans: Vec::new(),
            newest: None,
            is_recovered: false,
            row_safe: 0,
            wal_bytes: 0,
            faults: 0,
            dead: None,
            _lock: lock,
        };
        store.load()?;
        Ok(store)
    }

    /// Where the store is.
    #[must_use]
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// Fails once the store has failed.
    pub(crate) fn alive(&self) -> Result<(), StoreError> {
        match &self.dead {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Remembers a failure for good.
    pub(crate) fn die(&mut self, text: String) -> StoreError {
        log::error!("{text}");
        // Closing would move the log into the database, as if nothing had happened to it.
        let off = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Err(error) = self.conn.set_db_config(off, true) {
            log::warn!("the log may be moved into the database at the end: {error}");
        }
        let error = StoreError::fatal(text);
        self.dead = Some(error.clone());
        error
    }

    /// Whether something waits for room.
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.plans.is_empty()
    }

    /// Writes plans in one transaction. Before an error is returned everything is rolled back.
    pub(crate) fn write(&mut self, plans: &[Plan]) -> Result<(), StoreError> {
        let Some(last) = plans.last() else {
            return Ok(());
        };
        let mut bytes = COMMIT_BYTES;
        let result = execute(&self.conn, plans, self.row_safe, &mut bytes);
        match result {
            Ok(()) => {
                self.faults = 0;
                self.row_safe = last.state.row_next;
                self.wal_bytes += bytes;
                Ok(())
            }
            Err(error) => {
                if !self.conn.is_autocommit()
                    && let Err(again) = self.conn.execute_batch("ROLLBACK")
                {
                    return Err(self.die(format!("cannot roll back after {error}: {again}")));
                }
                Err(self.write_failed(&error))
            }
        }
    }

    /// What follows from an error of a transaction that was rolled back.
    pub(crate) fn write_failed(&mut self, error: &rusqlite::Error) -> StoreError {
        let text = format!(
            "cannot write the store in {}: {error}",
            self.config.dir.display()
        );
        match trouble(error) {
            Trouble::Full | Trouble::Busy => StoreError::no_room(text),
            Trouble::Io if self.faults + 1 < WRITE_TRIES => {
                self.faults += 1;
                StoreError::no_room(text)
            }
            Trouble::Io | Trouble::Damaged | Trouble::Fatal => self.die(text),
        }
    }

    /// Writes a plan that already changed the index; when there is no room, the next flush writes it.
    pub(crate) fn write_or_keep(&mut self, plan: Plan) -> Result<(), StoreError> {
        self.plans.push(plan);
        self.write_plans()
    }

    pub(crate) fn write_plans(&mut self) -> Result<(), StoreError> {
        let plans = std::mem::take(&mut self.plans);
        let mut result = self.write(&plans);
        if result.is_err() && self.dead.is_none() && self.room.drop_ballast() {
            result = self.write(&plans);
        }
        match &result {
            Ok(()) => {
                for plan in &plans {
                    self.newest = plan.newest.or(self.newest);
                }
            }
            Err(_) => self.plans = plans,
        }
        result
    }

    /// Moves the log into the database when it has grown enough. A commit is safe without it, so trouble here is only
    /// noted, except when a sync failed.
    pub(crate) fn checkpoint_when_due(&mut self) -> Result<(), StoreError> {
        if self.wal_bytes < CHECKPOINT_BYTES {
            return Ok(());
        }
        match schema::checkpoint(&self.conn, "PASSIVE") {
            Ok(is_complete) => {
                // A reader from outside, such as a backup, holds the log; it is asked again after as much again.
                self.wal_bytes = 0;
                self.tend.is_log_held = !is_complete;
                Ok(())
            }
            Err(error) => match trouble(&error) {
                Trouble::Full | Trouble::Busy => {
                    self.wal_bytes = 0;
                    log::warn!("the log cannot be moved into the database now: {error}");
                    Ok(())
                }
                _ => match self.write_failed(&error) {
                    error if self.dead.is_some() => Err(error),
                    _ => Ok(()),
                },
            },
        }
    }
}

/// Deletes first, over all plans: on a full disk what leaves makes room for what came before it.
fn execute(
    conn: &Connection,
    plans: &[Plan],
    row_safe: u64,
    bytes: &mut u64,
) -> rusqlite::Result<()> {
    conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut deleted: Vec<u64> = plans
        .iter()
        .flat_map(|p| p.deletes.iter().copied())
        .collect();
    deleted.sort_unstable();
    {
        let mut delete = conn.prepare_cached("DELETE FROM journal WHERE id = ?1")?;
        // Rows of an unwritten plan that a later one deletes are never written.
        for &id in deleted.iter().take_while(|id| **id < row_safe) {
            expect_one(delete.execute([id as i64])?)?;
        }
    }
    for plan in plans {
        write_rows(conn, plan, &deleted, bytes)?;
        write_definitions(conn, plan)?;
    }
    if let Some(last) = plans.last() {
        let state = last.state.write();
        expect_one(
            conn.prepare_cached("UPDATE state SET value = ?1 WHERE id = 1")?
                .execute([state])?,
        )?;
    }
    conn.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

fn write_rows(
    conn: &Connection,
    plan: &Plan,
    deleted: &[u64],
    bytes: &mut u64,
) -> rusqlite::Result<()> {
    let mut insert =
        conn.prepare_cached("INSERT INTO journal(id, head, body) VALUES(?1, ?2, ?3)")?;
    for row in &plan.inserts {
        if deleted.binary_search(&row.id).is_err() {
            *bytes += (row.head.len() + row.body.len()) as u64;
            insert.execute((row.id as i64, &row.head, &row.body))?;
        }
    }
    if !plan.updates.is_empty() {
        let mut update =
            conn.prepare_cached("UPDATE journal SET head = ?2, body = ?3 WHERE id = ?1")?;
        for row in &plan.updates {
            *bytes += (row.head.len() + row.body.len()) as u64;
            expect_one(update.execute((row.id as i64, &row.head, &row.body))?)?;
        }
    }
    for (first, last) in &plan.gone {
        match last {
            Some(last) => conn
                .prepare_cached("INSERT OR REPLACE INTO gone(first, last) VALUES(?1, ?2)")?
                .execute((*first as i64, *last as i64))?,
            None => conn
                .prepare_cached("DELETE FROM gone WHERE first = ?1")?
                .execute([*first as i64])?,
        };
    }
    Ok(())
}

fn write_definitions(conn: &Connection, plan: &Plan) -> rusqlite::Result<()> {
    for (kind, name, value) in &plan.definitions {
        match value {
            Some(value) => conn
                .prepare_cached(
                    "INSERT OR REPLACE INTO definition(kind, name, value) VALUES(?1, ?2, ?3)",
                )?
                .execute((kind, *name as i64, value))?,
            None => conn
                .prepare_cached("DELETE FROM definition WHERE kind = ?1 AND name = ?2")?
                .execute((kind, *name as i64))?,
        };
    }
    Ok(())
}

/// A row that is to be changed and is not there is damage.
fn expect_one(changed: usize) -> rusqlite::Result<()> {
    if changed == 1 {
        Ok(())
    } else {
        Err(rusqlite::Error::StatementChangedRows(changed))
    }
}

impl Store for SqliteStore {
    fn recover(&mut self, each: &mut dyn FnMut(Op)) -> Result<(), StoreError> {
        self.alive()?;
        self.replay(each)
    }

    fn submit(&mut self, batch: Batch) {
        self.submitted.push(batch);
    }

    fn flush(&mut self) -> Result<Option<BatchId>, StoreError> {
        self.alive()?;
        if !self.submitted.is_empty() {
            let batches = std::mem::take(&mut self.submitted);
            let plan = match self.book.plan(batches) {
                Ok(plan) => plan,
                Err(error) => return Err(self.die(error.text)),
            };
            if plan.is_empty() && self.plans.is_empty() {
                self.newest = plan.newest.or(self.newest);
            } else {
                self.plans.push(plan);
            }
        }
        if !self.plans.is_empty() {
            self.write_plans()?;
            self.tend.note_change();
            self.checkpoint_when_due()?;
            self.clean_under_load()?;
        }
        Ok(self.newest)
    }

    fn fetch(&mut self, fetch: &Fetch) -> Result<Vec<(Seq, Arc<Message>)>, StoreError> {
        self.alive()?;
        self.read(fetch)
    }

    fn tend(&mut self) -> Result<bool, StoreError> {
        self.alive()?;
        self.tend_step()
    }

    fn is_short_of_room(&mut self) -> bool {
        self.has_unwritten() || self.room.is_short()
    }
}
