//! Performatives of the transport (part 2, 2.7), termini and states of messaging (part 3), transactions' share in them
//! (part 4) and SASL frames (part 5, 5.3), as structs with the standard's field names.
//!
//! A field that may be absent is an `Option`; one with a default holds the default. Absent, null and default are alike.

mod choice;
mod connection;
mod decode;
mod descriptor;
mod disposition;
mod error;
mod flow;
mod link;
mod sasl;
mod session;
mod state;
mod terminus;
mod transfer;

pub use choice::{RcvSettleMode, Role, SndSettleMode};
pub use connection::{Close, Open};
pub use decode::Performative;
pub use disposition::Disposition;
pub use error::AmqpError;
pub use flow::Flow;
pub use link::{Attach, Detach};
pub use sasl::{
    SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslPerformative, SaslResponse,
};
pub use session::{Begin, End};
pub use state::{DeliveryState, Modified};
pub use terminus::{Coordinator, Source, Target, TargetKind};
pub use transfer::Transfer;
