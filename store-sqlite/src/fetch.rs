//! Reading bodies: whole rows at a time, the last ones kept, every message verified before it is handed out.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use qq_core::store::codec::{Reader, read_message};
use qq_core::store::{Fetch, StoreError};
use qq_core::vocab::{Message, Seq};

use crate::fault::reading;
use crate::index::Map;
use crate::plan::ALONE_BYTES;
use crate::row::{Head, Place, checked_crc, next_record, read_places, read_record};
use crate::store::SqliteStore;

/// A row that was read and verified.
#[derive(Debug)]
pub(crate) struct CachedRow {
    pub(crate) id: u64,
    /// The checksum of its head: another one means that the row was rewritten.
    pub(crate) crc: u32,
    pub(crate) head: Head,
    pub(crate) body: Bytes,
    /// Where each place's message begins, by place.
    places: Vec<(Place, u32)>,
}

/// The rows that were read last. The one that was read first goes first: a backlog is read in order.
#[derive(Debug)]
pub(crate) struct Cache {
    rows: Map<u64, Arc<CachedRow>>,
    order: VecDeque<u64>,
    bytes: usize,
    bytes_max: usize,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            rows: Map::default(),
            order: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    fn find(&self, id: u64, crc: u32) -> Option<Arc<CachedRow>> {
        self.rows.get(&id).filter(|row| row.crc == crc).cloned()
    }

    fn keep(&mut self, row: &Arc<CachedRow>) {
        self.bytes += row.cost();
        match self.rows.insert(row.id, Arc::clone(row)) {
            Some(before) => self.bytes -= before.cost(),
            None => self.order.push_back(row.id),
        }
        while self.bytes > self.bytes_max
            && self.order.len() > 1
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.rows.remove(&oldest).map_or(0, |row| row.cost());
        }
    }
}

impl CachedRow {
    fn cost(&self) -> usize {
        self.body.len() + self.places.len() * size_of::<(Place, u32)>() + 256
    }

    /// Finds where the messages begin. They are not verified yet.
    pub(crate) fn new(id: u64, crc: u32, head: Head, body: Bytes) -> Result<Self, String> {
        let mut places = Vec::new();
        let mut reader = Reader::new(&body);
        loop {
            let at = (body.len() - reader.rest().len()) as u32;
            let record = next_record(&mut reader).map_err(|e| e.to_string())?;
            let Some((_, content)) = record else {
                break;
            };
            let theirs = read_places(&mut Reader::new(content)).map_err(|e| e.to_string())?;
            places.extend(theirs.into_iter().map(|place| (place, at)));
        }
        if !places.is_sorted() {
            places.sort_unstable();
        }
        Ok(Self {
            id,
            crc,
            head,
            body,
            places,
        })
    }

    /// The messages of a queue from `first` to before `end`.
    fn read(
        &self,
        key: u64,
        first: u64,
        end: u64,
        out: &mut Vec<(Seq, Arc<Message>)>,
    ) -> Result<(), String> {
        let begin = self
            .places
            .partition_point(|(place, _)| *place < (key, first));
        for &((its_key, seq), at) in &self.places[begin..] {
            if its_key != key || seq >= end {
                break;
            }
            let fail = |e: &dyn std::fmt::Display| format!("position {seq}: {e}");
            let mut reader = Reader::new(&self.body[at as usize..]);
            let (crc, content) = next_record(&mut reader)
                .map_err(|e| fail(&e))?
                .expect("a message begins here");
            let record =
                read_record(crc, content, self.head.arrived_base_ms).map_err(|e| fail(&e))?;
            let own = |payload: &[u8]| own(&self.body, payload);
            let message = read_message(record.message, own).map_err(|e| fail(&e))?;
            out.push((Seq(seq), message.share()));
        }
        Ok(())
    }
}

