//! What an operator does with a store: check it, rescue what can be, copy it while it runs, put a copy in place.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use qq_core::broker::QueueSpec;
use qq_core::store::codec::read_message;
use qq_core::store::{Batch, BatchId, Op, Store, StoreError, StoredMessage};
use qq_core::vocab::{QueueId, Seq};
use rusqlite::{Connection, OpenFlags};

use crate::config::{StoreConfig, database, salvage_dir, salvage_done, wal};
use crate::fault::reading;
use crate::report::Report;
use crate::row::Record;
use crate::store::SqliteStore;
use crate::survey::Survey;
use crate::{lock, recover, schema, walscan};

/// Messages that a rescue writes at once.
const RESCUE_BATCH: usize = 1000;

fn failed(what: &str, path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::fatal(format!("cannot {what} {}: {error}", path.display()))
}

/// Opens without changing anything: not even the log is moved into the database at the end.
fn open_read_only(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)
        .map_err(|e| reading(&path.display().to_string(), &e))?;
    conn.busy_timeout(std::time::Duration::from_secs(5))
        .map_err(|e| reading(&path.display().to_string(), &e))?;
    Ok(conn)
}

/// Reads everything in the store of a folder and says what is not as it was written. Changes nothing; the store may be
/// in use, then it is looked at as it is at this moment.
///
/// # Errors
/// When there is no store, or it cannot be opened at all.
pub fn check(dir: &Path) -> Result<Report, StoreError> {
    let path = database(dir);
    if !path.exists() {
        return Err(StoreError::fatal(format!(
            "there is no store in {}",
            dir.display()
        )));
    }
    let mut report = Report::default();
    // While somebody writes the log its end is not a fact.
    let ours = lock::acquire(dir);
    if ours.is_ok() {
        if let Err(error) = schema::is_synced(&path) {
            report.damage.push(error.text);
        }
        if let Err(error) = walscan::check(&wal(dir)) {
            report.damage.push(error.text);
        }
    }
    let found = check_file(&path)?;
    report.damage.extend(found.damage);
    Ok(Report {
        damage: report.damage,
        ..found
    })
}

/// Checks a database.
fn check_file(path: &Path) -> Result<Report, StoreError> {
    let conn = open_read_only(path)?;
    refuse_other_formats(&conn, path)?;
    let all = |e: rusqlite::Error| reading(&path.display().to_string(), &e);
    // One snapshot for everything.
    conn.execute_batch("BEGIN").map_err(all)?;
    let mut lines = Vec::new();
    let integrity = conn
        .prepare("PRAGMA integrity_check(100)")
        .and_then(|mut check| {
            let mut rows = check.query([])?;
            while let Some(row) = rows.next()? {
                lines.push(row.get::<_, String>(0)?);
            }
            Ok(())
        });
    if let Err(error) = integrity {
        lines.push(error.to_string());
    }
    let survey = Survey::run(&conn, &mut |_, _| {});
    let mut report = survey.report;
    if report.is_sound()
        && let Err(error) = recover::load(&conn)
    {
        report.damage.push(error.text);
    }
    lines.retain(|line| line != "ok");
    report.damage.extend(
        lines
            .into_iter()
            .map(|line| format!("the database's structure: {line}")),
    );
    Ok(report)
}

/// Copies a store, which may be in use, to a file that must not be there yet, and verifies the copy.
///
/// # Errors
/// When the copy cannot be written or what was read is damaged; nothing is left then.
pub fn backup(dir: &Path, dest: &Path) -> Result<Report, StoreError> {
    if dest.exists() {
        return Err(StoreError::fatal(format!(
            "{} is there already",
            dest.display()
        )));
    }
    let path = database(dir);
    if !path.exists() {
        return Err(StoreError::fatal(format!(
            "there is no store in {}",
            dir.display()
        )));
    }
    let part = with_suffix(dest, ".part");
    let result = (|| {
        remove_if_there(&part)?;
        let conn = open_read_only(&path)?;
        schema::copy_database(&conn, &part)
            .map_err(|e| StoreError::fatal(format!("cannot copy to {}: {e}", part.display())))?;
        let report = check_file(&part)?;
        if !report.is_sound() {
            return Err(StoreError::damaged(format!(
                "the copy is not sound:\n{report}"
            )));
        }
        put_in_place(&part, dest)?;
        Ok(report)
    })();
    if result.is_err() {
        let _ = fs::remove_file(&part);
    }
    result
}

