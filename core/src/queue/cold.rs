//! A packed chunk of a queue's index: stored messages that are far from their turn, about five bytes each.
//!
//! What is the same for all of them is kept once, what few have is kept as a whole entry beside the columns. Nothing
//! here needs a body: a message can expire, be purged or be counted without one.

use super::Why;
use super::chunks::{CHUNK_LEN, Packed};
use super::column::Column;
use super::entry::{Clock, Entry, Extra, NEVER_MS, check_ms};
use crate::store::BatchId;

/// Absolute expiry of a message without one: later than any clock.
const NO_WALL_MS: i64 = i64::MAX;

/// See the module.
#[derive(Debug)]
pub(crate) struct Cold {
    /// One bit per slot with a message.
    live: u128,
    /// One bit per message that a consumer had before.
    was_acquired: u128,
    payload_len: Column<u32>,
    delivery_count: Column<u32>,
    expires_ms: Column<u64>,
    expires_at_ms: Column<i64>,
    /// Messages that do not fit the columns, by slot: those with a body, those that consumers annotated.
    special: Vec<(u8, Entry)>,
    /// Only during recovery.
    arrivals: Option<Box<Arrivals>>,
}

/// What a time to live is counted from, while the present is not known yet.
#[derive(Debug)]
struct Arrivals {
    arrived_at_ms: Column<i64>,
    ttl_ms: Column<u64>,
}

/// When a recovered message arrived and how long it may live from then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) seq: u64,
    /// Wall clock, milliseconds since the Unix epoch.
    pub(crate) at_ms: i64,
    pub(crate) ttl_ms: u64,
}

impl Arrival {
    /// The end of the life that is left. A wall clock that was set back must not lengthen a life, one that jumped ahead
    /// shortens it: only the wall clock spans two processes.
    pub(super) fn expires_ms(at_ms: i64, ttl_ms: u64, now: Clock, mono_ms_up: u64) -> u64 {
        if ttl_ms == NEVER_MS {
            return NEVER_MS;
        }
        let spent_ms = u64::try_from(now.wall_ms.saturating_sub(at_ms)).unwrap_or(0);
        mono_ms_up.saturating_add(ttl_ms.saturating_sub(spent_ms))
    }
}

impl Cold {
    /// Packs a complete chunk of waiting messages, unless too many of them have bodies to be worth it.
    pub(super) fn pack(slots: &mut [Option<Entry>]) -> Option<Self> {
        let live = slots.iter().flatten().count();
        let special = slots.iter().flatten().filter(|entry| entry.is_special());
        let is_held = slots.iter().flatten().any(|entry| !entry.is_free());
        if live == 0 || is_held || 2 * special.count() > live {
            return None;
        }
        let plain = || {
            slots.iter().enumerate().filter_map(|(slot, entry)| {
                entry
                    .as_ref()
                    .filter(|entry| !entry.is_special())
                    .map(|entry| (slot, entry))
            })
        };
        let mut cold = Self {
            live: 0,
            was_acquired: 0,
            payload_len: Column::new(plain().map(|(slot, entry)| (slot, entry.payload_len)), 0),
            delivery_count: Column::new(
                plain().map(|(slot, entry)| (slot, entry.delivery_count)),
                0,
            ),
            expires_ms: Column::new(
                plain().map(|(slot, entry)| (slot, entry.expires_ms)),
                NEVER_MS,
            ),
            expires_at_ms: Column::new(
                plain().map(|(slot, entry)| (slot, entry.expires_at_ms().unwrap_or(NO_WALL_MS))),
                NO_WALL_MS,
            ),
            special: Vec::new(),
            arrivals: None,
        };
        for (slot, entry) in slots.iter_mut().enumerate() {
            let Some(found) = entry else { continue };
            cold.live |= bit(slot);
            if found.was_acquired {
                cold.was_acquired |= bit(slot);
            }
            if found.is_special() {
                cold.special
                    .extend(entry.take().map(|entry| (slot as u8, entry)));
            }
        }
        cold.special.shrink_to_fit();
        Some(cold)
    }

