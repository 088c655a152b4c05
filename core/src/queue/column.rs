//! One property of the messages of a packed chunk: mostly the same for all of them, and then it takes no room.

use super::chunks::CHUNK_LEN;

const LEN: usize = CHUNK_LEN as usize;

/// See the module.
#[derive(Debug)]
pub(super) enum Column<T> {
    Same(T),
    Each(Box<[T; LEN]>),
}

impl<T: Copy + PartialEq> Column<T> {
    /// The values at `slots`; those at other slots do not matter.
    pub(super) fn new(values: impl Iterator<Item = (usize, T)>, fallback: T) -> Self {
        let mut column = None;
        for (slot, value) in values {
            column.get_or_insert(Self::Same(value)).set(slot, value);
        }
        column.unwrap_or(Self::Same(fallback))
    }

    #[inline]
    pub(super) fn value(&self, slot: usize) -> T {
        match self {
            Self::Same(value) => *value,
            Self::Each(values) => values[slot],
        }
    }

    /// Room that it takes beside itself, bytes.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        match self {
            Self::Same(_) => 0,
            Self::Each(values) => size_of_val(&**values),
        }
    }

    /// Changes the value at one slot.
    pub(super) fn set(&mut self, slot: usize, value: T) {
        match self {
            Self::Same(same) if *same == value => {}
            Self::Same(same) => {
                let mut values = Box::new([*same; LEN]);
                values[slot] = value;
                *self = Self::Each(values);
            }
            Self::Each(values) => values[slot] = value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_take_one_place_and_a_different_one_makes_room() {
        let mut column = Column::new((3..90).map(|slot| (slot, 7u32)), 0);
        assert!(matches!(column, Column::Same(7)));
        column.set(5, 7);
        assert!(matches!(column, Column::Same(7)));
        column.set(5, 8);
        assert_eq!(
            (column.value(4), column.value(5), column.value(127)),
            (7, 8, 7)
        );
        let column = Column::new((0..128).map(|slot| (slot, slot)), 0);
        assert!((0..128).all(|slot| column.value(slot) == slot));
        assert_eq!(Column::new(std::iter::empty(), 9u8).value(0), 9);
    }
}
