//! What a connection tells its embedder, and what the embedder hands in.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::ids::{IncomingId, LinkId, SessionId};
use crate::performative::{
    AmqpError, Attach, DeliveryState, RcvSettleMode, SndSettleMode, Source, TargetKind,
};
use crate::types::{DeliveryTag, Map, Str, Symbol};

/// Something happened that the embedder has to know.
#[derive(Debug)]
pub enum Event {
    /// Server: the peer chose an offered mechanism. Answer with [`sasl_outcome`](super::Connection::sasl_outcome), or
    /// with [`sasl_challenge`](super::Connection::sasl_challenge) when the mechanism has more steps; input is held until
    /// then.
    SaslInit {
        /// One of the mechanisms offered.
        mechanism: Symbol,
        /// The initial response; empty when there was none.
        response: Bytes,
        /// The host that the peer believes to speak to.
        hostname: Option<Str>,
    },
    /// Server: the peer responded to a challenge. Answer as to [`Event::SaslInit`].
    SaslResponse {
        /// As the mechanism defines it.
        response: Bytes,
    },
    /// Client: the server asks. Answer with [`sasl_respond`](super::Connection::sasl_respond).
    SaslChallenge {
        /// As the mechanism defines it.
        challenge: Bytes,
    },
    /// Client: the server let us in.
    SaslDone {
        /// What the mechanism says with that, for a client that wants to know its server; empty when nothing.
        additional_data: Bytes,
    },
    /// The peer's `open` is there, see [`remote_open`](super::Connection::remote_open). A server answers with
    /// [`open`](super::Connection::open) or [`refuse_open`](super::Connection::refuse_open); input is held until then.
    Opened,
    /// A session is up: the peer began one (answered already), or it answered our `begin`.
    SessionBegun(SessionId),
    /// A session is over, whoever ended it. [`Event::LinkClosed`] came before for each of its links.
    SessionEnded {
        /// The session.
        session: SessionId,
        /// The peer's error, or ours when the peer broke a rule.
        error: Option<AmqpError>,
    },
    /// The peer wants a link. Answer with [`accept_link`](super::Connection::accept_link) or
    /// [`refuse_link`](super::Connection::refuse_link).
    Attached {
        /// The new link.
        link: LinkId,
        /// Its session.
        session: SessionId,
        /// As the peer sent it: `role` is the peer's role.
        attach: Box<Attach>,
    },
    /// The peer answered our `attach`. A null terminus on its side announces a refusal: [`Event::LinkClosed`] follows.
    LinkAccepted {
        /// The link.
        link: LinkId,
        /// As the peer sent it.
        attach: Box<Attach>,
    },
    /// The peer's flow on a link. Its echo, if wanted, is answered by the machine; a drain is answered by
    /// [`drained`](super::Connection::drained).
    Flow {
        /// The link.
        link: LinkId,
        /// Where we send: deliveries that may still be handed to [`send`](super::Connection::send). Where we receive:
        /// credit that the peer has left.
        credit: u32,
        /// The receiver wants its credit used up or given back.
        drain: bool,
        /// Messages that the peer says it has waiting.
        available: Option<u32>,
    },
    /// The peer told properties of a link's state with a flow.
    LinkState {
        /// The link.
        link: LinkId,
        /// What it told.
        properties: Map,
    },
    /// A whole message.
    Delivery {
        /// The link.
        link: LinkId,
        /// Handle for [`settle`](super::Connection::settle); of no use when `settled`.
        delivery: IncomingId,
        /// The sender's tag.
        tag: DeliveryTag,
        /// The sender settled it: nothing may be answered.
        settled: bool,
        /// Format of `payload`.
        message_format: u32,
        /// State that the sender gave it (transactions).
        state: Option<Box<DeliveryState>>,
        /// Receiver settle mode of this delivery, when it differs from the link's.
        rcv_settle_mode: Option<RcvSettleMode>,
        /// The sections of the message.
        payload: Bytes,
    },
    /// The peer's disposition on one of our deliveries.
    Outcome {
        /// The link.
        link: LinkId,
        /// Token of the delivery.
        token: u64,
        /// Outcome or state; none when the peer settled without one.
        state: Option<DeliveryState>,
        /// The delivery is forgotten. Otherwise the peer waits for
        /// [`settle_outgoing`](super::Connection::settle_outgoing).
        settled: bool,
    },
    /// The sender settled a delivery that we had given a state (second mode) or not answered at all.
    IncomingSettled {
        /// The link.
        link: LinkId,
        /// The delivery; forgotten now.
        delivery: IncomingId,
    },
    /// A link is over: detached by either side, stolen, or gone with its session. Comes once for each link except
    /// those refused by [`refuse_link`](super::Connection::refuse_link).
    LinkClosed {
        /// The link.
        link: LinkId,
        /// Closed rather than detached: the terminus need not be kept.
        closed: bool,
        /// The peer's error, or ours.
        error: Option<AmqpError>,
        /// Tokens of our deliveries on it that nobody settled, queued ones included, oldest first.
        unsettled: Vec<u64>,
    },
    /// The last event: closed, lost or broken.
    Closed {
        /// The peer's error, or ours.
        error: Option<AmqpError>,
    },
}