/// Makes a file safe and gives it its name.
fn put_in_place(part: &Path, dest: &Path) -> Result<(), StoreError> {
    File::open(part)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(part, dest))
        .map_err(|e| failed("write", dest, &e))?;
    match dest.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => schema::sync_dir(dir),
        _ => schema::sync_dir(Path::new(".")),
    }
}

/// Puts a copy that [`backup`] made in place as the store of a folder that has none.
///
/// # Errors
/// When the copy is not sound or the folder has a store.
pub fn restore(src: &Path, dir: &Path) -> Result<Report, StoreError> {
    fs::create_dir_all(dir).map_err(|e| failed("make", dir, &e))?;
    let _lock = lock::acquire(dir)?;
    let path = database(dir);
    for there in [&path, &wal(dir)] {
        if there.exists() {
            return Err(StoreError::fatal(format!(
                "{} is there already: move it away first",
                there.display()
            )));
        }
    }
    // A copy of the file first: what is verified is what is put in place.
    let part = with_suffix(&path, ".restore");
    let result = (|| {
        remove_if_there(&part)?;
        fs::copy(src, &part).map_err(|e| failed("copy", src, &e))?;
        schema::is_synced(&part)?;
        let report = check_file(&part)?;
        if !report.is_sound() {
            return Err(StoreError::damaged(format!(
                "{} is not sound:\n{report}",
                src.display()
            )));
        }
        put_in_place(&part, &path)?;
        Ok(report)
    })();
    if result.is_err() {
        let _ = fs::remove_file(&part);
    }
    result
}

/// Makes a new store of everything in a damaged one that can be verified, and moves the damaged files aside: their new
/// names end in `stamp`. One that was interrupted is finished by the next.
///
/// # Errors
/// When the store is in use, is of another format, or cannot be opened even for that; nothing is changed then.
pub fn salvage(dir: &Path, stamp: &str) -> Result<Report, StoreError> {
    let _lock = lock::acquire(dir)?;
    let path = database(dir);
    let mut report = if salvage_done(dir).exists() {
        Report {
            notes: vec!["an earlier salvage was interrupted and is finished now".into()],
            ..Report::default()
        }
    } else {
        prepare_salvage(dir)?
    };
    // From here on the store does not open until the new files are in place.
    for old in [path.clone(), wal(dir), with_suffix(&path, "-shm")] {
        if old.exists() && database(&salvage_dir(dir)).exists() {
            let aside = with_suffix(&old, &format!(".damaged-{stamp}"));
            fs::rename(&old, &aside).map_err(|e| failed("move", &old, &e))?;
            report
                .notes
                .push(format!("{} is now {}", old.display(), aside.display()));
        }
    }
    let new = database(&salvage_dir(dir));
    if new.exists() {
        put_in_place(&new, &path)?;
    }
    fs::remove_dir_all(salvage_dir(dir)).map_err(|e| failed("remove", &salvage_dir(dir), &e))?;
    schema::sync_dir(dir)?;
    report
        .notes
        .push(format!("{} holds what could be verified", path.display()));
    Ok(report)
}

/// Makes the new store, safe on disk, beside the damaged one.
fn prepare_salvage(dir: &Path) -> Result<Report, StoreError> {
    let path = database(dir);
    if !path.exists() {
        return Err(StoreError::fatal(format!(
            "there is no store in {}",
            dir.display()
        )));
    }
    let log_damage = walscan::check(&wal(dir)).err();
    let conn = open_read_only(&path)?;
    refuse_other_formats(&conn, &path)?;
    conn.execute_batch("BEGIN")
        .map_err(|e| reading(&path.display().to_string(), &e))?;
    let new_dir = salvage_dir(dir);
    if new_dir.exists() {
        fs::remove_dir_all(&new_dir).map_err(|e| failed("remove", &new_dir, &e))?;
    }
    let mut report = rescue(&conn, &new_dir)?;
    if let Some(error) = log_damage {
        report.damage.insert(0, error.text);
    }
    let done = salvage_done(dir);
    File::open(database(&new_dir))
        .and_then(|file| file.sync_all())
        .and_then(|()| File::create(&done)?.sync_all())
        .map_err(|e| failed("write", &done, &e))?;
    schema::sync_dir(&new_dir)?;
    schema::sync_dir(dir)?;
    Ok(report)
}

