//! Headers bindings, turned around: from each criterion to the bindings that ask for it.
//!
//! A message costs a look-up per property and a count per criterion that holds, not a comparison per binding.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use slab::Slab;

use super::edges::{Edge, Edges, Map, remove_edge};
use super::{Criteria, Datum, Headers, Scalar};
use crate::planted::{Bug, is_planted};

/// One name with one value that bindings ask for; null stands for any value.
#[derive(Debug)]
struct Criterion {
    name: Box<str>,
    value: Datum,
    /// The last message in which it held: a property that comes twice counts once.
    seen: u64,
    /// Whom it counts for.
    members: Vec<u32>,
}

/// A binding with criteria.
#[derive(Debug)]
struct Member {
    edge: Edge,
    /// Criteria that must hold.
    need: u32,
    /// The last message that touched it, and how many criteria held in it.
    seen: u64,
    hits: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct HeadersTable {
    hasher: FixedState,
    criteria: HashTable<Criterion>,
    members: Slab<Member>,
    member_of: Map<u32, u32>,
    /// Bindings without criteria of which all hold.
    always: Edges,
    /// Criteria that take any value.
    any_value: usize,
    round: u64,
}

fn hash_of(hasher: &FixedState, name: &str, value: Scalar<'_>) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(name.as_bytes());
    value.hash_into(&mut state);
    state.finish()
}

impl HeadersTable {
    pub(super) fn new(hasher: &FixedState) -> Self {
        Self {
            hasher: hasher.clone(),
            criteria: HashTable::new(),
            members: Slab::new(),
            member_of: Map::with_hasher(hasher.clone()),
            always: Edges::new(),
            any_value: 0,
            round: 0,
        }
    }

    pub(super) fn insert(&mut self, criteria: &Criteria<'_>, edge: Edge) {
        let is_any = criteria.mode.is_any();
        if criteria.list.is_empty() {
            if !is_any {
                self.always.push(edge);
            }
            return;
        }
        let need = if is_any && !is_planted(Bug::HeadersAnyIsAll) {
            1
        } else {
            criteria.list.len()
        };
        let member = self.members.insert(Member {
            edge,
            need: u32::try_from(need).expect("arguments are bounded"),
            seen: 0,
            hits: 0,
        });
        let member = u32::try_from(member).expect("bindings are bounded");
        self.member_of.insert(edge.binding, member);
        let hasher = &self.hasher;
        for (name, value) in &criteria.list {
            let scalar = value.scalar();
            self.any_value += usize::from(matches!(scalar, Scalar::Null));
            self.criteria
                .entry(
                    hash_of(hasher, name, scalar),
                    |known| *known.name == **name && known.value.scalar().is_same(scalar),
                    |known| hash_of(hasher, &known.name, known.value.scalar()),
                )
                .or_insert_with(|| Criterion {
                    name: (*name).into(),
                    value: (*value).clone(),
                    seen: 0,
                    members: Vec::new(),
                })
                .into_mut()
                .members
                .push(member);
        }
    }

    pub(super) fn remove(&mut self, criteria: &Criteria<'_>, binding: u32) {
        let Some(member) = self.member_of.remove(&binding) else {
            remove_edge(&mut self.always, binding);
            return;
        };
        self.members.remove(member as usize);
        for (name, value) in &criteria.list {
            let scalar = value.scalar();
            self.any_value -= usize::from(matches!(scalar, Scalar::Null));
            let found = self
                .criteria
                .find_entry(hash_of(&self.hasher, name, scalar), |known| {
                    *known.name == **name && known.value.scalar().is_same(scalar)
                });
            if let Ok(mut entry) = found {
                let members = &mut entry.get_mut().members;
                members.retain(|other| *other != member);
                if members.is_empty() {
                    entry.remove();
                }
            }
        }
    }

    /// Calls `each` for every binding that the properties satisfy, each once.
    pub(super) fn each_match(&mut self, headers: &dyn Headers, mut each: impl FnMut(Edge)) {
        for edge in &self.always {
            each(*edge);
        }
        if self.members.is_empty() {
            return;
        }
        self.round += 1;
        headers.each(&mut |name, value| {
            self.count(name, value, &mut each);
            if self.any_value > 0 && !matches!(value, Scalar::Null) {
                self.count(name, Scalar::Null, &mut each);
            }
        });
    }

    /// A criterion may hold: counts for those who ask for it.
    fn count(&mut self, name: &str, value: Scalar<'_>, each: &mut impl FnMut(Edge)) {
        let hash = hash_of(&self.hasher, name, value);
        let found = self.criteria.find_mut(hash, |known| {
            *known.name == *name && known.value.scalar().is_same(value)
        });
        let Some(criterion) = found.filter(|criterion| criterion.seen != self.round) else {
            return;
        };
        criterion.seen = self.round;
        for member in &criterion.members {
            let member = &mut self.members[*member as usize];
            if member.seen != self.round {
                member.seen = self.round;
                member.hits = 0;
            }
            member.hits += 1;
            if member.hits == member.need {
                each(member.edge);
            }
        }
    }

