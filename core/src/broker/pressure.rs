//! Memory and disk get short: publishers lose their credit first, and are refused when that does not help.
//!
//! Memory concerns everybody, disk only those whose messages are stored. Consumers are never held up, since they are
//! what makes room.

use super::Broker;
use crate::vocab::Notice;

impl Broker {
    /// Tells connections with producers when memory gets short, and when it is well again: an eighth below the mark, so
    /// that it does not flicker.
    pub(super) fn tell_pressure(&mut self) {
        let high = self.config.limits.memory_high_bytes;
        let is_short = if self.is_memory_short {
            self.bytes >= high - high / 8
        } else {
            self.bytes > high
        };
        if is_short == self.is_memory_short {
            return;
        }
        self.is_memory_short = is_short;
        log::info!(
            "memory pressure {}: {} bytes queued",
            if is_short { "begins" } else { "ends" },
            self.bytes
        );
        self.press_all();
    }

    /// The disk gets full, or is well again; the store says so with a distance between the two.
    pub(super) fn on_room(&mut self, is_short: bool) {
        if self.is_disk_short == is_short {
            return;
        }
        self.is_disk_short = is_short;
        if is_short {
            log::warn!("the disk gets full: durable messages are refused until there is room");
        } else {
            log::info!("the disk has room again");
        }
        self.press_all();
    }

    fn press_all(&mut self) {
        for slot in self.conns.slots() {
            self.press(slot);
        }
    }

    /// Tells one connection how memory and disk stand, if it has producers that are concerned and does not know.
    pub(super) fn press(&mut self, slot: usize) {
        let conn = self.conns.conn_mut(slot);
        let on =
            self.is_memory_short && conn.producers > 0 || self.is_disk_short && conn.storers > 0;
        // One that closed its producers meanwhile hears of the end all the same.
        if conn.is_pressed != on {
            conn.is_pressed = on;
            self.conns.tell(slot, Notice::Pressure { on });
        }
    }
}
