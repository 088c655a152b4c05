//! Tests of the chunked list: against a map, and for the room that it takes.

use std::collections::BTreeMap;

use super::chunks::{CHUNK_LEN, Chunks, Packed};

#[test]
fn one_old_element_keeps_only_its_own_chunk() {
    let mut list = Chunks::<_>::default();
    for number in 0..100_000u64 {
        assert_eq!(list.push(number), number);
    }
    for number in 1..100_000 {
        assert_eq!(list.take(number), Some(number));
    }
    assert_eq!(list.len(), 1);
    let room = list.room();
    // Two chunks and the list of chunks; all numbers took 1.6 million.
    assert!(room <= 40_000, "{room} bytes are still allocated");
    assert_eq!(list.entry(0), Some(&0));
    assert_eq!(list.live_from(1), None);
    assert_eq!(list.live_up_to(u64::MAX), Some(0));
    assert_eq!(list.take(0), Some(0));
    assert_eq!(list.base(), 100_000);
    assert_eq!(list.push(7), 100_000);
}

#[test]
fn a_few_old_elements_among_many_cost_no_more_than_themselves() {
    let mut list = Chunks::<_>::default();
    for number in 0..400_000u64 {
        assert_eq!(list.push(number), number);
        // One in twenty thousand stays, the others leave a little later.
        if let Some(leaving) = number.checked_sub(500)
            && leaving % 20_000 != 7
        {
            assert_eq!(list.take(leaving), Some(leaving));
        }
    }
    assert!(list.room() < 60_000, "{} bytes", list.room());
    for block in 0..20 {
        let old = block * 20_000 + 7;
        assert_eq!(list.live_from(old - 7), Some(old));
        assert_eq!(list.live_up_to(old + 18_000), Some(old));
        assert_eq!(list.entry(old), Some(&old));
        assert_eq!(list.take(old), Some(old));
        assert_eq!(list.entry(old), None);
    }
    assert_eq!((list.len(), list.base() > 399_000), (500, true));
}

#[test]
fn a_wide_gap_takes_no_room() {
    let mut list = Chunks::<_>::default();
    list.push(0u64);
    list.skip_to(1 << 40);
    assert_eq!(list.push(1), 1 << 40);
    assert_eq!(list.live_from(1), Some(1 << 40));
    assert_eq!(list.live_up_to((1 << 40) - 1), Some(0));
    assert_eq!(list.entry(0), Some(&0));
    assert_eq!(list.chunk_of(5), 0..CHUNK_LEN);
    assert!(list.room() < 30_000, "{} bytes", list.room());
    assert_eq!((list.take(0), list.take(1 << 40)), (Some(0), Some(1)));
    assert_eq!(list.push(2), (1 << 40) + 1);
}

#[test]
fn numbers_taken_twice_or_never_given_are_nothing() {
    let mut list = Chunks::<_>::default();
    list.push('a');
    list.push('b');
    assert_eq!(list.take(0), Some('a'));
    assert_eq!(list.take(0), None);
    assert_eq!(list.take(2), None);
    assert_eq!(list.take(u64::MAX), None);
    assert_eq!(list.entry(1), Some(&'b'));
    assert_eq!(list.len(), 1);
}

#[test]
fn skipping_leaves_gaps_without_elements() {
    let mut list = Chunks::<_>::default();
    list.skip_to(5);
    assert_eq!(list.push('a'), 5);
    list.skip_to(1_000);
    assert_eq!(list.push('b'), 1_000);
    assert_eq!(list.live_from(0), Some(5));
    assert_eq!(list.live_from(6), Some(1_000));
    assert_eq!(list.live_up_to(999), Some(5));
    assert_eq!(list.take(5), Some('a'));
    assert_eq!(list.entry(1_000), Some(&'b'));
    list.skip_to(3);
    assert_eq!(list.push('c'), 1_001);
}

/// A packed chunk that is a plain list.
#[derive(Debug)]
struct Flat(Vec<Option<u64>>);

impl Packed for Flat {
    fn live_from(&self, slot: usize) -> Option<usize> {
        (slot..self.0.len()).find(|slot| self.0[*slot].is_some())
    }

    fn live_up_to(&self, slot: usize) -> Option<usize> {
        (0..=slot).rev().find(|slot| self.0[*slot].is_some())
    }
}

fn taken(list: &mut Chunks<u64, Flat>, number: u64) -> Option<u64> {
    let found = list.take(number);
    found.or_else(|| list.take_packed(number, |flat, slot| flat.0[slot].take()))
}

/// The list holds what the map holds, as seen from `from`.
fn check(list: &Chunks<u64, Flat>, model: &BTreeMap<u64, u64>, from: u64) {
    assert_eq!(list.len(), model.len());
    assert_eq!(list.packed_len() + list.unpacked().count(), model.len());
    let packed = list
        .packed(from)
        .and_then(|(flat, slot)| flat.0[slot].as_ref());
    assert_eq!(list.entry(from).or(packed), model.get(&from));
    let next = model.range(from..).next().map(|(&number, _)| number);
    assert_eq!(list.live_from(from), next);
    let last = model.range(..=from).next_back().map(|(&number, _)| number);
    assert_eq!(list.live_up_to(from), last);
}

proptest::proptest! {
    #[test]
    fn behaves_like_a_map(steps in proptest::collection::vec((0u8..13, 0u64..600), 1..200)) {
        let mut list = Chunks::<u64, Flat>::default();
        let mut model = BTreeMap::new();
        let mut next = 0u64;
        for (kind, argument) in steps {
            match kind {
                0..=3 => {
                    for _ in 0..argument % 40 {
                        assert_eq!(list.push(next), next);
                        model.insert(next, next);
                        next += 1;
                    }
                }
                4..=5 => {
                    let number = next.saturating_sub(argument * argument / 8);
                    assert_eq!(taken(&mut list, number), model.remove(&number));
                }
                6 => {
                    while let Some((&number, _)) = model.first_key_value() {
                        if number + argument >= next { break }
                        model.remove(&number);
                        assert_eq!(taken(&mut list, number), Some(number));
                    }
                }
                7..=8 => {
                    let number = next.saturating_sub(argument);
                    list.pack(number, |slots| {
                        assert_eq!(slots.len() as u64, CHUNK_LEN);
                        Some(Flat(slots.iter_mut().map(Option::take).collect()))
                    });
                    assert_eq!(list.packed(number).is_some(), list.packed_mut(number).is_some());
                }
                9 => {
                    let number = next.saturating_sub(argument);
                    let was_packed = list.packed(number).is_some();
                    assert_eq!(list.unpack(number, |flat| flat.0), was_packed);
                    assert_eq!(list.entry(number), model.get(&number));
                }
                10 if argument % 10 == 0 => {
                    let number = next + argument * 100;
                    list.skip_to(number);
                    next = number;
                }
                11 => {
                    // All but every thousandth leave.
                    let leaving: Vec<u64> = model.keys().copied().filter(|number| number % 1_000 > 0).collect();
                    for number in leaving {
                        model.remove(&number);
                        assert_eq!(taken(&mut list, number), Some(number));
                    }
                }
                12 => {
                    for _ in 0..argument * 4 {
                        assert_eq!(list.push(next), next);
                        model.insert(next, next);
                        next += 1;
                    }
                }
                _ => {
                    let number = next + argument % 5;
                    list.skip_to(number);
                    next = number;
                }
            }
            assert_eq!(list.next(), next);
            let from = next.saturating_sub(argument * argument);
            check(&list, &model, from);
        }
    }
}
