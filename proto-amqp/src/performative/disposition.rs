//! `disposition`: what became of deliveries (part 2, 2.7.6).

use super::{DeliveryState, Role};
use crate::codec::{Fields, Reader, code, composite};

composite! {
    /// Tells state and settlement of a range of deliveries (part 2, 2.7.6).
    Disposition = 0x15, short {
        /// Which end of the links the sender of this is.
        role["role"]: required Role,
        /// First delivery-id.
        first["first"]: required u32,
        /// Last delivery-id; none: the same as `first`.
        last["last"]: optional u32,
        /// The sender of this has settled them.
        settled["settled"]: default bool = false,
        /// Their state.
        state["state"]: optional DeliveryState,
        /// The peer may wait with what it answers.
        batchable["batchable"]: default bool = false,
    }
}

/// A disposition whose state has nothing in it, as nearly all are.
///
/// A [`DeliveryState`] is large, and moving a value of which one byte was just written stalls the processor for longer
/// than all the reading takes. So the frequent ones are read into this, and made where they are to be.
pub(super) struct Plain {
    role: Role,
    first: u32,
    last: Option<u32>,
    settled: bool,
    batchable: bool,
    pub(super) outcome: Outcome,
}

/// The states that [`Plain`] knows.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    Absent,
    Accepted,
    Released,
}

impl Plain {
    /// Reads the list of a disposition. None when there is more to it, or something wrong: nothing was read then.
    #[inline]
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let mut trial = reader.clone();
        let mut fields = Fields::begin(&mut trial).ok()?;
        let role = fields.next("role").ok()??;
        let first = fields.next("first").ok()??;
        let last = fields.next("last").ok()?;
        let settled = fields.next("settled").ok()?.unwrap_or(false);
        let outcome = match fields.next_code().ok()? {
            None => Outcome::Absent,
            Some(code::DESCRIBED) => match fields.reader.array().ok()? {
                [code::SMALLULONG, 0x24, code::LIST0] => Outcome::Accepted,
                [code::SMALLULONG, 0x26, code::LIST0] => Outcome::Released,
                _ => return None,
            },
            Some(_) => return None,
        };
        let batchable = fields.next("batchable").ok()?.unwrap_or(false);
        fields.finish().ok()?;
        *reader = trial;
        Some(Self {
            role,
            first,
            last,
            settled,
            batchable,
            outcome,
        })
    }

    /// The disposition with its state, which is to be the constant of [`outcome`](Self::outcome).
    #[inline]
    pub(super) fn with(self, state: Option<DeliveryState>) -> Disposition {
        let Self {
            role,
            first,
            last,
            settled,
            batchable,
            ..
        } = self;
        Disposition {
            role,
            first,
            last,
            settled,
            state,
            batchable,
        }
    }
}
