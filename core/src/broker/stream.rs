//! Streams: where a reader begins, how far each named one came, and what goes when a stream is full.
//!
//! A stream is a queue from which nobody takes: every consumer browses. So publishing, paging, limits and recovery are
//! those of queues, and what is told here is all that differs. A reader with a name has a stored position, the oldest one
//! that it has not settled; it is written at most once per inbox, and like a settlement of a queue it may linger.

use super::subscription::kept_name;
use super::{Broker, quoted};
use crate::planted::{Bug, is_planted};
use crate::queue::{Clock, Queue};
use crate::vocab::{
    ConsumerOpened, ConsumerSpec, ExpiryPolicy, NodeKind, Reason, Refusal, Seq, StreamStart,
    SubscriptionSpec, TerminusDurability,
};

/// Stored positions of one stream.
pub(super) const READERS_MAX: usize = 10_000;
/// Longest name of a reader, bytes.
pub(super) const READER_LEN_MAX: usize = 512;

/// How far a named reader of a stream came.
#[derive(Debug)]
pub(super) struct Progress {
    reader: String,
    /// It stands in the list of those whose position is to be stored.
    is_noted: bool,
}

impl Progress {
    pub(super) fn new(reader: String) -> Box<Self> {
        Box::new(Self {
            reader,
            is_noted: false,
        })
    }
}

/// The position that a reader of a stream begins at.
pub(super) fn start_of(queue: &Queue, at: Clock, start: StreamStart) -> u64 {
    let next = queue.backlog.next_seq();
    let first = queue.backlog.first().unwrap_or(next);
    let since = |wall_ms| queue.marks.since(wall_ms).unwrap_or(next);
    let found = match start {
        StreamStart::First if is_planted(Bug::StreamBeginsLate) => first + 1,
        StreamStart::First => first,
        StreamStart::Last => queue.backlog.last().unwrap_or(next),
        StreamStart::Next => next,
        StreamStart::Offset(offset) => offset,
        StreamStart::Since(wall_ms) => since(wall_ms),
        StreamStart::Ago(ms) => since(
            at.wall_ms
                .saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)),
        ),
    };
    found.clamp(first, next)
}

impl Broker {
    /// What a consumer of a stream gets. One whose terminus is kept (expiry policy never) is a named reader: it goes on
    /// where its name's last link ended.
    pub(super) fn read_stream(
        &self,
        at: Clock,
        slot: usize,
        spec: &ConsumerSpec,
        opened: ConsumerOpened,
    ) -> Result<ConsumerOpened, Refusal> {
        let queue = &self.queues[slot];
        let is_kept = spec.subscription.is_kept();
        let name = match is_kept {
            true => kept_reader(spec)?,
            false => spec.stream.resumes.clone(),
        };
        let stored = name.and_then(|name| queue.offsets.get(&name).copied());
        let start = stored.map_or(spec.stream.start, StreamStart::Offset);
        Ok(ConsumerOpened {
            kind: NodeKind::Stream,
            browse: true,
            next: Some(Seq(start_of(queue, at, start))),
            subscription: SubscriptionSpec {
                durability: match is_kept && queue.is_durable {
                    true => TerminusDurability::Configuration,
                    false => TerminusDurability::None,
                },
                expiry: match is_kept {
                    true => ExpiryPolicy::Never,
                    false => ExpiryPolicy::LinkDetach,
                },
                ..SubscriptionSpec::default()
            },
            ..opened
        })
    }

    /// The name under which the position of a consumer is stored as it settles.
    pub(super) fn tracked_reader(
        &self,
        slot: usize,
        spec: &ConsumerSpec,
    ) -> Result<Option<String>, Refusal> {
        if !self.queues[slot].is_stream() || !spec.subscription.is_kept() {
            return Ok(None);
        }
        let name = kept_reader(spec)?;
        if let Some(name) = &name {
            self.check_reader(slot, name)?;
        }
        Ok(name)
    }

    /// Takes the oldest messages out of a stream that holds more than it may.
    pub(super) fn trim_stream(&mut self, slot: usize) {
        while self.queues[slot].is_over_limit()
            && let Some(seq) = self.queues[slot].backlog.head()
        {
            self.remove_entry(slot, seq);
            self.queues[slot].marks.forget_below(seq + 1);
        }
    }

    /// A named reader was sent the message at a position.
    pub(super) fn note_read(&mut self, slot: usize, seq: u64) {
        let consumer = &mut self.consumers[slot];
        if consumer.is_settled {
            self.note_progress(slot);
        } else {
            consumer.unsettled.push(seq);
            self.unsettled += 1;
        }
    }

    /// A named reader settled deliveries, whatever the outcome: nothing returns to a stream.
    pub(super) fn settle_read(&mut self, slot: usize, first: u64, last: u64) {
        let mut from = first;
        while let Some(delivery) = self.consumers[slot].unsettled.live_from(from)
            && delivery <= last
        {
            self.consumers[slot].unsettled.take(delivery);
            self.unsettled -= 1;
            from = delivery.saturating_add(1);
        }
        self.note_progress(slot);
    }

