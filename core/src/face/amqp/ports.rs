//! The face's table of producers and consumers.
//!
//! A [`Port`] is a slot with a generation: late notices for a port that is gone name an old generation and fall on
//! the floor, and a look-up is one index.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use qq_proto_amqp::connection::{IncomingId, LinkId};
use qq_proto_amqp::performative::{Attach, DeliveryState};

use crate::schema::Rule;
use crate::vocab::Port;

const SLOT_BITS: u32 = 12;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;

/// A link whose answer from the broker is outstanding keeps what the reply needs.
pub(super) type PendingAttach = Option<Box<Attach>>;

/// One publish without a verdict.
#[derive(Debug)]
pub(super) struct Unanswered {
    /// The delivery to settle; none when the sender settled it.
    pub(super) delivery: Option<IncomingId>,
    /// Bytes that it holds of the face's window.
    pub(super) cost: u32,
    /// The transaction that it belongs to.
    pub(super) txn: Option<u64>,
    /// Has its verdict, but an older one has not.
    pub(super) is_answered: bool,
}

/// A link on which the peer sends.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) attach: PendingAttach,
    /// The node's name, for error texts.
    pub(super) name: String,
    /// What the node asks of messages.
    pub(super) rule: Option<Arc<Rule>>,
    pub(super) is_exchange: bool,
    /// The peer takes `released` as an outcome.
    pub(super) takes_released: bool,
    /// Ticket of the front of `unanswered`.
    pub(super) first_ticket: u64,
    pub(super) unanswered: VecDeque<Unanswered>,
    /// Of a link in the second mode: deliveries that have their outcome and wait for the peer to settle them. They hold
    /// credit, so that a peer which never does cannot make us keep more.
    pub(super) unfinished: Option<BTreeSet<u32>>,
}

/// A link on which the peer receives.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) attach: PendingAttach,
    /// Largest message that the peer takes, bytes; 0 = any.
    pub(super) message_size_max: u64,
    /// Deliveries are settled when sent.
    pub(super) is_settled: bool,
    /// It reads a stream: deliveries carry their offset.
    pub(super) is_stream: bool,
    /// Deliveries that the broker handed over since the opening.
    pub(super) seen: u64,
    /// The permit that the broker has.
    pub(super) limit: u64,
    /// The peer wants its credit used up or given back.
    pub(super) is_draining: bool,
    /// The broker has a permit with the drain mark and has not answered.
    pub(super) is_drain_asked: bool,
    /// Drains that a newer permit followed, or that the peer took back: their answers are still to come, and say
    /// nothing about what is asked now.
    pub(super) stale_drains: u32,
    /// Annotations that former consumers added, for the few deliveries that have any.
    pub(super) annotations: BTreeMap<u64, Bytes>,
    /// Outcomes that take effect with a transaction, by delivery.
    pub(super) retired: BTreeMap<u64, super::txn::Retired>,
    /// Settlements that the broker confirms before the peer hears of them.
    pub(super) confirming: BTreeMap<u64, DeliveryState>,
}

#[derive(Debug)]
pub(super) enum PortState {
    Producer(Producer),
    Consumer(Consumer),
    /// A control link of transactions, unknown to the broker.
    Coordinator {
        /// Messages since its credit was renewed.
        used: u32,
        /// The peer takes `rejected` as an answer.
        takes_rejected: bool,
    },
    /// A link to `$management`, unknown to the broker.
    Manager {
        /// Requests whose answers are not on their way.
        held: u32,
    },
    /// A link from `$management`, unknown to the broker.
    Replies(super::manage::Replies),
}

impl PortState {
    /// Whether the link ends in the broker.
    pub(super) const fn is_of_broker(&self) -> bool {
        matches!(self, Self::Producer(_) | Self::Consumer(_))
    }
}

#[derive(Debug)]
pub(super) struct PortEntry {
    pub(super) port: Port,
    pub(super) link: LinkId,
    pub(super) state: PortState,
}

#[derive(Debug, Default)]
pub(super) struct Ports {
    slots: Vec<Option<PortEntry>>,
    generations: Vec<u32>,
    free: Vec<u32>,
    by_link: Vec<Option<Port>>,
}

impl Ports {
    /// Adds a link. Links are bounded by the connection (1,024), far below the 4,096 slots.
    pub(super) fn insert(&mut self, link: LinkId, state: PortState) -> Port {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.generations.push(0);
            u32::try_from(self.slots.len() - 1).expect("the connection bounds its links")
        });
        assert!(
            slot <= SLOT_MASK,
            "the connection bounds its links below the slots of a face"
        );
        let port = Port((self.generations[slot as usize] << SLOT_BITS) | slot);
        self.slots[slot as usize] = Some(PortEntry { port, link, state });
        if self.by_link.len() <= link.index() {
            self.by_link.resize(link.index() + 1, None);
        }
        self.by_link[link.index()] = Some(port);
        port
    }

    pub(super) fn entry(&mut self, port: Port) -> Option<&mut PortEntry> {
        let entry = self
            .slots
            .get_mut((port.0 & SLOT_MASK) as usize)?
            .as_mut()?;
        (entry.port == port).then_some(entry)
    }

    pub(super) fn entry_of(&mut self, link: LinkId) -> Option<&mut PortEntry> {
        let port = (*self.by_link.get(link.index())?)?;
        self.entry(port).filter(|entry| entry.link == link)
    }

    pub(super) fn remove(&mut self, port: Port) -> Option<PortEntry> {
        let slot = port.0 & SLOT_MASK;
        self.entry(port)?;
        let entry = self.slots[slot as usize].take()?;
        // 20 bits of generation: a slot comes round after a million links, long after its last notice.
        let generation = &mut self.generations[slot as usize];
        *generation = (*generation + 1) & (u32::MAX >> SLOT_BITS);
        self.free.push(slot);
        if self.by_link.get(entry.link.index()) == Some(&Some(port)) {
            self.by_link[entry.link.index()] = None;
        }
        Some(entry)
    }

    pub(super) fn ports(&self) -> Vec<Port> {
        self.slots
            .iter()
            .flatten()
            .map(|entry| entry.port)
            .collect()
    }
}
