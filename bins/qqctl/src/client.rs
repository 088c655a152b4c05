//! Requests to the HTTP API and what becomes of its answers.

use std::io::Read;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body};

use crate::failure::Failure;

/// Most bytes that an answer may have: more than any page of a list, less than would hurt.
const ANSWER_LEN_MAX: u64 = 256 << 20;
/// Characters of an answer that is no JSON which are shown.
const SHOWN_MAX: usize = 200;

/// An address of the API and how to log in there.
pub(crate) struct Client {
    agent: Agent,
    base: String,
    authorization: Option<String>,
    debug: bool,
}

/// What the broker answered to a request that it carried out.
pub(crate) struct Answer {
    /// The body as it came.
    pub(crate) raw: String,
    /// The body as JSON; null when there is none.
    pub(crate) json: Value,
    /// How many things a list has, of which these may be one page.
    pub(crate) total: Option<u64>,
}

/// What a client is told about itself.
pub(crate) struct Settings {
    pub(crate) api_url: String,
    pub(crate) timeout_s: u64,
    pub(crate) debug: bool,
    /// `name:password`, for Basic.
    pub(crate) user: Option<String>,
    /// For Bearer.
    pub(crate) token: Option<String>,
}

impl Client {
    /// Reads the address; a login in it counts as `user`.
    ///
    /// # Errors
    /// `Usage` when the address is none that can be used.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Failure> {
        let (base, login) = read_url(&settings.api_url)?;
        let authorization = match (&settings.token, login.or_else(|| settings.user.clone())) {
            (Some(token), _) => Some(format!("Bearer {token}")),
            (None, Some(login)) => Some(format!("Basic {}", BASE64_STANDARD.encode(login))),
            (None, None) => None,
        };
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(Duration::from_secs(settings.timeout_s)))
            .user_agent(concat!("qqctl/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        Ok(Self {
            agent,
            base,
            authorization,
            debug: settings.debug,
        })
    }

    pub(crate) fn get(&self, path: &str) -> Result<Answer, Failure> {
        let request = self.agent.get(self.url(path));
        self.finish("GET", path, self.login(request).call())
    }

    pub(crate) fn delete(&self, path: &str) -> Result<Answer, Failure> {
        let request = self.agent.delete(self.url(path));
        self.finish("DELETE", path, self.login(request).call())
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        let request = self.login(self.agent.put(self.url(path)));
        self.finish("PUT", path, send(request, body))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        let request = self.login(self.agent.post(self.url(path)));
        self.finish("POST", path, send(request, body))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn login<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.authorization {
            Some(value) => request.header("authorization", value),
            None => request,
        }
    }

    fn finish(
        &self,
        method: &str,
        path: &str,
        result: Result<Response<Body>, ureq::Error>,
    ) -> Result<Answer, Failure> {
        let base = &self.base;
        if self.debug {
            match &result {
                Ok(response) => eprintln!("qqctl: {method} {base}{path}: {}", response.status()),
                Err(error) => eprintln!("qqctl: {method} {base}{path}: {error}"),
            }
        }
        let mut response = result.map_err(|error| unreachable(base, &error))?;
        let status = response.status().as_u16();
        let total = response
            .headers()
            .get("x-total-count")
            .and_then(|total| total.to_str().ok()?.parse().ok());
        let mut raw = Vec::new();
        let read = response
            .body_mut()
            .with_config()
            .limit(ANSWER_LEN_MAX)
            .reader()
            .read_to_end(&mut raw);
        read.map_err(|error| cut_off(base, &error))?;
        let raw = String::from_utf8_lossy(&raw).into_owned();
        let json = if raw.trim().is_empty() {
            Ok(Value::Null)
        } else {
            serde_json::from_str(&raw)
        };
        match (status, json) {
            (200..=299, Ok(json)) => Ok(Answer { raw, json, total }),
            (200..=299, Err(_)) => Err(Failure::Refused(format!(
                "{base}{path} answered with something that is no JSON, is it the HTTP API of a broker? {}",
                beginning(&raw)
            ))),
            (_, json) => Err(Failure::Refused(refusal(status, &raw, json.ok()))),
        }
    }
}

fn send(
    request: ureq::RequestBuilder<ureq::typestate::WithBody>,
    body: &Value,
) -> Result<Response<Body>, ureq::Error> {
    request
        .header("content-type", "application/json")
        .send(body.to_string())
}

/// Takes an address apart: what requests begin with, and `name:password` if it names one.
fn read_url(text: &str) -> Result<(String, Option<String>), Failure> {
    let wrong = |why: &str| {
        Failure::Usage(format!(
            "the API address {text:?} {why}: it is something like http://localhost:8080"
        ))
    };
    let rest = match text.split_once("://") {
        Some(("http", rest)) => rest,
        Some(("https", _)) => return Err(wrong("asks for TLS, which the HTTP API does not speak")),
        Some(_) => return Err(wrong("does not begin with http://")),
        None => text,
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (
            Some(percent_decode_str(login).decode_utf8_lossy().into_owned()),
            host,
        ),
        None => (None, authority),
    };
    let path = path.trim_end_matches('/').trim_end_matches("/api/v1");
    let is_plain = |host: &str| host.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || !is_plain(host) || !is_plain(path) || path.contains(['?', '#']) {
        return Err(wrong("names no host"));
    }
    Ok((format!("http://{host}{path}"), login))
}

