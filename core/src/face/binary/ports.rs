//! The face's table of producers and consumers: a [`Port`] is a slot with a generation, so late notices for a port that
//! is gone fall on the floor.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use qq_proto_binary::connection::ReplyTo;

use super::publish::Unanswered;
use crate::schema::Rule;
use crate::vocab::{LockSpec, Port};

const SLOT_BITS: u32 = 12;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;

/// A queue that the peer publishes to.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) queue: String,
    /// What the queue asks of messages, as far as the broker has said.
    pub(super) rule: Option<Arc<Rule>>,
    /// Ticket of the front of `unanswered`.
    pub(super) first_ticket: u64,
    /// By ticket; none for those that have their verdict while an older one has not.
    pub(super) unanswered: VecDeque<Option<Unanswered>>,
}

/// A queue that the peer consumes.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) queue: String,
    /// The group that it is a member of, or reads a stream for; empty: none.
    pub(super) group: String,
    /// It reads a stream since a SEEK.
    pub(super) is_reader: bool,
    /// Deliveries without an answer that it may hold.
    pub(super) prefetch: u64,
    /// After how long a delivery without an answer returns.
    pub(super) lock: LockSpec,
    /// Deliveries count as acknowledged when they are sent.
    pub(super) is_auto: bool,
    pub(super) is_open: bool,
    /// Those who wait to hear that it is open.
    pub(super) waiting: Vec<ReplyTo>,
    /// Deliveries that the broker handed over since the opening.
    pub(super) seen: u64,
    /// How many of them have ended.
    pub(super) ended: u64,
    /// The permit that the broker has.
    pub(super) limit: u64,
    /// Settlements that somebody waits for, by their last delivery: the first one, and for whom.
    pub(super) confirming: BTreeMap<u64, (u64, usize)>,
}

#[derive(Debug)]
pub(super) enum PortState {
    Producer(Producer),
    Consumer(Consumer),
}

#[derive(Debug, Default)]
pub(super) struct Ports {
    slots: Vec<Option<(Port, PortState)>>,
    generations: Vec<u32>,
    free: Vec<u32>,
}

impl Ports {
    /// Takes a port that only its number is needed of.
    pub(super) fn reserve(&mut self) -> Port {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.generations.push(0);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        assert!(
            slot <= SLOT_MASK,
            "producers and consumers are bounded below the slots of a face"
        );
        Port((self.generations[slot as usize] << SLOT_BITS) | slot)
    }

    pub(super) fn insert(&mut self, state: PortState) -> Port {
        let port = self.reserve();
        self.slots[(port.0 & SLOT_MASK) as usize] = Some((port, state));
        port
    }

    pub(super) fn producer(&mut self, port: Port) -> Option<&mut Producer> {
        match self.state(port)? {
            PortState::Producer(producer) => Some(producer),
            PortState::Consumer(_) => None,
        }
    }

    pub(super) fn consumer(&mut self, port: Port) -> Option<&mut Consumer> {
        match self.state(port)? {
            PortState::Consumer(consumer) => Some(consumer),
            PortState::Producer(_) => None,
        }
    }

    fn state(&mut self, port: Port) -> Option<&mut PortState> {
        let (found, state) = self
            .slots
            .get_mut((port.0 & SLOT_MASK) as usize)?
            .as_mut()?;
        (*found == port).then_some(state)
    }

    pub(super) fn remove(&mut self, port: Port) -> Option<PortState> {
        self.state(port)?;
        let (_, state) = self.slots[(port.0 & SLOT_MASK) as usize].take()?;
        self.release(port);
        Some(state)
    }

    /// Gives a number back.
    pub(super) fn release(&mut self, port: Port) {
        let slot = port.0 & SLOT_MASK;
        // 20 bits of generation: a slot comes round after a million ports, long after its last notice.
        let generation = &mut self.generations[slot as usize];
        *generation = (*generation + 1) & (u32::MAX >> SLOT_BITS);
        self.free.push(slot);
    }
}
