//! Frames written out by hand in the versioned layout, checked against an independent Protocol Buffers runtime. Each
//! must be what we write and mean what it says.

mod support;

use bytes::{Bytes, BytesMut};
use prost::Message;
use qq_proto_binary::error::{ErrorCode, text};
use qq_proto_binary::frame::{Flags, Layout};
use qq_proto_binary::message as m;
use qq_proto_binary::opcode::{Dialect, Numbering, Opcode};
use support::{headers, hex};

const ULID: &str = "01KC0000000000000000000001";
const ULID_HEX: &str =
    "30 31 4b 43 30 30 30 30 30 30 30 30 30 30 30 30 30 30 30 30 30 30 30 30 30 31";
const PUBLISHED_AT: i64 = 1_764_460_800_000;

/// The frame is what `body` is written as, and reads as `body`.
fn same_as<M: Message + Default + PartialEq + std::fmt::Debug>(
    frame: &str,
    dialect: Dialect,
    opcode: Opcode,
    body: &M,
) {
    let frame = hex(frame);
    let head = Layout::Versioned
        .parse_head(&frame, 1 << 20)
        .expect("a legal length")
        .expect("a whole head");
    assert_eq!(head.end, frame.len(), "the length counts all but itself");
    let numbering = Numbering::Shared(dialect);
    assert_eq!(
        Opcode::from_wire(head.opcode, dialect).map(|(o, _)| o),
        Some(opcode)
    );
    let decoded = M::decode(Bytes::copy_from_slice(&frame[head.body_at..])).expect("it decodes");
    assert_eq!(&decoded, body);
    let mut written = BytesMut::new();
    let number = opcode.to_wire(numbering);
    Layout::Versioned.put_frame(&mut written, number, Flags::default(), None, body);
    assert_eq!(written[..], frame[..], "{opcode:?}");
}

fn same<M: Message + Default + PartialEq + std::fmt::Debug>(frame: &str, opcode: Opcode, body: &M) {
    same_as(frame, Dialect::Groups, opcode, body);
}

fn error(code: ErrorCode, text: &str) -> m::ErrorResponse {
    m::ErrorResponse {
        code: code.number(),
        message: text.into(),
    }
}

#[test]
fn publish_and_its_answer() {
    let mut publish = m::PublishRequest {
        queue: "orders".into(),
        payload: Bytes::from_static(b"hi"),
        ..m::PublishRequest::default()
    };
    same(
        "0000000e 01 01 0a06 6f7264657273 1202 6869",
        Opcode::Publish,
        &publish,
    );
    publish.headers = headers(&[("k", "v")]);
    publish.message_id = Some("m-1".into());
    publish.idempotency_key = Some("d-1".into());
    publish.ordering_key = "u7".into();
    same(
        "00000024 01 01 0a06 6f7264657273 1202 6869 1a06 0a016b 120176 2203 6d2d31 2a03 642d31 3202 7537",
        Opcode::Publish,
        &publish,
    );
    let ack = m::PublishResponse {
        message_id: ULID.into(),
    };
    same(
        &format!("0000001e 01 02 0a1a {ULID_HEX}"),
        Opcode::PublishAck,
        &ack,
    );
}

#[test]
fn an_empty_payload_may_be_written_out() {
    // One of the first clients always writes fields 1 and 2.
    let body = hex("0a06 6f7264657273 1200");
    let publish = m::PublishRequest::decode(&body[..]).expect("it decodes");
    assert_eq!(
        (publish.queue.as_str(), publish.payload.len()),
        ("orders", 0)
    );
}

#[test]
fn consume_and_deliveries() {
    let mut consume = m::ConsumeRequest {
        queue: "orders".into(),
        ..m::ConsumeRequest::default()
    };
    same(
        "0000000a 01 03 0a06 6f7264657273",
        Opcode::Consume,
        &consume,
    );
    consume.prefetch = 10;
    consume.visibility_timeout = 60;
    consume.group = Some("billing".into());
    same(
        "00000017 01 03 0a06 6f7264657273 100a 183c 2207 62696c6c696e67",
        Opcode::Consume,
        &consume,
    );
    let mut message = m::Message {
        message_id: ULID.into(),
        queue: "orders".into(),
        payload: Bytes::from_static(b"hi"),
        attempt: 1,
        published_at: PUBLISHED_AT,
        ..m::Message::default()
    };
    let first =
        format!("00000033 01 04 0a1a {ULID_HEX} 1206 6f7264657273 1a02 6869 2801 30 80d0bc90ad33");
    same(&first, Opcode::Message, &message);
    message.message_id = "m-1".into();
    message.headers = headers(&[("k", "v")]);
    message.attempt = 2;
    message.ordering_key = "u7".into();
    same(
        "00000028 01 04 0a03 6d2d31 1206 6f7264657273 1a02 6869 2206 0a016b 120176 2802 30 80d0bc90ad33 3a02 7537",
        Opcode::Message,
        &message,
    );
}

