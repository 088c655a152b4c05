//! Buffers that all connections of a thread share, because a connection needs them only during its turn: an idle
//! connection holds none.

use std::cell::Cell;
use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use qq_core::vocab::Command;

use crate::post::Mail;

/// Everything empty between turns.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) input: BytesMut,
    pub(crate) output: VecDeque<Bytes>,
    pub(crate) commands: Vec<Command>,
    pub(crate) mail: Vec<Mail>,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Lends the thread's buffers to `turn`. A turn that panics takes them along, so nobody sees what it left in them.
pub(crate) fn with_scratch<T>(turn: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = SCRATCH.take().unwrap_or_default();
    let result = turn(&mut scratch);
    SCRATCH.set(Some(scratch));
    result
}
