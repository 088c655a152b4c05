//! Frames as text, for a person who follows a run.

use bytes::Bytes;
use qq_proto_amqp::performative::Performative;

/// Frames of a direction, which may begin or end with parts of frames.
pub(super) fn frames(bytes: &[u8]) -> Vec<String> {
    let mut rest = bytes;
    let mut found = Vec::new();
    while rest.len() >= 8 {
        if rest.starts_with(b"AMQP") {
            found.push("header".to_owned());
            rest = &rest[8..];
            continue;
        }
        let size = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
        let channel = u16::from_be_bytes([rest[6], rest[7]]);
        if size < 8 || size > rest.len() {
            break;
        }
        let body = Bytes::copy_from_slice(&rest[8..size]);
        let text = match Performative::decode(&body) {
            Ok((performative, at)) => {
                format!("{channel} {performative:?} and {} bytes", body.len() - at)
            }
            Err(_) if body.is_empty() => "heartbeat".to_owned(),
            Err(error) => format!("{channel} {error:?}"),
        };
        found.push(text);
        rest = &rest[size..];
    }
    found
}
