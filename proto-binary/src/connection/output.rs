//! Bytes on their way out: frames are written one behind the other into a scratch buffer, large payloads pass
//! through as the slices that they are.
//!
//! Nothing is kept while there is nothing to send: an idle connection owns no buffer. The next buffer is made as
//! large as the last ones turned out, so that a busy connection makes one per hand-over.

use alloc::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

/// The scratch buffer never starts larger than this.
const START_MAX: usize = 64 * 1024;
/// Bytes before that at which another one begins: to grow a buffer of this size is to copy it.
const MARGIN: usize = 1_024;
const START_MIN: usize = 128;
/// Payload slices of at least this size are not copied.
pub(super) const SLICE_MIN: usize = 16 * 1024;

/// Output that the driver has not taken.
#[derive(Debug, Default)]
pub(super) struct Output {
    scratch: BytesMut,
    ready: VecDeque<Bytes>,
    ready_bytes: usize,
    start_size: usize,
}

impl Output {
    pub(super) fn len(&self) -> usize {
        self.ready_bytes + self.scratch.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.scratch.is_empty()
    }

    /// The buffer to write to.
    pub(super) fn buf(&mut self) -> &mut BytesMut {
        if self.scratch.len() > START_MAX - MARGIN {
            self.seal();
        }
        if self.scratch.capacity() == 0 {
            self.scratch
                .reserve(self.start_size.clamp(START_MIN, START_MAX));
        }
        &mut self.scratch
    }

    /// Appends payload bytes, by reference where that is cheaper.
    pub(super) fn push_payload(&mut self, payload: &Bytes) {
        if payload.len() < SLICE_MIN {
            self.buf().put_slice(payload);
            return;
        }
        self.seal();
        self.ready_bytes += payload.len();
        self.ready.push_back(payload.clone());
    }

    /// Moves what is written to the driver's queue, `budget` bytes at most. Returns the bytes moved.
    pub(super) fn drain(&mut self, out: &mut VecDeque<Bytes>, budget: usize) -> usize {
        if self.ready.is_empty() && !self.scratch.is_empty() && self.scratch.len() <= budget {
            // The common case does not pass through the queue.
            let full = self.take_scratch();
            let moved = full.len();
            out.push_back(full);
            return moved;
        }
        self.seal();
        let mut moved = 0;
        while moved < budget
            && let Some(mut front) = self.ready.pop_front()
        {
            if front.len() > budget - moved {
                let rest = front.split_off(budget - moved);
                self.ready.push_front(rest);
            }
            moved += front.len();
            self.ready_bytes -= front.len();
            out.push_back(front);
        }
        if self.ready.is_empty() && self.ready.capacity() > 0 {
            self.ready = VecDeque::new();
        }
        moved
    }

    /// Forgets everything: the socket is gone.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn seal(&mut self) {
        if self.scratch.is_empty() {
            return;
        }
        let full = self.take_scratch();
        self.ready_bytes += full.len();
        self.ready.push_back(full);
    }

    fn take_scratch(&mut self) -> Bytes {
        let full = core::mem::take(&mut self.scratch);
        self.start_size = full.len().max(self.start_size / 2).next_power_of_two();
        full.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::{Output, SLICE_MIN, START_MAX};
    use alloc::collections::VecDeque;
    use alloc::vec;
    use bytes::{BufMut, Bytes};

    #[test]
    fn budget_is_kept_and_order_too() {
        let mut output = Output::default();
        output.buf().put_slice(b"head");
        let large = Bytes::from(vec![7; SLICE_MIN]);
        output.push_payload(&large);
        output.buf().put_slice(b"tail");
        assert_eq!(output.len(), SLICE_MIN + 8);
        let mut out = VecDeque::new();
        assert_eq!(output.drain(&mut out, 3), 3);
        assert_eq!(output.drain(&mut out, 10), 10);
        assert_eq!(output.drain(&mut out, usize::MAX), SLICE_MIN + 8 - 13);
        assert_eq!((output.is_empty(), output.len()), (true, 0));
        let all: vec::Vec<u8> = out.iter().flatten().copied().collect();
        assert_eq!(
            (&all[..4], &all[4..4 + SLICE_MIN], &all[4 + SLICE_MIN..]),
            (&b"head"[..], &large[..], &b"tail"[..])
        );
    }

    #[test]
    fn much_output_is_many_buffers_and_none_is_copied_to_grow() {
        let mut output = Output::default();
        let mut out = VecDeque::new();
        // The first round learns how much it is.
        for _ in 0..2 {
            out.clear();
            for n in 0..10_000_u32 {
                output.buf().put_slice(&[n as u8; 100]);
            }
            assert_eq!(output.drain(&mut out, usize::MAX), 1_000_000);
        }
        assert!(out.iter().all(|bytes| bytes.len() <= START_MAX));
        let all = out.iter().flatten().copied();
        let expected = (0..10_000_u32).flat_map(|n| [n as u8; 100]);
        assert!(all.eq(expected));
    }
}
