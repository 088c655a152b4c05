//! Housekeeping: rows that are mostly dead are written anew, small neighbours become one row, the log is moved into
//! the database, and free pages go back to the file system. Each step is small, since work may come at any moment.

use std::time::{Duration, Instant};

use qq_core::store::StoreError;

use crate::fault::{Trouble, trouble};
use crate::index::{Map, Run};
use crate::plan::{BODY_BYTES_MAX, NewRow, Plan};
use crate::row::{Head, Record, Section, next_record, put_record, read_record};
use crate::schema;
use crate::store::SqliteStore;

/// A row with less than one part in so many alive is sparse.
const SPARSE_PARTS: u64 = 4;
/// What rewriting a single sparse row must give back.
const GAIN_BYTES_MIN: u64 = 16 << 10;
/// A row with fewer live bytes is small; so many small neighbours become one.
const SMALL_BYTES: u64 = 8 << 10;
const SMALL_ROWS_MIN: usize = 16;
/// What is merged at once: rows, and the bytes of them.
const MERGE_ROWS_MAX: usize = 512;
const MERGE_BYTES_MAX: u64 = 4 << 20;
/// Rows that one step looks at.
const SCAN_ROWS: usize = 4096;
/// Dead bytes that are cleared away under load too.
const DEAD_BYTES_MAX: u64 = 64 << 20;
/// How many flushes lie between two looks at that, and how many steps follow one.
const LOOK_FLUSHES: u32 = 64;
const LOAD_STEPS: u32 = 4;
/// So many rows are merged under load too when they are small.
const MANY_ROWS: u64 = 8192;
/// Free pages that are kept, and given back in one step.
const FREE_PAGES_KEPT: i64 = 2048;
const FREE_PAGES_STEP: i64 = 512;
/// How long nothing was written before the log is moved and cut.
const QUIET: Duration = Duration::from_secs(1);

/// Where housekeeping stands.
#[derive(Debug, Default)]
pub(crate) struct Tend {
    /// The first row that was not looked at since the last change.
    cursor: u64,
    /// Whether anything changed since all rows were looked at.
    is_stale: bool,
    /// When something was written last, and not moved out of the log yet.
    written_at: Option<Instant>,
    /// A reader from outside keeps the log.
    pub(crate) is_log_held: bool,
    /// Whether free pages may be there.
    may_shrink: bool,
    /// Flushes until clearing under load is thought of again.
    pause: u32,
}

impl Tend {
    /// Something was written.
    pub(crate) fn note_change(&mut self) {
        self.is_stale = true;
        self.may_shrink = true;
        self.written_at = Some(Instant::now());
    }
}

impl SqliteStore {
    /// See [`qq_core::store::Store::tend`].
    pub(crate) fn tend_step(&mut self) -> Result<bool, StoreError> {
        if self.has_unwritten() {
            self.write_plans()?;
        }
        self.room.take_ballast();
        if self.clear()? || self.compact()? {
            return Ok(true);
        }
        if self.shrink()? {
            return Ok(true);
        }
        self.cut_log()?;
        Ok(false)
    }

