//! Recovery in two passes: the heads of all rows make the index and prove that no row is missing, repeated or stale;
//! then the rows with live messages are read one by one, verified and handed out.

use std::collections::BTreeMap;

use bytes::Bytes;
use qq_core::store::codec::{Reader, read_message};
use qq_core::store::{Op, StoreError, StoredMessage};
use qq_core::vocab::{QueueId, Seq};
use rusqlite::Connection;

use crate::definition;
use crate::fault::reading;
use crate::fetch::{own, verify};
use crate::index::{Left, Run};
use crate::plan::Book;
use crate::row::{Head, checked_crc, next_record, read_record};
use crate::state::State;
use crate::store::SqliteStore;

fn journal(id: u64, text: impl std::fmt::Display) -> StoreError {
    StoreError::damaged(format!("row {id} of table journal: {text}"))
}

fn unreadable(error: &rusqlite::Error) -> StoreError {
    reading("the store cannot be read", error)
}

/// A number that is kept as SQLite's signed integer.
fn number(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|value| value as u64)
}

/// The row before and the numbers of a queue, while heads are read.
#[derive(Default)]
struct Numbers {
    row: u64,
    ord_next: u64,
}

/// Work of the first pass.
#[derive(Default)]
pub(crate) struct Loader {
    pub(crate) book: Book,
    /// What the rows add up to.
    found: State,
    /// The row that comes next if none is missing.
    expected: u64,
    numbers: BTreeMap<u64, Numbers>,
    /// The last row so far that was written anew.
    rewritten: u64,
    left: Vec<Left>,
}

/// Reads what the store knows of itself.
///
/// # Errors
/// The first thing that is not as it was written, by table, row, queue and position.
pub(crate) fn load(conn: &Connection) -> Result<Book, StoreError> {
    let mut loader = Loader::default();
    loader.load_state(conn)?;
    loader.load_definitions(conn)?;
    loader.load_gone(conn)?;
    let mut select = conn
        .prepare("SELECT id, head FROM journal ORDER BY id")
        .map_err(|e| unreadable(&e))?;
    let mut rows = select.query([]).map_err(|e| unreadable(&e))?;
    while let Some(row) = rows.next().map_err(|e| unreadable(&e))? {
        let id = number(row, 0).map_err(|e| unreadable(&e))?;
        let head = row
            .get_ref(1)
            .and_then(|value| Ok(value.as_blob()?))
            .map_err(|e| reading(&format!("row {id} of table journal"), &e))?;
        loader.take_row(id, head)?;
    }
    loader.finish()
}

impl Loader {
    fn load_state(&mut self, conn: &Connection) -> Result<(), StoreError> {
        let bytes: Vec<u8> = conn
            .query_row("SELECT value FROM state WHERE id = 1", [], |row| row.get(0))
            .map_err(|e| reading("row 1 of table state", &e))?;
        self.book.state = State::read(&bytes)
            .ok_or_else(|| StoreError::damaged("row 1 of table state: its checksum is wrong"))?;
        self.expected = self.book.state.row_first;
        Ok(())
    }