    /// Whether nothing is left.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.criteria.is_empty()
            && self.members.is_empty()
            && self.member_of.is_empty()
            && self.always.is_empty()
            && self.any_value == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::Arguments;
    use super::super::edges::Target;
    use super::*;

    const NOTHING: [u32; 0] = [];

    fn arguments(list: &[(&str, Datum)]) -> Arguments {
        list.iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect()
    }

    fn table(bindings: &[Arguments]) -> HeadersTable {
        let mut table = HeadersTable::new(&FixedState::with_seed(1));
        for (binding, arguments) in (0_u32..).zip(bindings) {
            let edge = Edge {
                binding,
                target: Target::Queue(binding),
            };
            table.insert(&Criteria::of(arguments).expect("a mode"), edge);
        }
        table
    }

    fn matches(table: &mut HeadersTable, headers: &[(&str, Datum)]) -> Vec<u32> {
        let mut found = Vec::new();
        table.each_match(&Listed(headers), |edge| found.push(edge.binding));
        found.sort_unstable();
        found
    }

    struct Listed<'a>(&'a [(&'a str, Datum)]);

    impl Headers for Listed<'_> {
        fn each(&self, each: &mut dyn FnMut(&str, Scalar<'_>)) {
            self.0.each(each);
        }
    }

    #[test]
    fn rt_05_four_modes_and_names_with_x() {
        let bindings = [
            arguments(&[("x-match", "all".into()), ("a", 1.into()), ("b", 2.into())]),
            arguments(&[("x-match", "any".into()), ("a", 1.into()), ("b", 2.into())]),
            arguments(&[
                ("x-match", "all".into()),
                ("x-k", 1.into()),
                ("a", 1.into()),
            ]),
            arguments(&[
                ("x-match", "all-with-x".into()),
                ("x-k", 1.into()),
                ("a", 1.into()),
            ]),
            arguments(&[("x-match", "any-with-x".into()), ("x-k", 1.into())]),
            arguments(&[("a", 1.into())]),
        ];
        let mut table = table(&bindings);
        let mut of = |headers: &[(&str, Datum)]| matches(&mut table, headers);
        assert_eq!(of(&[("a", 1.into()), ("b", 2.into())]), [0, 1, 2, 5]);
        assert_eq!(of(&[("a", 1.into())]), [1, 2, 5]);
        assert_eq!(of(&[("x-k", 1.into())]), [4]);
        assert_eq!(of(&[("a", 1.into()), ("x-k", 1.into())]), [1, 2, 3, 4, 5]);
        assert_eq!(of(&[]), NOTHING);
    }

    #[test]
    fn rt_06_without_criteria_all_match_or_none() {
        let bindings = [
            arguments(&[]),
            arguments(&[("x-match", "any".into())]),
            arguments(&[("x-match", "all".into()), ("x-only", 1.into())]),
        ];
        let mut table = table(&bindings);
        assert_eq!(matches(&mut table, &[]), [0, 2]);
        assert_eq!(matches(&mut table, &[("x-only", 2.into())]), [0, 2]);
    }

    #[test]
    fn values_are_compared_by_type_and_numbers_by_value() {
        let bindings = [
            arguments(&[("a", 1.into())]),
            arguments(&[("a", "1".into())]),
            arguments(&[("a", true.into())]),
            arguments(&[("a", Datum::Float(1.5))]),
            arguments(&[("a", Datum::Null)]),
            arguments(&[("a", Datum::Uint(u64::MAX))]),
        ];
        let mut table = table(&bindings);
        assert_eq!(matches(&mut table, &[("a", Datum::Uint(1))]), [0, 4]);
        assert_eq!(matches(&mut table, &[("a", Datum::Float(1.0))]), [0, 4]);
        assert_eq!(matches(&mut table, &[("a", "1".into())]), [1, 4]);
        assert_eq!(matches(&mut table, &[("a", true.into())]), [2, 4]);
        assert_eq!(matches(&mut table, &[("a", Datum::Float(1.5))]), [3, 4]);
        assert_eq!(matches(&mut table, &[("a", Datum::Null)]), [4]);
        assert_eq!(matches(&mut table, &[("a", Datum::Uint(u64::MAX))]), [4, 5]);
        assert_eq!(matches(&mut table, &[("b", 1.into())]), NOTHING);
    }

    #[test]
    fn a_property_that_comes_twice_counts_once() {
        let bindings = [arguments(&[("a", 1.into()), ("b", 2.into())])];
        let mut table = table(&bindings);
        assert_eq!(
            matches(&mut table, &[("a", 1.into()), ("a", 1.into())]),
            NOTHING
        );
    }

    #[test]
    fn removal_leaves_nothing_behind() {
        let bindings = [
            arguments(&[("a", 1.into()), ("b", Datum::Null)]),
            arguments(&[("x-match", "any".into()), ("a", 1.into())]),
            arguments(&[]),
            arguments(&[("x-match", "any".into())]),
        ];
        let mut table = table(&bindings);
        for (binding, arguments) in (0_u32..).zip(&bindings) {
            table.remove(&Criteria::of(arguments).expect("a mode"), binding);
            let found = matches(&mut table, &[("a", 1.into()), ("b", 1.into())]);
            assert!(!found.contains(&binding));
        }
        assert!(table.is_empty());
    }
}