    /// The slots as they were.
    pub(super) fn unpack(mut self) -> Vec<Option<Entry>> {
        let special = std::mem::take(&mut self.special);
        let mut slots: Vec<Option<Entry>> = (0..CHUNK_LEN as usize)
            .map(|slot| self.has(slot).then(|| self.plain(slot)))
            .collect();
        for (slot, entry) in special {
            slots[usize::from(slot)] = Some(entry);
        }
        slots
    }

    pub(super) fn has(&self, slot: usize) -> bool {
        self.live & bit(slot) != 0
    }

    /// A copy of one entry.
    pub(super) fn entry(&self, slot: usize) -> Option<Entry> {
        if !self.has(slot) {
            return None;
        }
        let special = self.special.iter().find(|(at, _)| usize::from(*at) == slot);
        Some(special.map_or_else(|| self.plain(slot), |(_, entry)| entry.clone()))
    }

    /// Takes one out.
    pub(super) fn take(&mut self, slot: usize) -> Option<Entry> {
        if !self.has(slot) {
            return None;
        }
        self.live &= !bit(slot);
        let special = self
            .special
            .iter()
            .position(|(at, _)| usize::from(*at) == slot);
        Some(match special {
            Some(index) => self.special.swap_remove(index).1,
            None => self.plain(slot),
        })
    }

    /// Replaces one entry by a changed copy.
    pub(super) fn change(&mut self, slot: usize, change: impl FnOnce(&mut Entry)) {
        let Some(mut entry) = self.take(slot) else {
            return;
        };
        change(&mut entry);
        self.live |= bit(slot);
        if entry.is_special() {
            return self.special.push((slot as u8, entry));
        }
        self.delivery_count.set(slot, entry.delivery_count);
        if entry.was_acquired {
            self.was_acquired |= bit(slot);
        }
    }

    /// Room that it takes, bytes.
    #[cfg(test)]
    pub(super) fn index_bytes(&self) -> usize {
        size_of::<Self>()
            + self.payload_len.room()
            + self.delivery_count.room()
            + self.expires_ms.room()
            + self.expires_at_ms.room()
            + self.special.capacity() * size_of::<(u8, Entry)>()
    }

    /// What the bodies in it cost (see `Message::cost`).
    pub(super) fn cost(&self) -> usize {
        self.special.iter().map(|(_, entry)| entry.cost()).sum()
    }

    /// Keeps the arrivals of a chunk that is packed in recovery; `first` is its first position.
    pub(super) fn keep_arrivals(&mut self, first: u64, arrivals: &[Arrival]) {
        let by_slot = || {
            arrivals
                .iter()
                .map(|arrival| ((arrival.seq - first) as usize, arrival))
        };
        let mut ttl_ms = Column::new(
            by_slot().map(|(slot, arrival)| (slot, arrival.ttl_ms)),
            NEVER_MS,
        );
        let with = by_slot().fold(0, |bits, (slot, _)| bits | bit(slot));
        for slot in slots_of(self.live & !with) {
            ttl_ms.set(slot, NEVER_MS);
        }
        self.arrivals = Some(Box::new(Arrivals {
            arrived_at_ms: Column::new(by_slot().map(|(slot, arrival)| (slot, arrival.at_ms)), 0),
            ttl_ms,
        }));
    }

    /// After recovery: the deadlines on this process's clock.
    pub(super) fn start_expiry(&mut self, now: Clock, mono_ms_up: u64) {
        let Some(arrivals) = self.arrivals.take() else {
            return;
        };
        let deadline_ms = |slot| {
            let arrived_at_ms = arrivals.arrived_at_ms.value(slot);
            Arrival::expires_ms(arrived_at_ms, arrivals.ttl_ms.value(slot), now, mono_ms_up)
        };
        self.expires_ms = Column::new(
            slots_of(self.live).map(|slot| (slot, deadline_ms(slot))),
            NEVER_MS,
        );
        for (slot, entry) in &mut self.special {
            entry.expires_ms = deadline_ms(usize::from(*slot));
        }
    }

