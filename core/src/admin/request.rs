//! What can be asked.

use std::sync::Arc;

use super::Definitions;
use crate::broker::QueueSpec;
use crate::route::{BindingSpec, ExchangeSpec};
use crate::schema::Candidate;
use crate::vocab::{ConnId, Message, Port};

/// Messages that one look at a queue shows at most.
pub const PEEK_MAX: usize = 1_000;

/// Which bindings to list; what is none does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindingFilter {
    /// Only from this exchange.
    pub exchange: Option<String>,
    /// Only to this queue.
    pub queue: Option<String>,
    /// Only to this exchange.
    pub to_exchange: Option<String>,
}

impl BindingFilter {
    /// Whether a binding is one of those that are wanted.
    #[must_use]
    pub fn is_wanted(&self, spec: &BindingSpec) -> bool {
        self.exchange
            .as_ref()
            .is_none_or(|name| *name == spec.exchange)
            && (self.queue.is_none() || self.queue == spec.queue)
            && (self.to_exchange.is_none() || self.to_exchange == spec.to_exchange)
    }
}

/// Where a message is published to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishTo {
    /// A queue.
    Queue(String),
    /// An exchange, also when a queue has its name.
    Exchange {
        /// Its name.
        name: String,
        /// The routing key.
        key: String,
    },
    /// A queue of that name, else an exchange.
    Name {
        /// Of either.
        name: String,
        /// For an exchange.
        key: String,
    },
}

/// One request of an operator. Lists begin with `from` 0 and go on with [`super::Page::next`].
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// The node in numbers. Walks all queues.
    Stats,
    /// Some queues, in no order that means anything.
    Queues {
        /// Where to go on.
        from: u64,
    },
    /// One queue.
    Queue {
        /// Its name.
        name: String,
    },
    /// Make a queue, or find it with the same settings.
    DeclareQueue {
        /// What it is to be; never exclusive.
        spec: Box<QueueSpec>,
    },
    /// Delete a queue with its messages.
    DeleteQueue {
        /// Its name.
        name: String,
        /// Only when it has no consumers.
        if_unused: bool,
        /// Only when it has no messages.
        if_empty: bool,
    },
    /// Remove the messages that no consumer has.
    Purge {
        /// The queue.
        name: String,
    },
    /// Some exchanges, the one without a name not among them.
    Exchanges {
        /// Where to go on.
        from: u64,
    },
    /// One exchange.
    Exchange {
        /// Its name.
        name: String,
    },
    /// Make an exchange, or find it with the same settings.
    DeclareExchange {
        /// What it is to be.
        spec: ExchangeSpec,
    },
    /// Delete an exchange with its bindings.
    DeleteExchange {
        /// Its name.
        name: String,
        /// Only when it has no bindings from it.
        if_unused: bool,
    },
    /// Some bindings.
    Bindings {
        /// Where to go on.
        from: u64,
        /// Which.
        filter: BindingFilter,
    },
    /// Make a binding, or find it.
    Bind {
        /// What it is to be.
        spec: BindingSpec,
    },
    /// Take a binding away.
    Unbind {
        /// Which.
        spec: BindingSpec,
    },
    /// Look at messages without taking them, oldest first.
    Peek {
        /// The queue.
        queue: String,
        /// The first position to look at.
        from: u64,
        /// Messages, up to [`PEEK_MAX`].
        limit: usize,
        /// Those that consumers have as well.
        with_held: bool,
    },
    /// One message, waiting or not, and why it is where it is.
    Message {
        /// The queue.
        queue: String,
        /// Its position.
        position: u64,
    },
    /// Publish a message; answered when it is safe.
    Publish {
        /// Where to.
        to: PublishTo,
        /// What.
        message: Arc<Message>,
    },
    /// Move waiting messages, oldest first.
    Move {
        /// Out of this queue.
        queue: String,
        /// Into this one; none: each dead letter into the queue in which it died last.
        to: Option<String>,
        /// Only dead letters of this queue.
        only_from: Option<String>,
        /// Messages at most.
        limit: u64,
    },
    /// Some connections.
    Connections {
        /// Where to go on.
        from: u64,
    },
    /// One connection; it is asked itself.
    Connection {
        /// Which.
        conn: ConnId,
    },
    /// Close a connection.
    CloseConnection {
        /// Which.
        conn: ConnId,
        /// Told to the peer.
        text: String,
    },
    /// Links of some connections.
    Links {
        /// Where to go on.
        from: u64,
        /// Only of this connection; none when it is gone.
        conn: Option<ConnId>,
        /// Only to this queue or exchange.
        node: Option<String>,
    },
    /// One link; its connection is asked.
    Link {
        /// Of which connection.
        conn: ConnId,
        /// Which.
        port: Port,
    },
    /// Close a link.
    CloseLink {
        /// Of which connection.
        conn: ConnId,
        /// Which.
        port: Port,
    },
    /// The newest version of the schema of every subject.
    Schemas,
    /// One version of a schema.
    Schema {
        /// Its subject: the queue, as a rule.
        subject: String,
        /// Which; 0 is the newest.
        version: u32,
    },
    /// All kept versions of a schema.
    SchemaVersions {
        /// Its subject.
        subject: String,
    },
    /// Make a version of a schema, which was compiled before (see [`crate::schema::Schema::compile`]).
    RegisterSchema {
        /// What it is.
        candidate: Box<Candidate>,
    },
    /// Delete a schema with all its versions.
    DeleteSchema {
        /// Its subject.
        subject: String,
    },
    /// Make what is missing of a topology. One conflict, and nothing is made.
    Import {
        /// What is to be there.
        definitions: Box<Definitions>,
    },
}

impl Request {
    /// Whether it changes nothing: for permissions.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            Self::Stats
                | Self::Queues { .. }
                | Self::Queue { .. }
                | Self::Exchanges { .. }
                | Self::Exchange { .. }
                | Self::Bindings { .. }
                | Self::Peek { .. }
                | Self::Schemas
                | Self::Schema { .. }
                | Self::SchemaVersions { .. }
                | Self::Message { .. }
                | Self::Connections { .. }
                | Self::Connection { .. }
                | Self::Links { .. }
                | Self::Link { .. }
        )
    }
}
