//! The broker's refusals in the protocol's words: the one table from [`Reason`] to codes of ERROR.

use qq_proto_binary::error::{ErrorCode, text};

use std::borrow::Cow;

use crate::schema::{Fault, SchemaRefused, Unfit};
use crate::vocab::{Reason, Verdict};

pub(super) const fn code_of(reason: Reason) -> ErrorCode {
    match reason {
        Reason::NotFound | Reason::Deleted => ErrorCode::QueueNotFound,
        Reason::Stolen | Reason::Locked => ErrorCode::InUse,
        Reason::LimitExceeded | Reason::DiskFull | Reason::Internal => ErrorCode::Failed,
        Reason::Invalid => ErrorCode::InvalidRequest,
        Reason::NotAllowed => ErrorCode::NotAllowed,
        Reason::NotImplemented => ErrorCode::UnknownOpcode,
        Reason::Shutdown | Reason::Forced => ErrorCode::ShuttingDown,
        Reason::Undecodable => ErrorCode::SchemaMismatch,
    }
}

/// What is refused of a publish; none when it was taken.
pub(super) fn of_verdict(verdict: &Verdict) -> Option<(ErrorCode, Cow<'static, str>)> {
    Some(match verdict {
        // Of a duplicate its key is told, which is not known here.
        Verdict::Accepted | Verdict::Duplicate => return None,
        Verdict::Unroutable => (
            ErrorCode::QueueNotFound,
            Cow::Borrowed("no queue takes this message"),
        ),
        Verdict::Unfit(unfit) => {
            let (code, text) = of_unfit(unfit);
            (code, Cow::Owned(text))
        }
        Verdict::Full(_) => (
            code_of(Reason::LimitExceeded),
            Cow::Borrowed(text::QUEUE_FULL),
        ),
        Verdict::Rejected(reason) => {
            let words = match reason {
                Reason::LimitExceeded => text::MEMORY_PRESSURE,
                Reason::DiskFull => "the disk of the broker is full, try again later",
                Reason::NotFound | Reason::Deleted => "no such queue",
                Reason::Locked | Reason::Stolen => "the queue belongs to another connection alone",
                Reason::Shutdown => "the broker is going down",
                _ => "the broker refused the message",
            };
            (code_of(*reason), Cow::Borrowed(words))
        }
    })
}

/// What is wrong with a message for its queue.
pub(super) fn of_unfit(unfit: &Unfit) -> (ErrorCode, String) {
    match unfit {
        Unfit::NoSchema => (ErrorCode::SchemaMissing, text::SCHEMA_REQUIRED.to_owned()),
        _ => (
            ErrorCode::SchemaMismatch,
            format!("{}{unfit}", text::SCHEMA_MISMATCH_PREFIX),
        ),
    }
}

/// Why a source is no schema.
pub(super) fn of_fault(fault: &Fault) -> String {
    match fault {
        Fault::TooLarge(why) => format!("{}too large: {why}", text::SCHEMA_REFUSED_PREFIX),
        Fault::Invalid(why) => format!("{}: {why}", text::SCHEMA_INVALID),
        Fault::TypeNotFound(why) => format!("{}: {why}", text::SCHEMA_TYPE_UNKNOWN),
    }
}

/// Why a schema is not registered.
pub(super) fn of_schema(refused: &SchemaRefused) -> String {
    format!("{}{}", text::SCHEMA_REFUSED_PREFIX, refused.text)
}

/// The text for what is in the protocol and not in this broker.
pub(super) fn unoffered(what: &str) -> String {
    format!("this broker does not offer {what} yet")
}

/// The text for a message that its queue has already.
pub(super) fn duplicate(key: &str) -> String {
    format!("duplicate message: {key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_full_is_named() {
        let told = |verdict| of_verdict(&verdict).map(|(code, text)| (code, text.into_owned()));
        let failed = |text: &str| Some((ErrorCode::Failed, text.to_owned()));
        assert_eq!(told(Verdict::Full("q".into())), failed("queue is full"));
        let memory = "memory pressure: server under load, try again later";
        assert_eq!(
            told(Verdict::Rejected(Reason::LimitExceeded)),
            failed(memory)
        );
        let disk = told(Verdict::Rejected(Reason::DiskFull)).expect("refused");
        assert!(
            disk.0 == ErrorCode::Failed && disk.1.contains("disk"),
            "{disk:?}"
        );
    }
}
