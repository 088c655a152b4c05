//! Every rule that a peer can break, and what each costs it.
//!
//! One variant is one rule. The two tables below, from variant to scope and from variant to condition and text, are
//! the only place where a broken rule meets the wire.

use crate::condition;
use crate::performative::AmqpError;
use crate::types::{Str, Symbol};

/// How much goes down with a broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Link,
    Session,
    Connection,
}

/// A rule that the peer broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    // Frames (part 2, 2.3)
    FrameSizeBelowHeader,
    FrameTooLarge,
    DataOffset,
    FrameType,
    // Performatives (part 1; part 2, 2.7)
    Undecodable,
    FieldMissing,
    UnknownPerformative,
    UnexpectedPerformative,
    // Connection (part 2, 2.4)
    OpenDeadline,
    OpenTwice,
    NotOpened,
    IdleTimeout,
    IdleTimeoutTooShort,
    FrameSizeBelowMinimum,
    SlowReader,
    ChannelAboveMaximum,
    HandleAboveMaximum,
    ChannelNotBegun,
    NoChannelLeft,
    BeginTwice,
    RemoteChannelUnknown,
    Churn,
    NoProgress,
    // Session (part 2, 2.5)
    NextIncomingIdAhead,
    WindowExceeded,
    HandleInUse,
    HandleUnattached,
    LinkLimit,
    LinkNameTooLong,
    TransferToSender,
    DeliveryIdNotRising,
    // Link (part 2, 2.6)
    AttachTooLarge,
    DeliveryIdMissing,
    DeliveryTagMissing,
    DeliveryTagTooLong,
    DeliveryIdChanged,
    DeliveryTagChanged,
    MessageFormatChanged,
    MessageTooLarge,
    TransferLimit,
    TooManyFrames,
    PartialBytes,
    PartialBytesOfNode,
    Stolen,
}

impl Violation {
    /// What is closed: the smallest scope that the spec allows, so that a mistake costs the peer no more than needed.
    pub(super) const fn scope(self) -> Scope {
        match self {
            Self::FrameSizeBelowHeader
            | Self::FrameTooLarge
            | Self::DataOffset
            | Self::FrameType
            | Self::Undecodable
            | Self::FieldMissing
            | Self::UnknownPerformative
            | Self::UnexpectedPerformative
            | Self::OpenDeadline
            | Self::OpenTwice
            | Self::NotOpened
            | Self::IdleTimeout
            | Self::IdleTimeoutTooShort
            | Self::FrameSizeBelowMinimum
            | Self::SlowReader
            | Self::ChannelAboveMaximum
            | Self::HandleAboveMaximum
            | Self::ChannelNotBegun
            | Self::NoChannelLeft
            | Self::BeginTwice
            | Self::RemoteChannelUnknown
            | Self::Churn
            | Self::NoProgress => Scope::Connection,
            Self::NextIncomingIdAhead
            | Self::WindowExceeded
            | Self::HandleInUse
            | Self::HandleUnattached
            | Self::LinkLimit
            | Self::LinkNameTooLong
            | Self::TransferToSender
            | Self::DeliveryIdNotRising => Scope::Session,
            Self::AttachTooLarge
            | Self::DeliveryIdMissing
            | Self::DeliveryTagMissing
            | Self::DeliveryTagTooLong
            | Self::DeliveryIdChanged
            | Self::DeliveryTagChanged
            | Self::MessageFormatChanged
            | Self::MessageTooLarge
            | Self::TransferLimit
            | Self::TooManyFrames
            | Self::PartialBytes
            | Self::PartialBytesOfNode
            | Self::Stolen => Scope::Link,
        }
    }

