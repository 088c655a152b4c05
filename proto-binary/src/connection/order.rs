//! The order of answers.
//!
//! Without correlation ids a client matches answers to requests by their order, so an answer that is ready early waits
//! for those before it. Requests with a correlation id are only counted.

use alloc::collections::VecDeque;

use bytes::Bytes;

/// An answer that is due.
#[derive(Debug)]
enum Slot {
    /// The embedder has not answered.
    Open,
    /// Answered; waits for its turn. Empty: a success that nobody wants to hear of.
    Ready(Bytes),
}

/// What the next answer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Be written at once.
    Now,
    /// Wait.
    Later,
}

/// Answers that are due, in the order of their requests.
#[derive(Debug, Default)]
pub(super) struct Order {
    slots: VecDeque<Slot>,
    /// Number of the first slot.
    base: u64,
    waiting_bytes: usize,
    correlated: usize,
}

impl Order {
    /// Requests without an answer, and answers that wait for them.
    pub(super) fn len(&self) -> usize {
        self.slots.len() + self.correlated
    }

    /// Bytes of answers that wait for earlier ones.
    pub(super) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub(super) fn begin_correlated(&mut self) {
        self.correlated += 1;
    }

    pub(super) fn end_correlated(&mut self) {
        self.correlated = self.correlated.saturating_sub(1);
    }

    /// A request came. Returns its number.
    pub(super) fn begin(&mut self) -> u64 {
        let seq = self.base + self.slots.len() as u64;
        self.slots.push_back(Slot::Open);
        seq
    }

    /// Whether the answer to a request may be written. None: there is no such request.
    pub(super) fn turn(&self, seq: u64) -> Option<Turn> {
        let at = self.index(seq)?;
        match self.slots.get(at)? {
            Slot::Ready(_) => None,
            Slot::Open if at == 0 => Some(Turn::Now),
            Slot::Open => Some(Turn::Later),
        }
    }

    /// An answer waits for its turn.
    pub(super) fn keep(&mut self, seq: u64, frame: Bytes) {
        if let Some(at) = self.index(seq)
            && let Some(slot) = self.slots.get_mut(at)
        {
            self.waiting_bytes += frame.len();
            *slot = Slot::Ready(frame);
        }
    }

    /// The first answer was written.
    pub(super) fn pop(&mut self) {
        if self.slots.pop_front().is_some() {
            self.base += 1;
        }
    }

    /// The next answer whose turn has come by what was popped.
    pub(super) fn pop_ready(&mut self) -> Option<Bytes> {
        let Some(Slot::Ready(_)) = self.slots.front() else {
            return None;
        };
        let Some(Slot::Ready(frame)) = self.slots.pop_front() else {
            return None;
        };
        self.base += 1;
        self.waiting_bytes -= frame.len();
        Some(frame)
    }

    fn index(&self, seq: u64) -> Option<usize> {
        usize::try_from(seq.checked_sub(self.base)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, Turn};
    use bytes::Bytes;

    #[test]
    fn early_answers_wait() {
        let mut order = Order::default();
        let (a, b, c) = (order.begin(), order.begin(), order.begin());
        assert_eq!(order.turn(b), Some(Turn::Later));
        order.keep(b, Bytes::from_static(b"b"));
        assert_eq!(order.turn(b), None, "answered");
        assert_eq!((order.len(), order.waiting_bytes()), (3, 1));
        assert_eq!(order.pop_ready(), None);
        assert_eq!(order.turn(a), Some(Turn::Now));
        order.pop();
        assert_eq!(order.pop_ready().as_deref(), Some(&b"b"[..]));
        assert_eq!(order.pop_ready(), None);
        assert_eq!(order.turn(c), Some(Turn::Now));
        assert_eq!(order.turn(a), None, "long gone");
        assert_eq!(order.turn(c + 1), None, "never was");
        assert_eq!((order.len(), order.waiting_bytes()), (1, 0));
    }
}