    /// Forgets what a named reader that goes has not settled: the next one of its name gets it again.
    pub(super) fn forget_unread(&mut self, slot: usize) {
        self.store_progress(slot);
        let consumer = &mut self.consumers[slot];
        self.unsettled -= consumer.unsettled.len();
        consumer.unsettled = crate::queue::Chunks::default();
    }

    fn note_progress(&mut self, slot: usize) {
        let consumer = &mut self.consumers[slot];
        if let Some(progress) = &mut consumer.progress
            && !std::mem::replace(&mut progress.is_noted, true)
        {
            self.readers.push((slot, consumer.serial));
        }
    }

    /// Stores the positions of the readers that moved on.
    pub(super) fn store_all_progress(&mut self) {
        while let Some((slot, serial)) = self.readers.pop() {
            if self
                .consumers
                .get(slot)
                .is_some_and(|consumer| consumer.serial == serial)
            {
                self.store_progress(slot);
            }
        }
    }

    /// Stores the position of a reader: the oldest one that it has not settled.
    pub(super) fn store_progress(&mut self, slot: usize) {
        let consumer = &mut self.consumers[slot];
        let Some(progress) = &mut consumer.progress else {
            return;
        };
        progress.is_noted = false;
        let oldest = consumer.unsettled.live_from(0);
        let next = oldest
            .and_then(|delivery| consumer.unsettled.entry(delivery).copied())
            .unwrap_or(consumer.browse_from);
        let (queue, reader) = (consumer.queue, progress.reader.clone());
        self.store_offset(queue, reader, next);
    }

    /// Stores a position under a name.
    pub(super) fn store_offset(&mut self, slot: usize, reader: String, next: u64) {
        let queue = &mut self.queues[slot];
        if queue.offsets.get(&reader) == Some(&next) {
            return;
        }
        queue.offsets.insert(reader.clone(), next);
        if queue.is_durable && !is_planted(Bug::OffsetNotStored) {
            self.gate.add_offset(queue.id, reader, Some(Seq(next)));
        }
    }

    /// Keeps a position under a name that is the connection's own, for as long as that lasts.
    pub(super) fn store_own_offset(&mut self, conn: usize, slot: usize, reader: String, next: u64) {
        let queue = &mut self.queues[slot];
        let stream = (slot, queue.id);
        let own = &self.conns.conn(conn).own_offsets;
        if queue.offsets.contains_key(&reader) && own.get(&stream) != Some(&reader) {
            // Somebody gave a group just this name.
            return self.store_offset(slot, reader, next);
        }
        queue.offsets.insert(reader.clone(), next);
        let len_max = self.queues.len();
        let queues = &self.queues;
        let own = &mut self.conns.conn_mut(conn).own_offsets;
        own.insert(stream, reader);
        if own.len() > len_max {
            // Some of the streams are gone.
            own.retain(|(slot, id), _| queues.get(*slot).is_some_and(|queue| queue.id == *id));
        }
    }

    /// A connection is gone, and the positions that only it knew the names of.
    pub(super) fn forget_own_offsets(&mut self, conn: usize) {
        for ((slot, id), reader) in std::mem::take(&mut self.conns.conn_mut(conn).own_offsets) {
            if self.is_queue(slot, id) {
                self.queues[slot].offsets.remove(&reader);
            }
        }
    }

    /// Forgets the position of a consumer's reader.
    pub(super) fn forget_reader(&mut self, slot: usize, reader: &str) {
        let queue = &mut self.queues[slot];
        if queue.offsets.remove(reader).is_some() && queue.is_durable {
            self.gate.add_offset(queue.id, reader.to_owned(), None);
        }
    }

    /// Whether a stream keeps a position for a reader, or has room for one more.
    pub(super) fn check_reader(&self, slot: usize, reader: &str) -> Result<(), Refusal> {
        let queue = &self.queues[slot];
        let refuse = |text: String| {
            let reason = Reason::LimitExceeded;
            Err(Refusal { reason, text })
        };
        if reader.len() > READER_LEN_MAX {
            return refuse(format!(
                "the name of the reader has {} bytes, {READER_LEN_MAX} are allowed",
                reader.len()
            ));
        }
        if queue.offsets.len() >= READERS_MAX && !queue.offsets.contains_key(reader) {
            return refuse(format!(
                "the stream {} keeps the positions of {READERS_MAX} readers, as many as it may",
                quoted(&queue.spec.name)
            ));
        }
        Ok(())
    }
}

/// The reader that a kept terminus is: container and link name, as a subscription has them. Readers are not shared.
fn kept_reader(spec: &ConsumerSpec) -> Result<Option<String>, Refusal> {
    let alone = SubscriptionSpec {
        is_shared: false,
        is_global: false,
        ..spec.subscription.clone()
    };
    kept_name(spec.key.as_ref(), &alone)
}

/// The name of a consumer's reader, if it has one whose position is to be forgotten with the consumer.
pub(super) fn reader_of(progress: Option<&Progress>) -> Option<String> {
    progress.map(|progress| progress.reader.clone())
}
