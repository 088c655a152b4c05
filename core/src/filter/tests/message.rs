//! The view of an encoded message.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use qq_proto_amqp::types::{Described, Value};

use super::support::{NOW_MS, data, message, selector, symbol, text, truth, with_properties};
use crate::filter::{Field, MessageView, View};
use crate::route::{Headers, Scalar};
use crate::vocab::{Envelope, Format, Message};

#[test]
fn every_simple_type_is_read() {
    let decimal64 = |coefficient: u64, exponent: u64| {
        Value::Decimal64(((exponent + 398) << 53 | coefficient).to_be_bytes())
    };
    for (value, condition) in [
        (Value::Bool(true), "v = TRUE"),
        (Value::Bool(false), "v = FALSE"),
        (Value::Ubyte(200), "v = 200"),
        (Value::Ushort(60_000), "v = 60000"),
        (Value::Uint(0), "v = 0"),
        (Value::Uint(5), "v = 5"),
        (Value::Uint(4_000_000_000), "v = 4000000000"),
        (Value::Ulong(0), "v = 0"),
        (Value::Ulong(7), "v = 7"),
        (Value::Ulong(u64::MAX), "v = 18446744073709551615"),
        (Value::Byte(-100), "v = -100"),
        (Value::Short(-30_000), "v = -30000"),
        (Value::Int(-3), "v = -3"),
        (Value::Int(-2_000_000_000), "v = -2000000000"),
        (Value::Long(-1), "v = -1"),
        (Value::Long(i64::MIN), "v = -9223372036854775808"),
        (Value::Float(0.5_f32.to_bits()), "v = 0.5"),
        (Value::Double((-2.25_f64).to_bits()), "v = -2.25"),
        (Value::Double(f64::NAN.to_bits()), "v <> v"),
        (Value::Timestamp(1_000), "v = 1000"),
        (Value::Char('x'), "v = 'x'"),
        (text("text"), "v = 'text'"),
        (symbol("name"), "v = 'name'"),
        (Value::Binary(Bytes::from_static(b"abc")), "v = 'abc'"),
        // IEEE 754-2008: 32 bits with bias 101, 64 bits with bias 398.
        (Value::Decimal32([0x32, 0x80, 0x00, 0x07]), "v = 7"),
        (Value::Decimal32([0xb2, 0x00, 0x00, 0x0f]), "v = -1.5"),
        (
            Value::Decimal32([0x78, 0, 0, 0]),
            "v > 18446744073709551615",
        ),
        (Value::Decimal32([0x7c, 0, 0, 0]), "v <> v"),
        (Value::Decimal32([0x6c, 0xa0, 0x00, 0x01]), "v = 8388609"),
        (decimal64(12, 2), "v = 1200"),
        (
            Value::Decimal128((6_175_u128 << 113 | 5).to_be_bytes()),
            "v = 0.5",
        ),
        (Value::Null, "v IS NULL"),
        (Value::List(vec![Value::Int(1)]), "v IS NOT NULL"),
    ] {
        let message = with_properties(&[
            ("before", Value::List(vec![text("skipped"), Value::Null])),
            ("v", value.clone()),
            ("after", Value::Int(1)),
        ]);
        assert_eq!(
            truth(selector, condition, &message),
            Some(true),
            "{value:?}: {condition}"
        );
        assert_eq!(truth(selector, "after = 1", &message), Some(true));
    }
}

#[test]
fn sections_are_found_under_every_descriptor() {
    for descriptor in [
        Value::Ulong(0x74),
        symbol("amqp:application-properties:map"),
    ] {
        let value = Value::Map(vec![(text("a"), Value::Int(1))]);
        let mut payload = BytesMut::new();
        Value::Described(Box::new(Described { descriptor, value })).encode(&mut payload);
        super::support::described(0x75, Value::Binary(Bytes::new())).encode(&mut payload);
        let message = Message {
            envelope: Envelope::default(),
            format: Format::Amqp(0),
            payload: payload.freeze(),
        };
        assert_eq!(truth(selector, "a = 1", &message), Some(true));
    }
    // The same code in eight bytes.
    let wide = Bytes::from_static(
        b"\x00\x80\0\0\0\0\0\0\0\x74\xc1\x06\x02\xa1\x01a\x54\x01\x00\x53\x77\x40",
    );
    let message = Message {
        envelope: Envelope::default(),
        format: Format::Amqp(0),
        payload: wide,
    };
    assert_eq!(truth(selector, "a = 1", &message), Some(true));
}

