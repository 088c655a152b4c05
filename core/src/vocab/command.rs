//! What a face asks of the broker.

use std::sync::Arc;

use bytes::Bytes;

use crate::filter::FilterSpec;

use crate::admin::{ConnAbout, ConnReport, Request};

use super::{
    Address, Ask, AskId, DeliveryId, LockSpec, Message, Port, RuleId, StreamRead, Ticket, TxnId,
};

/// The identity of a link across the node (AMQP 1.0 part 2, 2.6.1): a second link of the same key steals the first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkKey {
    /// The peer's container.
    pub container: Bytes,
    /// The link's name.
    pub name: Bytes,
}

/// What a face wants of a producer.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducerSpec {
    /// Its identity, when the protocol has one.
    pub key: Option<LinkKey>,
    /// Where its messages go.
    pub address: Address,
}

/// How much of a terminus outlives its link (AMQP 1.0 part 3, 3.5.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TerminusDurability {
    /// Nothing.
    #[default]
    None,
    /// Existence and configuration.
    Configuration,
    /// Unsettled state as well.
    UnsettledState,
}

/// When a terminus begins to expire (AMQP 1.0 part 3, 3.5.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpiryPolicy {
    /// With the detach.
    LinkDetach,
    /// With the end of the session.
    #[default]
    SessionEnd,
    /// With the end of the connection.
    ConnectionClose,
    /// Never.
    Never,
}

/// How a consumer of an exchange holds its subscription; queues do not care.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionSpec {
    /// Whether it survives a restart, if it outlives its link at all.
    pub durability: TerminusDurability,
    /// Whether it outlives its link: [`ExpiryPolicy::Never`] does.
    pub expiry: ExpiryPolicy,
    /// Links of the same subscription name take turns with its messages.
    pub is_shared: bool,
    /// Links of every container share it, not only those of one.
    pub is_global: bool,
}

/// What a face wants of a consumer.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerSpec {
    /// Its identity, when the protocol has one.
    pub key: Option<LinkKey>,
    /// What it reads.
    pub address: Address,
    /// Reads without taking (distribution-mode copy).
    pub browse: bool,
    /// Deliveries count as accepted when they are sent.
    pub settled: bool,
    /// The outcome of deliveries that end without one (default-outcome of the source).
    pub default_outcome: Outcome,
    /// Where the address is an exchange or the name of a subscription.
    pub subscription: SubscriptionSpec,
    /// Which messages it wants; none = all.
    pub filter: Option<FilterSpec>,
    /// For how long it may hold a message.
    pub lock: LockSpec,
    /// Where the address is a stream.
    pub stream: StreamRead,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Done: the message is gone.
    Accepted,
    /// Invalid: never redelivered here; dead-lettered or dropped.
    Rejected {
        /// The condition and text that the consumer gave.
        reason: Option<(Bytes, Bytes)>,
    },
    /// Untouched: back to its position, the count stays.
    Released,
    /// Back to its position, perhaps changed.
    Modified {
        /// Counts as an attempt.
        failed: bool,
        /// Not to this consumer again.
        undeliverable_here: bool,
        /// Message annotations to merge, as an AMQP map; none = none.
        annotations: Option<Bytes>,
    },
    /// The consumer went away in the middle: back to its position, the attempt counts.
    Lost,
}

/// What a connection tells so that it is counted; nothing else follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// So many sessions are open now.
    Sessions(u32),
    /// A call came to a queue.
    Called(String),
    /// A call to a queue had no answer in time.
    CallLate(String),
}

