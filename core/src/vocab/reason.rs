//! Why something was refused: one list for every protocol; each face maps it to its own words.

/// The kind of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No such node.
    NotFound,
    /// The node was deleted.
    Deleted,
    /// A newer link of the same name took over.
    Stolen,
    /// An operator closed it.
    Forced,
    /// Held exclusively by somebody else.
    Locked,
    /// A limit was reached: queue full, too many nodes, memory.
    LimitExceeded,
    /// The disk of the store is nearly full.
    DiskFull,
    /// The request contradicts itself or the rules for names.
    Invalid,
    /// Not allowed for this peer.
    NotAllowed,
    /// Known to the protocol but not offered here.
    NotImplemented,
    /// The node is going down.
    Shutdown,
    /// The message could not be understood.
    Undecodable,
    /// The store failed.
    Internal,
}

/// A refusal with a text that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind.
    pub reason: Reason,
    /// For people.
    pub text: String,
}