fn unreachable(base: &str, error: &ureq::Error) -> Failure {
    let why = match error {
        ureq::Error::Timeout(_) => "no answer in time (--timeout says how long to wait)".to_owned(),
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::HostNotFound => "no such host".to_owned(),
        ureq::Error::BadUri(text) => {
            return Failure::Usage(format!("the API address {base} cannot be used: {text}"));
        }
        error @ (ureq::Error::Protocol(_) | ureq::Error::Http(_)) => {
            return Failure::Refused(format!("{base} does not answer in HTTP: {error}"));
        }
        error => error.to_string(),
    };
    Failure::Unreachable(format!("cannot reach the broker at {base}: {why}"))
}

/// An answer that began and did not end.
fn cut_off(base: &str, error: &std::io::Error) -> Failure {
    let text = format!("the answer of {base} broke off: {error}");
    match error.kind() {
        std::io::ErrorKind::TimedOut => Failure::Unreachable(text),
        _ => Failure::Refused(text),
    }
}

/// One line about a refusal: the problem document's words where there is one.
fn refusal(status: u16, raw: &str, json: Option<Value>) -> String {
    let words = json.as_ref().and_then(|json| {
        let texts = ["detail", "error", "title"].map(|key| json[key].as_str());
        texts.into_iter().flatten().find(|text| !text.is_empty())
    });
    let hint = match status {
        401 => " (set QQ_API_USER=name:password or QQ_API_TOKEN)",
        _ => "",
    };
    match words {
        Some(words) => format!("{words}{hint}"),
        None => format!(
            "the broker answered with status {status}{hint}: {}",
            beginning(raw)
        ),
    }
}

/// The beginning of a text that was not expected, on one line.
fn beginning(raw: &str) -> String {
    let text: String = raw.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return "(nothing)".to_owned();
    }
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Bytes that stand for themselves in one segment of a path or in a value of a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'~')
    .remove(b'.');

/// A name as one segment of a path.
pub(crate) fn segment(name: &str) -> String {
    if name.bytes().all(|byte| byte == b'.') {
        // `.` and `..` as whole segments would mean another path.
        return name.replace('.', "%2E");
    }
    utf8_percent_encode(name, PLAIN).to_string()
}

/// `key=value` pairs as a query with its question mark; those without a value are left out.
pub(crate) fn query(pairs: &[(&str, Option<String>)]) -> String {
    let mut out = String::new();
    for (key, value) in pairs {
        if let Some(value) = value {
            out.push(if out.is_empty() { '?' } else { '&' });
            out.push_str(key);
            out.push('=');
            out.push_str(&segment(value));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn re_01_names_are_encoded_once_and_never_mean_another_path() {
        let cases = [
            ("a/b", "a%2Fb"),
            ("a%2Fb", "a%252Fb"),
            ("a b", "a%20b"),
            ("a+b", "a%2Bb"),
            ("a?b#c", "a%3Fb%23c"),
            ("..", "%2E%2E"),
            (".", "%2E"),
            ("a/../../broker/stats", "a%2F..%2F..%2Fbroker%2Fstats"),
            ("%", "%25"),
            ("\u{fc}\u{4e2d}\u{1f600}", "%C3%BC%E4%B8%AD%F0%9F%98%80"),
            ("plain-name_1.~", "plain-name_1.~"),
        ];
        for (name, expected) in cases {
            assert_eq!(segment(name), expected);
            assert_eq!(
                percent_decode_str(expected).decode_utf8().expect("UTF-8"),
                name
            );
        }
    }

    #[test]
    fn queries_hold_what_is_there() {
        assert_eq!(query(&[("a", None), ("b", None)]), "");
        let pairs = [
            ("a", Some("1&2=3".to_owned())),
            ("b", None),
            ("c", Some(String::new())),
        ];
        assert_eq!(query(&pairs), "?a=1%262%3D3&c=");
    }

    #[test]
    fn addresses_are_read_in_every_usual_form() {
        let cases = [
            ("http://localhost:8080", "http://localhost:8080", None),
            ("http://localhost:8080/", "http://localhost:8080", None),
            (
                "http://localhost:8080/api/v1",
                "http://localhost:8080",
                None,
            ),
            ("localhost:8080", "http://localhost:8080", None),
            ("http://[::1]:8080", "http://[::1]:8080", None),
            ("http://proxy/broker/", "http://proxy/broker", None),
            (
                "http://guest:p%40ss@host",
                "http://host",
                Some("guest:p@ss"),
            ),
        ];
        for (text, base, login) in cases {
            let read = read_url(text).expect(text);
            assert_eq!(read, (base.to_owned(), login.map(str::to_owned)), "{text}");
        }
        for text in [
            "",
            "http://",
            "ftp://host",
            "https://host",
            "http://a b",
            "http://host/x?y",
            "http://ho\nst",
        ] {
            assert_eq!(read_url(text).expect_err(text).code(), 2, "{text}");
        }
    }
}