/// Code of a SASL outcome (part 5, 5.3.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslCode {
    /// Authenticated.
    Ok = 0,
    /// Wrong credentials.
    Auth = 1,
    /// System error.
    Sys = 2,
    /// System error that will not go away by itself.
    SysPerm = 3,
    /// System error that may go away.
    SysTemp = 4,
}

/// A link that we initiate.
#[derive(Clone, Debug)]
pub struct NewLink {
    /// Unique among our links of this direction to the same container.
    pub name: Str,
    /// Whether we send on it.
    pub is_sender: bool,
    /// Where messages come from.
    pub source: Option<Source>,
    /// Where messages go to.
    pub target: Option<TargetKind>,
    /// How deliveries are settled by the sender.
    pub snd_settle_mode: SndSettleMode,
    /// How deliveries are settled by the receiver.
    pub rcv_settle_mode: RcvSettleMode,
    /// Largest message that we take, in bytes. None: [`Config::message_size_max`](super::Config::message_size_max).
    pub max_message_size: Option<u64>,
    /// When a link is resumed: our deliveries that are not settled, by tag. Cut and marked as incomplete where the
    /// peer's frames are too small for it (part 2, 2.7.3).
    pub unsettled: Option<Map>,
    /// Properties of the link. Left out where the peer's frames are too small.
    pub properties: Option<Map>,
}

/// Our answer to the peer's `attach`: what is in effect, which may differ from what was asked.
#[derive(Clone, Debug, Default)]
pub struct LinkReply {
    /// The source in effect.
    pub source: Option<Source>,
    /// The target in effect.
    pub target: Option<TargetKind>,
    /// Settle mode of the sender in effect.
    pub snd_settle_mode: SndSettleMode,
    /// Settle mode of the receiver in effect.
    pub rcv_settle_mode: RcvSettleMode,
    /// Largest message that we take, in bytes. None: [`Config::message_size_max`](super::Config::message_size_max).
    pub max_message_size: Option<u64>,
    /// Where we send: the first delivery-count. None: 0, which clients that ignore the field take for granted.
    pub initial_delivery_count: Option<u32>,
    /// When a link is resumed: our deliveries that are not settled, by tag. Cut and marked as incomplete where the
    /// peer's frames are too small for it (part 2, 2.7.3).
    pub unsettled: Option<Map>,
    /// Capabilities of the link. Left out where the peer's frames are too small.
    pub offered_capabilities: Vec<Symbol>,
    /// Properties of the link. Left out where the peer's frames are too small.
    pub properties: Option<Map>,
}

/// A message to send; borrowed, because most are encoded at once and never stored.
#[derive(Clone, Debug)]
pub struct OutgoingDelivery<'a> {
    /// Unique among the unsettled deliveries of the link.
    pub tag: DeliveryTag,
    /// The embedder's name for it; comes back in events.
    pub token: u64,
    /// Settled when sent: nothing comes back.
    pub settled: bool,
    /// Format of `head` and `payload`.
    pub message_format: u32,
    /// Sections that precede `payload`; may be empty.
    pub head: &'a [u8],
    /// The rest of the message.
    pub payload: &'a Bytes,
    /// A hint that dispositions may be held back to be batched.
    pub batchable: bool,
}

/// The embedder asked for something that cannot be. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageError {
    /// No such session, or it is over.
    UnknownSession,
    /// No such link, or it is over, or it runs in the other direction.
    UnknownLink,
    /// No such delivery, or it is settled.
    UnknownDelivery,
    /// The link does not wait for an answer, or does and has none yet.
    WrongState,
    /// The peer granted no credit for it.
    NoCredit,
    /// The connection is not open, or not any more.
    NotOpen,
    /// All channels or handles that both sides allow are in use.
    Exhausted,
    /// The peer takes no frame that is large enough, and there is nothing to leave out.
    TooLarge,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownSession => "no such session, or it is over",
            Self::UnknownLink => "no such link, or it is over, or it runs in the other direction",
            Self::UnknownDelivery => "no such delivery, or it is settled",
            Self::WrongState => "the link is not in the state for this",
            Self::NoCredit => "the peer granted no credit",
            Self::NotOpen => "the connection is not open",
            Self::Exhausted => "no channel or handle is free",
            Self::TooLarge => "it fits into no frame that the peer takes",
        })
    }
}

impl core::error::Error for UsageError {}
