//! Looking at messages without taking them: one GET of the broker's HTTP API, since the binary protocol has no such
//! request. The answer, JSON, is printed as it comes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

use crate::Failure;
use crate::args::QueuePeek;

const PATIENCE: Duration = Duration::from_secs(30);
/// Longest answer, bytes.
const ANSWER_MAX: u64 = 64 << 20;

pub(crate) fn peek(peek: &QueuePeek, token: Option<String>) -> Result<ExitCode, Failure> {
    let gone =
        |error: std::io::Error| Failure::Unreachable(format!("no API at {}: {error}", peek.api));
    let mut request = format!(
        "GET /api/v1/queues/{}/messages?limit={} HTTP/1.0\r\nHost: {}\r\nAccept: application/json\r\n",
        encoded(&peek.queue),
        peek.count,
        peek.api
    );
    if let Some(token) = token.filter(|token| !token.chars().any(char::is_control)) {
        request.push_str(&format!("Authorization: Bearer {token}\r\n"));
    }
    request.push_str("\r\n");
    let mut socket = TcpStream::connect(&peek.api).map_err(gone)?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(gone)?;
    socket.write_all(request.as_bytes()).map_err(gone)?;
    let mut answer = Vec::new();
    socket
        .take(ANSWER_MAX)
        .read_to_end(&mut answer)
        .map_err(gone)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    match status {
        "200" => {
            println!("{}", body.trim_end());
            Ok(ExitCode::SUCCESS)
        }
        "" => Err(Failure::Unreachable(format!(
            "{} does not speak HTTP",
            peek.api
        ))),
        _ => Err(Failure::Refused(format!("{status}: {}", body.trim_end()))),
    }
}

/// A name as one segment of a path.
fn encoded(name: &str) -> String {
    let mut path = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                path.push(char::from(byte))
            }
            // A dot as well: `..` is a step up.
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_whatever_is_in_it() {
        assert_eq!(encoded("a/b ?ü.."), "a%2Fb%20%3F%C3%BC%2E%2E");
    }
}
