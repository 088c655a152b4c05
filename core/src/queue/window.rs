//! Which bodies of a queue are in memory.
//!
//! The index of a long queue lies in four stretches, by position:
//!
//! ```text
//! cursor       asked        from                      to             next
//!   | in memory  | on its way | away (packed by chunks) | new, in memory |
//! ```
//!
//! Every stored message of the third stretch has left its body to the store; outside of it only what was asked for is
//! missing. Bodies leave when a queue has twice its share in memory: the newest first, then what is beyond the window
//! ahead of the cursor. They come back block by block as the cursor moves on, several requests at a time, so that a
//! consumer never waits for one block after another. Messages that the store does not know stay where they are.
//!
//! Nothing below the cursor ever leaves: those messages are with consumers, or came back from them. What a consumer with
//! a filter picks out of the third stretch has its body from then on.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::cold::{Arrival, Cold};
use super::entry::payload_len;
use super::{Backlog, Clock, Entry};
use crate::store::BatchId;
use crate::vocab::{Message, Seq};

/// Blocks of a window: it is refilled when so much of it is consumed.
const BLOCKS: usize = 8;

/// Blocks that a window has even when they exceed its bytes.
const BLOCKS_MIN: usize = 2;

/// Requests of one queue that are on their way at a time.
const ASKED_MAX: usize = 4;

/// Longest distance between the first and the last position of a request.
const SPAN_MAX: u64 = 1 << 20;

/// How much of a queue may be in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) len: usize,
    /// Of payloads.
    pub(crate) bytes: usize,
}

impl Share {
    fn block(self) -> Self {
        Self {
            len: (self.len / BLOCKS).max(1),
            bytes: (self.bytes / BLOCKS).max(1),
        }
    }
}

/// Positions whose bodies are asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) count: u32,
}

impl Span {
    pub(super) fn new(first: u64, last: u64) -> Self {
        let count = u32::try_from(last - first + 1).expect("spans are shorter than SPAN_MAX");
        Self { first, count }
    }

    pub(crate) fn end(self) -> u64 {
        self.first + u64::from(self.count)
    }
}

/// A position for which the store has no message, or another one than it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing(pub(crate) u64);

/// A part of the window.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The position behind it.
    end: u64,
    /// Of payloads.
    bytes: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Where the third stretch begins and ends; nothing is away when it is empty.
    from: u64,
    to: u64,
    /// Nothing could leave when so much was safe.
    stuck_at: Option<BatchId>,
    /// What is between cursor and `from`, there or on its way.
    blocks: VecDeque<Block>,
    asked: Vec<Span>,
    /// Where the cursor was when it was last looked at how much is ahead of it, and how much was allowed then.
    cursor: u64,
    share_len: usize,
}

impl Window {
    /// Requests that are not answered.
    pub(crate) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Of a stream: where what is away ends.
    pub(super) fn log_end(&self) -> u64 {
        self.to
    }

    /// Of a stream: everything before this is away.
    pub(super) fn set_log_end(&mut self, end: u64) {
        self.to = end;
    }
}

/// Whether a window has all the blocks that it may have: a few at least, however large each is.
fn is_full(blocks: &VecDeque<Block>, share: Share) -> bool {
    let bytes: usize = blocks.iter().map(|block| block.bytes).sum();
    blocks.len() >= BLOCKS || blocks.len() >= BLOCKS_MIN && bytes >= share.bytes
}

impl Backlog {
    /// Requests that are not answered.
    pub(crate) fn asked(&self) -> usize {
        self.window.asked() + self.asked_aside()
    }

    fn follow_cursor(&mut self) {
        let window = &mut self.window;
        window.from = window.from.max(self.cursor);
        window.to = window.to.max(window.from);
        while window
            .blocks
            .pop_front_if(|block| block.end <= self.cursor)
            .is_some()
        {
            window.cursor = self.cursor;
        }
    }

