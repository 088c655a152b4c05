//! Which rows of the journal were deleted: rows are numbered without gaps, so a number that is neither in the journal
//! nor here is a row that was lost.
//!
//! Everything before the first kept row is gone without saying, which is all there is to say about a queue that is
//! read in order. Ranges behind it are in a table of their own.

use std::collections::BTreeMap;

/// A change of the table: a range by its first row, and its last row unless it is to be deleted.
pub(crate) type GoneChange = (u64, Option<u64>);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone {
    /// First and last.
    ranges: BTreeMap<u64, u64>,
}

impl Gone {
    /// Takes a range as the table has it. False when it is not behind all others.
    pub(crate) fn push(&mut self, first: u64, last: u64) -> bool {
        let is_behind = self
            .ranges
            .last_key_value()
            .is_none_or(|(_, &before)| before < first);
        if is_behind && first <= last {
            self.ranges.insert(first, last);
        }
        is_behind && first <= last
    }

    /// Notes that a row is deleted; moves `row_first` on when everything up to there is gone.
    pub(crate) fn add(&mut self, id: u64, row_first: &mut u64, changes: &mut Vec<GoneChange>) {
        let (mut first, mut last) = (id, id);
        if let Some((&before, &end)) = self.ranges.range(..id).next_back()
            && end + 1 == id
        {
            first = before;
        }
        if let Some(&end) = self.ranges.get(&(id + 1)) {
            self.ranges.remove(&(id + 1));
            changes.push((id + 1, None));
            last = end;
        }
        if first <= *row_first {
            if first != id {
                self.ranges.remove(&first);
                changes.push((first, None));
            }
            *row_first = last + 1;
        } else {
            self.ranges.insert(first, last);
            changes.push((first, Some(last)));
        }
    }

    /// The last row of the range that begins with `id`.
    pub(crate) fn range_at(&self, id: u64) -> Option<u64> {
        self.ranges.get(&id).copied()
    }

    /// Where the first range behind `id` begins.
    pub(crate) fn next_after(&self, id: u64) -> Option<u64> {
        self.ranges.range(id..).next().map(|(&first, _)| first)
    }

    /// Whether a row in `from..to` is gone.
    pub(crate) fn has_any(&self, from: u64, to: u64) -> bool {
        from < to
            && self
                .ranges
                .range(..to)
                .next_back()
                .is_some_and(|(_, &last)| last >= from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_and_table_say_which_rows_are_gone_in_whatever_order_they_go() {
        // Every order of deleting 1..=6 by a plain permutation, checked against a set.
        let mut orders = vec![vec![]];
        for _ in 0..6 {
            orders = orders
                .into_iter()
                .flat_map(|order: Vec<u64>| {
                    let left = (1..=6).filter(|id| !order.contains(id));
                    left.map(|id| [&order[..], &[id]].concat())
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        assert_eq!(orders.len(), 720);
        for order in orders {
            let (mut gone, mut row_first) = (Gone::default(), 1);
            let (mut table, mut expected) = (BTreeMap::new(), BTreeSet::new());
            for &id in &order {
                let mut changes = Vec::new();
                gone.add(id, &mut row_first, &mut changes);
                expected.insert(id);
                for (first, last) in changes {
                    match last {
                        Some(last) => table.insert(first, last),
                        None => table.remove(&first),
                    };
                }
                assert_eq!(table, gone.ranges, "{order:?}");
                let is_gone =
                    |id: u64| id < row_first || table.iter().any(|(&f, &l)| (f..=l).contains(&id));
                for id in 1..=6 {
                    assert_eq!(is_gone(id), expected.contains(&id), "{id} of {order:?}");
                }
                assert!(table.keys().all(|&first| first > row_first), "{order:?}");
            }
            assert_eq!((row_first, table.len()), (7, 0), "{order:?}");
        }
    }
}
