//! Errors as the API tells them (RFC 9457).

use qq_core::admin::status_of;
use qq_core::vocab::Refusal;
use serde_json::json;

use crate::response::Response;

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    detail: String,
    reason: &'static str,
    /// Instead of the detail, for programs of before.
    short: Option<String>,
    field: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: u16, reason: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            reason,
            short: None,
            field: None,
        }
    }

    /// The request is wrong.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(400, "invalid", detail)
    }

    /// It does not exist; `short` is the text that clients of the original know.
    pub(crate) fn missing(short: &str, detail: impl Into<String>) -> Self {
        Self::new(404, "not-found", detail).with_short(short)
    }

    /// With this short text, unless it has one.
    pub(crate) fn with_short(mut self, short: &str) -> Self {
        self.short.get_or_insert_with(|| short.to_owned());
        self
    }

    pub(crate) fn with_field(self, field: Option<String>) -> Self {
        Self { field, ..self }
    }

    pub(crate) fn response(&self) -> Response {
        let mut value = json!({
            "type": "about:blank",
            "title": title(self.status),
            "status": self.status,
            "detail": self.detail,
            "reason": self.reason,
            "error": self.short.as_ref().unwrap_or(&self.detail),
        });
        if let Some(field) = &self.field {
            value["field"] = field.as_str().into();
        }
        let body = value.to_string().into_bytes();
        Response::new(self.status, "application/problem+json", body)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (status, reason) = status_of(refusal.reason);
        Self::new(status, reason, refusal.text)
    }
}

pub(crate) const fn title(status: u16) -> &'static str {
    match status {
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}
