//! The thread of the store: takes what waits, makes it safe in one go, answers. Slow, stalled, full or broken by seed.

use std::collections::VecDeque;

use qq_core::store::{Batch, Fetch, Store, StoreEvent};
use qq_store_mem::{FlushFault, Ledger};

use super::{Wake, World};
use crate::sim::pipe::MS;
use crate::sim::plan::{Fault, Plan};
use crate::sim::random::Random;

/// See the module.
pub(super) struct Disk {
    pub(super) batches: VecDeque<Batch>,
    pub(super) fetches: VecDeque<Fetch>,
    is_busy: bool,
    is_room_short: bool,
    random: Random,
    latency_max: u64,
    /// Nothing is done before.
    pub(super) stalled_until: u64,
    /// Moments at which a crash makes a difference, so far.
    pub(super) boundaries: u64,
    /// Crash at the boundary of this number.
    pub(super) crash_at: Option<u64>,
}

impl Disk {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut random = Random::fork(plan.seed, 4, 0);
        let latency_max = if plan.has(Fault::SlowStore) {
            [20, 200, 1_000][random.index(3)] * MS
        } else {
            MS
        };
        Self {
            batches: VecDeque::new(),
            fetches: VecDeque::new(),
            is_busy: false,
            is_room_short: false,
            random,
            latency_max,
            stalled_until: 0,
            boundaries: 0,
            crash_at: plan.crash_at,
        }
    }

    /// The process is gone with all that it had not handed over.
    pub(super) fn lose_all(&mut self) {
        self.batches.clear();
        self.fetches.clear();
        self.is_busy = false;
        self.is_room_short = false;
    }

    /// Whether something is being done.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    pub(super) fn heal(&mut self) {
        self.latency_max = MS;
        self.stalled_until = 0;
    }
}

impl World {
    /// A moment at which a crash makes a difference; says whether there was one.
    fn boundary(&mut self) -> bool {
        self.disk.boundaries += 1;
        let is_due = self.disk.crash_at == Some(self.disk.boundaries);
        if is_due {
            self.disk.crash_at = None;
            self.crash();
        }
        is_due
    }

    pub(super) fn start_disk(&mut self) {
        let has_work = !self.disk.batches.is_empty() || !self.disk.fetches.is_empty();
        if self.disk.is_busy || !has_work || self.boundary() {
            return;
        }
        self.disk.is_busy = true;
        for batch in std::mem::take(&mut self.disk.batches) {
            self.ledger.submit(batch);
        }
        if self.boundary() {
            return;
        }
        let latency = 1 + self.disk.random.below(self.disk.latency_max);
        let at = (self.now + latency).max(self.disk.stalled_until);
        self.wake(at, Wake::Disk(self.process));
    }

    pub(super) fn on_disk(&mut self, process: u64) {
        let is_for_us = process == self.process && self.node.is_some() && self.disk.is_busy;
        if !is_for_us || self.boundary() {
            return;
        }
        match self.ledger.flush() {
            Ok(newest) => {
                if let Some(upto) = newest {
                    self.mirror.on_flushed(upto);
                }
                if self.boundary() {
                    return;
                }
                self.disk.is_busy = false;
                if let Some(upto) = newest {
                    self.tell_store(StoreEvent::Persisted { upto });
                }
            }
            Err(error) if !Ledger::is_final(&error) => {
                // Tried again, as a driver does.
                self.wake(self.now + 200 * MS, Wake::Disk(process));
            }
            Err(error) => {
                self.disk.is_busy = false;
                return self.tell_store(StoreEvent::Failed { text: error.text });
            }
        }
        self.serve_fetches(process);
        self.tell_room(process);
    }

    fn serve_fetches(&mut self, process: u64) {
        while process == self.process
            && self.node.is_some()
            && let Some(fetch) = self.disk.fetches.pop_front()
        {
            let event = match self.ledger.fetch(&fetch) {
                Ok(messages) => StoreEvent::Fetched { fetch, messages },
                Err(error) => StoreEvent::FetchFailed {
                    fetch,
                    text: error.text,
                },
            };
            self.tell_store(event);
        }
    }

    fn tell_room(&mut self, process: u64) {
        let is_short = self.ledger.is_short_of_room();
        if process == self.process && is_short != self.disk.is_room_short {
            self.disk.is_room_short = is_short;
            self.tell_store(StoreEvent::Room { is_short });
        }
    }

    /// Room for so many bytes from now on.
    pub(super) fn set_quota(&mut self, bytes: Option<usize>) {
        self.ledger.set_quota(bytes);
        if self.node.is_some() {
            self.tell_room(self.process);
        }
    }

    /// The next sync fails.
    pub(super) fn break_disk(&mut self) {
        self.ledger.fail_next_flush(FlushFault::Fatal);
    }
}
