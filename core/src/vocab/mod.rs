//! What faces and the broker say to each other.
//!
//! [`Command`] goes up from a face, [`Notice`] comes down to it. Both are plain values, so that they can cross
//! threads in batches today and a network tomorrow. Nothing here knows a protocol. Every order promise is FIFO per
//! connection in each direction; nothing else is promised.

mod address;
mod ask;
mod command;
mod death;
mod ids;
mod lock;
mod message;
mod notice;
mod reason;
mod stream;

pub use address::{Address, LifetimePolicy, NodeKind};
pub use ask::{Answer, Ask, AskId, QueueNumbers};
pub use command::{
    Command, ConsumerSpec, ExpiryPolicy, LinkKey, Note, Outcome, ProducerSpec, SubscriptionSpec,
    TerminusDurability,
};
pub use death::{Cause, DEATHS_MAX, Death, Deaths};
pub use ids::{ConnId, DeliveryId, Port, QueueId, RuleId, Seq, Ticket, TxnId};
pub use lock::LockSpec;
pub use message::{DEDUP_ID_LEN_MAX, Delay, Envelope, Format, Message, Wishes};
pub use notice::{ConsumerOpened, Delivered, Notice, ProducerOpened, Verdict};
pub use reason::{Reason, Refusal};
pub use stream::{StreamRead, StreamStart};
