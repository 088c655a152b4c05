//! Addresses from text: the forms that users write, alike on every interface.

use crate::vocab::{Address, Reason, Refusal};

impl Address {
    /// Reads `NAME`, `/queues/NAME`, `/queues/NAME/groups/GROUP`, `/streams/NAME`, `/exchanges/NAME` and `/exchanges/NAME/KEY`, each also behind
    /// `scheme://host`. The parts of path forms are percent-encoded; a plain name is taken as it is.
    ///
    /// # Errors
    /// `Invalid` when the text is empty, a part is missing or superfluous, or an escape is malformed.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let path = match text.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => {
                let path = rest.find('/').map_or("", |at| &rest[at..]);
                if is_path_form(path) {
                    path
                } else {
                    path.strip_prefix('/').unwrap_or(path)
                }
            }
            _ => text,
        };
        if let Some(name) = path.strip_prefix("/queues/") {
            if let Some((queue, group)) = name.split_once("/groups/") {
                return Ok(Self::Group {
                    queue: single(text, queue)?,
                    name: single(text, group)?,
                    may_make_queue: false,
                });
            }
            return Ok(Self::Queue(single(text, name)?));
        }
        if let Some(name) = path.strip_prefix("/streams/") {
            return Ok(Self::Stream(single(text, name)?));
        }
        if let Some(rest) = path.strip_prefix("/exchanges/") {
            let (name, key) = match rest.split_once('/') {
                Some((name, key)) => (name, Some(decode(text, key)?)),
                None => (rest, None),
            };
            return Ok(Self::Exchange {
                name: decode(text, name)?,
                key,
            });
        }
        if path.is_empty() {
            return Err(invalid(text, "it names nothing"));
        }
        Ok(Self::Name(path.to_owned()))
    }
}

/// A URI scheme (RFC 3986, 3.1): a letter, then letters, digits, `+`, `-`, `.`.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn is_path_form(path: &str) -> bool {
    ["/queues/", "/streams/", "/exchanges/"]
        .iter()
        .any(|form| path.starts_with(form))
}

fn single(address: &str, part: &str) -> Result<String, Refusal> {
    if part.is_empty() {
        return Err(invalid(address, "a name is missing at its end"));
    }
    decode(address, part)
}

/// Undoes percent-encoding (RFC 3986, 2.1).
fn decode(address: &str, part: &str) -> Result<String, Refusal> {
    if part.contains('/') {
        return Err(invalid(
            address,
            "a slash within a name must be written as %2F",
        ));
    }
    let mut decoded = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digits = rest.next().and_then(hex).zip(rest.next().and_then(hex));
        let (high, low) = digits
            .ok_or_else(|| invalid(address, "a percent sign must be followed by two hex digits"))?;
        decoded.push(high * 16 + low);
    }
    String::from_utf8(decoded).map_err(|_| invalid(address, "its escapes do not form UTF-8"))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

fn invalid(address: &str, why: &str) -> Refusal {
    Refusal {
        reason: Reason::Invalid,
        text: format!(
            "the address {} cannot be used: {why}; write NAME, /queues/NAME, /queues/NAME/groups/GROUP, \
             /streams/NAME, /exchanges/NAME or /exchanges/NAME/KEY",
            crate::broker::quoted(address)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(name: &str, key: Option<&str>) -> Address {
        Address::Exchange {
            name: name.to_owned(),
            key: key.map(str::to_owned),
        }
    }

    #[test]
    fn every_form_is_read() {
        for (text, address) in [
            ("q1", Address::Name("q1".to_owned())),
            ("a%20b", Address::Name("a%20b".to_owned())),
            ("/q1", Address::Name("/q1".to_owned())),
            ("/queues/q1", Address::Queue("q1".to_owned())),
            ("/queues/a%2Fb%20%c3%A4", Address::Queue("a/b ä".to_owned())),
            ("/streams/s", Address::Stream("s".to_owned())),
            (
                "/queues/a%2Fb/groups/g%20h",
                Address::Group {
                    queue: "a/b".to_owned(),
                    name: "g h".to_owned(),
                    may_make_queue: false,
                },
            ),
            ("/exchanges/amq.topic", exchange("amq.topic", None)),
            (
                "/exchanges/amq.topic/a.b",
                exchange("amq.topic", Some("a.b")),
            ),
            ("/exchanges/x/", exchange("x", Some(""))),
            ("/exchanges//q1", exchange("", Some("q1"))),
            ("/exchanges/", exchange("", None)),
            ("amqp://host:5672/q1", Address::Name("q1".to_owned())),
            (
                "amqps://user@host/queues/q1",
                Address::Queue("q1".to_owned()),
            ),
            ("amqp://host//q1", Address::Name("/q1".to_owned())),
        ] {
            assert_eq!(Address::parse(text), Ok(address), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_invalid() {
        for text in [
            "",
            "amqp://host",
            "amqp://host/",
            "/queues/",
            "/streams/",
            "/queues/a/b",
            "/queues/a/groups/",
            "/queues//groups/g",
            "/queues/a/groups/g/h",
            "/queues/%",
            "/queues/%2",
            "/queues/%zz",
            "/queues/%+1",
            "/queues/%ff",
            "/exchanges/a/b/c",
        ] {
            let refusal = Address::parse(text).expect_err(text);
            assert_eq!(refusal.reason, Reason::Invalid, "{text}");
        }
    }
}
