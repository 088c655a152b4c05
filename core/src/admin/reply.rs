//! What is answered.

use std::sync::Arc;

use super::{
    ConnDetail, ConnRow, ExchangeRow, Imported, LinkRow, NodeStats, Page, Peeked, QueueDetail,
    QueueRow, Why,
};
use crate::route::BindingSpec;
use crate::schema::{SchemaRefused, SchemaVersion};
use crate::vocab::Refusal;

/// The answer to a [`super::Request`]. What changed something is answered when the change is safe.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To `Stats`.
    Stats(Box<NodeStats>),
    /// To `Queues`.
    Queues(Page<QueueRow>),
    /// To `Queue`.
    Queue(Box<QueueDetail>),
    /// To `DeclareQueue`.
    QueueDeclared {
        /// It was made for this request.
        is_new: bool,
        /// It.
        queue: Box<QueueDetail>,
    },
    /// To `DeleteQueue`.
    QueueDeleted {
        /// Messages that went with it.
        messages: u64,
    },
    /// To `Purge`.
    Purged {
        /// Messages that were removed.
        messages: u64,
    },
    /// To `Exchanges`.
    Exchanges(Page<ExchangeRow>),
    /// To `Exchange`.
    Exchange(ExchangeRow),
    /// To `DeclareExchange`.
    ExchangeDeclared {
        /// It was made for this request.
        is_new: bool,
        /// It.
        exchange: ExchangeRow,
    },
    /// To `Bindings`.
    Bindings(Page<Arc<BindingSpec>>),
    /// To `Bind`.
    Bound {
        /// It was made for this request.
        is_new: bool,
    },
    /// To `DeleteExchange`, `Unbind`, `CloseConnection` and `CloseLink`.
    Done,
    /// To `Peek`.
    Messages(Vec<Peeked>),
    /// To `Message`.
    Message {
        /// It.
        message: Box<Peeked>,
        /// Why it is where it is.
        why: Vec<Why>,
    },
    /// To `Publish`.
    Published {
        /// At least one queue has it.
        is_routed: bool,
    },
    /// To `Move`.
    Moved {
        /// Messages that are in their new queue.
        moved: u64,
        /// Messages that wait in the old one.
        left: u64,
    },
    /// To `Connections`.
    Connections(Page<ConnRow>),
    /// To `Connection`.
    Connection(Box<ConnDetail>),
    /// To `Links`.
    Links(Page<LinkRow>),
    /// To `Link`.
    Link(Box<LinkRow>),
    /// To `Schemas` and `SchemaVersions`.
    Schemas(Vec<Arc<SchemaVersion>>),
    /// To `Schema` and `RegisterSchema`.
    Schema(Arc<SchemaVersion>),
    /// To `RegisterSchema`: nothing was registered.
    SchemaRefused(Box<SchemaRefused>),
    /// To `DeleteSchema`: so many versions are gone.
    SchemaDeleted(usize),
    /// To `Import`.
    Imported(Imported),
    /// It exists with other settings.
    Conflict {
        /// The first that differs.
        field: String,
        /// For people.
        text: String,
    },
    /// It has consumers, messages or bindings and must not.
    InUse(Refusal),
    /// It cannot be.
    Refused(Refusal),
}
