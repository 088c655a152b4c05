//! Smaller versions of performatives, for peers that take small frames (part 2, 2.7.1).
//!
//! What goes first is what the peer can do without: descriptions are cut, details, properties and capabilities left
//! out, a map of unsettled deliveries is cut and marked as incomplete (2.7.3). What cannot shrink enough is refused by
//! the caller. Nothing of this runs for a frame that fits.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::BytesMut;

use super::write::Body;
use crate::condition;
use crate::performative::{
    AmqpError, Attach, Close, DeliveryState, Detach, Disposition, End, Modified, Open,
};
use crate::types::{Map, Str, Value};

/// What a string or a map costs beyond its contents, with the wider form of the lists around it.
const WRAPPING: usize = 24;
/// A description that would be cut below this is not worth the details beside it.
const DESCRIPTION_MIN: usize = 64;

fn len_of(body: &impl Body) -> usize {
    let mut buf = BytesMut::new();
    body.put(&mut buf);
    buf.len()
}

/// The beginning of a text, at most so many bytes and whole characters.
pub(super) fn cut(text: &Str, len_max: usize) -> Str {
    Str::from(&text.as_str()[..text.as_str().floor_char_boundary(len_max)])
}

/// The version of an error with which `make` gives a body of at most `room` bytes.
fn fit_error<B: Body>(
    error: &AmqpError,
    room: usize,
    make: impl Fn(Option<Box<AmqpError>>) -> B,
) -> B {
    let bare = |condition, info| AmqpError {
        condition,
        description: None,
        info,
    };
    let len_with = |error: AmqpError| len_of(&make(Some(Box::new(error))));
    let mut fitted = bare(error.condition.clone(), error.info.clone());
    if len_with(fitted.clone()) + WRAPPING + DESCRIPTION_MIN > room {
        fitted.info = None;
    }
    if len_with(fitted.clone()) > room {
        // Conditions are short words; whoever makes up a longer one still gets a frame that says that something is
        // wrong.
        fitted = bare(condition::INTERNAL_ERROR, None);
    }
    let left = room.saturating_sub(len_with(fitted.clone()) + WRAPPING);
    fitted.description = error
        .description
        .as_ref()
        .map(|text| cut(text, left))
        .filter(|text| !text.as_bytes().is_empty());
    make(Some(Box::new(fitted)))
}

/// The version of a state with which `make` gives a body of at most `room` bytes, if there is one.
fn fit_state(
    state: &DeliveryState,
    room: usize,
    make: &dyn Fn(DeliveryState) -> Disposition,
) -> Option<Disposition> {
    let fitted = match state {
        DeliveryState::Rejected(Some(error)) => {
            fit_error(error, room, |error| make(DeliveryState::Rejected(error)))
        }
        DeliveryState::Modified(modified) => {
            let bare = Modified {
                message_annotations: None,
                ..**modified
            };
            make(DeliveryState::Modified(Box::new(bare)))
        }
        DeliveryState::Transactional {
            txn_id,
            outcome: Some(outcome),
        } => fit_state(outcome, room, &|outcome| {
            make(DeliveryState::Transactional {
                txn_id: txn_id.clone(),
                outcome: Some(Box::new(outcome)),
            })
        })?,
        other => make(other.clone()),
    };
    (len_of(&fitted) <= room).then_some(fitted)
}

impl Body for Open {
    fn put(&self, buf: &mut BytesMut) {
        self.encode(buf);
    }

    fn fit(&self, room: usize) -> Option<Self> {
        let mut open = Self {
            properties: None,
            ..self.clone()
        };
        if len_of(&open) > room {
            open.offered_capabilities = Vec::new();
            open.desired_capabilities = Vec::new();
        }
        if len_of(&open) > room {
            open.hostname = None;
        }
        let excess = len_of(&open).saturating_sub(room);
        if excess > 0 {
            // An open that says who we are, more or less, is better than a connection without one.
            let len_max = open.container_id.as_bytes().len().saturating_sub(excess);
            open.container_id = cut(&open.container_id, len_max);
        }
        Some(open)
    }
}

impl Body for Attach {
    fn put(&self, buf: &mut BytesMut) {
        self.encode(buf);
    }

    fn fit(&self, room: usize) -> Option<Self> {
        let mut attach = Self {
            properties: None,
            ..self.clone()
        };
        if len_of(&attach) > room {
            attach.offered_capabilities = Vec::new();
            attach.desired_capabilities = Vec::new();
        }
        if len_of(&attach) > room
            && let Some(unsettled) = attach.unsettled.take()
        {
            // What is left out is told in later attaches (part 2, 2.7.3); an empty map is legal too.
            attach.incomplete_unsettled = true;
            let left = room.saturating_sub(len_of(&attach) + WRAPPING);
            attach.unsettled = Some(cut_map(unsettled, left));
        }
        (len_of(&attach) <= room).then_some(attach)
    }
}

/// The first entries of a map, at most so many bytes.
fn cut_map(map: Map, len_max: usize) -> Map {
    let mut left = len_max;
    let mut is_room = |(key, value): &(Value, Value)| {
        let rest = left.checked_sub(key.encoded_len() + value.encoded_len());
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    map.into_iter().take_while(|pair| is_room(pair)).collect()
}

impl Body for Disposition {
    fn put(&self, buf: &mut BytesMut) {
        self.encode(buf);
    }

    fn fit(&self, room: usize) -> Option<Self> {
        let state = self.state.as_ref()?;
        fit_state(state, room, &|state| Self {
            state: Some(state),
            ..*self
        })
    }
}

impl Body for Detach {
    fn put(&self, buf: &mut BytesMut) {
        self.encode(buf);
    }

    fn fit(&self, room: usize) -> Option<Self> {
        let make = |error| Self { error, ..*self };
        Some(fit_error(self.error.as_ref()?, room, make))
    }
}

impl Body for End {
    fn put(&self, buf: &mut BytesMut) {
        self.encode(buf);
    }

    fn fit(&self, room: usize) -> Option<Self> {
        Some(fit_error(self.error.as_ref()?, room, |error| Self {
            error,
        }))
    }
}

impl Body for Close {
    fn put(&self, buf: &mut BytesMut) {
        self.encode(buf);
    }

    fn fit(&self, room: usize) -> Option<Self> {
        Some(fit_error(self.error.as_ref()?, room, |error| Self {
            error,
        }))
    }
}