#[test]
fn headers_are_listed_in_order() {
    let message = with_properties(&[
        ("a", Value::Int(1)),
        ("b", Value::List(vec![])),
        ("a", Value::Int(2)),
    ]);
    let view = MessageView::new(&message, NOW_MS);
    let mut seen = Vec::new();
    view.each(&mut |name, value| seen.push(format!("{name} {value:?}")));
    assert_eq!(seen, ["a Int(1)", "b Other", "a Int(2)"]);
    assert!(matches!(view.property("a"), Scalar::Int(1)));
}

/// A stored message of the binary protocol, byte by byte as Protocol Buffers has it: message_id "id", payload "x",
/// headers a = "1", reply_to = "r" and b without a text, published_at 300, ordering_key "g", idempotency_key "k".
const RECORD: &[u8] =
    b"\x0a\x02id\x1a\x01x\x22\x06\x0a\x01a\x12\x011\x22\x0d\x0a\x08reply_to\x12\x01r\
    \x22\x03\x0a\x01b\x30\xac\x02\x3a\x01g\xa2\x03\x01k";

#[test]
fn a_message_of_the_binary_protocol_is_mapped() {
    let message = Message {
        envelope: Envelope {
            subject: Some("k".into()),
            group_id: Some("g".into()),
            priority: 9,
            ..Envelope::default()
        },
        format: Format::Binary,
        payload: Bytes::from_static(RECORD),
    };
    for condition in [
        "JMSType = 'k' AND JMSXGroupID = 'g' AND JMSPriority = 9",
        "JMSMessageID = 'id' AND JMSTimestamp = 300",
        "JMSReplyTo = 'r' AND JMSCorrelationID IS NULL",
        "a = '1' AND b = '' AND absent IS NULL",
        "amqp.content_type IS NULL",
    ] {
        assert_eq!(
            truth(selector, condition, &message),
            Some(true),
            "{condition}"
        );
    }
    let view = MessageView::new(&message, NOW_MS);
    assert!(matches!(
        view.annotation("x-opt-dedup-id"),
        Scalar::Text("k")
    ));
    assert!(matches!(view.annotation("x-opt-other"), Scalar::Null));
    assert!(matches!(view.footer("a"), Scalar::Null));
    let mut seen = Vec::new();
    view.each(&mut |name, value| seen.push(format!("{name} {value:?}")));
    assert_eq!(
        seen,
        ["a Text(\"1\")", "reply_to Text(\"r\")", "b Text(\"\")"]
    );
}

#[test]
fn absent_sections_and_short_lists_read_as_null() {
    for sections in [vec![data()], vec![(0x73, Value::List(vec![])), data()]] {
        let message = message(Envelope::default(), &sections);
        let view = MessageView::new(&message, NOW_MS);
        for field in [
            Field::MessageId,
            Field::UserId,
            Field::ReplyTo,
            Field::CorrelationId,
            Field::ContentType,
            Field::ContentEncoding,
            Field::CreationTime,
            Field::GroupSequence,
            Field::ReplyToGroupId,
            Field::Ttl,
            Field::To,
        ] {
            assert!(matches!(view.field(field), Scalar::Null), "{field:?}");
        }
        assert!(matches!(view.footer("x"), Scalar::Null));
    }
}

proptest! {
    /// Whatever the bytes are, reading them ends and does not panic.
    #[test]
    fn no_bytes_make_it_panic(
        mut payload in prop::collection::vec(any::<u8>(), 0..64),
        begin in prop::sample::select(vec![0x72_u8, 0x73, 0x74, 0x75, 0x78]),
        constructor in prop::sample::select(vec![0x45_u8, 0xc0, 0xc1, 0xd0, 0xd1, 0xf0]),
        format in prop::sample::select(vec![Format::Amqp(0), Format::Binary]),
    ) {
        let start: &[u8] = match format {
            Format::Amqp(_) => &[0, 0x53, begin, constructor],
            Format::Binary => &[0x22],
        };
        payload.splice(0..0, start.iter().copied());
        let message = Message {
            envelope: Envelope::default(),
            format,
            payload: payload.into(),
        };
        let view = MessageView::new(&message, NOW_MS);
        let _ = (view.property("a"), view.annotation("a"), view.footer("a"));
        let _ = (view.field(Field::MessageId), view.field(Field::ReplyToGroupId));
        let mut count = 0;
        view.each(&mut |_, _| count += 1);
        prop_assert!(count <= message.payload.len());
    }
}
