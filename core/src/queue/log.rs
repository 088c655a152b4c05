//! What a stream needs of its backlog beyond what a queue does: which bodies stay in memory, and when what arrived.
//!
//! Nobody takes messages from a stream, so its cursor stands still and says nothing about need. What readers have in
//! common is its end: the newest bodies stay in memory, all others are left to the store, and a reader that is behind
//! fetches for itself.

use std::collections::VecDeque;

use super::window::Share;
use super::{Backlog, Clock};
use crate::store::BatchId;

/// Marks of one stream at most; then every second one is forgotten.
const MARKS_MAX: usize = 1 << 16;

/// All messages from here on arrived at this moment or later, all before it earlier.
#[derive(Clone, Copy, Debug)]
struct Mark {
    seq: u64,
    wall_ms: i64,
    /// Up to the next mark there are messages of later moments as well.
    is_coarse: bool,
}

/// When the messages of a stream arrived: one mark for each millisecond in which any did, up to a bound.
///
/// A wall clock that goes back makes no mark until it is where it was.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    marks: VecDeque<Mark>,
}

impl Marks {
    /// A message arrived; to be called in the order of positions.
    #[inline]
    pub(crate) fn note(&mut self, seq: u64, wall_ms: i64) {
        if self
            .marks
            .back()
            .is_some_and(|last| wall_ms <= last.wall_ms)
        {
            return;
        }
        if self.marks.len() >= MARKS_MAX {
            self.thin();
        }
        self.marks.push_back(Mark {
            seq,
            wall_ms,
            is_coarse: false,
        });
    }

    #[cold]
    fn thin(&mut self) {
        let mut is_kept = false;
        self.marks.retain_mut(|mark| {
            is_kept = !is_kept;
            mark.is_coarse |= is_kept;
            is_kept
        });
    }

    /// Forgets what lies before the oldest message.
    pub(crate) fn forget_below(&mut self, seq: u64) {
        while self.marks.get(1).is_some_and(|second| second.seq <= seq) {
            self.marks.pop_front();
        }
    }

    /// Where the messages begin that arrived at this moment or later; perhaps a little before, where marks were
    /// forgotten. None: there is no such message.
    pub(crate) fn since(&self, wall_ms: i64) -> Option<u64> {
        let later = self.marks.partition_point(|mark| mark.wall_ms < wall_ms);
        let mark = self.marks.get(later);
        let before = later.checked_sub(1).map(|index| self.marks[index]);
        match (before, mark) {
            (Some(before), None) if before.is_coarse => Some(before.seq),
            (Some(before), Some(mark)) if before.is_coarse && mark.wall_ms > wall_ms => {
                Some(before.seq)
            }
            _ => mark.map(|mark| mark.seq),
        }
    }
}

impl Backlog {
    /// The oldest message.
    pub(crate) fn first(&self) -> Option<u64> {
        self.live_from(0)
    }

    /// The newest message.
    pub(crate) fn last(&self) -> Option<u64> {
        self.entries.live_up_to(u64::MAX)
    }

    /// Leaves the oldest bodies of a stream to the store when more than twice the share is in memory, until no more than
    /// the share is; returns what they cost. What is not safe yet stays, and all behind it.
    pub(crate) fn keep_tail(&mut self, share: Share, persisted: BatchId, at: Clock) -> usize {
        let here = |backlog: &Self| {
            (
                backlog.waiting - backlog.away,
                backlog.waiting_bytes - backlog.away_bytes,
            )
        };
        let (len, bytes) = here(self);
        if len <= share.len.saturating_mul(2) && bytes <= share.bytes.saturating_mul(2) {
            return 0;
        }
        let old = self.window.log_end();
        let mut end = old;
        let mut freed = 0;
        loop {
            let (len, bytes) = here(self);
            if len <= share.len && bytes <= share.bytes {
                break;
            }
            let Some(seq) = self.entries.live_from(end) else {
                break;
            };
            let is_safe = self.entries.entry(seq).is_some_and(|entry| {
                entry.can_leave(persisted) || entry.is_away() || !entry.is_durable
            });
            if !is_safe {
                break;
            }
            freed += self.send_away(seq, persisted);
            end = seq + 1;
        }
        if end != old {
            self.window.set_log_end(end);
            self.pack(old.saturating_sub(1), end, Some(at));
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_moment_is_found_exactly_while_there_is_room() {
        let mut marks = Marks::default();
        for (seq, wall_ms) in [(0, 10), (1, 10), (2, 12), (3, 11), (4, 15), (5, 15)] {
            marks.note(seq, wall_ms);
        }
        for (wall_ms, seq) in [
            (0, Some(0)),
            (10, Some(0)),
            (11, Some(2)),
            (12, Some(2)),
            (13, Some(4)),
            (15, Some(4)),
            (16, None),
        ] {
            assert_eq!(marks.since(wall_ms), seq, "since {wall_ms}");
        }
        marks.forget_below(3);
        assert_eq!(
            marks.since(0),
            Some(2),
            "the mark that 3 stands behind stays"
        );
        marks.forget_below(4);
        assert_eq!(marks.since(0), Some(4));
    }

    #[test]
    fn marks_are_bounded_and_never_name_a_place_that_is_too_late() {
        let mut marks = Marks::default();
        let count = 3 * MARKS_MAX as u64;
        for seq in 0..count {
            marks.note(seq, seq as i64 * 2);
        }
        assert!(marks.marks.len() <= MARKS_MAX);
        for seq in (0..count).step_by(997) {
            let found = marks.since(seq as i64 * 2).unwrap_or(count);
            assert!(found <= seq, "{found} for {seq}");
            assert!(seq - found < 16, "{found} for {seq}");
        }
    }

    proptest! {
        #[test]
        fn what_arrived_since_a_moment_is_never_left_out(
            steps in proptest::collection::vec(-3i64..6, 1..200),
            asked in -10i64..400,
        ) {
            let mut marks = Marks::default();
            let mut wall_ms = 0i64;
            let mut arrived = Vec::new();
            for (seq, step) in steps.iter().enumerate() {
                wall_ms += step;
                marks.note(seq as u64, wall_ms);
                arrived.push(wall_ms);
            }
            // By the clock that only goes forward.
            let mut highest = i64::MIN;
            let first = arrived.iter().position(|at| {
                highest = highest.max(*at);
                highest >= asked
            });
            prop_assert_eq!(marks.since(asked), first.map(|seq| seq as u64));
        }
    }
}
