//! A whole node on one thread: the broker and its faces, driven by bytes and events.
//!
//! Tests, fuzzing and simulation drive this; the runtimes drive its two halves on threads of their own. It holds no
//! clock and no map with an order of its own, so equal inputs give equal outputs. A face's output is drained without
//! a bound, since whoever drives a `Node` has the memory for both ends.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::admin::{Reply, Request};
use crate::broker::{Action, Broker, Event, Now};
use crate::face::Face;
use crate::store::{Batch, Fetch, StoreEvent};
use crate::vocab::{Command, ConnId, Reason, Refusal};

/// Bytes asked of a face at a time.
const TRANSMIT_BUDGET: usize = 64 * 1024;

/// What the driver is to do, in causal order.
#[derive(Debug)]
pub enum Output {
    /// Write these bytes to a peer.
    Transmit {
        /// Which.
        conn: ConnId,
        /// The bytes.
        bytes: Bytes,
    },
    /// Make this batch safe, then answer with [`StoreEvent::Persisted`].
    Persist(Batch),
    /// Read bodies.
    Fetch(Fetch),
    /// Close a peer's socket once everything before this is written; the connection is forgotten already.
    Close {
        /// Which.
        conn: ConnId,
    },
    /// The answer to [`Node::manage`].
    Reply {
        /// The caller's number for the request.
        ticket: u64,
        /// The answer.
        reply: Box<Reply>,
    },
    /// The store failed: end with a non-zero status once everything before this is written.
    Fail {
        /// For people.
        text: String,
    },
}

struct Peer {
    face: Box<dyn Face>,
    is_announced: bool,
}

/// See the module.
pub struct Node {
    broker: Broker,
    peers: BTreeMap<ConnId, Peer>,
    /// Peers whose faces were given something since they were last asked.
    touched: BTreeSet<ConnId>,
    output: VecDeque<Output>,
    chunks: VecDeque<Bytes>,
}

impl Node {
    /// A node without connections around a broker that has recovered.
    #[must_use]
    pub fn new(broker: Broker) -> Self {
        Self {
            broker,
            peers: BTreeMap::new(),
            touched: BTreeSet::new(),
            output: VecDeque::new(),
            chunks: VecDeque::new(),
        }
    }

    /// The broker, to look at.
    #[must_use]
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Does something to the broker that no peer can (delete a queue), and what follows from it.
    pub fn administer<T>(&mut self, now: Now, action: impl FnOnce(&mut Broker) -> T) -> T {
        let result = action(&mut self.broker);
        self.run(now);
        result
    }

    /// An operator asks; answered by [`Output::Reply`].
    pub fn manage(&mut self, now: Now, ticket: u64, request: Request) {
        let request = Box::new(request);
        self.broker
            .handle_event(now, Event::Admin { ticket, request });
        self.run(now);
    }

    /// Adds a connection. A number that is in use already replaces the older one, as if that had been lost.
    pub fn connect(&mut self, now: Now, conn: ConnId, face: Box<dyn Face>) {
        self.forget(now, conn);
        self.peers.insert(
            conn,
            Peer {
                face,
                is_announced: false,
            },
        );
        self.touched.insert(conn);
        self.run(now);
    }

    /// Bytes of a peer arrived. What the face does not want yet stays in `input`; hand it in again with whatever follows.
    pub fn handle_input(&mut self, now: Now, conn: ConnId, input: &mut BytesMut) {
        while let Some(peer) = self
            .peers
            .get_mut(&conn)
            .filter(|peer| peer.face.wants_read())
        {
            let before = input.len();
            peer.face.handle_input(now, input);
            self.touched.insert(conn);
            self.run(now);
            if input.is_empty() || input.len() == before {
                break;
            }
        }
    }

    /// The peer will send no more.
    pub fn handle_eof(&mut self, now: Now, conn: ConnId) {
        if let Some(peer) = self.peers.get_mut(&conn) {
            peer.face.handle_eof(now);
            self.touched.insert(conn);
            self.run(now);
        }
    }

    /// The socket is gone.
    pub fn disconnect(&mut self, now: Now, conn: ConnId) {
        self.forget(now, conn);
        self.run(now);
    }

    /// The store answers.
    pub fn handle_store(&mut self, now: Now, event: StoreEvent) {
        self.broker.handle_event(now, Event::Store(event));
        self.run(now);
    }

    /// The time of [`Node::poll_timeout`] came.
    pub fn handle_timeout(&mut self, now: Now) {
        for (conn, peer) in &mut self.peers {
            if peer.face.poll_timeout().is_some_and(|at| at <= now.mono) {
                peer.face.handle_timeout(now);
                self.touched.insert(*conn);
            }
        }
        if self.broker.poll_timeout().is_some_and(|at| at <= now.mono) {
            self.broker.handle_timeout(now);
        }
        self.run(now);
    }

