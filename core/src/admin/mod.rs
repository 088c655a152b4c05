//! The management vocabulary: what operators ask of a broker and what they are answered.
//!
//! HTTP, the `$management` node of AMQP and command lines speak it; the broker executes it in `broker/admin`. A request
//! costs the broker a bounded amount of work: long lists come in pages, and what touches many messages is done in
//! slices between which others get their turn.

mod about;
mod definitions;
mod histogram;
mod reply;
mod request;
mod rows;
mod settings;
mod status;

pub use about::{ConnAbout, ConnReport, LinkReport, SessionReport};
pub use definitions::{Counted, Definitions, Imported};
pub use histogram::{BOUNDS_US, Histogram};
pub use reply::Reply;
pub use request::{BindingFilter, PEEK_MAX, PublishTo, Request};
pub use rows::{
    Alarm, ConnDetail, ConnRow, ExchangeRow, LinkRole, LinkRow, NodeStats, Page, Peeked,
    QueueDetail, QueueRow, Refusals, Totals, Why,
};
pub use settings::{BadSetting, exchange_spec, field_of, queue_spec, stream_spec, word_of};
pub use status::status_of;
