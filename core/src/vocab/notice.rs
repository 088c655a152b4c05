//! What the broker tells a face.

use std::sync::Arc;

use crate::admin::Reply;

use super::{
    Answer, AskId, DeliveryId, Message, NodeKind, Port, QueueId, Reason, Refusal, Seq,
    SubscriptionSpec, Ticket, TxnId,
};
use crate::schema::{Rule, Unfit};

/// What a producer got.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducerOpened {
    /// What its address turned out to be.
    pub kind: NodeKind,
    /// The name of the node, for dynamic ones the one that was made.
    pub name: String,
    /// What its queue asks of messages, so that they can be checked before they are published. Of exchanges the broker
    /// checks them.
    pub rule: Option<Arc<Rule>>,
}

/// What a consumer got: only what is in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerOpened {
    /// What its address turned out to be.
    pub kind: NodeKind,
    /// The name of the node, for dynamic ones the one that was made.
    pub name: String,
    /// Whether it reads without taking.
    pub browse: bool,
    /// How the subscription is held, if it reads from an exchange, or the reader's position, if it reads a stream.
    pub subscription: SubscriptionSpec,
    /// Only of a stream: the position that it begins at.
    pub next: Option<Seq>,
}

/// One message for one consumer.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// Its number for settling.
    pub delivery: DeliveryId,
    /// Queue and position it came from.
    pub queue: QueueId,
    /// Position in that queue.
    pub seq: Seq,
    /// Failed attempts before this one.
    pub delivery_count: u32,
    /// No consumer has had it before.
    pub first_acquirer: bool,
    /// Remaining time to live, milliseconds.
    pub ttl_ms: Option<u64>,
    /// Annotations that consumers added (`modified`), as an AMQP map, whatever the message's format.
    pub annotations: Option<bytes::Bytes>,
    /// The message.
    pub message: Arc<Message>,
}

/// What became of a publish.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// In every queue it belongs to, and on disk where that was promised.
    Accepted,
    /// A queue took a message with the same key before, which is safe; nothing was added.
    Duplicate,
    /// No queue wanted it; the producer may try again or elsewhere.
    Unroutable,
    /// Refused, with the reason.
    Rejected(Reason),
    /// A queue does not take such messages.
    Unfit(Box<Unfit>),
    /// Refused because this queue is full.
    Full(Arc<str>),
}

/// One thing that the broker tells a face. Notices of one connection are in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// Answer to `OpenProducer`.
    ProducerOpened {
        /// Which.
        port: Port,
        /// What it got.
        opened: Box<ProducerOpened>,
    },
    /// Answer to `OpenConsumer`.
    ConsumerOpened {
        /// Which.
        port: Port,
        /// What it got.
        opened: Box<ConsumerOpened>,
    },
    /// What the queue of a producer asks of messages has changed.
    Ruled {
        /// The producer.
        port: Port,
        /// From now on.
        rule: Option<Arc<Rule>>,
    },
    /// The port could not be opened; it is gone.
    Refused {
        /// Which.
        port: Port,
        /// Why.
        refusal: Box<Refusal>,
    },
    /// The verdict on publishes `first..=last` of a port. Runs of equal verdicts come as one notice.
    Confirm {
        /// The producer.
        port: Port,
        /// First ticket.
        first: Ticket,
        /// Last ticket, inclusive.
        last: Ticket,
        /// What became of them.
        verdict: Verdict,
    },
    /// A message for a consumer.
    Deliver {
        /// The consumer.
        port: Port,
        /// The message and what goes with it.
        delivered: Delivered,
    },
    /// Nothing more can be delivered now; `sent` deliveries since the opening.
    Drained {
        /// The consumer.
        port: Port,
        /// Deliveries since the opening.
        sent: u64,
    },
    /// A settlement that asked for it is durable.
    Settled {
        /// The consumer.
        port: Port,
        /// First delivery of the range.
        first: DeliveryId,
        /// Last delivery of the range, inclusive.
        last: DeliveryId,
    },
    /// The consumer of a queue with a single active one: whether it is that. Comes after the opening and when it changes.
    Activity {
        /// The consumer.
        port: Port,
        /// Whether it is served.
        is_active: bool,
    },
    /// The consumer held these deliveries for too long: they are lost attempts, and what it says about them is ignored.
    LockLost {
        /// The consumer.
        port: Port,
        /// First delivery of the range.
        first: DeliveryId,
        /// Last delivery of the range, inclusive.
        last: DeliveryId,
    },
    /// A transaction is over. One that took effect is durable.
    Discharged {
        /// Which.
        txn: TxnId,
        /// Why it was rolled back although it was not meant to be.
        fault: Option<Box<Refusal>>,
    },
    /// The broker closed the port (stolen, queue deleted, shutdown). Its unsettled deliveries are already back.
    Closed {
        /// Which.
        port: Port,
        /// Why.
        refusal: Box<Refusal>,
    },
    /// Answer to `Ask`.
    Answered {
        /// The face's number for the question.
        id: AskId,
        /// The answer.
        answer: Box<Answer>,
    },
    /// Answer to `Manage`.
    Managed {
        /// The face's number for the request.
        ticket: u64,
        /// The answer.
        reply: Box<Reply>,
    },
    /// An operator wants to know how the connection is: to be answered soon by `Reported`.
    Report {
        /// The broker's number for the question.
        ticket: u64,
    },
    /// Memory or disk is short: grant publishers no new credit until told `on: false`.
    Pressure {
        /// Begin or end.
        on: bool,
    },
}
