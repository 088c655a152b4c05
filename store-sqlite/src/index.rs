//! What the store knows without reading: which row holds which positions of which queue, and which rows may go.
//!
//! Only live positions are here, as runs: a backlog of ten million messages that arrived in batches of a thousand takes
//! ten thousand entries. A row is kept for three reasons, each counted: live messages, records in it that other kept
//! rows still need (a message that left must stay gone as long as its body is on disk), and queues whose newest
//! position is known from it alone.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use qq_core::vocab::QueueId;
use slab::Slab;
use smallvec::SmallVec;

use crate::row::Returned;

/// Maps by numbers that peers cannot choose.
pub(crate) type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// Live positions of a queue that stand in one row without a gap; the first is the key of the map that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) len: u32,
    /// Index into [`Index::rows`].
    pub(crate) row: u32,
}

/// A declared queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: QueueId,
    /// The store's own number: never used twice, even when the queue's id is.
    pub(crate) key: u64,
    pub(crate) seq_next: u64,
    pub(crate) ord_next: u64,
    pub(crate) live: BTreeMap<u64, Run>,
    /// Live messages that were returned.
    pub(crate) returned: BTreeMap<u64, Returned>,
    /// The row with its newest section.
    pub(crate) newest: Option<u32>,
    /// While a plan is made: positions that came in it, and the index of the message.
    pub(crate) fresh: Vec<(u64, u32)>,
    /// While a plan is made: the row and section that messages go to.
    pub(crate) open: (u64, u32),
}

impl Queue {
    pub(crate) fn new(id: QueueId, key: u64) -> Self {
        Self {
            id,
            key,
            seq_next: 0,
            ord_next: 0,
            live: BTreeMap::new(),
            returned: BTreeMap::new(),
            newest: None,
            fresh: Vec::new(),
            open: (0, 0),
        }
    }

    /// The row that holds a live position.
    pub(crate) fn row_of(&self, seq: u64) -> Option<u32> {
        let (&first, run) = self.live.range(..=seq).next_back()?;
        (seq - first < u64::from(run.len)).then_some(run.row)
    }
}

/// A row of the journal.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: u64,
    /// The checksum of its head, which covers all of it.
    pub(crate) crc: u32,
    pub(crate) bytes: u32,
    /// Of these, its head.
    pub(crate) head_bytes: u32,
    /// Positions that it was written with, and those that are live.
    pub(crate) places: u32,
    pub(crate) live: u32,
    /// Rows that it has records for, and those that still need them.
    pub(crate) targets: u32,
    pub(crate) needed: u32,
    /// Queues whose newest section is here.
    pub(crate) newest_for: u32,
    /// Cannot be read, so it is left as it is.
    pub(crate) is_bad: bool,
    /// Waits to be deleted.
    pub(crate) is_doomed: bool,
    /// Waits for [`Index::newest_for`](Row::newest_for) to become zero.
    pub(crate) is_lingering: bool,
    /// Rows with records about messages of this one.
    pub(crate) pins: SmallVec<[u32; 2]>,
}

impl Row {
    pub(crate) fn new(id: u64) -> Self {
        Self {
            id,
            crc: 0,
            bytes: 0,
            head_bytes: 0,
            places: 0,
            live: 0,
            targets: 0,
            needed: 0,
            newest_for: 0,
            is_bad: false,
            is_doomed: false,
            is_lingering: false,
            pins: SmallVec::new(),
        }
    }

    /// Notes how long its parts are, and how much of them counts as live from now on.
    pub(crate) fn measure(&mut self, head_bytes: usize, body_bytes: usize) {
        self.head_bytes = head_bytes as u32;
        self.bytes = (head_bytes + body_bytes) as u32;
        self.targets = self.needed;
    }

    /// What live messages and needed records take of it, about.
    pub(crate) fn bytes_live(&self) -> u64 {
        let share = |bytes: u32, part: u32, whole: u32| {
            u64::from(bytes) * u64::from(part) / u64::from(whole.max(1))
        };
        let head = share(self.head_bytes, self.needed, self.targets);
        let messages = share(self.bytes - self.head_bytes, self.live, self.places);
        head.min(u64::from(self.head_bytes)) + messages
    }
}

/// Positions that left a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) row: u32,
    pub(crate) key: u64,
    pub(crate) first: u64,
    pub(crate) len: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) queues: Slab<Queue>,
    pub(crate) by_id: Map<QueueId, u32>,
    pub(crate) by_key: Map<u64, u32>,
    pub(crate) rows: Slab<Row>,
    pub(crate) row_ids: BTreeMap<u64, u32>,
    /// Rows that may be deleted with the next transaction.
    pub(crate) doomed: Vec<u32>,
    /// Rows without live messages that are kept for the newest positions of queues alone.
    pub(crate) lingering: u32,
    /// Of all rows.
    pub(crate) bytes: u64,
}

