//! Frames: the 8-byte header, the performative and the payload (transport 2.3).

use super::perf::{Perf, perf_of};
use super::value::{BadValue, Reader, Value};
use std::fmt;

/// Protocol header of plain AMQP (transport 2.2).
pub const HEADER_AMQP: [u8; 8] = *b"AMQP\x00\x01\x00\x00";
/// Protocol header of the SASL layer (security 5.3.1).
pub const HEADER_SASL: [u8; 8] = *b"AMQP\x03\x01\x00\x00";
/// Protocol header of TLS inside an AMQP connection (security 5.2.1).
pub const HEADER_TLS: [u8; 8] = *b"AMQP\x02\x01\x00\x00";

/// One frame as it came.
#[derive(Clone)]
pub struct Frame {
    /// Size of the whole frame in bytes.
    pub size: usize,
    /// Type octet: 0 for AMQP, 1 for SASL.
    pub kind: u8,
    /// Channel, or the two type-specific octets.
    pub channel: u16,
    /// The performative; `None` for an empty frame.
    pub perf: Option<Perf>,
    /// Bytes behind the performative.
    pub payload: Vec<u8>,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.perf {
            None => write!(f, "[{}] empty", self.channel),
            Some(p) => {
                write!(f, "[{}] {} {:?}", self.channel, p.name, p.fields)?;
                if self.payload.is_empty() {
                    Ok(())
                } else {
                    write!(f, " +{} bytes", self.payload.len())
                }
            }
        }
    }
}

impl Frame {
    /// Name of the performative; `"empty"` for an empty frame.
    pub fn name(&self) -> &'static str {
        self.perf.as_ref().map_or("empty", |p| p.name)
    }

    /// A field of the performative, null when absent.
    pub fn field(&self, field: &str) -> &Value {
        self.perf.as_ref().expect("a performative").field(field)
    }

    /// A numeric field.
    pub fn number(&self, field: &str) -> Option<u64> {
        self.field(field).number()
    }

    /// A boolean field; absent is false, as all the protocol's boolean defaults are.
    pub fn flag(&self, field: &str) -> bool {
        *self.field(field) == Value::Bool(true)
    }

    /// Error condition of a close, end, detach; empty when there is none.
    pub fn condition(&self) -> String {
        self.field("error")
            .field(0)
            .words()
            .unwrap_or_default()
            .to_string()
    }

    /// Outcome name in the `state` field: accepted, rejected, released, modified, received.
    pub fn state(&self) -> &'static str {
        self.field("state")
            .code()
            .and_then(super::perf::name_of)
            .unwrap_or("none")
    }
}

/// Bytes of a frame.
pub fn frame_bytes(kind: u8, channel: u16, perf: Option<&Perf>, payload: &[u8]) -> Vec<u8> {
    let mut body = perf.map(|p| p.value().bytes()).unwrap_or_default();
    body.extend(payload);
    let mut out = (body.len() as u32 + 8).to_be_bytes().to_vec();
    out.extend([2, kind]);
    out.extend(channel.to_be_bytes());
    out.extend(body);
    out
}

/// Takes one whole frame off the front of `buf`; `None` when more bytes are needed.
pub fn take_frame(buf: &mut Vec<u8>) -> Result<Option<Frame>, BadValue> {
    if buf.len() < 8 {
        return Ok(None);
    }
    let size = u32::from_be_bytes([buf[0], buf[1], buf[2], buf[3]]) as usize;
    let start = usize::from(buf[4]) * 4;
    if &buf[..4] == b"AMQP" {
        return Err(BadValue("a protocol header where a frame was due".into()));
    }
    if start < 8 || size < start || size > 1 << 28 {
        return Err(BadValue(format!(
            "frame of {size} bytes with data offset {start}"
        )));
    }
    if buf.len() < size {
        return Ok(None);
    }
    let bytes: Vec<u8> = buf.drain(..size).collect();
    let body = &bytes[start..];
    let mut reader = Reader::new(body);
    let perf = if body.is_empty() {
        None
    } else {
        let value = reader.value()?;
        Some(perf_of(&value).ok_or_else(|| BadValue(format!("not a performative: {value:?}")))?)
    };
    let channel = u16::from_be_bytes([bytes[6], bytes[7]]);
    Ok(Some(Frame {
        size,
        kind: bytes[5],
        channel,
        perf,
        payload: reader.rest().to_vec(),
    }))
}
