//! The broker's refusals in the protocol's words: the one table from [`Reason`] to codes of ERROR.

use qq_proto_binary::error::{ErrorCode, text};

use crate::vocab::{Reason, Verdict};

pub(super) const fn code_of(reason: Reason) -> ErrorCode {
    match reason {
        Reason::NotFound | Reason::Deleted => ErrorCode::QueueNotFound,
        Reason::Stolen | Reason::Locked => ErrorCode::InUse,
        Reason::LimitExceeded | Reason::Internal => ErrorCode::Failed,
        Reason::Invalid => ErrorCode::InvalidRequest,
        Reason::NotAllowed => ErrorCode::NotAllowed,
        Reason::NotImplemented => ErrorCode::UnknownOpcode,
        Reason::Shutdown | Reason::Forced => ErrorCode::ShuttingDown,
        Reason::Undecodable => ErrorCode::SchemaMismatch,
    }
}

/// What is refused of a publish; none when it was taken.
pub(super) const fn of_verdict(verdict: &Verdict) -> Option<(ErrorCode, &'static str)> {
    Some(match verdict {
        Verdict::Accepted => return None,
        Verdict::Unroutable => (ErrorCode::QueueNotFound, "no queue takes this message"),
        Verdict::Rejected(reason) => {
            let words = match reason {
                Reason::LimitExceeded => text::QUEUE_FULL,
                Reason::NotFound | Reason::Deleted => "no such queue",
                Reason::Locked | Reason::Stolen => "the queue belongs to another connection alone",
                Reason::Shutdown => "the broker is going down",
                _ => "the broker refused the message",
            };
            (code_of(*reason), words)
        }
    })
}

/// The text for what is in the protocol and not in this broker.
pub(super) fn unoffered(what: &str) -> String {
    format!("this broker does not offer {what} yet")
}