    /// Keeps dead bytes and the number of rows within bounds however busy the store is.
    pub(crate) fn clean_under_load(&mut self) -> Result<(), StoreError> {
        if self.has_unwritten() || self.tend.pause > 0 {
            self.tend.pause = self.tend.pause.saturating_sub(1);
            return Ok(());
        }
        self.tend.pause = LOOK_FLUSHES;
        let index = &self.book.index;
        let live: u64 = index.rows.iter().map(|(_, row)| row.bytes_live()).sum();
        let has_much_dead = index.bytes - live >= DEAD_BYTES_MAX.max(live);
        let rows = index.rows.len() as u64;
        if !has_much_dead && (rows < MANY_ROWS || live / rows > SMALL_BYTES) {
            return Ok(());
        }
        for _ in 0..LOAD_STEPS {
            // Trouble with room is not the flush's: what it wrote is safe.
            match self.clear().and_then(|did| Ok(did | self.compact()?)) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    log::debug!("clearing away: {}", error.text);
                    return self.alive();
                }
            }
        }
        self.tend.pause = if has_much_dead { 0 } else { LOOK_FLUSHES / 4 };
        Ok(())
    }

    /// Deletes rows that nothing needs.
    fn clear(&mut self) -> Result<bool, StoreError> {
        let index = &self.book.index;
        if index.doomed.is_empty() && index.lingering == 0 {
            return Ok(false);
        }
        let plan = self.book.plan_clearing();
        if plan.is_empty() {
            return Ok(false);
        }
        self.write_or_keep(plan)?;
        self.tend.note_change();
        Ok(true)
    }

    /// Looks for rows to write anew, and does it with the first that are worth it.
    fn compact(&mut self) -> Result<bool, StoreError> {
        if !self.tend.is_stale || !self.is_recovered {
            return Ok(false);
        }
        let mut set: Vec<u32> = Vec::new();
        let (mut bytes, mut live, mut seen) = (0u64, 0u64, 0);
        let mut next = None;
        let mut is_worth = false;
        for (&id, &slot) in self.book.index.row_ids.range(self.tend.cursor..) {
            let row = &self.book.index.rows[slot as usize];
            let row_live = row.bytes_live();
            let is_sparse = row_live * SPARSE_PARTS < u64::from(row.bytes);
            let is_poor = is_sparse || row_live < SMALL_BYTES;
            let is_poor = is_poor && !row.is_doomed && !row.is_bad;
            let fits = live + row_live <= BODY_BYTES_MAX as u64
                && bytes < MERGE_BYTES_MAX
                && set.len() < MERGE_ROWS_MAX;
            seen += 1;
            if is_poor && fits {
                set.push(slot);
                bytes += u64::from(row.bytes);
                live += row_live;
                continue;
            }
            is_worth = is_worth_it(&set, bytes, live);
            if is_worth || seen >= SCAN_ROWS {
                next = Some(id);
                break;
            }
            (bytes, live) = (0, 0);
            set.clear();
            if is_poor {
                set.push(slot);
                (bytes, live) = (u64::from(row.bytes), row_live);
            }
        }
        if next.is_none() {
            is_worth = is_worth_it(&set, bytes, live);
            self.tend.is_stale = false;
        }
        self.tend.cursor = next.unwrap_or(0);
        if is_worth {
            self.rewrite(&set)?;
            self.tend.is_stale = true;
            self.tend.written_at = Some(Instant::now());
            self.tend.may_shrink = true;
            return Ok(true);
        }
        Ok(next.is_some())
    }

    /// Writes neighbouring rows as one, under the number of the first: what is live in them, and records in them that
    /// other rows need.
    fn rewrite(&mut self, set: &[u32]) -> Result<(), StoreError> {
        let target = set[0];
        let id = self.book.index.rows[target as usize].id;
        let mut merged = Merged::new();
        for &slot in set {
            if let Err(error) = self.merge(slot, set, &mut merged) {
                // Whoever asks for its messages gets the error; here it is only left alone.
                log::error!("housekeeping: {}", error.text);
                self.book.index.rows[slot as usize].is_bad = true;
                return Ok(());
            }
        }
        self.keep_counts(set, &mut merged);
        merged.head.sections.sort_by_key(|section| section.key);
        merged.head.body_len = merged.body.len() as u32;
        merged.head.body_crc = crc32fast::hash(&merged.body);
        let (head, crc) = merged.head.write(id);
        let lens = (head.len(), merged.body.len());
        let mut plan = Plan::default();
        plan.updates.push(NewRow {
            id,
            head,
            body: std::mem::take(&mut merged.body),
        });
        let mut state = self.book.state;
        let mut gone = self.book.gone.clone();
        for &slot in set {
            let row = &self.book.index.rows[slot as usize];
            state.remove_row(row.id, row.crc);
            if slot != target {
                gone.add(row.id, &mut state.row_first, &mut plan.gone);
                plan.deletes.push(row.id);
            }
        }
        state.add_row(id, crc);
        plan.state = state;
        // Only what is on disk changes the index here: a row that is read meanwhile must match it.
        self.write(std::slice::from_ref(&plan))?;
        self.book.state = state;
        self.book.gone = gone;
        self.enter_merged(set, crc, lens, &merged);
        Ok(())
    }

    fn merge(&mut self, slot: u32, set: &[u32], merged: &mut Merged) -> Result<(), StoreError> {
        let row = self.row(slot)?;
        self.keep_messages(slot, &row, merged)
            .map_err(|e| StoreError::damaged(format!("row {} of table journal: {e}", row.id)))?;
        self.keep_records(slot, set, &row.head, merged);
        Ok(())
    }

    fn keep_messages(
        &self,
        slot: u32,
        row: &crate::fetch::CachedRow,
        merged: &mut Merged,
    ) -> Result<(), String> {
        let index = &self.book.index;
        let mut reader = qq_core::store::codec::Reader::new(&row.body);
        while let Some((crc, content)) = next_record(&mut reader).map_err(|e| e.to_string())? {
            let record = read_record(crc, content, row.head.arrived_base_ms)
                .map_err(|e| format!("a message: {e}"))?;
            let mut kept = Record {
                arrived_at_ms: record.arrived_at_ms,
                message: record.message,
                ..Record::default()
            };
            for &(key, seq) in &record.places {
                let Some(&queue_slot) = index.by_key.get(&key) else {
                    continue;
                };
                let queue = &index.queues[queue_slot as usize];
                if queue.row_of(seq) != Some(slot) {
                    continue;
                }
                if let Some(returned) = queue.returned.get(&seq) {
                    kept.returned
                        .push((kept.places.len() as u32, returned.clone()));
                }
                kept.places.push((key, seq));
            }
            if !kept.places.is_empty() {
                merged.put(&kept);
            }
        }
        for section in &row.head.sections {
            merged.widen(section);
        }
        Ok(())
    }

    /// Records about rows that stay, unless these were themselves written anew since.
    fn keep_records(&self, slot: u32, set: &[u32], head: &Head, merged: &mut Merged) {
        let index = &self.book.index;
        let needs = |row: u64| {
            index
                .row_ids
                .get(&row)
                .filter(|target| !set.contains(target))
                .filter(|target| index.rows[**target as usize].pins.contains(&slot))
                .copied()
        };
        for ack in &head.acks {
            if let Some(target) = needs(ack.row) {
                merged.head.acks.push(*ack);
                note(&mut merged.had_records, target);
                note(&mut merged.targets, target);
            }
        }
        for back in &head.returns {
            let is_current = index.by_key.get(&back.key).is_some_and(|queue| {
                let queue = &index.queues[*queue as usize];
                queue.returned.get(&back.seq) == Some(&back.returned)
            });
            if let Some(target) = needs(back.row) {
                note(&mut merged.had_records, target);
                if is_current {
                    merged.head.returns.push(back.clone());
                    note(&mut merged.targets, target);
                }
            }
        }
    }

    /// Sections of queues of which nothing else tells the next position; those of deleted queues go.
    fn keep_counts(&self, set: &[u32], merged: &mut Merged) {
        let index = &self.book.index;
        merged.head.sections.retain_mut(|section| {
            let Some(&slot) = index.by_key.get(&section.key) else {
                return false;
            };
            let queue = &index.queues[slot as usize];
            let is_newest = queue.newest.is_some_and(|row| set.contains(&row));
            is_newest || !section.runs.is_empty()
        });
    }

    /// Makes the index say what the disk now says.
    fn enter_merged(&mut self, set: &[u32], crc: u32, lens: (usize, usize), merged: &Merged) {
        let target = set[0];
        let index = &mut self.book.index;
        let mut places = 0;
        for section in &merged.head.sections {
            let queue_slot = index.by_key[&section.key];
            let queue = &mut index.queues[queue_slot as usize];
            for &(first, len) in &section.runs {
                // Runs of several rows may have become one.
                let end = first + u64::from(len);
                while let Some((&start, _)) = queue.live.range(first..end).next() {
                    queue.live.remove(&start);
                }
                queue.live.insert(first, Run { len, row: target });
                places += len;
            }
            if queue.newest.is_some_and(|row| set.contains(&row)) {
                index.set_newest(queue_slot, Some(target));
            }
        }
        // Records about these rows are needed no more, and records of these rows are in the first one now.
        for &slot in set {
            let pins = std::mem::take(&mut index.rows[slot as usize].pins);
            index.unpin(&pins);
        }
        for &row in &merged.had_records {
            for &slot in set {
                let pins = &mut index.rows[row as usize].pins;
                if let Some(at) = pins.iter().position(|pin| *pin == slot) {
                    pins.swap_remove(at);
                    index.rows[slot as usize].needed -= 1;
                }
            }
        }
        for &row in &merged.targets {
            index.pin(row, target);
        }
        index.doomed.retain(|slot| !set.contains(slot));
        for &slot in &set[1..] {
            let row = index.rows.remove(slot as usize);
            index.lingering -= u32::from(row.is_lingering);
            index.bytes -= u64::from(row.bytes);
            index.row_ids.remove(&row.id);
        }
        let row = &mut index.rows[target as usize];
        index.bytes -= u64::from(row.bytes);
        index.bytes += (lens.0 + lens.1) as u64;
        index.lingering -= u32::from(row.is_lingering);
        (row.is_lingering, row.is_doomed) = (false, false);
        (row.places, row.live) = (places, places);
        row.crc = crc;
        row.measure(lens.0, lens.1);
        index.look_at(target);
    }

    /// Gives free pages back to the file system.
    fn shrink(&mut self) -> Result<bool, StoreError> {
        if !self.tend.may_shrink {
            return Ok(false);
        }
        let step = || -> rusqlite::Result<bool> {
            let free: i64 = self
                .conn
                .pragma_query_value(None, "freelist_count", |row| row.get(0))?;
            let pages: i64 = self
                .conn
                .pragma_query_value(None, "page_count", |row| row.get(0))?;
            let kept = FREE_PAGES_KEPT.max(pages / 4);
            if free <= kept {
                return Ok(false);
            }
            let step = FREE_PAGES_STEP.min(free - kept);
            // It gives a row per page and goes on only when that is taken.
            let mut vacuum = self
                .conn
                .prepare(&format!("PRAGMA incremental_vacuum({step})"))?;
            let mut pages = vacuum.query([])?;
            while pages.next()?.is_some() {}
            Ok(true)
        };
        match step() {
            Ok(true) => {
                self.wal_bytes += FREE_PAGES_STEP as u64 * 4096;
                self.tend.written_at = Some(Instant::now());
                self.checkpoint_when_due()?;
                Ok(true)
            }
            Ok(false) => {
                self.tend.may_shrink = false;
                Ok(false)
            }
            Err(error) => Err(self.write_failed(&error)),
        }
    }

    /// Moves the log into the database and cuts it, when nothing was written for a while.
    fn cut_log(&mut self) -> Result<(), StoreError> {
        let is_due =
            self.tend.is_log_held || self.tend.written_at.is_some_and(|at| at.elapsed() >= QUIET);
        if !is_due {
            return Ok(());
        }
        match schema::checkpoint(&self.conn, "TRUNCATE") {
            Ok(is_complete) => {
                self.tend.is_log_held = !is_complete;
                if is_complete {
                    self.tend.written_at = None;
                    self.wal_bytes = 0;
                }
                Ok(())
            }
            Err(error) if trouble(&error) == Trouble::Busy => Ok(()),
            Err(error) => Err(self.write_failed(&error)),
        }
    }
}

