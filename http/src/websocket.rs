//! As much of WebSocket (RFC 6455) as a server needs that only sends texts: what peers say is read for pings and for the
//! end, without IO.

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

/// The answer to a ping (5.5.3): what it held.
pub(crate) fn pong_frame(payload: &[u8]) -> Vec<u8> {
    frame(0x8a, payload)
}

/// An end, or the answer to one (5.5.1).
pub(crate) fn close_frame(code: u16) -> Vec<u8> {
    frame(0x88, &code.to_be_bytes())
}

/// The code of an end that is nobody's fault (7.4.1), and of one since the peer broke a rule.
const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;
/// Bytes of a control frame at most (5.5).
const CONTROL_MAX: u64 = 125;

/// What a peer said that wants an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A pong with these bytes is to follow.
    Ping(Vec<u8>),
    /// It is over: a close with this code is to follow, and nothing more is heard.
    Close(u16),
}

/// Reads the frames of a peer, whatever pieces they come in. Of messages nothing is kept; of a control frame 125 bytes.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Of the frame that comes: at most 14 bytes.
    head: Vec<u8>,
    /// Its payload, when it is a control frame.
    payload: Vec<u8>,
    /// So much of its payload is still to come; none while its head does.
    left: Option<u64>,
    is_over: bool,
}

impl Reader {
    /// Bytes came: what is to be answered, in order.
    pub(crate) fn handle_input(&mut self, mut bytes: &[u8]) -> Vec<Heard> {
        let mut heard = Vec::new();
        while !self.is_over && (!bytes.is_empty() || self.left == Some(0)) {
            let Some(left) = self.left else {
                self.head.push(bytes[0]);
                bytes = &bytes[1..];
                if let Err(code) = self.read_head() {
                    self.end(code, &mut heard);
                }
                continue;
            };
            let len = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
            if self.is_control() {
                self.payload.extend_from_slice(&bytes[..len]);
            }
            bytes = &bytes[len..];
            self.left = Some(left - len as u64);
            if self.left == Some(0) {
                self.end_frame(&mut heard);
            }
        }
        heard
    }

    fn is_control(&self) -> bool {
        self.head.first().is_some_and(|first| first & 0x08 != 0)
    }

    /// Looks at as much of the head as there is (5.2).
    fn read_head(&mut self) -> Result<(), u16> {
        let first = self.head[0];
        // Reserved bits mean extensions, and none was agreed; of the opcodes six are known.
        if first & 0x70 != 0 || !matches!(first & 0x0f, 0..=2 | 8..=10) {
            return Err(PROTOCOL_ERROR);
        }
        let Some(second) = self.head.get(1) else {
            return Ok(());
        };
        // What clients send is masked.
        if second & 0x80 == 0 {
            return Err(PROTOCOL_ERROR);
        }
        let short = u64::from(second & 0x7f);
        // A control frame is short and whole.
        if self.is_control() && (short > CONTROL_MAX || first & 0x80 == 0) {
            return Err(PROTOCOL_ERROR);
        }
        let extended = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if self.head.len() < 2 + extended + 4 {
            return Ok(());
        }
        let long = self.head[2..2 + extended]
            .iter()
            .fold(0, |len: u64, byte| len << 8 | u64::from(*byte));
        self.left = Some(if extended == 0 { short } else { long });
        Ok(())
    }

    /// A frame is whole.
    fn end_frame(&mut self, heard: &mut Vec<Heard>) {
        let opcode = self.head[0] & 0x0f;
        let mask = &self.head[self.head.len() - 4..];
        let masked = std::mem::take(&mut self.payload).into_iter();
        let payload: Vec<u8> = masked
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask)
            .collect();
        match (opcode, &payload[..]) {
            (8, []) => self.end(NORMAL, heard),
            (8, [_]) => self.end(PROTOCOL_ERROR, heard),
            (8, [high, low, ..]) => self.end(u16::from_be_bytes([*high, *low]), heard),
            (9, _) => heard.push(Heard::Ping(payload)),
            // Messages are not listened to, and a pong that nobody asked for means nothing.
            _ => {}
        }
        self.head.clear();
        self.left = None;
    }

    fn end(&mut self, code: u16, heard: &mut Vec<Heard>) {
        self.is_over = true;
        // Codes that no frame may hold (7.4.1, 7.4.2) are not sent back.
        let may_be_sent = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
        heard.push(Heard::Close(if may_be_sent {
            code
        } else {
            PROTOCOL_ERROR
        }));
    }
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
    /// A frame as a client writes it.
    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [0x88, 0x98, 0xff, 0x01];
        let mut bytes = frame(first, payload);
        let at = bytes.len() - payload.len();
        bytes[1] |= 0x80;
        for (byte, mask) in bytes[at..].iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        bytes.splice(at..at, mask);
        bytes
    }

    #[test]
    fn pings_and_the_close_are_heard_however_they_are_cut() {
        // Bytes that look like heads of closes are within texts and masks only.
        let mut bytes = masked(0x81, &[0x88; 200]);
        bytes.extend(masked(0x89, b"are you there"));
        bytes.extend(masked(0x02, &vec![0x88; 70_000]));
        bytes.extend(masked(0x89, b""));
        bytes.extend(masked(0x80, b"end"));
        bytes.extend(masked(0x8a, b"unasked"));
        bytes.extend(masked(0x88, &[0x03, 0xe9, b'b', b'y', b'e']));
        bytes.extend(masked(0x89, b"after the end"));
        let expected = [
            Heard::Ping(b"are you there".to_vec()),
            Heard::Ping(Vec::new()),
            Heard::Close(1001),
        ];
        for step in [1, 2, 3, 5, 7, 11, 13, 1_024, bytes.len()] {
            let mut reader = Reader::default();
            let mut heard = Vec::new();
            for part in bytes.chunks(step) {
                heard.extend(reader.handle_input(part));
                assert!(reader.head.len() <= 14 && reader.payload.len() <= 125);
            }
            assert_eq!(heard, expected, "in pieces of {step}");
        }
        assert_eq!(pong_frame(b"hi"), [0x8a, 2, b'h', b'i']);
        assert_eq!(close_frame(1001), [0x88, 2, 0x03, 0xe9]);
    }

    #[test]
    fn who_breaks_a_rule_is_told_and_not_heard_any_more() {
        let long = masked(0x89, &[0; 126]);
        for (bytes, code) in [
            (&[0x81, 0x01][..], 1002), // not masked
            (&[0xc1, 0x81][..], 1002), // a reserved bit
            (&[0x83, 0x81][..], 1002), // a reserved opcode
            (&[0x09, 0x80][..], 1002), // a ping in fragments
            (&long[..], 1002),
            (&masked(0x88, &[3])[..], 1002),          // half a code
            (&masked(0x88, &[0x03, 0xed])[..], 1002), // 1005 is never sent
            (&masked(0x88, &[])[..], 1000),
        ] {
            let mut reader = Reader::default();
            assert_eq!(
                reader.handle_input(bytes),
                [Heard::Close(code)],
                "{bytes:?}"
            );
            assert_eq!(reader.handle_input(&masked(0x89, b"")), []);
        }
    }
}
