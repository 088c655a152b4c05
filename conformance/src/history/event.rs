//! The events of a history.

/// How a client ended a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Accepted,
    /// Invalid: dead-lettered or dropped.
    Rejected,
    /// Untouched, back to the queue.
    Released,
    /// Back to the queue, the attempt counts.
    Failed,
    /// Never again: dead-lettered or dropped.
    Undeliverable,
}

impl Outcome {
    /// All of them with their names in a line.
    pub(super) const NAMES: [(Self, &'static str); 5] = [
        (Self::Accepted, "accepted"),
        (Self::Rejected, "rejected"),
        (Self::Released, "released"),
        (Self::Failed, "failed"),
        (Self::Undeliverable, "undeliverable"),
    ];

    /// Whether the message is gone from its queue after it.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Accepted | Self::Rejected | Self::Undeliverable)
    }
}

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds.
    pub t: u64,
    /// The client process: one link each.
    pub p: String,
    /// What happened.
    pub what: What,
}

/// What happened. Fields have the short names of the lines: `q` queue, `m` message, `d` delivery, `h` hash of the
/// payload, `k` ordering key, `n` the producer's counter within the key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are explained above")]
pub enum What {
    /// A message is about to be sent.
    SendInv {
        q: String,
        m: String,
        k: Option<String>,
        n: Option<u64>,
        h: String,
        /// It must survive a crash.
        dur: bool,
    },
    /// The broker took it.
    SendOk {
        m: String,
        /// Its offset, in a log.
        off: Option<u64>,
    },
    /// The broker says that it did not take it.
    SendFail { m: String, why: String },
    /// Nobody knows: the connection was lost, or nothing was to be answered.
    SendInfo { m: String },
    /// A message was delivered.
    Recv {
        q: String,
        m: String,
        h: String,
        d: String,
        k: Option<String>,
        n: Option<u64>,
        /// The delivery-count that the broker told.
        c: Option<u64>,
        /// The offset, in a log.
        off: Option<u64>,
    },
    /// A delivery is about to be settled.
    SettleInv { d: String, o: Outcome },
    /// The broker confirmed the settlement.
    SettleOk { d: String },
    /// The client's link is over: what it held returns.
    Gone,
    /// A fault begins, or is healed.
    Fault {
        is_start: bool,
        kind: String,
        node: String,
    },
    /// A queue's rules from here on.
    Queue {
        q: String,
        /// Failed deliveries after which a message leaves.
        max: Option<u64>,
        /// Where it goes then.
        dlq: Option<String>,
        /// `log`, or a queue.
        is_log: bool,
        /// One offset a message.
        dedup: bool,
        /// One unsettled message a key; what returns is not overtaken.
        lock: bool,
    },
    /// A purge or deletion of a queue, or the expiry (`m`) of one message.
    Admin {
        kind: String,
        q: String,
        m: Option<String>,
    },
    /// The queue was consumed until it was empty.
    Drain { q: String },
}
