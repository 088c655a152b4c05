//! Refusals as numbers and words of the management interfaces: one table for HTTP and `$management`.

use crate::vocab::Reason;

/// The status code, in HTTP's sense, and the word for programs that a reason stands for.
#[must_use]
pub const fn status_of(reason: Reason) -> (u16, &'static str) {
    match reason {
        Reason::NotFound | Reason::Deleted => (404, "not-found"),
        Reason::Invalid => (400, "invalid"),
        Reason::NotAllowed => (403, "not-allowed"),
        Reason::Locked | Reason::Stolen | Reason::Forced => (409, "locked"),
        Reason::LimitExceeded | Reason::DiskFull => (429, "limit-exceeded"),
        Reason::NotImplemented => (422, "not-offered"),
        Reason::Undecodable => (422, "schema"),
        Reason::Shutdown => (503, "unavailable"),
        Reason::Internal => (500, "internal"),
    }
}