fn is_worth_it(set: &[u32], bytes: u64, live: u64) -> bool {
    !set.is_empty() && (bytes - live >= GAIN_BYTES_MIN || set.len() >= SMALL_ROWS_MIN)
}

/// A row that is made of others.
struct Merged {
    head: Head,
    body: Vec<u8>,
    scratch: Vec<u8>,
    /// Where in the head each queue's section is.
    sections: Map<u64, usize>,
    /// Rows that it has records for, and all those that its parts had records for.
    targets: Vec<u32>,
    had_records: Vec<u32>,
}

fn note(rows: &mut Vec<u32>, row: u32) {
    if rows.last() != Some(&row) && !rows.contains(&row) {
        rows.push(row);
    }
}

impl Merged {
    fn new() -> Self {
        Self {
            head: Head {
                is_rewritten: true,
                ..Head::default()
            },
            body: Vec::new(),
            scratch: Vec::new(),
            sections: Map::default(),
            targets: Vec::new(),
            had_records: Vec::new(),
        }
    }

    fn section(&mut self, key: u64) -> &mut Section {
        let sections = &mut self.head.sections;
        let at = *self.sections.entry(key).or_insert_with(|| {
            sections.push(Section {
                key,
                ord_first: u64::MAX,
                ..Section::default()
            });
            sections.len() - 1
        });
        &mut sections[at]
    }

    /// Takes a message.
    fn put(&mut self, record: &Record<'_>) {
        if self.head.messages == 0 {
            self.head.arrived_base_ms = record.arrived_at_ms;
        }
        for &(key, seq) in &record.places {
            let section = self.section(key);
            match section.runs.last_mut() {
                Some((first, len)) if *first + u64::from(*len) == seq => *len += 1,
                _ => section.runs.push((seq, 1)),
            }
        }
        self.head.messages += 1;
        put_record(
            &mut self.body,
            &mut self.scratch,
            record,
            self.head.arrived_base_ms,
            |out| out.extend_from_slice(record.message),
        );
    }

    /// The numbers of a section are still accounted for.
    fn widen(&mut self, other: &Section) {
        let section = self.section(other.key);
        section.ord_first = section.ord_first.min(other.ord_first);
        section.ord_end = section.ord_end.max(other.ord_end);
        section.seq_next = section.seq_next.max(other.seq_next);
    }
}
