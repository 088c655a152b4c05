//! What goes out: everything is encoded when it is said; the driver takes as much as its socket does.

use alloc::collections::VecDeque;
use core::time::Duration;

use bytes::Bytes;

use super::Connection;

impl Connection {
    /// Moves output to the driver's queue, `budget` bytes at most. Returns the bytes moved; 0 when there is nothing.
    pub fn poll_transmit(
        &mut self,
        now: Duration,
        out: &mut VecDeque<Bytes>,
        budget: usize,
    ) -> usize {
        self.see(now);
        let moved = self.output.drain(out, budget);
        if moved > 0 || self.output.is_empty() {
            self.timers.stuck_since = (!self.output.is_empty()).then_some(self.now);
        }
        moved
    }
}
