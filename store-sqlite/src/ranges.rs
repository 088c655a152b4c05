//! Sets of numbers that are mostly runs.

use std::collections::BTreeMap;

/// Half-open ranges that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds `first..end`.
    pub(crate) fn add(&mut self, mut first: u64, mut end: u64) {
        if first >= end {
            return;
        }
        while let Some((&start, &stop)) = self.0.range(..=end).next_back()
            && stop >= first
        {
            self.0.remove(&start);
            first = first.min(start);
            end = end.max(stop);
        }
        self.0.insert(first, end);
    }

    /// Takes `first..end` out.
    pub(crate) fn cut(&mut self, first: u64, end: u64) {
        while let Some((&start, &stop)) = self.0.range(..end).next_back()
            && stop > first
        {
            self.0.remove(&start);
            if stop > end {
                self.0.insert(end, stop);
            }
            if start < first {
                self.0.insert(start, first);
                break;
            }
        }
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.0
            .range(..=number)
            .next_back()
            .is_some_and(|(_, &end)| number < end)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(&first, &end)| (first, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_are_the_set_of_their_numbers(
            steps in proptest::collection::vec((any::<bool>(), 0..40u64, 0..12u64), 0..60),
        ) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (is_added, first, len) in steps {
                if is_added {
                    ranges.add(first, first + len);
                    set.extend(first..first + len);
                } else {
                    ranges.cut(first, first + len);
                    set.retain(|n| !(first..first + len).contains(n));
                }
                let listed: Vec<u64> = ranges.iter().flat_map(|(f, e)| f..e).collect();
                prop_assert_eq!(listed, set.iter().copied().collect::<Vec<_>>());
                for n in 0..60 {
                    prop_assert_eq!(ranges.has(n), set.contains(&n));
                }
            }
        }
    }
}
