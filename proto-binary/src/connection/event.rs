//! What a connection tells its embedder, and what the embedder hands in.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::violation::Violation;
use crate::message::{
    ConsumerClosed, ErrorResponse, Message, PublishBatchRequest, PublishRequest, StreamMessage,
};
use crate::opcode::{Numbering, Opcode};
use crate::publish::Publish;
use crate::reply::Reply;
use crate::request::Request;
use crate::stored::Stored;

/// Something happened that the embedder has to know.
#[derive(Debug, PartialEq)]
pub enum Event {
    /// Server: a token to judge with [`auth_outcome`](super::Connection::auth_outcome); input is held until then. It
    /// may come again on an open connection.
    Authenticate {
        /// What the client sent; compare it in constant time.
        token: Token,
    },
    /// Server: a PUBLISH, to answer with [`published`](super::Connection::published) or
    /// [`refuse`](super::Connection::refuse).
    Publish {
        /// To be handed back with the answer.
        reply_to: ReplyTo,
        /// The message.
        publish: Publish,
    },
    /// Server: a PUBLISH_BATCH, to answer with [`reply`](super::Connection::reply) or
    /// [`refuse`](super::Connection::refuse).
    PublishBatch {
        /// To be handed back with the answer.
        reply_to: ReplyTo,
        /// The messages.
        batch: Vec<Publish>,
    },
    /// Server: any other request, to answer with [`reply`](super::Connection::reply) or
    /// [`refuse`](super::Connection::refuse).
    Request {
        /// To be handed back with the answer.
        reply_to: ReplyTo,
        /// What is asked.
        request: Request,
    },
    /// Client: the server takes requests now.
    Opened,
    /// Client: a request succeeded.
    Replied {
        /// Which.
        request: RequestId,
        /// The answer.
        reply: Reply,
    },
    /// Client: a request was refused.
    Refused {
        /// Which; none where the layout does not tell. In the versioned layout an error with code 4 may be about any
        /// earlier ACK, NACK or UNSUBSCRIBE.
        request: Option<RequestId>,
        /// Why.
        error: ErrorResponse,
    },
    /// Client: a delivery.
    Delivered(Box<Message>),
    /// Client: an entry of a stream.
    StreamDelivered(Box<StreamMessage>),
    /// Client: the server ended a consumer.
    ConsumerClosed(ConsumerClosed),
    /// The last event. Requests without an answer get none.
    Closed {
        /// Why.
        reason: CloseReason,
    },
}

impl Event {
    /// The same event, a PUBLISH or PUBLISH_BATCH as [`Event::Request`] with its own copy of everything: for embedders
    /// that treat all requests alike.
    #[must_use]
    pub fn into_owned(self) -> Self {
        match self {
            Self::Publish { reply_to, publish } => Self::Request {
                reply_to,
                request: Request::Publish(Box::new(PublishRequest::from(&publish))),
            },
            Self::PublishBatch { reply_to, batch } => {
                let messages = batch.iter().map(PublishRequest::from).collect();
                Self::Request {
                    reply_to,
                    request: Request::PublishBatch(PublishBatchRequest { messages }),
                }
            }
            event => event,
        }
    }
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer left.
    Peer,
    /// [`close`](super::Connection::close) was called, or a token was refused.
    Local,
    /// The peer broke a rule.
    Violation(Violation),
    /// Client: the server refused the token, in these words.
    TokenRefused(String),
}

/// A secret on its way to whoever compares it. Its debug form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Names the request that an answer belongs to. Not to be copied: each request is answered once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "every request is answered once"]
pub struct ReplyTo {
    /// In the order of arrival, for requests without a correlation id.
    pub(super) seq: u64,
    pub(super) correlation: Option<u32>,
    pub(super) opcode: Option<Opcode>,
    pub(super) numbering: Numbering,
    /// Success is answered.
    pub(super) is_confirmed: bool,
}

impl ReplyTo {
    /// Whether the client hears of a success. Without it, [`Reply::Done`] writes nothing.
    #[must_use]
    pub const fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// The client's number for the request, in the documented layout.
    #[must_use]
    pub const fn correlation(&self) -> Option<u32> {
        self.correlation
    }
}

/// A client's name for a request of its own. In the documented layout it is the correlation id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// A delivery to a consumer, made from a record.
#[derive(Clone, Debug)]
pub struct Delivery<'a> {
    /// The message.
    pub stored: &'a Stored<'a>,
    /// Where it comes from.
    pub queue: &'a str,
    /// Counts from 1.
    pub attempt: u32,
    /// The connection's number for the delivery, from 1. Not sent in the versioned layout.
    pub delivery_id: u64,
    /// The consumer's group; empty: none. Not sent in the versioned layout.
    pub group: &'a str,
}

/// An entry of a stream to a reader, made from a record.
#[derive(Clone, Debug)]
pub struct StreamDelivery<'a> {
    /// The message.
    pub stored: &'a Stored<'a>,
    /// The stream.
    pub queue: &'a str,
    /// Its position, from 1.
    pub sequence: u64,
    /// The reader's group; empty: none. Not sent in the versioned layout.
    pub group: &'a str,
}

/// The embedder asked for something that cannot be. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageError {
    /// The command belongs to the other side.
    WrongSide,
    /// The connection is not open, or not any more.
    NotOpen,
    /// The request is not known, or is answered already.
    UnknownRequest,
    /// The answer does not belong to this kind of request.
    WrongReply,
    /// No token waits to be judged.
    NotDeciding,
    /// It does not fit a frame of this layout.
    TooLarge,
    /// As many requests wait for an answer as may.
    TooManyPending,
    /// The versioned layout cannot ask for the success of such a request.
    NoConfirmation,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrongSide => "the command belongs to the other side",
            Self::NotOpen => "the connection is not open",
            Self::UnknownRequest => "no such request, or it is answered",
            Self::WrongReply => "the answer does not belong to this kind of request",
            Self::NotDeciding => "no token waits to be judged",
            Self::TooLarge => "it does not fit a frame",
            Self::TooManyPending => "too many requests wait for an answer",
            Self::NoConfirmation => "the versioned layout has no confirmations",
        })
    }
}

impl core::error::Error for UsageError {}
