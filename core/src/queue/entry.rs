//! A message as a queue's index knows it: with its body, or without while only the store has that.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::Why;
use crate::store::BatchId;
use crate::vocab::{ConnId, Message};

/// A deadline that never comes.
pub(crate) const NEVER_MS: u64 = u64::MAX;

/// The batch of an entry whose body is away: never persisted, so that the one comparison with which the gate keeps back
/// what is not safe yet also keeps back what is not there.
const AWAY: BatchId = BatchId(u64::MAX);

/// A moment in whole milliseconds, rounded down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) mono_ms: u64,
    pub(crate) wall_ms: i64,
}

/// What few messages have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    /// Annotations that consumers added.
    pub(crate) annotations: Option<Bytes>,
    /// Consumers (by serial number) that must not get it again.
    pub(crate) excluded: SmallVec<[u64; 2]>,
    /// End of its life by the wall clock.
    pub(crate) expires_at_ms: Option<i64>,
    /// Who published it, where some consumer does not want its own messages.
    pub(crate) publisher: Option<ConnId>,
}

impl Extra {
    #[cold]
    pub(super) fn expiring(expires_at_ms: i64) -> Box<Self> {
        Box::new(Self {
            expires_at_ms: Some(expires_at_ms),
            ..Self::default()
        })
    }
}

/// A message in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// None while only the store has it; then no consumer has it.
    pub(crate) message: Option<Arc<Message>>,
    /// End of its time to live, monotonic milliseconds.
    pub(crate) expires_ms: u64,
    /// The batch that makes it safe; zero when nothing has to. Until that is persisted, it waits behind the gate.
    pub(crate) batch: BatchId,
    pub(crate) extra: Option<Box<Extra>>,
    /// Bytes of its payload.
    pub(crate) payload_len: u32,
    pub(crate) delivery_count: u32,
    /// How far its priority is below the highest of its queue; 0 where there are none.
    pub(crate) rank: u8,
    /// Whether it waits out of turn, and for what.
    pub(crate) why: Why,
    /// A consumer has it.
    pub(crate) is_acquired: bool,
    /// A consumer had it before.
    pub(crate) was_acquired: bool,
    /// The store knows it.
    pub(crate) is_durable: bool,
}

impl Entry {
    #[inline]
    pub(crate) fn new(
        message: Arc<Message>,
        expires_ms: u64,
        batch: BatchId,
        is_durable: bool,
    ) -> Self {
        let delivery_count = message.envelope.delivery_count;
        let extra = message.envelope.expires_at_ms.map(Extra::expiring);
        Self {
            payload_len: payload_len(&message),
            message: Some(message),
            expires_ms,
            batch,
            extra,
            delivery_count,
            rank: 0,
            why: Why::InTurn,
            is_acquired: false,
            was_acquired: false,
            is_durable,
        }
    }

    /// Past its time to live, or past its absolute expiry time by the wall clock.
    #[inline]
    pub(crate) fn is_expired(&self, at: Clock) -> bool {
        self.expires_ms <= at.mono_ms
            || self
                .expires_at_ms()
                .is_some_and(|limit_ms| limit_ms <= at.wall_ms)
    }

    #[inline]
    pub(crate) fn expires_at_ms(&self) -> Option<i64> {
        self.extra.as_ref()?.expires_at_ms
    }

    /// When to look whether it is expired, on the monotonic clock.
    pub(super) fn check_ms(&self, at: Clock) -> u64 {
        check_ms(self.expires_ms, self.expires_at_ms(), at, 0)
    }

    /// What its body costs in memory now (see `Message::cost`).
    #[inline]
    pub(crate) fn cost(&self) -> usize {
        self.message.as_ref().map_or(0, |message| message.cost())
    }

    /// The body of an entry that has it.
    #[inline]
    pub(crate) fn body(&self) -> Arc<Message> {
        let body = self.message.as_ref();
        Arc::clone(body.expect("what is not behind the gate has its body"))
    }

    /// Its ordering key, if its body is here.
    #[inline]
    pub(crate) fn order_key(&self) -> Option<&Bytes> {
        self.message.as_ref()?.envelope.group_id.as_ref()
    }

    /// The key by which its queue knows it, if its body is here.
    #[inline]
    pub(crate) fn dedup_id(&self) -> Option<Bytes> {
        self.message.as_ref()?.envelope.dedup_id().cloned()
    }

    /// Failed attempts on this queue: what the sender counted happened elsewhere.
    pub(crate) fn attempts(&self) -> u32 {
        let before = self
            .message
            .as_ref()
            .map_or(0, |message| message.envelope.delivery_count);
        self.delivery_count.saturating_sub(before)
    }

    /// Whether it must not go to that consumer.
    pub(crate) fn is_excluded(&self, consumer: u64) -> bool {
        self.extra
            .as_ref()
            .is_some_and(|extra| extra.excluded.contains(&consumer))
    }

    #[inline]
    pub(crate) fn is_away(&self) -> bool {
        self.message.is_none()
    }

    /// Whether it waits out of turn.
    #[inline]
    pub(crate) fn is_aside(&self) -> bool {
        self.why != Why::InTurn
    }

    /// Whether it waits, in its turn.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        !self.is_acquired && self.why == Why::InTurn
    }

    /// Whether it waits in its turn for its body, which is away.
    pub(crate) fn lacks_body(&self) -> bool {
        self.is_away() && self.is_free()
    }

    /// Whether the store can give the body back.
    pub(super) fn can_leave(&self, persisted: BatchId) -> bool {
        self.is_durable && self.is_free() && self.batch <= persisted
    }

    /// Leaves the body to the store; returns what it cost.
    pub(super) fn send_away(&mut self) -> usize {
        let cost = self.cost();
        self.message = None;
        self.batch = AWAY;
        cost
    }

    /// Takes the body back.
    pub(super) fn bring_back(&mut self, message: Arc<Message>) {
        self.message = Some(message);
        self.batch = BatchId(0);
    }

    /// Whether it has more than a packed chunk has columns for.
    pub(super) fn is_special(&self) -> bool {
        !self.is_away()
            || self.extra.as_ref().is_some_and(|extra| {
                extra.annotations.is_some()
                    || !extra.excluded.is_empty()
                    || extra.publisher.is_some()
            })
    }
}

/// Length of the payload as the index counts it.
#[inline]
pub(crate) fn payload_len(message: &Message) -> u32 {
    u32::try_from(message.payload.len()).unwrap_or(u32::MAX)
}

/// When to look whether a message is expired, on the monotonic clock; not before `floor_ms` for the wall clock's sake, so
/// that one which stands still or goes back is not asked every millisecond.
pub(super) fn check_ms(
    expires_ms: u64,
    expires_at_ms: Option<i64>,
    at: Clock,
    floor_ms: u64,
) -> u64 {
    let absolute_ms = expires_at_ms.map_or(NEVER_MS, |limit_ms| {
        let ahead_ms = u64::try_from(limit_ms.saturating_sub(at.wall_ms)).unwrap_or(0);
        at.mono_ms.saturating_add(ahead_ms).max(floor_ms)
    });
    expires_ms.min(absolute_ms)
}