    fn load_definitions(&mut self, conn: &Connection) -> Result<(), StoreError> {
        let mut select = conn
            .prepare("SELECT kind, name, value FROM definition ORDER BY kind, name")
            .map_err(|e| unreadable(&e))?;
        let mut rows = select.query([]).map_err(|e| unreadable(&e))?;
        let mut sum = State::default();
        while let Some(row) = rows.next().map_err(|e| unreadable(&e))? {
            let (kind, name, value) = (|| -> rusqlite::Result<(u8, u64, Vec<u8>)> {
                Ok((row.get(0)?, number(row, 1)?, row.get(2)?))
            })()
            .map_err(|e| reading("a row of table definition", &e))?;
            let damaged = |text: &dyn std::fmt::Display| {
                StoreError::damaged(format!(
                    "kind {kind}, name {name} of table definition: {text}"
                ))
            };
            let (content, crc) = definition::unseal(kind, name, &value)
                .ok_or_else(|| damaged(&"its checksum is wrong"))?;
            sum.add_definition(kind, crc);
            self.book.definitions.insert((kind, name), crc);
            match kind {
                definition::QUEUE => {
                    let (id, _) = definition::read_queue(content).map_err(|e| damaged(&e))?;
                    if self.book.index.queue(id).is_some() {
                        return Err(damaged(&format!("queue {} is there twice", id.0)));
                    }
                    self.book.index.add_queue(id, name);
                }
                definition::COUNT => {
                    let (seq_next, ord_next) = definition::read_count(content)
                        .ok_or_else(|| damaged(&"it cannot be read"))?;
                    if let Some(&slot) = self.book.index.by_key.get(&name) {
                        let queue = &mut self.book.index.queues[slot as usize];
                        (queue.seq_next, queue.ord_next) = (seq_next, ord_next);
                    }
                }
                definition::KEYS => self
                    .book
                    .keys
                    .load(name, content)
                    .map_err(|e| damaged(&e))?,
                _ => self
                    .book
                    .topology
                    .load(kind, name, content)
                    .map_err(|e| damaged(&e))?,
            }
        }
        if sum.definitions_sum != self.book.state.definitions_sum {
            return Err(StoreError::damaged(
                "table definition: a row is missing, or is an old one (the sum of all rows is wrong)",
            ));
        }
        Ok(())
    }

    fn load_gone(&mut self, conn: &Connection) -> Result<(), StoreError> {
        let mut select = conn
            .prepare("SELECT first, last FROM gone ORDER BY first")
            .map_err(|e| unreadable(&e))?;
        let mut rows = select.query([]).map_err(|e| unreadable(&e))?;
        while let Some(row) = rows.next().map_err(|e| unreadable(&e))? {
            let (first, last) = (|| Ok((number(row, 0)?, number(row, 1)?)))()
                .map_err(|e: rusqlite::Error| reading("a row of table gone", &e))?;
            if first < self.book.state.row_first || !self.book.gone.push(first, last) {
                return Err(StoreError::damaged(format!(
                    "row {first} of table gone: {first} to {last} is not behind the others"
                )));
            }
        }
        Ok(())
    }

    /// Passes what was deleted; what is left to be expected is `id`, or rows are missing.
    fn expect(&mut self, id: u64) -> Result<(), StoreError> {
        while self.expected < id
            && let Some(last) = self.book.gone.range_at(self.expected)
        {
            self.expected = last.saturating_add(1);
        }
        if self.expected < id {
            return Err(StoreError::damaged(format!(
                "table journal: rows {} to {} are missing{}",
                self.expected,
                self.book
                    .gone
                    .next_after(self.expected)
                    .unwrap_or(id)
                    .min(id)
                    - 1,
                self.last_positions()
            )));
        }
        if self.expected > id {
            return Err(journal(id, "it was deleted, and is there again"));
        }
        Ok(())
    }

    /// For the report of missing rows: up to which position each queue is known.
    fn last_positions(&self) -> String {
        let mut text = String::new();
        for (_, queue) in &self.book.index.queues {
            if text.len() > 200 {
                text.push_str(", and others");
                break;
            }
            if queue.seq_next > 0 {
                text += &format!(", queue {} from position {}", queue.id.0, queue.seq_next);
            }
        }
        text
    }

    fn take_row(&mut self, id: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.expect(id)?;
        self.expected = id + 1;
        let crc = checked_crc(id, bytes)
            .ok_or_else(|| journal(id, "the checksum of its head is wrong"))?;
        let head = Head::read(id, bytes).map_err(|e| journal(id, e))?;
        self.found.add_row(id, crc);
        let index = &mut self.book.index;
        let slot = index.add_row(id);
        let row = &mut index.rows[slot as usize];
        row.crc = crc;
        row.measure(bytes.len(), head.body_len as usize);
        index.bytes += u64::from(row.bytes);
        if head.is_rewritten {
            self.rewritten = id;
        }
        self.enter_sections(id, slot, &head)?;
        self.enter_records(slot, &head);
        self.book.index.look_at(slot);
        Ok(())
    }

