//! Reads a store that may be damaged, all of it, and says what is wrong instead of stopping at it.

use std::collections::BTreeMap;
use std::sync::Arc;

use qq_core::broker::QueueSpec;
use qq_core::store::Op;
use qq_core::store::codec::Reader;
use qq_core::vocab::QueueId;
use rusqlite::{Connection, OptionalExtension};

use crate::definition;

use crate::ranges::Ranges;
use crate::report::{Lost, Report};
use crate::row::{Head, Record, Returned, checked_crc, next_record, read_record};
use crate::state::State;

/// Lines of one kind of damage; more of it is summed up.
const LINES_MAX: usize = 200;

/// What the heads of rows say a queue has.
#[derive(Default)]
struct Expected {
    /// Numbers and positions up to which it was seen, and in which row.
    ord_next: u64,
    seq_next: u64,
    row: u64,
    /// Positions whose bodies should be there.
    positions: Ranges,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Survey {
    pub(crate) report: Report,
    pub(crate) state: Option<State>,
    /// By the store's own number.
    pub(crate) queues: BTreeMap<u64, (QueueId, Arc<QueueSpec>)>,
    /// What declares the exchanges and bindings, each exchange before any binding.
    pub(crate) topology: Vec<Op>,
    /// Queues whose definition is damaged or missing.
    pub(crate) nameless: Vec<u64>,
    pub(crate) seq_next: BTreeMap<u64, u64>,
    pub(crate) returned: BTreeMap<(u64, u64), Returned>,
    /// Definitions are missing, so a queue of which nothing is known may be one of theirs.
    is_definition_lost: bool,
    gone: Vec<(u64, u64)>,
    rows: Vec<u64>,
    /// Rows that should be there.
    rows_lost: Vec<u64>,
    expected: BTreeMap<u64, Expected>,
    dead: BTreeMap<u64, Ranges>,
    found: State,
}

impl Survey {
    fn damage(&mut self, text: String) {
        let lines = &mut self.report.damage;
        if lines.len() < LINES_MAX {
            lines.push(text);
        } else if lines.len() == LINES_MAX {
            lines.push("and more".into());
        }
    }

