//! Target for the binary protocol's codec: bytes as a row of frames in the layout of the first byte, and as a record
//! of a message. What decodes must encode and decode to itself, through a frame of our own.

use bytes::{Bytes, BytesMut};
use qq_proto_binary::frame::{Flags, Layout};
use qq_proto_binary::opcode::{Dialect, Numbering, Opcode};
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::{BodyLimits, Request};
use qq_proto_binary::stored::{self, Parts, Stored};

const PAYLOAD_MAX: usize = 1 << 20;
const LIMITS: BodyLimits = BodyLimits {
    headers_max: 64,
    batch_messages_max: 16,
    message_size_max: PAYLOAD_MAX - 1_024,
};

/// Frames one behind the other, until one is incomplete or wrong; then all of it as a record.
pub fn binary_frames(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    check_record(&bytes);
    let Some(layout) = data.first().copied().and_then(Layout::detect) else {
        return;
    };
    let mut rest = bytes;
    while let Ok(Some(head)) = layout.parse_head(&rest, PAYLOAD_MAX) {
        assert!(head.body_at >= 6 && head.body_len() <= PAYLOAD_MAX);
        assert_eq!(head.correlation.is_some(), head.body_at == 10);
        if head.end > rest.len() {
            return;
        }
        let body = rest.split_to(head.end).slice(head.body_at..);
        for dialect in [Dialect::Groups, Dialect::Streams] {
            if let Some((opcode, numbering)) = Opcode::from_wire(head.opcode, dialect) {
                assert_eq!(opcode.to_wire(numbering), head.opcode);
                check_request(layout, opcode, numbering, &body);
                check_reply(opcode, head.correlation, &body);
            }
        }
    }
}

fn check_request(layout: Layout, opcode: Opcode, numbering: Numbering, body: &Bytes) {
    let Ok(Some(request)) = Request::decode(opcode, body.clone(), &LIMITS) else {
        return;
    };
    assert_eq!(request.opcode(), opcode);
    let mut buf = BytesMut::new();
    request.put_frame(&mut buf, layout, numbering, Flags::CONFIRM, Some(7));
    let frame = buf.freeze();
    let head = layout
        .parse_head(&frame, usize::MAX)
        .expect("our own length")
        .expect("a whole head");
    assert_eq!(head.end, frame.len());
    assert_eq!(head.body_len(), request.body_len());
    let again = Request::decode(opcode, frame.slice(head.body_at..), &LIMITS);
    // The same message may take more room than it came in: short forms of defaults are not ours.
    if head.body_len() <= LIMITS.message_size_max {
        assert_eq!(again, Ok(Some(request)));
    }
}

fn check_reply(opcode: Opcode, correlation: Option<u32>, body: &Bytes) {
    // An empty entry of a list takes two bytes here and a hundred decoded: the target is about form, not size.
    if body.len() > 1 << 16 {
        return;
    }
    let Ok(Some(reply)) = Reply::decode(opcode, body.clone()) else {
        return;
    };
    let mut buf = BytesMut::new();
    reply.put_frame(&mut buf, Layout::Documented, opcode as u8, correlation);
    let frame = buf.freeze();
    let head = Layout::Documented
        .parse_head(&frame, usize::MAX)
        .expect("our own length")
        .expect("a whole head");
    assert_eq!((head.correlation, head.end), (correlation, frame.len()));
    assert_eq!(head.body_len(), reply.body_len());
    assert_eq!(
        Reply::decode(opcode, frame.slice(head.body_at..)),
        Ok(Some(reply))
    );
}

fn check_record(record: &Bytes) {
    let Ok(stored) = Stored::read(record) else {
        return;
    };
    let headers: Result<Vec<_>, _> = stored.headers().collect();
    let Ok(headers) = headers else {
        return;
    };
    let payload = stored.payload();
    let parts = Parts {
        message_id: stored.message_id,
        payload: &payload,
        published_at_ms: stored.published_at_ms,
        ordering_key: stored.ordering_key,
        idempotency_key: stored.idempotency_key,
    };
    let again = stored::encode(&parts, headers.iter().copied());
    let again = Stored::read(&again).expect("our own record");
    assert_eq!(again.message_id, stored.message_id);
    assert_eq!(again.payload(), payload);
    assert_eq!(again.published_at_ms, stored.published_at_ms);
    assert_eq!(again.ordering_key, stored.ordering_key);
    assert_eq!(again.idempotency_key, stored.idempotency_key);
    assert_eq!(again.headers().collect::<Result<Vec<_>, _>>(), Ok(headers));
}