    fn enter_sections(&mut self, id: u64, slot: u32, head: &Head) -> Result<(), StoreError> {
        for section in &head.sections {
            let index = &mut self.book.index;
            let Some(&queue_slot) = index.by_key.get(&section.key) else {
                // Its queue was deleted.
                continue;
            };
            let queue = &mut index.queues[queue_slot as usize];
            let queue_id = queue.id.0;
            let numbers = self.numbers.entry(section.key).or_default();
            if section.ord_first < numbers.ord_next {
                return Err(journal(
                    id,
                    format!("queue {queue_id}: messages are numbered twice"),
                ));
            }
            if numbers.row > 0
                && section.ord_first > numbers.ord_next
                && !self.book.gone.has_any(numbers.row, id)
                // What died may have been left out of a row that was written anew.
                && self.rewritten < numbers.row
            {
                let first = queue.seq_next;
                return Err(journal(
                    id,
                    format!(
                        "queue {queue_id}: messages before it are missing, from position {first}"
                    ),
                ));
            }
            (numbers.row, numbers.ord_next) = (id, section.ord_end);
            queue.seq_next = queue.seq_next.max(section.seq_next);
            queue.ord_next = queue.ord_next.max(section.ord_end);
            let mut places = 0;
            for &(first, len) in &section.runs {
                let overlaps = queue
                    .live
                    .range(..first + u64::from(len))
                    .next_back()
                    .is_some_and(|(start, run)| start + u64::from(run.len) > first);
                if overlaps {
                    return Err(journal(
                        id,
                        format!("queue {queue_id}: position {first} is there twice"),
                    ));
                }
                queue.live.insert(first, Run { len, row: slot });
                places += len;
            }
            let row = &mut index.rows[slot as usize];
            row.places += places;
            row.live += places;
            index.set_newest(queue_slot, Some(slot));
        }
        Ok(())
    }

    fn enter_records(&mut self, slot: u32, head: &Head) {
        let index = &mut self.book.index;
        for ack in &head.acks {
            if let Some(&queue) = index.by_key.get(&ack.key) {
                index.remove(queue, ack.first, u64::from(ack.len), &mut self.left);
                self.left.clear();
            }
            if let Some(&row) = index.row_ids.get(&ack.row) {
                index.pin(row, slot);
            }
        }
        for back in &head.returns {
            let Some(&queue_slot) = index.by_key.get(&back.key) else {
                continue;
            };
            let queue = &mut index.queues[queue_slot as usize];
            if queue.row_of(back.seq).is_none() {
                continue;
            }
            let is_newer = queue
                .returned
                .get(&back.seq)
                .is_none_or(|before| before.stamp <= back.returned.stamp);
            if is_newer {
                queue.returned.insert(back.seq, back.returned.clone());
            }
            if let Some(&row) = index.row_ids.get(&back.row) {
                index.pin(row, slot);
            }
        }
    }

    fn finish(mut self) -> Result<Book, StoreError> {
        let state = self.book.state;
        self.expect(state.row_next)?;
        for (_, row) in &mut self.book.index.rows {
            row.targets = row.needed;
        }
        let first = self.book.index.row_ids.first_key_value();
        let first = first.map_or(state.row_next, |(&id, _)| id);
        if state.row_first != first {
            return Err(StoreError::damaged(format!(
                "row 1 of table state: the journal should begin with row {}, but begins with {first}",
                state.row_first
            )));
        }
        if (state.rows, state.rows_sum) != (self.found.rows, self.found.rows_sum) {
            return Err(StoreError::damaged(format!(
                "table journal: a row is an old one, or {} rows should be there and {} are (the sum of all rows is wrong)",
                state.rows, self.found.rows
            )));
        }
        Ok(self.book)
    }
}

