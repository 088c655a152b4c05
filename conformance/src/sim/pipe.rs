//! Byte streams between clients and the node: cut, joined, delayed, stalled, reset and silent, by seed.

use std::collections::VecDeque;

use super::plan::{Fault, Plan};
use super::random::Random;

/// Nanoseconds in a millisecond.
pub(super) const MS: u64 = 1_000_000;

/// What arrives at an end of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Bytes(Vec<u8>),
    /// The other end closed in order.
    End,
    /// The stream is broken.
    Reset,
}

/// One direction.
#[derive(Debug, Default)]
struct Way {
    /// What is under way: arrival time, content.
    under_way: VecDeque<(u64, Arrival)>,
    /// Nothing arrives before.
    stalled_until: u64,
    is_closed: bool,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Toward {
    Broker,
    Client,
}

/// A stream with its two directions.
#[derive(Debug)]
pub(super) struct Pipe {
    to_broker: Way,
    to_client: Way,
    random: Random,
    delay_max: u64,
    is_cut: bool,
    stall_per_mille: u64,
    /// Bytes vanish from now on, and nobody is told.
    is_silent: bool,
}

impl Pipe {
    pub(super) fn new(plan: &Plan, number: u64) -> Self {
        let mut random = Random::fork(plan.seed, 2, number);
        let delay_max = if plan.has(Fault::Delay) {
            [200, 5 * 1_000, 60 * 1_000][random.index(3)] * 1_000
        } else {
            100_000
        };
        Self {
            to_broker: Way::default(),
            to_client: Way::default(),
            delay_max,
            is_cut: plan.has(Fault::Cut),
            stall_per_mille: if plan.has(Fault::Stall) { 5 } else { 0 },
            is_silent: false,
            random,
        }
    }

    fn way(&mut self, toward: Toward) -> &mut Way {
        match toward {
            Toward::Broker => &mut self.to_broker,
            Toward::Client => &mut self.to_client,
        }
    }

    /// No more trouble from now on; what is under way arrives at once.
    pub(super) fn heal(&mut self, now: u64) {
        (self.delay_max, self.is_cut, self.stall_per_mille) = (100_000, false, 0);
        for way in [&mut self.to_broker, &mut self.to_client] {
            way.stalled_until = now;
            for (at, _) in &mut way.under_way {
                *at = (*at).min(now);
            }
        }
    }

    pub(super) const fn is_silent(&self) -> bool {
        self.is_silent
    }

    pub(super) fn fall_silent(&mut self) {
        self.is_silent = true;
    }

    fn arrival_time(&mut self, now: u64, toward: Toward) -> u64 {
        let delay = 1 + self.random.below(self.delay_max);
        let way = self.way(toward);
        let last = way.under_way.back().map_or(0, |(at, _)| *at);
        (now + delay).max(last).max(way.stalled_until)
    }

    /// Writes bytes; returns when the next of all that is under way arrives.
    pub(super) fn write(&mut self, now: u64, toward: Toward, bytes: &[u8]) -> Option<u64> {
        if self.is_silent || self.way(toward).is_closed {
            return None;
        }
        if self.random.is_lucky(self.stall_per_mille) {
            let stall = self.random.within(1, 20_000) * MS;
            let way = self.way(toward);
            way.stalled_until = way.stalled_until.max(now + stall);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let size = if self.is_cut && self.random.is_lucky(700) {
                let most = [1, 8, 100][self.random.index(3)];
                (1 + self.random.index(most)).min(rest.len())
            } else {
                rest.len()
            };
            let at = self.arrival_time(now, toward);
            let (piece, left) = rest.split_at(size);
            self.way(toward)
                .under_way
                .push_back((at, Arrival::Bytes(piece.to_vec())));
            rest = left;
        }
        self.next_at(toward)
    }

    /// The writer's end is closed in order: what is under way still arrives.
    pub(super) fn end(&mut self, now: u64, toward: Toward) -> Option<u64> {
        if self.is_silent || self.way(toward).is_closed {
            return None;
        }
        let at = self.arrival_time(now, toward);
        let way = self.way(toward);
        way.is_closed = true;
        way.under_way.push_back((at, Arrival::End));
        self.next_at(toward)
    }

    /// The stream breaks: some of what is under way is lost, then the end is heard of.
    pub(super) fn reset(&mut self, now: u64, toward: Toward) -> Option<u64> {
        if self.is_silent || self.way(toward).is_closed {
            return None;
        }
        let kept = {
            let count = self.way(toward).under_way.len() as u64;
            self.random.below(count + 1) as usize
        };
        self.way(toward).under_way.truncate(kept);
        let at = self.arrival_time(now, toward);
        let way = self.way(toward);
        way.is_closed = true;
        way.under_way.push_back((at, Arrival::Reset));
        self.next_at(toward)
    }

    /// When the next thing arrives.
    pub(super) fn next_at(&mut self, toward: Toward) -> Option<u64> {
        self.way(toward).under_way.front().map(|(at, _)| *at)
    }

    /// What has arrived: bytes that came until now are joined.
    pub(super) fn read(&mut self, now: u64, toward: Toward) -> Option<Arrival> {
        let way = self.way(toward);
        let is_due = |way: &Way| way.under_way.front().is_some_and(|(at, _)| *at <= now);
        if !is_due(way) {
            return None;
        }
        let (_, first) = way.under_way.pop_front()?;
        let Arrival::Bytes(mut bytes) = first else {
            return Some(first);
        };
        while is_due(way)
            && let Some((_, Arrival::Bytes(more))) = way.under_way.front()
        {
            bytes.extend_from_slice(more);
            way.under_way.pop_front();
        }
        Some(Arrival::Bytes(bytes))
    }
}