    /// Leaves bodies to the store when more than twice the share waits in memory; returns what they cost.
    pub(crate) fn page_out(&mut self, share: Share, persisted: BatchId, at: Clock) -> usize {
        let len = self.waiting - self.away - self.aside_len();
        let bytes = self.waiting_bytes - self.away_bytes - self.aside.bytes;
        let is_short = len <= share.len.saturating_mul(2) && bytes <= share.bytes.saturating_mul(2);
        if is_short {
            return 0;
        }
        self.follow_cursor();
        let mut freed = 0;
        let is_unset = self.window.from >= self.window.to;
        let has_more = self.cursor < self.window.cursor || share.len < self.window.share_len;
        if is_unset && !has_more && self.window.stuck_at == Some(persisted) {
            return 0;
        }
        if (is_unset || has_more) && self.window.asked.is_empty() {
            match self.shrink(share, persisted, at) {
                Some(cost) => freed += cost,
                None if is_unset => return 0,
                None => {}
            }
        }
        let to = self.window.to;
        let mut next = to;
        while let Some(entry_seq) = self.entries.live_from(next) {
            let Some(entry) = self.entries.entry_mut(entry_seq) else {
                break;
            };
            if entry.is_durable && entry.is_free() && !entry.can_leave(persisted) {
                break;
            }
            next = entry_seq + 1;
            freed += self.send_away(entry_seq, persisted);
        }
        if next != to {
            self.window.to = next;
            self.pack(to.saturating_sub(1), next, Some(at));
        }
        self.window.stuck_at = (self.window.from >= self.window.to).then_some(persisted);
        freed
    }

    /// Measures the window anew, from the cursor on, and sends away what is beyond it. None when less is ahead than the
    /// share allows.
    fn shrink(&mut self, share: Share, persisted: BatchId, at: Clock) -> Option<usize> {
        (self.window.cursor, self.window.share_len) = (self.cursor, share.len);
        let block = share.block();
        let (mut blocks, mut len, mut bytes) = (VecDeque::new(), 0, 0);
        let mut seq = self.cursor;
        while let Some(found) = self.entries.live_from(seq)
            && let Some(entry) = self.entries.entry(found)
            && !entry.lacks_body()
        {
            if entry.is_aside() {
                seq = found + 1;
                continue;
            }
            if len > 0 && (len >= block.len || bytes + entry.payload_len as usize > block.bytes) {
                blocks.push_back(Block { end: seq, bytes });
                (len, bytes) = (0, 0);
            }
            if is_full(&blocks, share) {
                break;
            }
            len += 1;
            bytes += entry.payload_len as usize;
            seq = found + 1;
        }
        if !is_full(&blocks, share) {
            return None;
        }
        self.window.blocks = blocks;
        if self.window.from >= self.window.to {
            (self.window.from, self.window.to) = (seq, seq);
            return Some(0);
        }
        Some(self.trim(seq, persisted, at))
    }

    /// Sends away what is between `end` and the third stretch: from the far end down, so that the stretch stays one.
    fn trim(&mut self, end: u64, persisted: BatchId, at: Clock) -> usize {
        let old = self.window.from;
        let mut freed = 0;
        while let Some(last) = self.window.from.checked_sub(1)
            && let Some(found) = self.entries.live_up_to(last).filter(|found| *found >= end)
        {
            let can_pass = self.entries.entry(found).is_some_and(|entry| {
                entry.can_leave(persisted) || !entry.is_free() || !entry.is_durable
            });
            if !can_pass {
                // It came back, and its count is not safe yet: looked at again.
                self.window.cursor = u64::MAX;
                break;
            }
            freed += self.send_away(found, persisted);
            self.window.from = found;
        }
        self.pack(self.window.from, old, Some(at));
        freed
    }

    pub(super) fn send_away(&mut self, seq: u64, persisted: BatchId) -> usize {
        let Some(entry) = self.entries.entry_mut(seq) else {
            return 0;
        };
        if entry.is_away() || !entry.can_leave(persisted) {
            return 0;
        }
        self.away += 1;
        self.away_bytes += entry.payload_len as usize;
        entry.send_away()
    }

