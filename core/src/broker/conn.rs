//! Connections as the broker sees them: ports and an outbox.

use std::collections::{BTreeMap, VecDeque};

use slab::Slab;

use crate::admin::ConnAbout;

use super::Action;
use crate::vocab::{ConnId, Notice, Port, QueueId};

/// Low bits of a port that make its index; what is above them tells generations apart.
const SLOT_MASK: u32 = 0xfff;

/// Emptied notice vectors that are kept, and how long one may be.
const SPARE_MAX: usize = 16;
const SPARE_LEN_MAX: usize = 4_096;

/// What a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortKind {
    /// Slot of the producer.
    Producer(usize),
    /// Slot of the consumer.
    Consumer(usize),
}

/// One connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) id: ConnId,
    ports: Vec<Option<(Port, PortKind)>>,
    out: Vec<Notice>,
    is_noisy: bool,
    /// What it said about itself.
    pub(super) about: Option<Box<ConnAbout>>,
    /// Wall clock, milliseconds since the Unix epoch.
    pub(super) connected_at_ms: i64,
    /// How many of its ports are producers.
    pub(super) producers: usize,
    /// How many of those may send what is to be stored.
    pub(super) storers: usize,
    /// It was told of memory pressure.
    pub(super) is_pressed: bool,
    /// Streams that keep a position for it under a name of its own, and that name.
    pub(super) own_offsets: BTreeMap<(usize, QueueId), String>,
    /// Open sessions, as it says.
    pub(super) sessions: u32,
}

impl Conn {
    pub(super) fn new(id: ConnId, connected_at_ms: i64) -> Self {
        Self {
            id,
            ports: Vec::new(),
            out: Vec::new(),
            is_noisy: false,
            about: None,
            connected_at_ms,
            producers: 0,
            storers: 0,
            is_pressed: false,
            own_offsets: BTreeMap::new(),
            sessions: 0,
        }
    }

    #[inline]
    pub(super) fn port(&self, port: Port) -> Option<PortKind> {
        match self.ports.get((port.0 & SLOT_MASK) as usize) {
            Some(&Some((known, kind))) if known == port => Some(kind),
            _ => None,
        }
    }

    /// Whether another port stands at the index of `port`.
    pub(super) fn is_taken(&self, port: Port) -> bool {
        self.ports
            .get((port.0 & SLOT_MASK) as usize)
            .is_some_and(Option::is_some)
    }

    pub(super) fn insert_port(&mut self, port: Port, kind: PortKind) {
        let index = (port.0 & SLOT_MASK) as usize;
        if self.ports.len() <= index {
            self.ports.resize(index + 1, None);
        }
        debug_assert!(self.ports[index].is_none(), "the caller looked");
        self.ports[index] = Some((port, kind));
    }

    pub(super) fn remove_port(&mut self, port: Port) -> Option<PortKind> {
        let kind = self.port(port)?;
        self.ports[(port.0 & SLOT_MASK) as usize] = None;
        Some(kind)
    }

    /// Its ports and what they are.
    pub(super) fn ports(&self) -> impl Iterator<Item = (Port, PortKind)> + '_ {
        self.ports.iter().flatten().copied()
    }

    pub(super) fn open_ports(&self) -> Vec<Port> {
        self.ports.iter().flatten().map(|(port, _)| *port).collect()
    }
}

/// All connections, and which of them have something to hear.
#[derive(Debug, Default)]
pub(super) struct Conns {
    slots: Slab<Conn>,
    noisy: Vec<usize>,
    /// Emptied vectors for the next outboxes: a connection with nothing to hear has none.
    spare: Vec<Vec<Notice>>,
}

impl Conns {
    pub(super) fn insert(&mut self, conn: Conn) -> usize {
        self.slots.insert(conn)
    }

    pub(super) fn remove(&mut self, slot: usize) {
        self.slots.remove(slot);
        self.noisy.retain(|noisy| *noisy != slot);
    }

    #[inline]
    pub(super) fn conn(&self, slot: usize) -> &Conn {
        &self.slots[slot]
    }

    #[inline]
    pub(super) fn conn_mut(&mut self, slot: usize) -> &mut Conn {
        &mut self.slots[slot]
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Sessions of all of them.
    pub(super) fn sessions(&self) -> u64 {
        let open = self.slots.iter();
        open.map(|(_, conn)| u64::from(conn.sessions)).sum()
    }

    /// A bound of all slots.
    pub(super) fn slots_end(&self) -> usize {
        self.slots.capacity()
    }

    /// Whether there is a connection in that slot.
    pub(super) fn is_used(&self, slot: usize) -> bool {
        self.slots.contains(slot)
    }

    pub(super) fn slots(&self) -> Vec<usize> {
        self.slots.iter().map(|(slot, _)| slot).collect()
    }

    /// Whether the slot still belongs to that connection.
    pub(super) fn is_at(&self, slot: usize, id: ConnId) -> bool {
        self.slots.get(slot).is_some_and(|conn| conn.id == id)
    }

    /// Appends to the outbox of a connection.
    #[inline]
    pub(super) fn tell(&mut self, slot: usize, notice: Notice) {
        let conn = &mut self.slots[slot];
        if !conn.is_noisy {
            conn.is_noisy = true;
            conn.out = self.spare.pop().unwrap_or_default();
            self.noisy.push(slot);
        }
        conn.out.push(notice);
    }

    /// Keeps an emptied vector for the next outbox.
    pub(super) fn recycle(&mut self, mut notices: Vec<Notice>) {
        if self.spare.len() < SPARE_MAX && notices.capacity() <= SPARE_LEN_MAX {
            notices.clear();
            self.spare.push(notices);
        }
    }

    /// Turns every outbox into an action.
    pub(super) fn hand_out(&mut self, actions: &mut VecDeque<Action>) {
        for slot in self.noisy.drain(..) {
            let conn = &mut self.slots[slot];
            conn.is_noisy = false;
            let notices = std::mem::take(&mut conn.out);
            actions.push_back(Action::Notify {
                conn: conn.id,
                notices,
            });
        }
    }
}