fn refuse_other_formats(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let version: i32 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|e| reading(&path.display().to_string(), &e))?;
    if version == schema::FORMAT {
        return Ok(());
    }
    Err(StoreError::fatal(format!(
        "{} has format {version}; this program reads format {}",
        path.display(),
        schema::FORMAT
    )))
}

/// Writes what can be verified into a new store.
fn rescue(conn: &Connection, to: &Path) -> Result<Report, StoreError> {
    // The definitions are all read before the first message comes.
    let mut rescue = Rescue {
        store: SqliteStore::open(StoreConfig {
            ballast_bytes: 0,
            ..StoreConfig::new(to)
        })?,
        ops: Vec::new(),
        batch: 0,
        ids: std::collections::BTreeMap::new(),
        next: std::collections::BTreeMap::new(),
        notes: Vec::new(),
        failure: None,
    };
    let mut survey = Survey::run(conn, &mut |survey, record| rescue.take(survey, record));
    rescue.declare_all(&survey);
    for ((key, seq), returned) in std::mem::take(&mut survey.returned) {
        if let Some(&queue) = rescue.ids.get(&key) {
            rescue.ops.push(Op::Returned {
                queue,
                seq: Seq(seq),
                delivery_count: returned.delivery_count,
                annotations: returned.annotations,
            });
        }
    }
    for (key, next) in &survey.seq_next {
        if let Some(&queue) = rescue.ids.get(key) {
            let next = Seq(*next);
            rescue.ops.push(Op::Counted { queue, next });
        }
    }
    rescue.flush();
    let mut report = survey.report;
    report.notes.append(&mut rescue.notes);
    match rescue.failure.take() {
        Some(error) => Err(error),
        None => Ok(report),
    }
}

/// The new store while it is filled.
struct Rescue {
    store: SqliteStore,
    ops: Vec<Op>,
    batch: u64,
    /// Declared queues by the old store's number.
    ids: std::collections::BTreeMap<u64, QueueId>,
    next: std::collections::BTreeMap<u64, u64>,
    notes: Vec<String>,
    failure: Option<StoreError>,
}

impl Rescue {
    fn declare(&mut self, survey: &Survey, key: u64) -> QueueId {
        if let Some(&id) = self.ids.get(&key) {
            return id;
        }
        let (queue, spec) = survey.queues.get(&key).cloned().unwrap_or_else(|| {
            // No queue that has a definition has this id or this name.
            let id = QueueId((1 << 62) + key);
            let name = format!("salvaged.{key}");
            self.notes.push(format!(
                "the definition of the queue with number {key} is lost; its messages are now in the queue {name}"
            ));
            (id, Arc::new(QueueSpec::new(name)))
        });
        self.ids.insert(key, queue);
        self.ops.push(Op::QueueDeclared { queue, spec });
        queue
    }

    fn declare_all(&mut self, survey: &Survey) {
        for key in survey.queues.keys().chain(&survey.nameless) {
            self.declare(survey, *key);
        }
        self.ops.extend(survey.topology.iter().cloned());
    }

    fn take(&mut self, survey: &Survey, record: &Record<'_>) {
        let mut places = smallvec::SmallVec::new();
        for &(key, seq) in &record.places {
            let queue = self.declare(survey, key);
            let next = self.next.entry(key).or_default();
            // A row that is there twice gives each message once.
            if seq >= *next {
                *next = seq + 1;
                places.push((queue, Seq(seq)));
            }
        }
        match read_message(record.message, Bytes::copy_from_slice) {
            Ok(_) if places.is_empty() => {}
            Ok(message) => self.ops.push(Op::Enqueued(StoredMessage {
                message: message.share(),
                arrived_at_ms: record.arrived_at_ms,
                places,
            })),
            Err(error) => self
                .notes
                .push(format!("a message cannot be read: {error}")),
        }
        if self.ops.len() >= RESCUE_BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.failure.is_some() {
            return;
        }
        self.batch += 1;
        self.store.submit(Batch {
            id: BatchId(self.batch),
            ops: std::mem::take(&mut self.ops),
        });
        self.failure = self.store.flush().err();
    }
}

fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", path, &e)),
        _ => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