    /// Reads everything. `each` gets the live messages that can be verified, in the order of the journal.
    pub(crate) fn run(conn: &Connection, each: &mut dyn FnMut(&Self, &Record<'_>)) -> Self {
        let mut survey = Self::default();
        survey.read_state(conn);
        survey.read_definitions(conn);
        survey.read_gone(conn);
        survey.read_heads(conn);
        survey.compare_sums();
        survey.read_bodies(conn, each);
        survey.list_lost();
        survey.report.queues = survey.queues.len() as u64;
        survey
    }

    fn read_state(&mut self, conn: &Connection) {
        let bytes = conn.query_row("SELECT value FROM state WHERE id = 1", [], |row| {
            row.get::<_, Vec<u8>>(0)
        });
        match bytes {
            Ok(bytes) => {
                self.state = State::read(&bytes);
                if self.state.is_none() {
                    self.damage("row 1 of table state: its checksum is wrong".into());
                }
            }
            Err(error) => self.damage(format!("row 1 of table state: {error}")),
        }
    }

    fn read_definitions(&mut self, conn: &Connection) {
        let mut rows = Vec::new();
        let result = conn
            .prepare("SELECT kind, name, value FROM definition ORDER BY kind, name")
            .and_then(|mut select| {
                let mut found = select.query([])?;
                while let Some(row) = found.next()? {
                    let value = row.get_ref(2)?.as_blob().unwrap_or_default().to_vec();
                    rows.push((row.get::<_, i64>(0)?, row.get::<_, i64>(1)? as u64, value));
                }
                Ok(())
            });
        if let Err(error) = result {
            self.damage(format!("table definition: {error}"));
            self.is_definition_lost = true;
        }
        let mut sum = State::default();
        for (kind, name, value) in rows {
            let kind = kind as u8;
            let content = definition::unseal(kind, name, &value);
            if let Some((_, crc)) = content {
                sum.add_definition(kind, crc);
            }
            let read = match (kind, content) {
                (_, None) => Err("its checksum is wrong".to_string()),
                (definition::QUEUE, Some((content, _))) => {
                    definition::read_queue(content).map(|queue| {
                        self.queues.insert(name, queue);
                    })
                }
                (definition::COUNT, Some((content, _))) => definition::read_count(content)
                    .map(|(seq_next, _)| {
                        self.seq_next.insert(name, seq_next);
                    })
                    .ok_or_else(|| "it cannot be read".into()),
                (_, Some((content, _))) => definition::read_op(kind, content).map(|op| {
                    self.topology.push(op);
                }),
            };
            if let Err(text) = read {
                self.damage(format!(
                    "kind {kind}, name {name} of table definition: {text}"
                ));
                if kind == definition::QUEUE {
                    self.nameless.push(name);
                }
            }
        }
        let is_whole = self
            .state
            .is_none_or(|state| state.definitions_sum == sum.definitions_sum);
        if !is_whole && self.report.damage.is_empty() {
            self.damage("table definition: a row is missing, or is an old one".into());
            self.is_definition_lost = true;
        }
    }

    fn read_gone(&mut self, conn: &Connection) {
        let result = conn
            .prepare("SELECT first, last FROM gone ORDER BY first")
            .and_then(|mut select| {
                let mut found = select.query([])?;
                while let Some(row) = found.next()? {
                    let (first, last) = (row.get::<_, i64>(0)?, row.get::<_, i64>(1)?);
                    self.gone.push((first as u64, last as u64));
                }
                Ok(())
            });
        if let Err(error) = result {
            self.damage(format!("table gone: {error}"));
        }
    }

    fn is_gone(&self, id: u64) -> bool {
        let at = self.gone.partition_point(|(first, _)| *first <= id);
        at > 0 && self.gone[at - 1].1 >= id
    }

    fn read_heads(&mut self, conn: &Connection) {
        let mut at = self.state.map_or(1, |state| state.row_first);
        let end = self.state.map_or(u64::MAX, |state| state.row_next);
        let select =
            conn.prepare("SELECT id, head FROM journal WHERE id >= ?1 ORDER BY id LIMIT 1");
        let mut select = match select {
            Ok(select) => select,
            // Without its schema no row can be read, and each try would read the schema again.
            Err(error) => return self.damage(format!("table journal: {error}")),
        };
        loop {
            let next = select
                .query_row([at as i64], |row| {
                    let head = row.get_ref(1)?.as_blob().unwrap_or_default().to_vec();
                    Ok((row.get::<_, i64>(0)? as u64, head))
                })
                .optional();
            match next {
                Ok(Some((id, head))) if id < end => {
                    self.miss(at, id);
                    self.read_head(id, &head);
                    at = id + 1;
                }
                Ok(_) => break,
                Err(error) => {
                    // The tree is broken here: the rows behind are looked for one by one.
                    self.damage(format!("row {at} of table journal: {error}"));
                    self.miss(at, at.saturating_add(1));
                    at = self.after_gone(at + 1);
                    if at >= end || self.rows_lost.len() > 1_000_000 {
                        break;
                    }
                }
            }
        }
        if self.state.is_some() {
            self.miss(at, end);
        }
    }

    fn after_gone(&self, id: u64) -> u64 {
        let at = self.gone.partition_point(|(first, _)| *first <= id);
        match at.checked_sub(1).map(|before| self.gone[before].1) {
            Some(last) if last >= id => last + 1,
            _ => id,
        }
    }

    /// Rows from `from` to before `to` are not there.
    fn miss(&mut self, from: u64, to: u64) {
        let mut at = self.after_gone(from);
        while at < to && self.rows_lost.len() <= 1_000_000 {
            if self.state.is_some() {
                self.damage(format!("row {at} of table journal: it is missing"));
            }
            self.rows_lost.push(at);
            at = self.after_gone(at + 1);
        }
    }

    fn read_head(&mut self, id: u64, bytes: &[u8]) {
        if self.is_gone(id) {
            self.damage(format!(
                "row {id} of table journal: it was deleted, and is there again"
            ));
            return;
        }
        let head = checked_crc(id, bytes)
            .ok_or_else(|| "the checksum of its head is wrong".to_string())
            .and_then(|crc| Ok((crc, Head::read(id, bytes).map_err(|e| e.to_string())?)));
        let (crc, head) = match head {
            Ok(head) => head,
            Err(text) => {
                self.damage(format!("row {id} of table journal: {text}"));
                self.rows_lost.push(id);
                // Its messages may be readable all the same.
                self.rows.push(id);
                return;
            }
        };
        self.found.add_row(id, crc);
        self.rows.push(id);
        for section in &head.sections {
            self.note_gap(
                id,
                section.key,
                section.ord_first,
                section.runs.first().copied(),
            );
            let expected = self.expected.entry(section.key).or_default();
            for &(first, len) in &section.runs {
                expected.positions.add(first, first + u64::from(len));
            }
            expected.ord_next = section.ord_end;
            expected.seq_next = expected.seq_next.max(section.seq_next);
            expected.row = id;
            let known = self.seq_next.entry(section.key).or_default();
            *known = (*known).max(section.seq_next);
        }
        for ack in &head.acks {
            let end = ack.first.saturating_add(u64::from(ack.len));
            self.dead.entry(ack.key).or_default().add(ack.first, end);
        }
        for back in &head.returns {
            self.note_returned(back.key, back.seq, &back.returned);
        }
    }

    fn note_returned(&mut self, key: u64, seq: u64, returned: &Returned) {
        let known = self.returned.entry((key, seq)).or_default();
        if known.stamp <= returned.stamp {
            known.clone_from(returned);
        }
    }

    /// Numbers that are skipped although a row between is lost were in that row.
    fn note_gap(&mut self, id: u64, key: u64, ord_first: u64, first: Option<(u64, u32)>) {
        let expected = self.expected.entry(key).or_default();
        let (before, ord_next, seq_next) = (expected.row, expected.ord_next, expected.seq_next);
        let is_lost_between = self
            .rows_lost
            .iter()
            .any(|lost| (before..id).contains(lost));
        if before > 0
            && ord_first > ord_next
            && is_lost_between
            && let Some((first, _)) = first
        {
            let lost = Lost {
                queue: self.name(key),
                positions: (seq_next, first.saturating_sub(1)),
                messages: ord_first - ord_next,
            };
            self.report.lost.push(lost);
        }
    }

    pub(crate) fn name(&self, key: u64) -> String {
        match self.queues.get(&key) {
            Some((_, spec)) => spec.name.clone(),
            None => format!("with number {key}"),
        }
    }

    fn compare_sums(&mut self) {
        if let Some(state) = self.state
            && self.report.damage.is_empty()
            && (state.rows, state.rows_sum) != (self.found.rows, self.found.rows_sum)
        {
            self.damage(format!(
                "table journal: a row is an old one ({} rows should be there and {} are, the sum of all is wrong)",
                state.rows, self.found.rows
            ));
        }
    }

    /// Whether a queue is there, or may be one whose definition is lost.
    fn is_known(&mut self, key: u64) -> bool {
        if self.is_definition_lost
            && !self.queues.contains_key(&key)
            && !self.nameless.contains(&key)
        {
            self.nameless.push(key);
        }
        self.queues.contains_key(&key) || self.nameless.contains(&key)
    }

    fn read_bodies(&mut self, conn: &Connection, each: &mut dyn FnMut(&Self, &Record<'_>)) {
        for id in std::mem::take(&mut self.rows) {
            let row = conn.query_row(
                "SELECT head, body FROM journal WHERE id = ?1",
                [id as i64],
                |row| {
                    let head = row.get_ref(0)?.as_blob().unwrap_or_default().to_vec();
                    Ok((head, row.get_ref(1)?.as_blob().unwrap_or_default().to_vec()))
                },
            );
            match row {
                Ok((head, body)) => {
                    self.report.rows += 1;
                    self.read_body(id, &head, &body, each);
                }
                Err(error) => self.damage(format!("row {id} of table journal: {error}")),
            }
        }
    }

    fn read_body(
        &mut self,
        id: u64,
        head: &[u8],
        body: &[u8],
        each: &mut dyn FnMut(&Self, &Record<'_>),
    ) {
        let head = checked_crc(id, head).and_then(|_| Head::read(id, head).ok());
        if let Some(head) = &head
            && (head.body_len as usize != body.len() || head.body_crc != crc32fast::hash(body))
        {
            self.damage(format!(
                "row {id} of table journal: the checksum of its body is wrong"
            ));
        }
        let base_ms = head.map_or(0, |head| head.arrived_base_ms);
        let mut reader = Reader::new(body);
        let mut number = 0;
        loop {
            let (crc, content) = match next_record(&mut reader) {
                Ok(Some(next)) => next,
                Ok(None) => return,
                Err(error) => {
                    self.damage(format!(
                        "row {id} of table journal: message {number} and those behind it: {error}"
                    ));
                    return;
                }
            };
            match read_record(crc, content, base_ms) {
                Ok(record) => self.take_record(record, each),
                Err(error) => self.damage(format!(
                    "row {id} of table journal: message {number}: {error}"
                )),
            }
            number += 1;
        }
    }

    fn take_record(&mut self, mut record: Record<'_>, each: &mut dyn FnMut(&Self, &Record<'_>)) {
        for (place, returned) in std::mem::take(&mut record.returned) {
            if let Some(&(key, seq)) = record.places.get(place as usize) {
                self.note_returned(key, seq, &returned);
            }
        }
        let mut places = std::mem::take(&mut record.places);
        places.retain(|(key, seq)| {
            let is_dead = self.dead.get(key).is_some_and(|dead| dead.has(*seq));
            self.is_known(*key) && !is_dead
        });
        for &(key, seq) in &places {
            if let Some(expected) = self.expected.get_mut(&key) {
                expected.positions.cut(seq, seq + 1);
            }
            let next = self.seq_next.entry(key).or_default();
            *next = (*next).max(seq + 1);
        }
        self.report.messages += places.len() as u64;
        if !places.is_empty() {
            record.places = places;
            each(self, &record);
        }
    }

    /// What was expected, is not dead and was not found.
    fn list_lost(&mut self) {
        let mut expected = std::mem::take(&mut self.expected);
        for (key, expected) in &mut expected {
            if !self.queues.contains_key(key) && !self.nameless.contains(key) {
                continue;
            }
            for (first, end) in self.dead.get(key).into_iter().flat_map(Ranges::iter) {
                expected.positions.cut(first, end);
            }
            for (first, end) in expected.positions.iter() {
                let lost = Lost {
                    queue: self.name(*key),
                    positions: (first, end - 1),
                    messages: end - first,
                };
                self.report.lost.push(lost);
            }
        }
        self.report.lost.sort();
    }
}
