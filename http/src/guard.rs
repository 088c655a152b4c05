//! Reads requests from a connection, strictly: a machine without IO.
//!
//! Bytes go in, a head comes out; whoever serves decides whether its body may come and how long it may be. Whatever two
//! readers could understand differently is refused (RFC 9112, 6.1 and 6.3): a request with a transfer-encoding, with two
//! lengths, with bare line feeds, with a space before a colon, with folded lines. One request is served at a time; what
//! follows it stays in the socket.

use std::time::Duration;

/// Bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of request line and headers.
    pub head_max: usize,
    /// Headers.
    pub headers_max: usize,
    /// How long a request may take to arrive.
    pub request_timeout: Duration,
    /// How long a connection may be silent between requests.
    pub idle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_max: 16 * 1024,
            headers_max: 100,
            request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
        }
    }
}

/// Request line and headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// As it came.
    pub method: String,
    /// Path and query as they came.
    pub target: String,
    /// Names in lower case, values without space around them.
    pub headers: Vec<(String, String)>,
    /// Bytes of body that follow.
    pub body_len: u64,
    /// The peer may send another request on this connection.
    pub keeps_alive: bool,
    /// The peer waits for leave to send the body.
    pub expects_continue: bool,
}

impl Head {
    /// The value of a header that comes once; none when it is not there.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardEvent {
    /// A head is whole: [`Guard::admit`] or [`Guard::close`] comes next.
    Head(Head),
    /// The body is whole: [`Guard::done`] comes when the request is answered.
    Body(Vec<u8>),
    /// This is no request that can be served: tell it and close.
    Refused {
        /// Of the answer.
        status: u16,
        /// For people.
        text: &'static str,
    },
    /// Nothing more comes: close.
    Closed,
}

#[derive(Debug)]
enum State {
    /// Between requests or within a head; so much of it was searched for its end.
    Head { searched: usize },
    /// Somebody decides about the body.
    Decision { body_len: u64 },
    /// So much of the body is wanted.
    Body { len: usize },
    /// The request is being served.
    Serving,
    /// Nothing is read any more.
    Closed,
}

/// See the module.
#[derive(Debug)]
pub struct Guard {
    limits: Limits,
    input: Vec<u8>,
    state: State,
    event: Option<GuardEvent>,
    deadline: Duration,
}

impl Guard {
    /// A guard for a connection that just came.
    #[must_use]
    pub fn new(limits: Limits, now: Duration) -> Self {
        Self {
            limits,
            input: Vec::new(),
            state: State::Head { searched: 0 },
            event: None,
            deadline: now + limits.request_timeout,
        }
    }

    /// Bytes came. To be called while [`Guard::wants_read`] is true.
    pub fn handle_input(&mut self, now: Duration, bytes: &[u8]) {
        if matches!(self.state, State::Closed) {
            return;
        }
        if self.input.is_empty() && matches!(self.state, State::Head { .. }) {
            self.deadline = now + self.limits.request_timeout;
        }
        self.input.extend_from_slice(bytes);
        self.read_on();
    }

    /// The peer sends no more.
    pub fn handle_eof(&mut self) {
        if !matches!(self.state, State::Serving | State::Decision { .. }) {
            self.state = State::Closed;
            self.event.get_or_insert(GuardEvent::Closed);
        }
    }