    /// The slots whose messages are expired, as bits.
    pub(super) fn expired(&self, at: Clock) -> u128 {
        if self.has_no_deadline() {
            return 0;
        }
        slots_of(self.live)
            .filter(|slot| {
                let (expires_ms, expires_at_ms) = self.deadlines(*slot);
                expires_ms <= at.mono_ms || expires_at_ms.is_some_and(|ms| ms <= at.wall_ms)
            })
            .fold(0, |bits, slot| bits | bit(slot))
    }

    /// When to look for expired messages next, leaving out those of `but`.
    pub(super) fn check_ms(&self, at: Clock, but: u128, floor_ms: u64) -> u64 {
        if self.has_no_deadline() {
            return NEVER_MS;
        }
        slots_of(self.live & !but)
            .map(|slot| {
                let (expires_ms, expires_at_ms) = self.deadlines(slot);
                check_ms(expires_ms, expires_at_ms, at, floor_ms)
            })
            .min()
            .unwrap_or(NEVER_MS)
    }

    fn has_no_deadline(&self) -> bool {
        matches!(self.expires_ms, Column::Same(NEVER_MS))
            && matches!(self.expires_at_ms, Column::Same(NO_WALL_MS))
            && self.special.is_empty()
    }

    fn deadlines(&self, slot: usize) -> (u64, Option<i64>) {
        let special = self.special.iter().find(|(at, _)| usize::from(*at) == slot);
        match special {
            Some((_, entry)) => (entry.expires_ms, entry.expires_at_ms()),
            None => (
                self.expires_ms.value(slot),
                Some(self.expires_at_ms.value(slot)).filter(|ms| *ms != NO_WALL_MS),
            ),
        }
    }

    fn plain(&self, slot: usize) -> Entry {
        let expires_at_ms = Some(self.expires_at_ms.value(slot)).filter(|ms| *ms != NO_WALL_MS);
        let extra = expires_at_ms.map(Extra::expiring);
        let mut entry = Entry {
            message: None,
            expires_ms: self.expires_ms.value(slot),
            batch: BatchId(0),
            extra,
            payload_len: self.payload_len.value(slot),
            delivery_count: self.delivery_count.value(slot),
            rank: 0,
            why: Why::InTurn,
            is_acquired: false,
            was_acquired: self.was_acquired & bit(slot) != 0,
            is_durable: true,
        };
        entry.send_away();
        entry
    }
}

fn bit(slot: usize) -> u128 {
    1 << slot
}

/// The slots of the set bits, lowest first.
pub(super) fn slots_of(bits: u128) -> impl Iterator<Item = usize> {
    let mut bits = bits;
    std::iter::from_fn(move || {
        let slot = bits.trailing_zeros() as usize;
        (bits != 0).then(|| {
            bits &= bits - 1;
            slot
        })
    })
}

impl Packed for Box<Cold> {
    fn live_from(&self, slot: usize) -> Option<usize> {
        let rest = self.live >> slot;
        (rest != 0).then(|| slot + rest.trailing_zeros() as usize)
    }

