//! The error conditions of the standard (part 2, 2.8.15 to 2.8.18), each a symbol for
//! [`AmqpError::condition`](crate::performative::AmqpError).

use crate::types::Symbol;

macro_rules! conditions {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: Symbol = Symbol::from_static($text);)*
    };
}

conditions! {
    /// An internal error occurred; an operator may have to look.
    INTERNAL_ERROR = "amqp:internal-error";
    /// The peer tried to work with an entity that does not exist.
    NOT_FOUND = "amqp:not-found";
    /// The peer may not use the entity.
    UNAUTHORIZED_ACCESS = "amqp:unauthorized-access";
    /// Data could not be decoded.
    DECODE_ERROR = "amqp:decode-error";
    /// The peer went beyond its allocation of some resource.
    RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded";
    /// The peer used a frame in a way that its semantics do not allow.
    NOT_ALLOWED = "amqp:not-allowed";
    /// A field was invalid.
    INVALID_FIELD = "amqp:invalid-field";
    /// The functionality is not implemented.
    NOT_IMPLEMENTED = "amqp:not-implemented";
    /// Another peer works with the entity exclusively.
    RESOURCE_LOCKED = "amqp:resource-locked";
    /// A precondition failed.
    PRECONDITION_FAILED = "amqp:precondition-failed";
    /// The entity that the peer works with was deleted.
    RESOURCE_DELETED = "amqp:resource-deleted";
    /// The peer sent a frame that its state does not permit.
    ILLEGAL_STATE = "amqp:illegal-state";
    /// A frame cannot be sent because the frame size that the peer takes is too small.
    FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small";
    /// An operator closed the connection.
    CONNECTION_FORCED = "amqp:connection:forced";
    /// A valid frame header cannot be formed from the bytes.
    FRAMING_ERROR = "amqp:connection:framing-error";
    /// The container is elsewhere; the error's info says where.
    CONNECTION_REDIRECT = "amqp:connection:redirect";
    /// The peer violated the incoming window of the session.
    WINDOW_VIOLATION = "amqp:session:window-violation";
    /// Input was received for a link that was detached with an error.
    ERRANT_LINK = "amqp:session:errant-link";
    /// An attach named a handle in use.
    HANDLE_IN_USE = "amqp:session:handle-in-use";
    /// A frame named a handle that is not attached.
    UNATTACHED_HANDLE = "amqp:session:unattached-handle";
    /// An operator detached the link.
    DETACH_FORCED = "amqp:link:detach-forced";
    /// The peer sent more messages than its credit allows.
    TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded";
    /// The peer sent a message larger than the link takes.
    MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded";
    /// The address is elsewhere; the error's info says where.
    LINK_REDIRECT = "amqp:link:redirect";
    /// The link was attached elsewhere.
    LINK_STOLEN = "amqp:link:stolen";
}
