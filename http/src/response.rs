//! Answers and their bytes.

use crate::problem::title;

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        let headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        Self {
            status,
            headers,
            body,
        }
    }

    /// Without a body.
    pub(crate) const fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// A value as JSON.
    pub(crate) fn json(status: u16, value: &(impl serde::Serialize + ?Sized)) -> Self {
        // Fails for no value that the API makes: keys are texts.
        let body = serde_json::to_vec(value).unwrap_or_default();
        Self::new(status, "application/json", body)
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The bytes. A response to HEAD has the length of what GET would get, and no body.
    pub(crate) fn encode(&self, keeps_alive: bool, is_head: bool) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, title(self.status));
        let mut add = |name: &str, value: &str| {
            head.push_str(name);
            head.push_str(": ");
            // Values are ours or were checked; a line break would begin another header.
            head.extend(value.chars().filter(|c| !c.is_control()));
            head.push_str("\r\n");
        };
        for (name, value) in &self.headers {
            add(name, value);
        }
        add("X-Content-Type-Options", "nosniff");
        let is_own = |name: &str| {
            self.headers
                .iter()
                .any(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        if !is_own("Cache-Control") {
            add("Cache-Control", "no-store");
        }
        if !matches!(self.status, 204 | 304) {
            add("Content-Length", &self.body.len().to_string());
        }
        add(
            "Connection",
            if keeps_alive { "keep-alive" } else { "close" },
        );
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        if !is_head {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}
