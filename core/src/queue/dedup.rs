//! Keys of messages that came within a queue's window: a second message with one of them is a duplicate.
//!
//! The window of a key begins with the first message that had it and is not moved by duplicates. It outlives the message:
//! consuming or purging it does not forget the key.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::{Clock, NEVER_MS};

/// See the module.
#[derive(Debug)]
pub(crate) struct Dedup {
    known: HashSet<Arc<[u8]>, FixedState>,
    /// When windows end, monotonic milliseconds, in that order.
    in_order: VecDeque<(u64, Arc<[u8]>)>,
    /// During recovery: when windows end by the wall clock.
    noted: Vec<(i64, Arc<[u8]>)>,
}

impl Dedup {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            known: HashSet::with_hasher(FixedState::with_seed(seed)),
            in_order: VecDeque::new(),
            noted: Vec::new(),
        }
    }

    /// Keys that are kept.
    pub(crate) fn len(&self) -> usize {
        self.in_order.len()
    }

    /// Whether a message with this key came within the window.
    pub(crate) fn is_known(&self, key: &[u8]) -> bool {
        self.known.contains(key)
    }

    /// Begins the window of a key. All windows of a queue are equally long.
    pub(crate) fn add(&mut self, key: &[u8], until_ms: u64) {
        let key: Arc<[u8]> = key.into();
        if self.known.insert(Arc::clone(&key)) {
            self.in_order.push_back((until_ms, key));
        }
    }

    /// Forgets the keys whose window is over; returns how many those were.
    pub(crate) fn forget_over(&mut self, at: Clock) -> usize {
        let before = self.in_order.len();
        while let Some((_, key)) = self
            .in_order
            .pop_front_if(|(until_ms, _)| *until_ms <= at.mono_ms)
        {
            self.known.remove(&key);
        }
        before - self.in_order.len()
    }

    /// When the next window ends.
    pub(crate) fn next_ms(&self) -> u64 {
        self.in_order
            .front()
            .map_or(NEVER_MS, |(until_ms, _)| *until_ms)
    }

    /// Recovery: a key whose window ends at a moment of the wall clock.
    pub(crate) fn note(&mut self, key: &[u8], until_wall_ms: i64) {
        self.noted.push((until_wall_ms, key.into()));
    }

    /// After recovery: windows run on; returns how many there are. When the wall clock was set back meanwhile, no more
    /// than a whole window is left of each, so that those that begin from here on end after them.
    pub(crate) fn start(&mut self, at: Clock, mono_ms_up: u64, window_ms: u64) -> usize {
        let mut noted = std::mem::take(&mut self.noted);
        noted.sort();
        for (until_wall_ms, key) in noted {
            let left_ms = u64::try_from(until_wall_ms.saturating_sub(at.wall_ms)).unwrap_or(0);
            let left_ms = left_ms.min(window_ms);
            if left_ms > 0 && self.known.insert(Arc::clone(&key)) {
                self.in_order
                    .push_back((mono_ms_up.saturating_add(left_ms), key));
            }
        }
        self.in_order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mono_ms: u64) -> Clock {
        Clock {
            mono_ms,
            wall_ms: mono_ms as i64 - 500,
        }
    }

    #[test]
    fn a_window_begins_with_the_first_message_and_is_not_moved() {
        let mut dedup = Dedup::new(1);
        dedup.add(b"a", 2_000);
        dedup.add(b"a", 3_500);
        dedup.add(b"b", 2_500);
        assert_eq!(dedup.forget_over(at(1_999)), 0);
        assert!(dedup.is_known(b"a") && !dedup.is_known(b"c"));
        assert_eq!(dedup.forget_over(at(2_000)), 1);
        assert!(!dedup.is_known(b"a") && dedup.is_known(b"b"));
        assert_eq!((dedup.next_ms(), dedup.len()), (2_500, 1));
    }

    #[test]
    fn recovered_windows_have_what_is_left_of_them() {
        let mut dedup = Dedup::new(1);
        dedup.note(b"late", 1_700);
        dedup.note(b"over", 1_000);
        dedup.note(b"soon", 1_001);
        // By the wall clock it is 1,000.
        assert_eq!(dedup.start(at(1_500), 1_500, 60_000), 2);
        assert_eq!(dedup.next_ms(), 1_501);
        assert_eq!(dedup.forget_over(at(1_501)), 1);
        assert_eq!(dedup.next_ms(), 2_200);
        assert!(dedup.is_known(b"late"));
    }

    #[test]
    fn a_wall_clock_that_was_set_back_keeps_no_later_key() {
        let mut dedup = Dedup::new(1);
        dedup.note(b"old", 3_600_000);
        // By the wall clock it is 1,000, and a window has 2,000.
        assert_eq!(dedup.start(at(1_500), 1_500, 2_000), 1);
        dedup.add(b"new", 1_600 + 2_000);
        assert_eq!(dedup.forget_over(at(3_500)), 1);
        assert!(!dedup.is_known(b"old") && dedup.is_known(b"new"));
        assert_eq!(dedup.forget_over(at(3_600)), 1);
        assert!(!dedup.is_known(b"new"));
    }
}
