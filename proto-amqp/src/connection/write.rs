//! Frames around performatives (part 2, 2.3; part 5, 5.3.1).

use bytes::{BufMut, BytesMut};

use super::Connection;
use super::ids::SessionId;
use crate::performative::{
    Begin, Flow, SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse,
};

/// Bytes of a frame before its body.
const FRAME_HEADER: usize = 8;

/// A performative that makes up the body of a frame by itself.
pub(super) trait Body: Sized {
    fn put(&self, buf: &mut BytesMut);

    /// A version of this whose encoding has `room` bytes at most, made when the whole does not fit; none when there is
    /// no such version. Bodies that are always small need none.
    fn fit(&self, _room: usize) -> Option<Self> {
        None
    }
}

macro_rules! small_bodies {
    ($($name:path),*) => {
        $(impl Body for $name {
            fn put(&self, buf: &mut BytesMut) {
                self.encode(buf);
            }
        })*
    };
}

#[cfg(test)]
small_bodies!(crate::performative::Transfer);
small_bodies!(
    Begin,
    Flow,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse
);

/// Appends a frame whose body is one performative.
pub(super) fn put_frame(buf: &mut BytesMut, kind: u8, channel: u16, body: &impl Body) {
    let start = buf.len();
    buf.put_slice(&[0, 0, 0, 0, 2, kind]);
    buf.put_u16(channel);
    body.put(buf);
    let size = u32::try_from(buf.len() - start).expect("control frames are small");
    buf[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

impl Connection {
    /// Writes a frame on one of our channels, in a smaller version when the peer takes no frame as large (part 2,
    /// 2.7.1).
    ///
    /// # Panics
    /// When there is no such version. What may come to that is checked before: see [`is_sendable`](Self::is_sendable).
    pub(super) fn write(&mut self, channel: u16, body: &impl Body) {
        let size_max = self.frame_out_max as usize;
        let buf = self.output.buf();
        let start = buf.len();
        put_frame(buf, 0, channel, body);
        if buf.len() - start <= size_max {
            return;
        }
        buf.truncate(start);
        let smaller = body.fit(size_max - FRAME_HEADER);
        let smaller = smaller.expect("what cannot shrink is refused before");
        put_frame(buf, 0, channel, &smaller);
        debug_assert!(buf.len() - start <= size_max, "a version that fits, fits");
    }

    /// Writes a frame on a session's channel.
    pub(super) fn write_on(&mut self, session: SessionId, body: &impl Body) {
        if let Some(channel) = self
            .sessions
            .find(session.0)
            .map(|session| session.channel_out)
        {
            self.write(channel, body);
        }
    }

    /// Whether a frame with this body can be written to the peer, be it in a smaller version.
    pub(super) fn is_sendable(&self, body: &impl Body) -> bool {
        let room = self.frame_out_max as usize - FRAME_HEADER;
        let mut buf = BytesMut::new();
        body.put(&mut buf);
        buf.len() <= room || body.fit(room).is_some()
    }

    pub(super) fn write_sasl(&mut self, body: &impl Body) {
        put_frame(self.output.buf(), 1, 0, body);
    }
}
