//! As much of WebSocket (RFC 6455) as a server needs that only sends texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::guard::Head;

/// The answer to an opening hand-shake; none when the request is none.
pub(crate) fn accept(head: &Head) -> Option<String> {
    let is = |name: &str, wanted: &str| {
        let value = head.header(name).unwrap_or_default().to_ascii_lowercase();
        value.split(',').any(|part| part.trim() == wanted)
    };
    if !is("upgrade", "websocket")
        || !is("connection", "upgrade")
        || !is("sec-websocket-version", "13")
    {
        return None;
    }
    let key = head.header("sec-websocket-key")?;
    if STANDARD.decode(key).ok()?.len() != 16 {
        return None;
    }
    let digest = sha1(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes());
    Some(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
        STANDARD.encode(digest)
    ))
}

/// A text in one frame (5.2); a server does not mask.
pub(crate) fn text_frame(text: &[u8]) -> Vec<u8> {
    frame(0x81, text)
}

/// The answer to a close (5.5.1): normal.
pub(crate) fn close_frame() -> Vec<u8> {
    frame(0x88, &1000u16.to_be_bytes())
}

/// Whether a frame that begins here is a close. What comes in several reads is not looked into: the peer's end of the
/// stream is seen anyway.
pub(crate) fn is_close(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| first & 0x0f == 0x8)
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(len), _) if len < 126 => bytes.push(len),
        (_, Ok(len)) => {
            bytes.push(126);
            bytes.extend_from_slice(&len.to_be_bytes());
        }
        _ => {
            bytes.push(127);
            bytes.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// SHA-1 (FIPS 180-4), which the hand-shake uses as a mere checksum.
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    let mut state: [u32; 5] = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    for block in padded.chunks_exact(64) {
        let mut words = [0u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        for at in 16..80 {
            words[at] =
                (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.iter().enumerate() {
            let (mixed, constant) = match at {
                0..20 => ((b & c) | (!b & d), 0x5a82_7999u32),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(mixed)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(*word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (part, add) in state.iter_mut().zip([a, b, c, d, e]) {
            *part = part.wrapping_add(add);
        }
    }
    let mut digest = [0; 20];
    for (bytes, part) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&part.to_be_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455, 1.3.
    #[test]
    fn the_hand_shake_of_the_standard_is_answered_as_it_says() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let head = Head {
            headers: vec![
                header("upgrade", "websocket"),
                header("connection", "keep-alive, Upgrade"),
                header("sec-websocket-version", "13"),
                header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ],
            ..Head::default()
        };
        let answer = accept(&head).expect("a hand-shake");
        assert!(answer.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
        assert_eq!(accept(&Head::default()), None);
    }

    #[test]
    fn lengths_are_written_in_the_shortest_form() {
        for (len, head) in [
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let bytes = text_frame(&vec![b'a'; len]);
            assert_eq!(bytes[..head.len()], head[..]);
            assert_eq!(bytes.len(), head.len() + len);
        }
    }
}
