//! Frames around performatives (part 2, 2.3; part 5, 5.3.1).

use bytes::{BufMut, BytesMut};

use super::Connection;
use super::ids::SessionId;
use crate::performative::{
    Attach, Begin, Close, Detach, Disposition, End, Flow, Open, SaslInit, SaslMechanisms,
    SaslOutcome,
};

/// A performative that makes up the body of a frame by itself.
pub(super) trait Body {
    fn put(&self, buf: &mut BytesMut);
}

macro_rules! bodies {
    ($($name:path),*) => {
        $(impl Body for $name {
            fn put(&self, buf: &mut BytesMut) {
                self.encode(buf);
            }
        })*
    };
}

#[cfg(test)]
bodies!(crate::performative::Transfer);
bodies!(
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome
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
    /// Writes a frame on one of our channels.
    pub(super) fn write(&mut self, channel: u16, body: &impl Body) {
        put_frame(self.output.buf(), 0, channel, body);
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

    pub(super) fn write_sasl(&mut self, body: &impl Body) {
        put_frame(self.output.buf(), 1, 0, body);
    }
}