    /// Packs the complete chunks that touch these positions and are away as a whole.
    pub(super) fn pack(&mut self, first: u64, end: u64, at: Option<Clock>) {
        let mut from = first;
        while let Some(seq) = self.entries.live_from(from).filter(|seq| *seq < end) {
            let chunk = self.entries.chunk_of(seq);
            from = chunk.end;
            if chunk.start < self.window.from || chunk.end > self.window.to {
                continue;
            }
            let is_packed = self
                .entries
                .pack(chunk.start, |slots| Cold::pack(slots).map(Box::new));
            match at {
                Some(at) if is_packed => self.watch_packed(chunk.start, at),
                _ => {}
            }
        }
    }

    /// Asks for the bodies that the cursor will come to; returns the requests. They stay asked until
    /// [`Backlog::install`] or [`Backlog::forget_asked`].
    pub(crate) fn page_in(&mut self, share: Share, at: Clock) -> Vec<Span> {
        let mut spans = Vec::new();
        if self.away == 0 {
            return spans;
        }
        self.advance();
        self.follow_cursor();
        while !is_full(&self.window.blocks, share) && self.window.asked.len() < ASKED_MAX {
            let Some((span, bytes)) = self.next_block(share.block(), at) else {
                self.window.from = self.window.to;
                break;
            };
            self.window.from = span.end();
            self.window.share_len = self.window.share_len.max(share.len);
            let end = span.end();
            self.window.blocks.push_back(Block { end, bytes });
            self.window.asked.push(span);
            spans.push(span);
        }
        spans
    }

    /// The first block of what is away.
    fn next_block(&mut self, block: Share, at: Clock) -> Option<(Span, usize)> {
        let mut first = None;
        let (mut last, mut len, mut bytes) = (0, 0, 0);
        let mut seq = self.window.from;
        while let Some(found) = self
            .entries
            .live_from(seq)
            .filter(|seq| *seq < self.window.to)
        {
            self.unpack(found, at);
            seq = found + 1;
            let Some(entry) = self.entries.entry(found).filter(|entry| entry.lacks_body()) else {
                continue;
            };
            let size = entry.payload_len as usize;
            let start = *first.get_or_insert(found);
            if len > 0
                && (len >= block.len || bytes + size > block.bytes || found - start >= SPAN_MAX)
            {
                break;
            }
            (last, len, bytes) = (found, len + 1, bytes + size);
        }
        first.map(|first| (Span::new(first, last), bytes))
    }

    pub(super) fn unpack(&mut self, seq: u64, at: Clock) {
        if self.entries.unpack(seq, |cold| cold.unpack()) {
            let chunk = self.entries.chunk_of(seq);
            self.watch_unpacked(chunk.start, chunk.end, at);
        }
    }

    /// Takes a request off the list; returns whether it was there.
    pub(crate) fn forget_asked(&mut self, span: Span) -> bool {
        let found = self.window.asked.iter().position(|asked| *asked == span);
        found.map(|index| self.window.asked.remove(index)).is_some()
    }

    /// Puts the bodies of a request in; returns what they cost. Those whose messages left meanwhile are dropped.
    ///
    /// Also returns the first position whose message should have come and did not, or came with another length.
    pub(crate) fn install(
        &mut self,
        span: Span,
        messages: Vec<(Seq, Arc<Message>)>,
    ) -> (usize, Option<Missing>) {
        let mut cost = 0;
        for (Seq(seq), message) in messages {
            if seq < span.first || seq >= span.end() {
                continue;
            }
            let Some(entry) = self
                .entries
                .entry_mut(seq)
                .filter(|entry| entry.lacks_body() && entry.payload_len == payload_len(&message))
            else {
                continue;
            };
            cost += message.cost();
            entry.bring_back(message);
            self.away -= 1;
            self.away_bytes -= entry.payload_len as usize;
        }
        (cost, self.first_away(span))
    }

    fn first_away(&self, span: Span) -> Option<Missing> {
        let mut seq = span.first;
        while let Some(found) = self.entries.live_from(seq).filter(|seq| *seq < span.end()) {
            if self.entries.entry(found).is_none_or(Entry::lacks_body) {
                return Some(Missing(found));
            }
            seq = found + 1;
        }
        None
    }

