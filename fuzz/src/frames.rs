//! Target for frames: bytes as a row of frames, each with a performative or a SASL frame. What decodes must encode and
//! decode to itself, through a frame of our own.

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::frame::{HEADER_SIZE, TYPE_AMQP, TYPE_SASL, encode_frame, parse_header};
use qq_proto_amqp::performative::{Performative, SaslPerformative};

const FRAME_SIZE_MAX: u32 = 131_072;

/// Frames one behind the other, until one is incomplete or wrong.
pub fn frames(data: &[u8]) {
    let mut rest = Bytes::copy_from_slice(data);
    while let Ok(Some(header)) = parse_header(&rest, FRAME_SIZE_MAX) {
        let size = header.size as usize;
        assert!(
            size >= HEADER_SIZE && header.body_offset() <= size && header.size <= FRAME_SIZE_MAX
        );
        if size > rest.len() {
            return;
        }
        let frame = rest.split_to(size);
        let body = frame.slice(header.body_offset()..);
        assert_eq!(header.is_empty(), body.is_empty());
        match header.frame_type {
            TYPE_AMQP => check_performative(header.channel, &body),
            TYPE_SASL => check_sasl(&body),
            _ => {}
        }
    }
}

fn check_performative(channel: u16, body: &Bytes) {
    let Ok((performative, payload)) = Performative::decode(body) else {
        return;
    };
    assert!(payload <= body.len());
    let is_transfer = matches!(performative, Performative::Transfer(_));
    assert!(
        is_transfer || payload == body.len(),
        "only a transfer has a payload"
    );
    let mut buf = BytesMut::new();
    encode_frame(&mut buf, channel, TYPE_AMQP, |buf| performative.encode(buf));
    let frame = buf.freeze();
    let header = parse_header(&frame, u32::MAX)
        .expect("our own header")
        .expect("a whole one");
    assert_eq!(
        (header.size as usize, header.doff, header.channel),
        (frame.len(), 2, channel)
    );
    let again = Performative::decode(&frame.slice(HEADER_SIZE..)).expect("our own bytes");
    assert_eq!(again, (performative, frame.len() - HEADER_SIZE));
}

fn check_sasl(body: &Bytes) {
    let Ok((frame, used)) = SaslPerformative::decode(body) else {
        return;
    };
    assert_eq!(used, body.len());
    let mut buf = BytesMut::new();
    frame.encode(&mut buf);
    let encoded = buf.freeze();
    assert_eq!(
        SaslPerformative::decode(&encoded),
        Ok((frame, encoded.len()))
    );
}