impl Book {
    /// For reports: which messages a row holds.
    fn holds(&self, slot: u32) -> String {
        let mut text = String::from("it holds");
        let mut found = 0;
        for (_, queue) in &self.index.queues {
            let mut positions = queue.live.iter().filter(|(_, run)| run.row == slot);
            let Some((first, run)) = positions.next() else {
                continue;
            };
            let (last, run) = positions.next_back().unwrap_or((first, run));
            found += 1;
            if found > 5 {
                text += " and others";
                break;
            }
            let last = last + u64::from(run.len) - 1;
            text += &format!(" queue {} positions {first} to {last},", queue.id.0);
        }
        text.trim_end_matches(',').to_string()
    }
}

/// Liveness of positions that come in order: the run that was found last is looked at first.
struct Live<'a> {
    book: &'a Book,
    key: u64,
    queue: QueueId,
    from: u64,
    to: u64,
    row: u32,
}

impl Live<'_> {
    /// The queue's id, if the position is live in this row.
    fn find(&mut self, row: u32, key: u64, seq: u64) -> Option<QueueId> {
        if !(key == self.key && row == self.row && (self.from..self.to).contains(&seq)) {
            let index = &self.book.index;
            let queue = &index.queues[*index.by_key.get(&key)? as usize];
            let (&first, run) = queue.live.range(..=seq).next_back()?;
            let end = first + u64::from(run.len);
            if seq >= end || run.row != row {
                return None;
            }
            (self.key, self.queue, self.row) = (key, queue.id, row);
            (self.from, self.to) = (first, end);
        }
        Some(self.queue)
    }
}

impl SqliteStore {
    pub(crate) fn load(&mut self) -> Result<(), StoreError> {
        self.book = load(&self.conn)?;
        self.row_safe = self.book.state.row_next;
        Ok(())
    }

    /// See [`qq_core::store::Store::recover`].
    pub(crate) fn replay(&mut self, each: &mut dyn FnMut(Op)) -> Result<(), StoreError> {
        self.replay_definitions(each)?;
        let conn = &self.conn;
        let mut select = conn
            .prepare("SELECT id, head, body FROM journal ORDER BY id")
            .map_err(|e| unreadable(&e))?;
        let mut rows = select.query([]).map_err(|e| unreadable(&e))?;
        let mut returned = Vec::new();
        let book = &self.book;
        let mut live = Live {
            book,
            key: 0,
            queue: QueueId(0),
            from: 0,
            to: 0,
            row: u32::MAX,
        };
        while let Some(row) = rows.next().map_err(|e| unreadable(&e))? {
            let id = number(row, 0).map_err(|e| unreadable(&e))?;
            let slot = *book
                .index
                .row_ids
                .get(&id)
                .ok_or_else(|| journal(id, "it came while the store was read"))?;
            let known = &book.index.rows[slot as usize];
            if known.live == 0 {
                continue;
            }
            let blob = |column| -> Result<&[u8], StoreError> {
                row.get_ref(column)
                    .and_then(|value| Ok(value.as_blob()?))
                    .map_err(|e| reading(&format!("row {id} of table journal"), &e))
            };
            let (crc, head) = verify(id, blob(1)?, blob(2)?)
                .map_err(|e| journal(id, format!("{e}; {}", book.holds(slot))))?;
            if crc != known.crc {
                return Err(journal(id, "it changed while the store was read"));
            }
            let body = Bytes::copy_from_slice(blob(2)?);
            let found = replay_row(slot, &head, &body, &mut live, &mut returned, each)
                .map_err(|e| journal(id, e))?;
            if found != known.live {
                return Err(journal(
                    id,
                    format!(
                        "{} messages should be there, {found} are; {}",
                        known.live,
                        book.holds(slot)
                    ),
                ));
            }
        }
        drop(rows);
        drop(select);
        self.replay_returned(returned, each);
        self.is_recovered = true;
        Ok(())
    }

