//! Addresses as users write them, parsed once, alike for every face.

/// Where a producer publishes to or a consumer reads from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `NAME`: a queue or stream; for producers else an exchange.
    Name(String),
    /// `/queues/NAME`
    Queue(String),
    /// A queue, made with the settings for queues that nobody declared when there is none.
    QueueOrNew(String),
    /// `/queues/NAME/groups/GROUP`: a consumer group of a queue, made when there is none.
    Group {
        /// The queue.
        queue: String,
        /// The group.
        name: String,
        /// The queue as well is made when there is none.
        may_make_queue: bool,
    },
    /// `/streams/NAME`
    Stream(String),
    /// A stream, made when there is none.
    StreamOrNew(String),
    /// `/exchanges/NAME` or `/exchanges/NAME/KEY` (percent-encoded)
    Exchange {
        /// The exchange.
        name: String,
        /// The routing key, when the address fixes it; else the message's subject decides.
        key: Option<String>,
    },
    /// No address: every message names its own (`to`).
    Anonymous,
    /// No address for a consumer: the kept subscription that its link's identity names.
    Subscription,
    /// The peer asks for a node of its own; the broker makes the name.
    Dynamic {
        /// When the node goes away.
        lifetime: LifetimePolicy,
    },
}

/// When a dynamic node is deleted (AMQP 1.0 part 3, 3.5.10 to 3.5.13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LifetimePolicy {
    /// With the link that made it.
    #[default]
    DeleteOnClose,
    /// When no links to it are left.
    DeleteOnNoLinks,
    /// When no messages are left in it (and the making link is gone).
    DeleteOnNoMessages,
    /// When neither links nor messages are left.
    DeleteOnNoLinksOrMessages,
}

/// What kind of node an address turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A queue.
    Queue,
    /// A stream.
    Stream,
    /// An exchange.
    Exchange,
    /// The anonymous terminus.
    Anonymous,
}