    /// The first position of a reader's request whose message is away and is not among those that came.
    pub(crate) fn first_unread(
        &self,
        span: Span,
        messages: &[(Seq, Arc<Message>)],
    ) -> Option<Missing> {
        let mut came = messages.iter().peekable();
        let mut seq = span.first;
        while let Some(found) = self.entries.live_from(seq).filter(|seq| *seq < span.end()) {
            seq = found + 1;
            let Some(len) = self.away_len(found) else {
                continue;
            };
            while came.next_if(|(Seq(at), _)| *at < found).is_some() {}
            let is_there = came.peek().is_some_and(|(Seq(at), message)| {
                *at == found && payload_len(message) as usize == len
            });
            if !is_there {
                return Some(Missing(found));
            }
        }
        None
    }

    /// The bodies that a reader beside the cursor wants from `seq` on, which is away: as many as `share` allows.
    pub(crate) fn span_to_read(&self, seq: u64, share: Share) -> Span {
        let (mut last, mut len, mut bytes) = (seq, 0, 0);
        let mut next = seq;
        while let Some(found) = self.entries.live_from(next)
            && let Some(size) = self.away_len(found)
            && found - seq < SPAN_MAX
            && (len == 0 || (len < share.len && bytes + size <= share.bytes))
        {
            (last, len, bytes) = (found, len + 1, bytes + size);
            next = found + 1;
        }
        Span::new(seq, last)
    }

    /// The payload's length of a message whose body is away.
    pub(crate) fn away_len(&self, seq: u64) -> Option<usize> {
        let entry = self.copy(seq)?;
        entry.is_away().then_some(entry.payload_len as usize)
    }

    /// Appends a message that the store kept, without its body; returns whether its position was free.
    pub(crate) fn recover_away(&mut self, seq: u64, mut entry: Entry) -> bool {
        entry.send_away();
        let len = entry.payload_len as usize;
        if !self.recover(seq, entry) {
            return false;
        }
        self.away += 1;
        self.away_bytes += len;
        let before = self.window.to.checked_sub(1);
        self.window.to = seq + 1;
        if let Some(before) = before.filter(|before| *before >= self.entries.base()) {
            let chunk = self.entries.chunk_of(before);
            if chunk.end <= seq {
                self.pack(before, before + 1, None);
                self.keep_arrivals(chunk);
            }
        }
        true
    }

    /// Moves the arrivals of a chunk's messages into it, if it is packed.
    fn keep_arrivals(&mut self, chunk: Range<u64>) {
        let first = self
            .arrivals
            .partition_point(|arrival| arrival.seq < chunk.start);
        let last = self
            .arrivals
            .partition_point(|arrival| arrival.seq < chunk.end);
        if first < last
            && let Some((cold, _)) = self.entries.packed_mut(chunk.start)
        {
            let arrivals: Vec<Arrival> = self.arrivals.drain(first..last).collect();
            cold.keep_arrivals(chunk.start, &arrivals);
        }
    }

    /// Appends a message that the store kept; returns whether its position was free.
    pub(crate) fn recover(&mut self, seq: u64, entry: Entry) -> bool {
        if seq < self.entries.next() {
            return false;
        }
        self.entries.skip_to(seq);
        self.waiting += 1;
        self.waiting_bytes += entry.payload_len as usize;
        let given = self.entries.push(entry);
        self.rank(given);
        given == seq
    }

    /// Notes a recovered message's time to live; to be called in the order of positions.
    pub(crate) fn note_arrival(&mut self, arrival: Arrival) {
        self.arrivals.push(arrival);
    }

    /// Changes a message that the store kept, packed or not.
    pub(crate) fn change(&mut self, seq: u64, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.entry_mut(seq) {
            change(entry);
        } else if let Some((cold, slot)) = self.entries.packed_mut(seq) {
            cold.change(slot, change);
        }
    }
}