    /// Bindings and the positions of readers last, when what they name is there.
    fn replay_definitions(&self, each: &mut dyn FnMut(Op)) -> Result<(), StoreError> {
        for kind in [
            definition::SCHEMA,
            definition::EXCHANGE,
            definition::QUEUE,
            definition::BINDING,
            definition::OFFSET,
            definition::KEYS,
        ] {
            let mut select = self
                .conn
                .prepare("SELECT name, value FROM definition WHERE kind = ?1 ORDER BY name")
                .map_err(|e| unreadable(&e))?;
            let mut rows = select.query([kind]).map_err(|e| unreadable(&e))?;
            while let Some(row) = rows.next().map_err(|e| unreadable(&e))? {
                let (name, value) = (|| Ok((number(row, 0)?, row.get::<_, Vec<u8>>(1)?)))()
                    .map_err(|e: rusqlite::Error| unreadable(&e))?;
                let op = definition::unseal(kind, name, &value)
                    .ok_or_else(|| "its checksum is wrong".to_string())
                    .and_then(|(content, _)| definition::read_op(kind, content))
                    .map_err(|e| {
                        StoreError::damaged(format!(
                            "kind {kind}, name {name} of table definition: {e}"
                        ))
                    })?;
                each(op);
            }
        }
        Ok(())
    }

    /// The counts of returned messages, then how far each queue has counted.
    fn replay_returned(
        &mut self,
        inline: Vec<(u64, u64, crate::row::Returned)>,
        each: &mut dyn FnMut(Op),
    ) {
        let index = &mut self.book.index;
        for (key, seq, returned) in inline {
            if let Some(&slot) = index.by_key.get(&key) {
                let known = &mut index.queues[slot as usize].returned;
                if known.get(&seq).is_none_or(|k| k.stamp < returned.stamp) {
                    known.insert(seq, returned);
                }
            }
        }
        for (_, queue) in &index.queues {
            for (&seq, returned) in &queue.returned {
                each(Op::Returned {
                    queue: queue.id,
                    seq: Seq(seq),
                    delivery_count: returned.delivery_count,
                    annotations: returned.annotations.clone(),
                });
            }
            each(Op::Counted {
                queue: queue.id,
                next: Seq(queue.seq_next),
            });
        }
    }
}

/// Hands out the live messages of a row; returns how many places they have.
fn replay_row(
    slot: u32,
    head: &Head,
    body: &Bytes,
    live: &mut Live<'_>,
    returned: &mut Vec<(u64, u64, crate::row::Returned)>,
    each: &mut dyn FnMut(Op),
) -> Result<u32, String> {
    let index = &live.book.index;
    let mut found = 0;
    let mut reader = Reader::new(body);
    let mut number = 0;
    let mut last = None;
    while let Some((crc, content)) = next_record(&mut reader).map_err(|e| e.to_string())? {
        let fail = |e: &dyn std::fmt::Display| {
            let after = last.map_or(String::new(), |(key, seq)| {
                let slot = index.by_key.get(&key);
                let queue = slot.map_or(key, |slot| index.queues[*slot as usize].id.0);
                format!(", behind position {seq} of queue {queue}")
            });
            format!("message {number}{after}: {e}")
        };
        let record = read_record(crc, content, head.arrived_base_ms).map_err(|e| fail(&e))?;
        let mut places = smallvec::SmallVec::new();
        for &(key, seq) in &record.places {
            if let Some(queue) = live.find(slot, key, seq) {
                places.push((queue, Seq(seq)));
            }
        }
        if !places.is_empty() {
            found += places.len() as u32;
            let message =
                read_message(record.message, |payload| own(body, payload)).map_err(|e| fail(&e))?;
            for (place, theirs) in &record.returned {
                if let Some(&(key, seq)) = record.places.get(*place as usize)
                    && live.find(slot, key, seq).is_some()
                {
                    returned.push((key, seq, theirs.clone()));
                }
            }
            each(Op::Enqueued(StoredMessage {
                message: message.share(),
                arrived_at_ms: record.arrived_at_ms,
                places,
            }));
        }
        last = record.places.last().copied();
        number += 1;
    }
    Ok(found)
}