    fn live_up_to(&self, slot: usize) -> Option<usize> {
        let rest = self.live << (CHUNK_LEN as usize - 1 - slot);
        (rest != 0).then(|| slot - rest.leading_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::vocab::{Envelope, Format, Message};

    const LEN: usize = CHUNK_LEN as usize;

    /// An entry by some small numbers.
    #[derive(Clone, Debug)]
    struct Sketch {
        len: u8,
        count: u32,
        ttl: Option<u64>,
        until: Option<i64>,
        was_acquired: bool,
        /// 0 and 1 have something that no column holds.
        kind: u8,
    }

    fn sketch() -> impl Strategy<Value = Sketch> {
        (
            prop_oneof![Just(100u8), any::<u8>()],
            prop_oneof![Just(0u32), 0u32..5],
            prop_oneof![Just(None), (0u64..50).prop_map(Some)],
            prop_oneof![3 => Just(None), 1 => (0i64..50).prop_map(Some)],
            any::<bool>(),
            0u8..12,
        )
            .prop_map(|(len, count, ttl, until, was_acquired, kind)| Sketch {
                len,
                count,
                ttl,
                until,
                was_acquired,
                kind,
            })
    }

    fn entry(sketch: &Sketch) -> Entry {
        let message = Message {
            envelope: Envelope {
                expires_at_ms: sketch.until,
                delivery_count: sketch.count,
                ..Envelope::default()
            },
            format: Format::Amqp(0),
            payload: vec![1; usize::from(sketch.len)].into(),
        };
        let expires_ms = sketch.ttl.unwrap_or(NEVER_MS);
        let mut entry = Entry::new(Arc::new(message), expires_ms, BatchId(0), sketch.kind != 0);
        entry.was_acquired = sketch.was_acquired;
        if sketch.kind == 1 {
            entry.extra.get_or_insert_default().annotations = Some(vec![2].into());
        }
        if sketch.kind != 0 {
            entry.send_away();
        }
        entry
    }

    type Fields = (
        bool,
        u64,
        Option<i64>,
        Option<bytes::Bytes>,
        u32,
        u32,
        bool,
        bool,
    );

    fn fields(entry: &Entry) -> Fields {
        (
            entry.is_away(),
            entry.expires_ms,
            entry.expires_at_ms(),
            entry
                .extra
                .as_ref()
                .and_then(|extra| extra.annotations.clone()),
            entry.payload_len,
            entry.delivery_count,
            entry.was_acquired,
            entry.is_durable,
        )
    }

    fn plain_check_ms(slots: &[Option<Entry>], at: Clock) -> u64 {
        let all = slots.iter().flatten();
        all.map(|entry| entry.check_ms(at))
            .min()
            .unwrap_or(NEVER_MS)
    }

    proptest! {
        #[test]
        fn a_packed_chunk_knows_what_its_entries_knew(
            sketches in proptest::collection::vec(proptest::option::of(sketch()), LEN),
            steps in proptest::collection::vec((0..LEN, 0u32..9), 0..60),
        ) {
            let mut slots: Vec<Option<Entry>> =
                sketches.iter().map(|sketch| sketch.as_ref().map(entry)).collect();
            let mut given = slots.clone();
            let Some(cold) = Cold::pack(&mut given) else {
                let special = slots.iter().flatten().filter(|entry| entry.is_special()).count();
                prop_assert!(2 * special > slots.iter().flatten().count() || special == 0);
                return Ok(());
            };
            let mut cold = Box::new(cold);
            for (slot, step) in steps {
                if step < 3 {
                    let taken = cold.take(slot);
                    prop_assert_eq!(
                        taken.as_ref().map(fields),
                        slots[slot].take().as_ref().map(fields)
                    );
                } else {
                    let change = |entry: &mut Entry| {
                        entry.delivery_count = step;
                        entry.was_acquired = true;
                        if step == 8 {
                            entry.extra.get_or_insert_default().annotations = Some(vec![3].into());
                        }
                    };
                    cold.change(slot, change);
                    slots[slot].as_mut().map(change);
                }
            }
            for slot in 0..LEN {
                let expected = slots[slot].as_ref().map(fields);
                prop_assert_eq!(cold.entry(slot).as_ref().map(fields), expected);
                let next = (slot..LEN).find(|slot| slots[*slot].is_some());
                let last = (0..=slot).rev().find(|slot| slots[*slot].is_some());
                prop_assert_eq!((cold.live_from(slot), cold.live_up_to(slot)), (next, last));
            }
            for ms in 0..50 {
                let at = Clock { mono_ms: ms, wall_ms: 49 - ms as i64 };
                let is_over = |slot: &usize| slots[*slot].as_ref().is_some_and(|entry| entry.is_expired(at));
                let over: Vec<usize> = (0..LEN).filter(is_over).collect();
                let bits = cold.expired(at);
                prop_assert_eq!(slots_of(bits).collect::<Vec<_>>(), over.clone());
                let mut rest = slots.clone();
                over.iter().for_each(|slot| rest[*slot] = None);
                prop_assert_eq!(cold.check_ms(at, bits, 0), plain_check_ms(&rest, at));
            }
            let unpacked: Vec<_> = cold.unpack().iter().map(|slot| slot.as_ref().map(fields)).collect();
            let expected: Vec<_> = slots.iter().map(|slot| slot.as_ref().map(fields)).collect();
            prop_assert_eq!(unpacked, expected);
        }
    }
}