#[test]
fn settlements() {
    let ack = m::AckRequest {
        message_id: "m-1".into(),
        ..m::AckRequest::default()
    };
    same("00000007 01 05 0a03 6d2d31", Opcode::Ack, &ack);
    let mut nack = m::NackRequest {
        message_id: "m-1".into(),
        requeue: true,
        ..m::NackRequest::default()
    };
    same("00000009 01 06 0a03 6d2d31 1001", Opcode::Nack, &nack);
    nack.requeue = false;
    same("00000007 01 06 0a03 6d2d31", Opcode::Nack, &nack);
    let extend = m::ExtendVisibilityRequest {
        message_id: "m-1".into(),
        extension_seconds: 30,
        ..m::ExtendVisibilityRequest::default()
    };
    same(
        "00000009 01 08 0a03 6d2d31 101e",
        Opcode::ExtendVisibility,
        &extend,
    );
    let extended = m::ExtendVisibilityResponse {
        new_visible_at: PUBLISHED_AT + 30_000,
    };
    same(
        "00000009 01 09 08 b0babe90ad33",
        Opcode::ExtendVisibilityAck,
        &extended,
    );
}

#[test]
fn errors() {
    same(
        "00000017 01 07 0804 1211 6d657373616765206e6f7420666f756e64",
        Opcode::Error,
        &error(ErrorCode::NotFound, text::MESSAGE_NOT_FOUND),
    );
    same(
        "0000001f 01 07 0807 1219 736368656d6120726571756972656420666f72207175657565",
        Opcode::Error,
        &error(ErrorCode::SchemaMissing, text::SCHEMA_REQUIRED),
    );
    same(
        "00000013 01 07 0803 120d 71756575652069732066756c6c",
        Opcode::Error,
        &error(ErrorCode::Failed, text::QUEUE_FULL),
    );
    same(
        "0000001c 01 07 0803 1216 6475706c6963617465206d6573736167653a20642d31",
        Opcode::Error,
        &error(ErrorCode::Failed, &format!("{}d-1", text::DUPLICATE_PREFIX)),
    );
    same(
        "00000012 01 07 0808 120c 63616c6c2074696d656f7574",
        Opcode::Error,
        &error(ErrorCode::CallTimeout, text::CALL_TIMEOUT),
    );
}

#[test]
fn authentication() {
    let auth = m::AuthRequest {
        token: "s3cret".into(),
    };
    same("0000000a 01 40 0a06 733363726574", Opcode::Auth, &auth);
    let mut response = m::AuthResponse {
        success: true,
        message: text::AUTHENTICATED.into(),
    };
    same(
        "00000013 01 41 0801 120d 61757468656e74696361746564",
        Opcode::AuthResponse,
        &response,
    );
    response = m::AuthResponse {
        success: false,
        message: text::TOKEN_INVALID.into(),
    };
    same(
        "00000011 01 41 120d 696e76616c696420746f6b656e",
        Opcode::AuthResponse,
        &response,
    );
    assert!(
        !format!("{auth:?}").contains("s3cret"),
        "tokens are not printed"
    );
}

#[test]
fn schemas() {
    // A descriptor set with one file: test.proto, package test, message Event { int32 id = 1; }, proto3.
    let descriptor = "0a2f 0a0a 746573742e70726f746f 1204 74657374 2213 0a05 4576656e74 120a 0a02 6964 1801 2001 2805 6206 70726f746f33";
    let register = m::SchemaRegisterRequest {
        queue: "ev".into(),
        descriptor: hex(descriptor).into(),
        message_type: "test.Event".into(),
        ..m::SchemaRegisterRequest::default()
    };
    same(
        &format!("00000045 01 10 0a02 6576 1231 {descriptor} 1a0a 746573742e4576656e74"),
        Opcode::SchemaRegister,
        &register,
    );
    let registered = m::SchemaRegisterResponse {
        version: 1,
        ..m::SchemaRegisterResponse::default()
    };
    same("00000004 01 12 1001", Opcode::SchemaResponse, &registered);
    let lookup = m::SchemaRegisterRequest {
        queue: "ev".into(),
        ..m::SchemaRegisterRequest::default()
    };
    same("00000006 01 11 0a02 6576", Opcode::SchemaGet, &lookup);
    same(
        "00000002 01 30",
        Opcode::SchemaList,
        &m::SchemaListRequest {},
    );
    let list = m::SchemaListResponse {
        schemas: vec![m::SchemaInfo {
            queue: "ev".into(),
            message_type: "test.Event".into(),
            version: 1,
        }],
    };
    same(
        "00000016 01 31 0a12 0a02 6576 120a 746573742e4576656e74 1801",
        Opcode::SchemaListResponse,
        &list,
    );
}

#[test]
fn queues() {
    same("00000002 01 32", Opcode::QueueList, &m::QueueListRequest {});
    let queues = vec![
        m::QueueInfo {
            name: "orders".into(),
            message_count: 42,
            in_flight_count: 3,
        },
        m::QueueInfo {
            name: "orders.dlq".into(),
            ..m::QueueInfo::default()
        },
    ];
    same(
        "0000001e 01 33 0a0c 0a06 6f7264657273 102a 1803 0a0c 0a0a 6f72646572732e646c71",
        Opcode::QueueListResponse,
        &m::QueueListResponse { queues },
    );
    same(
        "00000002 01 33",
        Opcode::QueueListResponse,
        &m::QueueListResponse::default(),
    );
}