/// A small payload is copied, so that it does not keep its row in memory; a large one has the row for itself.
pub(crate) fn own(body: &Bytes, payload: &[u8]) -> Bytes {
    if payload.len() > ALONE_BYTES {
        body.slice_ref(payload)
    } else {
        Bytes::copy_from_slice(payload)
    }
}

/// Verifies head and body of a row as they are in the database.
pub(crate) fn verify(id: u64, head: &[u8], body: &[u8]) -> Result<(u32, Head), String> {
    let crc = checked_crc(id, head).ok_or("the checksum of its head is wrong")?;
    let head = Head::read(id, head).map_err(|e| format!("its head: {e}"))?;
    if head.body_len as usize != body.len() || crc32fast::hash(body) != head.body_crc {
        return Err("the checksum of its body is wrong".into());
    }
    Ok((crc, head))
}

impl SqliteStore {
    /// Reads and verifies a row of the index, through the cache.
    pub(crate) fn row(&mut self, slot: u32) -> Result<Arc<CachedRow>, StoreError> {
        let (id, crc) = {
            let row = &self.book.index.rows[slot as usize];
            (row.id, row.crc)
        };
        if let Some(row) = self.cache.find(id, crc) {
            return Ok(row);
        }
        let damaged =
            |text: String| StoreError::damaged(format!("row {id} of table journal: {text}"));
        let (head, body): (Vec<u8>, Vec<u8>) = self
            .conn
            .prepare_cached("SELECT head, body FROM journal WHERE id = ?1")
            .and_then(|mut select| {
                select.query_row([id as i64], |row| {
                    let head = row.get_ref(0)?.as_blob()?.to_vec();
                    Ok((head, row.get_ref(1)?.as_blob()?.to_vec()))
                })
            })
            .map_err(|e| reading(&format!("row {id} of table journal"), &e))?;
        let (found_crc, head) = verify(id, &head, &body).map_err(damaged)?;
        if found_crc != crc {
            return Err(damaged("it is not the one that was written last".into()));
        }
        let row = CachedRow::new(id, crc, head, Bytes::from(body)).map_err(damaged)?;
        let row = Arc::new(row);
        self.cache.keep(&row);
        Ok(row)
    }

    /// See [`qq_core::store::Store::fetch`].
    pub(crate) fn read(&mut self, fetch: &Fetch) -> Result<Vec<(Seq, Arc<Message>)>, StoreError> {
        let mut out = Vec::new();
        let Some(slot) = self.book.index.queue(fetch.queue) else {
            return Ok(out);
        };
        let (first, end) = (
            fetch.first.0,
            fetch.first.0.saturating_add(u64::from(fetch.count)),
        );
        let mut at = first;
        while at < end {
            let queue = &self.book.index.queues[slot as usize];
            let key = queue.key;
            let before = queue
                .live
                .range(..=at)
                .next_back()
                .filter(|(start, run)| at - **start < u64::from(run.len));
            let Some((&start, &run)) = before.or_else(|| queue.live.range(at..end).next()) else {
                break;
            };
            let (from, to) = (start.max(at), end.min(start + u64::from(run.len)));
            at = to;
            if self.book.index.rows[run.row as usize].id >= self.row_safe {
                continue;
            }
            let row = self
                .row(run.row)
                .map_err(|e| of_queue(e, fetch, from, to))?;
            let count_before = out.len();
            row.read(key, from, to, &mut out).map_err(|text| {
                let text = format!("row {} of table journal: {text}", row.id);
                of_queue(StoreError::damaged(text), fetch, from, to)
            })?;
            if (out.len() - count_before) as u64 != to - from {
                let text = format!("row {} of table journal: messages are missing", row.id);
                return Err(of_queue(StoreError::damaged(text), fetch, from, to));
            }
        }
        Ok(out)
    }
}

/// Says whose messages an error concerns.
fn of_queue(mut error: StoreError, fetch: &Fetch, from: u64, to: u64) -> StoreError {
    error.text = format!(
        "queue {}, positions {from} to {}: {}",
        fetch.queue.0,
        to - 1,
        error.text
    );
    error
}