    /// Condition (part 2, 2.8.15 to 2.8.18) and a text for the person who reads the peer's log.
#[rustfmt::skip]
    const fn wording(self) -> (Symbol, &'static str) {
        match self {
            Self::FrameSizeBelowHeader => (condition::FRAMING_ERROR, "a frame's size is below its 8-byte header"),
            Self::FrameTooLarge => (condition::FRAMING_ERROR, "a frame is larger than the max-frame-size in force"),
            Self::DataOffset => (condition::FRAMING_ERROR, "a frame's data offset is below 2 or points past its end"),
            Self::FrameType => (condition::FRAMING_ERROR, "a frame has a type that does not belong to this layer"),
            Self::Undecodable => (condition::DECODE_ERROR, "a frame's body could not be decoded"),
            Self::FieldMissing => (condition::INVALID_FIELD, "a mandatory field is absent"),
            Self::UnknownPerformative => (condition::NOT_IMPLEMENTED, "a frame's body is no known performative"),
            Self::UnexpectedPerformative => (condition::NOT_ALLOWED, "a performative came where it has no meaning"),
            Self::OpenDeadline => (condition::RESOURCE_LIMIT_EXCEEDED, "no open arrived in time"),
            Self::OpenTwice => (condition::NOT_ALLOWED, "the connection is open already"),
            Self::NotOpened => (condition::NOT_ALLOWED, "the first frame must be an open"),
            Self::IdleTimeout => (condition::RESOURCE_LIMIT_EXCEEDED, "nothing arrived within the idle time-out"),
            Self::IdleTimeoutTooShort => (condition::NOT_ALLOWED, "the idle-time-out is below the minimum served here"),
            Self::FrameSizeBelowMinimum => (condition::INVALID_FIELD, "max-frame-size must be 512 or more"),
            Self::SlowReader => (condition::RESOURCE_LIMIT_EXCEEDED, "the peer does not read what is sent to it"),
            Self::ChannelAboveMaximum => (condition::FRAMING_ERROR, "a channel is above the channel-max in force"),
            Self::HandleAboveMaximum => (condition::FRAMING_ERROR, "a handle is above the handle-max in force"),
            Self::ChannelNotBegun => (condition::NOT_ALLOWED, "a frame came on a channel without a session"),
            Self::NoChannelLeft => (condition::RESOURCE_LIMIT_EXCEEDED, "the peer's channel-max leaves no channel to answer on"),
            Self::BeginTwice => (condition::NOT_ALLOWED, "the channel has a session already"),
            Self::RemoteChannelUnknown => (condition::NOT_ALLOWED, "a begin answers a channel that did not ask"),
            Self::Churn => (condition::RESOURCE_LIMIT_EXCEEDED, "sessions or links come and go too fast"),
            Self::NoProgress => (condition::RESOURCE_LIMIT_EXCEEDED, "too many frames that move nothing"),
            Self::NextIncomingIdAhead => (condition::WINDOW_VIOLATION, "next-incoming-id is ahead of what was sent"),
            Self::WindowExceeded => (condition::WINDOW_VIOLATION, "more transfers than the incoming-window allows"),
            Self::HandleInUse => (condition::HANDLE_IN_USE, "the handle is attached already"),
            Self::HandleUnattached => (condition::UNATTACHED_HANDLE, "no link is attached to the handle"),
            Self::LinkLimit => (condition::RESOURCE_LIMIT_EXCEEDED, "the connection has as many links as it may"),
            Self::LinkNameTooLong => (condition::FRAME_SIZE_TOO_SMALL, "the link's name fits into no frame that its own peer takes"),
            Self::TransferToSender => (condition::NOT_ALLOWED, "a transfer came on a link whose other end is the receiver"),
            Self::DeliveryIdNotRising => (condition::INVALID_FIELD, "a delivery-id does not follow the ones before it"),
            Self::AttachTooLarge => (condition::FRAME_SIZE_TOO_SMALL, "the answer to the attach fits into no frame that the peer takes"),
            Self::DeliveryIdMissing => (condition::INVALID_FIELD, "the first transfer of a delivery needs a delivery-id"),
            Self::DeliveryTagMissing => (condition::INVALID_FIELD, "the first transfer of a delivery needs a delivery-tag"),
            Self::DeliveryTagTooLong => (condition::INVALID_FIELD, "a delivery-tag is longer than 32 bytes"),
            Self::DeliveryIdChanged => (condition::NOT_ALLOWED, "a delivery began before the one in progress ended"),
            Self::DeliveryTagChanged => (condition::NOT_ALLOWED, "the delivery-tag changed within a delivery"),
            Self::MessageFormatChanged => (condition::NOT_ALLOWED, "the message-format changed within a delivery"),
            Self::MessageTooLarge => (condition::MESSAGE_SIZE_EXCEEDED, "the message is larger than max-message-size"),
            Self::TransferLimit => (condition::TRANSFER_LIMIT_EXCEEDED, "more deliveries than the link credit allows"),
            Self::TooManyFrames => (condition::RESOURCE_LIMIT_EXCEEDED, "a delivery came in too many frames for its size"),
            Self::PartialBytes => (condition::RESOURCE_LIMIT_EXCEEDED, "too many bytes of unfinished deliveries"),
            Self::PartialBytesOfNode => (condition::RESOURCE_LIMIT_EXCEEDED, "all peers together have too many bytes of unfinished deliveries; try again later"),
            Self::Stolen => (condition::LINK_STOLEN, "the link was attached again elsewhere"),
        }
    }

    pub(super) const fn is_of_link(self) -> bool {
        matches!(self.scope(), Scope::Link)
    }

    /// The text alone, for the log.
    pub(super) fn text(self) -> &'static str {
        self.wording().1
    }

    /// The error as it goes on the wire. The idle-time-out's minimum is the one number that a peer can act on.
    pub(super) fn to_error(self, config: &super::Config) -> AmqpError {
        let (condition, text) = self.wording();
        let description = match self {
            Self::IdleTimeoutTooShort => {
                Str::from(alloc::format!("{text}: {} ms", config.idle_timeout_peer_min_ms).as_str())
            }
            _ => Str::from(text),
        };
        AmqpError {
            condition,
            description: Some(description),
            info: None,
        }
    }
}