    /// The time of [`Guard::poll_timeout`] came.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        let is_idle = self.input.is_empty() && matches!(self.state, State::Head { .. });
        self.state = State::Closed;
        self.event = Some(if is_idle {
            GuardEvent::Closed
        } else {
            refused(408, "the request took too long to arrive")
        });
    }

    /// When [`Guard::handle_timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let waits = matches!(self.state, State::Head { .. } | State::Body { .. });
        waits.then_some(self.deadline)
    }

    /// What came out.
    pub fn poll_event(&mut self) -> Option<GuardEvent> {
        self.event.take()
    }

    /// Whether bytes are welcome.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        matches!(self.state, State::Head { .. } | State::Body { .. })
    }

    /// Whether nothing of a request has come.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.input.is_empty() && matches!(self.state, State::Head { .. })
    }

    /// The body may come if it is not longer than so many bytes.
    pub fn admit(&mut self, body_max: usize) {
        let State::Decision { body_len } = self.state else {
            return;
        };
        match usize::try_from(body_len) {
            Ok(len) if len <= body_max => {
                self.state = State::Body { len };
                self.read_on();
            }
            _ => self.refuse(413, "the body is longer than allowed"),
        }
    }

    /// The request was answered: the next one may come.
    pub fn done(&mut self, now: Duration) {
        if matches!(self.state, State::Serving) {
            self.state = State::Head { searched: 0 };
            self.deadline = now + self.limits.idle_timeout;
            if !self.input.is_empty() {
                self.deadline = now + self.limits.request_timeout;
                self.read_on();
            }
        }
    }

    /// Nothing more is wanted.
    pub fn close(&mut self) {
        self.state = State::Closed;
        self.event = None;
        self.input = Vec::new();
    }

    fn refuse(&mut self, status: u16, text: &'static str) {
        self.state = State::Closed;
        self.input = Vec::new();
        self.event = Some(refused(status, text));
    }

    fn read_on(&mut self) {
        match self.state {
            State::Head { searched } => self.read_head(searched),
            State::Body { len } if self.input.len() >= len => {
                let rest = self.input.split_off(len);
                let body = std::mem::replace(&mut self.input, rest);
                self.state = State::Serving;
                self.event = Some(GuardEvent::Body(body));
            }
            _ => {}
        }
    }

    fn read_head(&mut self, searched: usize) {
        // A line that ends without a carriage return is never part of a head, so the first such is the end of this try.
        let from = searched.saturating_sub(3);
        let end = self.input[from..]
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        let Some(end) = end.map(|at| from + at + 4) else {
            if self.input.len() > self.limits.head_max {
                return self.refuse(431, "request line and headers are longer than allowed");
            }
            let input = &self.input;
            let is_bare = |at: usize| input[at] == b'\n' && (at == 0 || input[at - 1] != b'\r');
            if (searched..input.len()).any(is_bare) {
                return self.refuse(400, "lines end with a carriage return and a line feed");
            }
            self.state = State::Head {
                searched: self.input.len(),
            };
            return;
        };
        if end > self.limits.head_max {
            return self.refuse(431, "request line and headers are longer than allowed");
        }
        match parse_head(&self.input[..end - 4], self.limits.headers_max) {
            Ok(head) => {
                self.input.drain(..end);
                self.state = State::Decision {
                    body_len: head.body_len,
                };
                self.event = Some(GuardEvent::Head(head));
            }
            Err((status, text)) => self.refuse(status, text),
        }
    }
}

fn refused(status: u16, text: &'static str) -> GuardEvent {
    GuardEvent::Refused { status, text }
}

type Wrong = (u16, &'static str);

fn parse_head(bytes: &[u8], headers_max: usize) -> Result<Head, Wrong> {
    let mut lines = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
        lines.push(&rest[..at]);
        rest = &rest[at + 2..];
        if lines.len() > headers_max + 1 {
            return Err((431, "there are more headers than allowed"));
        }
    }
    lines.push(rest);
    let mut lines = lines.into_iter();
    let mut head = parse_request_line(lines.next().unwrap_or_default())?;
    for line in lines {
        head.headers.push(parse_header(line)?);
    }
    if head.headers.len() > headers_max {
        return Err((431, "there are more headers than allowed"));
    }
    let is_11 = head.keeps_alive;
    settle_headers(&mut head, is_11)?;
    Ok(head)
}

fn parse_request_line(line: &[u8]) -> Result<Head, Wrong> {
    const WRONG: Wrong = (400, "this is no HTTP/1.1 request line");
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(WRONG);
    };
    let is_11 = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        _ if version.starts_with(b"HTTP/") => return Err((505, "HTTP/1.1 is spoken here")),
        _ => return Err(WRONG),
    };
    let is_visible = |byte: &u8| byte.is_ascii_graphic();
    if method.is_empty() || method.len() > 32 || !method.iter().all(is_token) {
        return Err(WRONG);
    }
    if target.is_empty() || !target.iter().all(is_visible) {
        return Err((400, "the path holds what must be percent-encoded"));
    }
    let target = String::from_utf8_lossy(target).into_owned();
    let target = match target.strip_prefix("http://") {
        // What a proxy would be asked.
        Some(rest) => match rest.find('/') {
            Some(at) => rest[at..].to_owned(),
            None => "/".to_owned(),
        },
        None => target,
    };
    if !target.starts_with('/') && target != "*" {
        return Err((400, "the path must begin with a slash"));
    }
    Ok(Head {
        method: String::from_utf8_lossy(method).into_owned(),
        target,
        keeps_alive: is_11,
        ..Head::default()
    })
}

fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

