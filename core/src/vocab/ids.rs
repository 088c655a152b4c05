//! The names by which faces and broker point at things: newtypes, so that one cannot be passed for another.

/// A connection; given by the driver, never used twice in the life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// A producer or a consumer of one connection. Chosen by the face, never reused within the connection. Open ports differ
/// in their low 12 bits, which index the broker's table; the bits above tell apart those that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u32);

/// A face's number for one publish of a port: counts up by one from 0, so that confirmations can be ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A transaction of one connection. Chosen by the face, never reused within the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId(pub u64);

/// A queue or stream. Opaque to faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u64);

/// A message's position in its queue: gap-free when assigned, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// The broker's number for one delivery to one port: counts up by one from 0 per port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// What a queue asks of its messages, by the number of its [`crate::schema::Rule`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u64);

impl RuleId {
    /// Nothing is asked, or nothing was checked.
    pub const NONE: Self = Self(0);
}