#[test]
fn calls() {
    let call = m::CallRequest {
        queue: "rpc".into(),
        payload: Bytes::from_static(b"ping"),
        timeout_ms: 5_000,
        ..m::CallRequest::default()
    };
    same(
        "00000010 01 20 0a03 727063 1204 70696e67 208827",
        Opcode::Call,
        &call,
    );
    let reply_headers = headers(&[("correlation_id", ULID)]);
    let reply = m::PublishRequest {
        queue: "_reply.127.0.0.1:50000".into(),
        payload: Bytes::from_static(b"pong"),
        headers: reply_headers.clone(),
        ..m::PublishRequest::default()
    };
    let entry = format!("0a0e 636f7272656c6174696f6e5f6964 121a {ULID_HEX}");
    same(
        &format!(
            "0000004e 01 01 0a16 5f7265706c792e3132372e302e302e313a3530303030 1204 706f6e67 1a2c {entry}"
        ),
        Opcode::Publish,
        &reply,
    );
    let response = m::CallResponse {
        payload: Bytes::from_static(b"pong"),
        headers: reply_headers,
    };
    same(
        &format!("00000036 01 21 0a04 706f6e67 122c {entry}"),
        Opcode::CallResponse,
        &response,
    );
}

#[test]
fn groups_in_their_dialect() {
    let heartbeat = m::HeartbeatRequest {
        group: "billing".into(),
        queue: "orders".into(),
    };
    same(
        "00000013 01 0a 0a07 62696c6c696e67 1206 6f7264657273",
        Opcode::Heartbeat,
        &heartbeat,
    );
    same(
        "00000002 01 0c",
        Opcode::HeartbeatAck,
        &m::HeartbeatResponse {},
    );
    let unsubscribe = m::UnsubscribeRequest {
        queue: "orders".into(),
        group: Some("billing".into()),
    };
    same(
        "00000013 01 0b 0a06 6f7264657273 1207 62696c6c696e67",
        Opcode::Unsubscribe,
        &unsubscribe,
    );
}

#[test]
fn streams_in_their_dialect() {
    let mut seek = m::SeekRequest {
        queue: "log".into(),
        consumer_group: "g1".into(),
        ..m::SeekRequest::default()
    };
    let streams = Dialect::Streams;
    same_as(
        "0000000b 01 0a 0a03 6c6f67 1202 6731",
        streams,
        Opcode::Seek,
        &seek,
    );
    seek.set_position(m::SeekPosition::Offset);
    seek.offset = 5;
    same_as(
        "0000000f 01 0a 0a03 6c6f67 1202 6731 1802 2005",
        streams,
        Opcode::Seek,
        &seek,
    );
    same_as(
        "00000004 01 0c 0805",
        streams,
        Opcode::SeekAck,
        &m::SeekResponse { offset: 5 },
    );
    let commit = m::CommitOffsetRequest {
        queue: "log".into(),
        consumer_group: "g1".into(),
        offset: 5,
    };
    same_as(
        "0000000d 01 0b 0a03 6c6f67 1202 6731 1805",
        streams,
        Opcode::CommitOffset,
        &commit,
    );
    let committed = m::CommitOffsetResponse { offset: 5 };
    same_as(
        "00000004 01 0d 0805",
        streams,
        Opcode::CommitOffsetAck,
        &committed,
    );
    let message = m::StreamMessage {
        message_id: ULID.into(),
        queue: "log".into(),
        payload: Bytes::from_static(b"hi"),
        sequence: 5,
        published_at: PUBLISHED_AT,
        ..m::StreamMessage::default()
    };
    same_as(
        &format!("00000030 01 0e 0a1a {ULID_HEX} 1203 6c6f67 1a02 6869 2805 30 80d0bc90ad33"),
        streams,
        Opcode::StreamMessage,
        &message,
    );
}

#[test]
fn the_documented_layout_around_the_same_payload() {
    let publish = m::PublishRequest {
        queue: "orders".into(),
        payload: Bytes::from_static(b"hi"),
        ..m::PublishRequest::default()
    };
    let mut plain = BytesMut::new();
    Layout::Documented.put_frame(&mut plain, 0x01, Flags::default(), None, &publish);
    assert_eq!(
        plain[..],
        hex("01 00 0000000c 0a06 6f7264657273 1202 6869")[..]
    );
    // The length counts the payload alone: the correlation id does not change it.
    let mut correlated = BytesMut::new();
    Layout::Documented.put_frame(&mut correlated, 0x01, Flags::default(), Some(7), &publish);
    assert_eq!(
        correlated[..],
        hex("01 01 0000000c 00000007 0a06 6f7264657273 1202 6869")[..]
    );
    let head = Layout::Documented
        .parse_head(&correlated, 1 << 20)
        .expect("a legal length")
        .expect("a whole head");
    assert_eq!(
        (head.opcode, head.correlation, head.body_at),
        (0x01, Some(7), 10)
    );
    assert_eq!(head.end, correlated.len());
}
