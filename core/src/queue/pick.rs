//! What a consumer with a filter needs of a backlog: every message in turn, and bodies put back one by one.

use std::sync::Arc;

use super::{Backlog, Clock};
use crate::vocab::Message;

impl Backlog {
    /// The first live message at or after a position, whoever has it.
    pub(crate) fn live_from(&self, seq: u64) -> Option<u64> {
        self.entries.live_from(seq)
    }

    /// Makes a message ready to be acquired, far from its turn: unpacks it, and gives it its body back, which somebody
    /// fetched for itself. Returns what the body costs now, if it was away.
    pub(crate) fn make_ready(&mut self, seq: u64, message: Arc<Message>, at: Clock) -> usize {
        self.unpack(seq, at);
        let Some(entry) = self.entries.entry_mut(seq).filter(|entry| entry.is_away()) else {
            return 0;
        };
        entry.bring_back(message);
        self.away -= 1;
        self.away_bytes -= entry.payload_len as usize;
        entry.cost()
    }
}
