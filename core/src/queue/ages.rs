//! When the messages of a queue came, as far as people want to know: some tens of marks, whatever the queue holds.

/// Marks of one queue.
const MARKS_MAX: usize = 32;
/// Milliseconds between two marks at least, until there are too many.
const STEP_MS: i64 = 1_000;

/// Messages from `seq` on came at this moment or later.
#[derive(Clone, Copy, Debug)]
struct Mark {
    seq: u64,
    wall_ms: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    marks: Vec<Mark>,
    step_ms: i64,
}

impl Ages {
    /// A message came, and `first` is the oldest of its queue. To be called in the order of positions; messages between
    /// two calls count as those before them.
    pub(crate) fn note(&mut self, seq: u64, wall_ms: i64, first: u64) {
        let step_ms = self.step_ms.max(STEP_MS);
        let last = self.marks.last().copied();
        if let Some(last) = last
            && first < seq
            && wall_ms < last.wall_ms.saturating_add(step_ms)
        {
            return;
        }
        self.forget_below(first);
        if self.marks.len() < MARKS_MAX / 4 {
            self.step_ms = (step_ms / 2).max(STEP_MS);
        }
        if self.marks.len() >= MARKS_MAX {
            let mut is_kept = false;
            self.marks.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.step_ms = step_ms.saturating_mul(2);
        }
        // A wall clock that was set back makes nothing younger than it is.
        let wall_ms = self
            .marks
            .last()
            .map_or(wall_ms, |last| last.wall_ms.max(wall_ms));
        if self.marks.is_empty() {
            // Most queues are short, and there may be a great many of them.
            self.marks.shrink_to(1);
            self.marks.reserve_exact(1);
        }
        self.marks.push(Mark { seq, wall_ms });
    }

    fn forget_below(&mut self, first: u64) {
        let above = self.marks.partition_point(|mark| mark.seq <= first);
        self.marks.drain(..above.saturating_sub(1));
        if self.marks.last().is_some_and(|last| last.seq < first) {
            // It was about messages that are gone.
            self.marks.clear();
        }
    }

    /// When the message at this position came, at the earliest, by the wall clock.
    pub(crate) fn since(&self, seq: u64) -> Option<i64> {
        let above = self.marks.partition_point(|mark| mark.seq <= seq);
        Some(self.marks.get(above.checked_sub(1)?)?.wall_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_message_is_known_to_a_second_while_the_queue_is_young() {
        let mut ages = Ages::default();
        for seq in 0..100 {
            ages.note(seq, seq as i64 * 200, 0);
        }
        // One mark for five messages.
        for seq in 0..100 {
            let came = seq as i64 * 200;
            let since = ages.since(seq).expect("a mark");
            assert!(since <= came && came < since + STEP_MS, "{seq}: {since}");
        }
    }

    #[test]
    fn marks_are_few_whatever_the_queue_holds_and_never_too_young() {
        let mut ages = Ages::default();
        for seq in 0..100_000 {
            ages.note(seq, seq as i64 * 1_000, seq.saturating_sub(50_000));
            assert!(ages.marks.len() <= MARKS_MAX);
        }
        for first in [50_000, 75_000, 99_999] {
            let came = first as i64 * 1_000;
            let since = ages.since(first).expect("a mark");
            assert!(
                since <= came && came - since <= 100_000_000 / 16,
                "{first}: {since}"
            );
        }
    }

    #[test]
    fn a_queue_that_was_empty_begins_anew() {
        let mut ages = Ages::default();
        ages.note(0, 0, 0);
        ages.note(1, 100, 1);
        assert_eq!(ages.since(1), Some(100));
        ages.note(2, 50, 2);
        assert_eq!(ages.since(2), Some(50));
    }
}