fn parse_header(line: &[u8]) -> Result<(String, String), Wrong> {
    if line.first().is_some_and(|byte| b" \t".contains(byte)) {
        return Err((400, "a header must not be folded over lines"));
    }
    let colon = line.iter().position(|byte| *byte == b':');
    let Some(colon) = colon else {
        return Err((400, "a header has no colon"));
    };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.is_empty() || !name.iter().all(is_token) {
        return Err((400, "the name of a header holds what it must not"));
    }
    if value
        .iter()
        .any(|byte| byte.is_ascii_control() && *byte != b'\t')
    {
        return Err((400, "the value of a header holds a control character"));
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let value = String::from_utf8_lossy(value.trim_ascii()).into_owned();
    Ok((name, value))
}

/// Draws the consequences of the headers that say how the message goes on.
fn settle_headers(head: &mut Head, is_11: bool) -> Result<(), Wrong> {
    let values = |name: &str| -> Vec<&str> {
        let found = head.headers.iter().filter(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).collect()
    };
    let lengths = values("content-length");
    if !values("transfer-encoding").is_empty() {
        return Err(if lengths.is_empty() {
            (
                411,
                "send the body with a content-length and without a transfer-encoding",
            )
        } else {
            (
                400,
                "content-length and transfer-encoding exclude each other",
            )
        });
    }
    let body_len = match lengths[..] {
        [] => 0,
        [length] => {
            let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
            if !is_number {
                return Err((400, "the content-length is no number"));
            }
            // One that does not fit is too long for every body.
            length.parse().unwrap_or(u64::MAX)
        }
        _ => return Err((400, "there is more than one content-length")),
    };
    let hosts = values("host");
    if hosts.len() > 1 || is_11 && hosts.is_empty() {
        return Err((400, "a request names one host"));
    }
    let connection = values("connection").join(",").to_ascii_lowercase();
    let has = |word: &str| connection.split(',').any(|part| part.trim() == word);
    let keeps_alive = if is_11 {
        !has("close")
    } else {
        has("keep-alive")
    };
    let expects_continue = match values("expect")[..] {
        [] => false,
        [value] if value.eq_ignore_ascii_case("100-continue") => is_11,
        _ => return Err((417, "only 100-continue can be expected")),
    };
    head.body_len = body_len;
    head.keeps_alive = keeps_alive;
    head.expects_continue = expects_continue;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn guard() -> Guard {
        Guard::new(Limits::default(), NOW)
    }

    fn status(bytes: &[u8]) -> Option<u16> {
        let mut guard = guard();
        guard.handle_input(NOW, bytes);
        match guard.poll_event()? {
            GuardEvent::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    #[test]
    fn a_request_is_the_same_however_it_is_cut() {
        let bytes = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nhost: y\r\n\r\n";
        for step in 1..bytes.len() {
            let mut guard = guard();
            let mut events = Vec::new();
            for part in bytes.chunks(step) {
                guard.handle_input(NOW, part);
                while let Some(event) = guard.poll_event() {
                    if let GuardEvent::Head(_) = event {
                        guard.admit(3);
                    }
                    if let GuardEvent::Body(_) = event {
                        guard.done(NOW);
                    }
                    events.push(event);
                }
            }
            let bodies: Vec<&[u8]> = events
                .iter()
                .filter_map(|event| match event {
                    GuardEvent::Body(body) => Some(&body[..]),
                    _ => None,
                })
                .collect();
            assert_eq!(bodies, [&b"abc"[..], b""], "{step}: {events:?}");
        }
    }

    #[test]
    fn re_04_what_can_be_understood_in_two_ways_is_refused() {
        let post = |headers: &str| {
            format!("POST / HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n")
        };
        for headers in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding : chunked\r\nContent-Length: 3",
            "Content-Length: 3\r\nContent-Length: 4",
            "Content-Length: +5",
            "Content-Length: 5, 5",
            "Content-Length: 0x5",
            "X: a\r\n folded",
            "X: a\nContent-Length: 3",
            "Host: y",
        ] {
            assert_eq!(status(post(headers).as_bytes()), Some(400), "{headers}");
        }
        assert_eq!(
            status(post("Transfer-Encoding: chunked").as_bytes()),
            Some(411)
        );
        assert_eq!(status(b"GET / HTTP/1.1\n\n"), Some(400));
        assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), Some(400));
        assert_eq!(status(b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n"), Some(400));
        assert_eq!(status(b"GET / HTTP/2.0\r\nHost: x\r\n\r\n"), Some(505));
    }

    #[test]
    fn heads_and_bodies_are_bounded() {
        let mut long = b"GET / HTTP/1.1\r\nHost: x\r\nX: ".to_vec();
        long.resize(16 * 1024 + 1, b'a');
        assert_eq!(status(&long), Some(431));
        let headers = "X: 1\r\n".repeat(100);
        let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
        assert_eq!(status(many.as_bytes()), Some(431));
        for length in ["11", "1000000000000000000", "99999999999999999999999"] {
            let mut guard = guard();
            let head = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
            guard.handle_input(NOW, head.as_bytes());
            assert!(matches!(guard.poll_event(), Some(GuardEvent::Head(_))));
            guard.admit(10);
            assert!(matches!(
                guard.poll_event(),
                Some(GuardEvent::Refused { status: 413, .. })
            ));
            assert!(!guard.wants_read());
        }
    }

    #[test]
    fn slow_requests_are_told_and_silent_connections_closed() {
        let mut slow = guard();
        slow.handle_input(NOW, b"GET / HT");
        slow.handle_timeout(NOW + Duration::from_secs(9));
        assert_eq!(slow.poll_event(), None);
        slow.handle_input(NOW + Duration::from_secs(9), b"TP");
        slow.handle_timeout(NOW + Duration::from_secs(10));
        assert!(matches!(
            slow.poll_event(),
            Some(GuardEvent::Refused { status: 408, .. })
        ));
        let mut silent = guard();
        silent.handle_timeout(NOW + Duration::from_secs(10));
        assert_eq!(silent.poll_event(), Some(GuardEvent::Closed));
    }
}