    /// Says good-bye to every peer; each ends with [`Output::Close`].
    pub fn shutdown(&mut self, now: Now) {
        let text = "the broker is shutting down; connect again later".to_owned();
        self.dismiss_all(
            now,
            &Refusal {
                reason: Reason::Shutdown,
                text,
            },
        );
        self.run(now);
    }

    /// The next thing for the driver to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// The moment at which [`Node::handle_timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.peers
            .values()
            .filter_map(|peer| peer.face.poll_timeout())
            .chain(self.broker.poll_timeout())
            .min()
    }

    /// Whether a connection is known and wants input.
    #[must_use]
    pub fn wants_read(&self, conn: ConnId) -> bool {
        self.peers
            .get(&conn)
            .is_some_and(|peer| peer.face.wants_read())
    }

    /// Whether a connection is known.
    #[must_use]
    pub fn is_connected(&self, conn: ConnId) -> bool {
        self.peers.contains_key(&conn)
    }

    /// Runs faces and broker until none of them has anything for another.
    fn run(&mut self, now: Now) {
        loop {
            self.collect_commands(now);
            self.broker.flush(now);
            self.take_actions(now);
            if self.touched.is_empty() {
                return;
            }
            self.collect_commands(now);
            let touched = std::mem::take(&mut self.touched);
            for conn in touched {
                self.transmit(now, conn);
            }
        }
    }

    /// Hands the commands of all touched faces to the broker; the faces stay touched.
    fn collect_commands(&mut self, now: Now) {
        for conn in &self.touched {
            let Some(peer) = self.peers.get_mut(conn) else {
                continue;
            };
            let mut commands: Vec<Command> = Vec::new();
            peer.face.poll_commands(&mut commands);
            if !peer.is_announced && (peer.face.is_authenticated() || !commands.is_empty()) {
                peer.is_announced = true;
                self.broker
                    .handle_event(now, Event::Connected { conn: *conn });
            }
            if !commands.is_empty() {
                self.broker.handle_event(
                    now,
                    Event::Commands {
                        conn: *conn,
                        commands,
                    },
                );
            }
        }
    }

    fn take_actions(&mut self, now: Now) {
        while let Some(action) = self.broker.poll_action() {
            match action {
                Action::Persist(batch) => self.output.push_back(Output::Persist(batch)),
                Action::Reply { ticket, reply } => {
                    self.output.push_back(Output::Reply { ticket, reply });
                }
                Action::Fetch(fetch) => self.output.push_back(Output::Fetch(fetch)),
                Action::Notify { conn, mut notices } => {
                    if let Some(peer) = self.peers.get_mut(&conn) {
                        peer.face.handle_notices(now, &mut notices);
                        self.touched.insert(conn);
                    }
                    self.broker.recycle_notices(notices);
                }
                Action::Disconnect { conn, refusal } => {
                    if let Some(peer) = self.peers.get_mut(&conn) {
                        peer.face.handle_shutdown(now, &refusal);
                        self.touched.insert(conn);
                    }
                }
                Action::Fail { text } => {
                    log::error!("the store failed: {text}");
                    let told = "the broker cannot store messages and stops".to_owned();
                    self.dismiss_all(
                        now,
                        &Refusal {
                            reason: Reason::Internal,
                            text: told,
                        },
                    );
                    let touched = std::mem::take(&mut self.touched);
                    for conn in touched {
                        self.transmit(now, conn);
                    }
                    self.output.push_back(Output::Fail { text });
                }
            }
        }
    }

    /// Takes a face's output. A face that had some may now have commands, so it is asked again; one that had none is
    /// asked for commands a last time and is then at rest.
    fn transmit(&mut self, now: Now, conn: ConnId) {
        let Some(peer) = self.peers.get_mut(&conn) else {
            return;
        };
        let mut had_output = false;
        while peer
            .face
            .poll_transmit(now, &mut self.chunks, TRANSMIT_BUDGET)
            > 0
        {
            had_output = true;
        }
        self.output.extend(
            self.chunks
                .drain(..)
                .map(|bytes| Output::Transmit { conn, bytes }),
        );
        if peer.face.is_done() {
            self.output.push_back(Output::Close { conn });
            self.forget(now, conn);
        } else if had_output {
            self.touched.insert(conn);
        }
    }

    fn forget(&mut self, now: Now, conn: ConnId) {
        if let Some(peer) = self.peers.remove(&conn)
            && peer.is_announced
        {
            self.broker.handle_event(now, Event::Disconnected { conn });
        }
        self.touched.remove(&conn);
    }

    fn dismiss_all(&mut self, now: Now, refusal: &Refusal) {
        for (conn, peer) in &mut self.peers {
            peer.face.handle_shutdown(now, refusal);
            self.touched.insert(*conn);
        }
    }
}
