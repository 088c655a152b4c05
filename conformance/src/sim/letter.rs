//! The messages that simulated clients exchange: a number, and a body that follows from it.

use bytes::{BufMut, Bytes, BytesMut};
use qq_proto_amqp::section::{Header, Sections};

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Letter {
    /// Unique in a run.
    pub(super) number: u64,
    pub(super) is_durable: bool,
    pub(super) ttl_ms: Option<u32>,
    /// Bytes of the body, at least eight.
    pub(super) size: usize,
}

/// A message as it arrived.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) number: u64,
    /// Of the body.
    pub(super) hash: String,
    pub(super) header: Header,
}

impl Letter {
    /// Its sections.
    pub(super) fn encode(&self) -> Bytes {
        let mut buf = BytesMut::with_capacity(self.size + 40);
        if self.is_durable || self.ttl_ms.is_some() {
            let header = Header {
                durable: self.is_durable,
                ttl: self.ttl_ms,
                ..Header::default()
            };
            header.encode(&mut buf);
        }
        buf.put_slice(&[0x00, 0x53, 0x75, 0xb0]);
        buf.put_u32(self.size as u32);
        buf.put_u64(self.number);
        buf.extend((8..self.size).map(|at| (self.number as u8).wrapping_add(at as u8)));
        buf.freeze()
    }

    /// The hash of its body.
    pub(super) fn hash(&self) -> String {
        let encoded = self.encode();
        hash_of(&encoded[encoded.len() - self.size..])
    }
}

/// FNV-1a, 64 bits.
fn hash_of(body: &[u8]) -> String {
    let hash = body.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Reads a message, whole or as a broker keeps it.
pub(super) fn read(message: &Bytes) -> Option<Arrived> {
    let body = body_of(message)?;
    let header = Sections::scan(message).ok()?.header(message).ok()?;
    Some(Arrived {
        number: u64::from_be_bytes(body.get(..8)?.try_into().ok()?),
        hash: hash_of(&body),
        header: header.unwrap_or_default(),
    })
}

/// The number of a message, whole or as a broker keeps it.
pub(super) fn number_of(message: &Bytes) -> Option<u64> {
    let body = body_of(message)?;
    Some(u64::from_be_bytes(body.get(..8)?.try_into().ok()?))
}

/// The content of the data section.
fn body_of(message: &Bytes) -> Option<Bytes> {
    let sections = Sections::scan(message).ok()?;
    let section = message.slice(sections.body.range);
    let start = match section.get(3)? {
        0xa0 => 5,
        0xb0 => 8,
        _ => return None,
    };
    (section.len() >= start).then(|| section.slice(start..))
}