impl Index {
    pub(crate) fn queue(&self, id: QueueId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn add_queue(&mut self, id: QueueId, key: u64) -> u32 {
        let slot = self.queues.insert(Queue::new(id, key)) as u32;
        self.by_id.insert(id, slot);
        self.by_key.insert(key, slot);
        slot
    }

    /// Forgets a queue; its messages leave their rows.
    pub(crate) fn remove_queue(&mut self, slot: u32) -> Queue {
        let queue = self.queues.remove(slot as usize);
        self.by_id.remove(&queue.id);
        self.by_key.remove(&queue.key);
        for run in queue.live.values() {
            self.rows[run.row as usize].live -= run.len;
            self.look_at(run.row);
        }
        if let Some(row) = queue.newest {
            self.rows[row as usize].newest_for -= 1;
            self.look_at(row);
        }
        queue
    }

    pub(crate) fn add_row(&mut self, id: u64) -> u32 {
        let slot = self.rows.insert(Row::new(id)) as u32;
        self.row_ids.insert(id, slot);
        slot
    }

    /// Says that the queue's newest section is in this row.
    pub(crate) fn set_newest(&mut self, queue: u32, row: Option<u32>) {
        let before = std::mem::replace(&mut self.queues[queue as usize].newest, row);
        if let Some(row) = row {
            self.rows[row as usize].newest_for += 1;
        }
        if let Some(before) = before {
            self.rows[before as usize].newest_for -= 1;
            self.look_at(before);
        }
    }

    /// Takes live positions of `first..first + len` out, and says from which rows they went.
    pub(crate) fn remove(&mut self, slot: u32, first: u64, len: u64, left: &mut Vec<Left>) {
        let end = first.saturating_add(len);
        let queue = &mut self.queues[slot as usize];
        let key = queue.key;
        let mut at = first;
        while at < end {
            let before = queue
                .live
                .range(..=at)
                .next_back()
                .map(|(&start, &run)| (start, run))
                .filter(|(start, run)| at - start < u64::from(run.len));
            let found = before.or_else(|| {
                queue
                    .live
                    .range(at..end)
                    .next()
                    .map(|(&start, &run)| (start, run))
            });
            let Some((start, run)) = found else {
                break;
            };
            let run_end = start + u64::from(run.len);
            let (cut, cut_end) = (at.max(start), end.min(run_end));
            if cut > start {
                let kept = Run {
                    len: (cut - start) as u32,
                    row: run.row,
                };
                queue.live.insert(start, kept);
            } else {
                queue.live.remove(&start);
            }
            if cut_end < run_end {
                let kept = Run {
                    len: (run_end - cut_end) as u32,
                    row: run.row,
                };
                queue.live.insert(cut_end, kept);
            }
            let cut_len = (cut_end - cut) as u32;
            left.push(Left {
                row: run.row,
                key,
                first: cut,
                len: cut_len,
            });
            let row = &mut self.rows[run.row as usize];
            row.live -= cut_len;
            if row.live == 0 && !row.is_doomed {
                row.is_doomed = true;
                self.doomed.push(run.row);
            }
            at = cut_end;
        }
        if !queue.returned.is_empty() {
            let gone: SmallVec<[u64; 8]> =
                queue.returned.range(first..end).map(|(&s, _)| s).collect();
            for seq in gone {
                queue.returned.remove(&seq);
            }
        }
    }

    /// Notes that a row may have become useless.
    pub(crate) fn look_at(&mut self, slot: u32) {
        let row = &mut self.rows[slot as usize];
        if row.live == 0 && row.needed == 0 && !row.is_doomed {
            row.is_doomed = true;
            self.doomed.push(slot);
        }
    }

    /// Takes up to `rows_max` rows out that nothing needs any more, the oldest first, and returns their numbers and
    /// checksums.
    pub(crate) fn bury(&mut self, rows_max: usize) -> Vec<(u64, u32)> {
        let mut buried = Vec::new();
        if self.doomed.len() > 1 {
            let rows = &self.rows;
            self.doomed
                .sort_unstable_by_key(|slot| std::cmp::Reverse(rows[*slot as usize].id));
        }
        while buried.len() < rows_max
            && let Some(slot) = self.doomed.pop()
        {
            let row = &mut self.rows[slot as usize];
            row.is_doomed = false;
            if row.live > 0 || row.needed > 0 {
                continue;
            }
            if row.newest_for > 0 {
                if !row.is_lingering {
                    row.is_lingering = true;
                    self.lingering += 1;
                }
                continue;
            }
            let row = self.rows.remove(slot as usize);
            self.lingering -= u32::from(row.is_lingering);
            self.bytes -= u64::from(row.bytes);
            self.row_ids.remove(&row.id);
            self.unpin(&row.pins);
            buried.push((row.id, row.crc));
        }
        buried
    }

    /// The rows `pins` are needed by one row less.
    pub(crate) fn unpin(&mut self, pins: &[u32]) {
        for &pin in pins {
            self.rows[pin as usize].needed -= 1;
            self.look_at(pin);
        }
    }

    /// Notes that `holder` has records about messages of `row`.
    pub(crate) fn pin(&mut self, row: u32, holder: u32) {
        let pins = &mut self.rows[row as usize].pins;
        if pins.last() != Some(&holder) && !pins.contains(&holder) {
            pins.push(holder);
            self.rows[holder as usize].needed += 1;
        }
    }
}
