//! What goes into the broker and what comes out of it.

use std::time::Duration;

use crate::admin::{Reply, Request};
use crate::store::{Batch, Fetch, StoreEvent};
use crate::vocab::{Command, ConnId, Notice, Refusal};

/// The two clocks of one moment, read by the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic, since the driver's epoch. Every deadline is measured with it.
    pub mono: Duration,
    /// Wall clock, milliseconds since the Unix epoch. Only for what users read and for absolute expiry.
    pub wall_ms: i64,
}

/// What the driver tells the broker.
#[derive(Debug)]
pub enum Event {
    /// A connection passed its hand-shake.
    Connected {
        /// Which.
        conn: ConnId,
    },
    /// A face's commands, in order.
    Commands {
        /// Whose.
        conn: ConnId,
        /// The commands.
        commands: Vec<Command>,
    },
    /// A connection is gone; its ports are closed as lost.
    Disconnected {
        /// Which.
        conn: ConnId,
    },
    /// The store answers.
    Store(StoreEvent),
    /// An operator asks; answered by [`Action::Reply`].
    Admin {
        /// The driver's number for the request.
        ticket: u64,
        /// What is asked.
        request: Box<Request>,
    },
}

/// What the broker asks of the driver, in causal order.
#[derive(Debug)]
pub enum Action {
    /// Make this batch safe, then answer with [`StoreEvent::Persisted`].
    Persist(Batch),
    /// Read bodies.
    Fetch(Fetch),
    /// Hand these to the face of a connection.
    Notify {
        /// Whose.
        conn: ConnId,
        /// The notices, in order.
        notices: Vec<Notice>,
    },
    /// The answer to [`Event::Admin`].
    Reply {
        /// The driver's number for the request.
        ticket: u64,
        /// The answer.
        reply: Box<Reply>,
    },
    /// Close a connection.
    Disconnect {
        /// Which.
        conn: ConnId,
        /// Why.
        refusal: Refusal,
    },
    /// The store failed: end the process with a non-zero status after telling the clients.
    Fail {
        /// For people.
        text: String,
    },
}