/// One request of a face. Commands of one connection are executed in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Answered by [`super::Notice::ProducerOpened`] or [`super::Notice::Refused`].
    OpenProducer {
        /// The face's name for it.
        port: Port,
        /// What it wants.
        spec: Box<ProducerSpec>,
    },
    /// Answered by [`super::Notice::ConsumerOpened`] or [`super::Notice::Refused`].
    OpenConsumer {
        /// The face's name for it.
        port: Port,
        /// What it wants.
        spec: Box<ConsumerSpec>,
    },
    /// A message; answered by [`super::Notice::Confirm`]. Publishes to a port that is not open are dropped.
    Publish {
        /// The producer.
        port: Port,
        /// Its number.
        ticket: Ticket,
        /// The message.
        message: Arc<Message>,
        /// The rule of its queue that it was found to keep; the broker checks it against any other.
        vetted: RuleId,
    },
    /// The consumer may have been sent up to `limit` deliveries since it opened (absolute, so it can also be lowered).
    Permit {
        /// The consumer.
        port: Port,
        /// Deliveries since the opening, not more of them.
        limit: u64,
        /// Answer [`super::Notice::Drained`] as soon as nothing more can be delivered now.
        drain: bool,
    },
    /// An attempt ended. Unknown deliveries are ignored.
    Settle {
        /// The consumer.
        port: Port,
        /// First delivery of the range.
        first: DeliveryId,
        /// Last delivery of the range, inclusive.
        last: DeliveryId,
        /// How they ended.
        outcome: Outcome,
        /// Answer [`super::Notice::Settled`] when it is durable.
        confirm: bool,
    },
    /// The consumer is still at work on deliveries: they return only when this time is over, from now on. Unknown
    /// deliveries are ignored, and so is all of it where no time is set.
    Extend {
        /// The consumer.
        port: Port,
        /// First delivery of the range.
        first: DeliveryId,
        /// Last delivery of the range, inclusive.
        last: DeliveryId,
        /// For how long, milliseconds; none = for as long as a new delivery.
        lock_ms: Option<u64>,
        /// Answer with [`super::Answer::Extended`], or [`super::Answer::Refused`] when none of them is held.
        ask: Option<AskId>,
    },
    /// Deliveries to this consumer may be held for another time from now on.
    Relock {
        /// The consumer.
        port: Port,
        /// For how long.
        lock: LockSpec,
    },
    /// What the connection is, once.
    Describe {
        /// For operators.
        about: Box<ConnAbout>,
    },
    /// Something for the numbers.
    Note(Note),
    /// The answer to [`super::Notice::Report`].
    Reported {
        /// The broker's number for the question.
        ticket: u64,
        /// The connection as it sees itself.
        report: Box<ConnReport>,
    },
    /// A request of management; answered by [`super::Notice::Managed`].
    Manage {
        /// The face's number for it.
        ticket: u64,
        /// What is asked.
        request: Box<Request>,
    },
    /// A question about whole queues; answered by [`super::Notice::Answered`].
    Ask {
        /// The face's number for it.
        id: AskId,
        /// What is asked.
        ask: Box<Ask>,
    },
    /// A message that enters its queues with a transaction. Answered by [`super::Notice::Confirm`] at once: whether it has
    /// a place. One that has none makes the transaction fail.
    Stage {
        /// The producer.
        port: Port,
        /// Its number, in one row with those of `Publish`.
        ticket: Ticket,
        /// The transaction; it begins with its first part.
        txn: TxnId,
        /// The message.
        message: Arc<Message>,
    },
    /// Attempts that end with a transaction; until then the consumer holds them.
    StageSettle {
        /// The consumer.
        port: Port,
        /// First delivery of the range.
        first: DeliveryId,
        /// Last delivery of the range, inclusive.
        last: DeliveryId,
        /// The transaction; it begins with its first part.
        txn: TxnId,
        /// How they end if it succeeds.
        outcome: Outcome,
    },
    /// The end of a transaction: all of it takes effect, or nothing. Answered by [`super::Notice::Discharged`].
    Discharge {
        /// Which.
        txn: TxnId,
        /// Roll it back.
        fail: bool,
    },
    /// The producer or consumer goes. A consumer's unsettled deliveries end with its default outcome, or as lost.
    Close {
        /// Which.
        port: Port,
        /// Detach keeps what is durable, close destroys it: a kept subscription goes with the last of its links.
        forget: bool,
        /// Unsettled deliveries count as failed attempts (the connection was lost).
        lost: bool,
    },
}
