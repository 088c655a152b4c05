//! Helpers of the codec's tests.
#![allow(dead_code, reason = "each test binary uses a part of them")]

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use qq_proto_amqp::frame::{HEADER_SIZE, parse_header};
use qq_proto_amqp::types::{Array, DecodeError, Described, Str, Symbol, Value};

/// Bytes from hex digits; blanks are for the reader's eye.
pub(crate) fn hex(digits: &str) -> Bytes {
    let digits: Vec<u8> = digits
        .bytes()
        .filter(|digit| !digit.is_ascii_whitespace())
        .collect();
    assert_eq!(digits.len() % 2, 0, "whole bytes");
    let nibble = |digit: u8| char::from(digit).to_digit(16).expect("a hex digit") as u8;
    digits
        .chunks(2)
        .map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]))
        .collect::<Vec<u8>>()
        .into()
}

/// The body of the one frame that the digits hold, with its channel.
pub(crate) fn frame_body(digits: &str) -> (u16, Bytes) {
    let bytes = hex(digits);
    let header = parse_header(&bytes, u32::MAX)
        .expect("a good header")
        .expect("a whole header");
    assert_eq!(header.size as usize, bytes.len(), "the frame is complete");
    assert!(header.body_offset() >= HEADER_SIZE);
    (header.channel, bytes.slice(header.body_offset()..))
}

/// Reads a value that takes all the bytes.
pub(crate) fn decode_all(bytes: &Bytes) -> Result<Value, DecodeError> {
    let (value, used) = Value::decode(bytes)?;
    assert_eq!(used, bytes.len(), "the value takes all bytes");
    Ok(value)
}

pub(crate) fn encode(value: &Value) -> Bytes {
    let mut buf = BytesMut::new();
    value.encode(&mut buf);
    buf.freeze()
}

pub(crate) fn sym(name: &'static str) -> Value {
    Value::Symbol(Symbol::from_static(name))
}

pub(crate) fn text(text: &str) -> Value {
    Value::Str(Str::from(text))
}

pub(crate) fn any_symbol() -> impl Strategy<Value = Symbol> {
    "[ -~]{0,12}".prop_map(|name| Symbol::new(&name).expect("ASCII"))
}

pub(crate) fn any_str() -> impl Strategy<Value = Str> {
    "\\PC{0,12}".prop_map(|text| Str::from(text.as_str()))
}

pub(crate) fn any_bytes(len_max: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..=len_max).prop_map(Bytes::from)
}

fn any_array() -> impl Strategy<Value = Array> {
    prop::collection::vec(any_symbol(), 0..5)
        .prop_map(|symbols| Array::of_symbols(&symbols).expect("symbols"))
}

pub(crate) fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u16>().prop_map(Value::Ushort),
        prop_oneof![0..300_u32, any::<u32>()].prop_map(Value::Uint),
        prop_oneof![0..300_u64, any::<u64>()].prop_map(Value::Ulong),
        any::<i8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Short),
        prop_oneof![-200..200_i32, any::<i32>()].prop_map(Value::Int),
        prop_oneof![-200..200_i64, any::<i64>()].prop_map(Value::Long),
        any::<u32>().prop_map(Value::Float),
        any::<u64>().prop_map(Value::Double),
        any::<[u8; 4]>().prop_map(Value::Decimal32),
        any::<[u8; 8]>().prop_map(Value::Decimal64),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        any::<char>().prop_map(Value::Char),
        any::<i64>().prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        any_bytes(300).prop_map(Value::Binary),
        any_str().prop_map(Value::Str),
        any_symbol().prop_map(Value::Symbol),
        any_array().prop_map(Value::Array),
    ]
}

pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    any_scalar().prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            prop::collection::vec((inner.clone(), inner.clone()), 0..4).prop_map(Value::Map),
            (inner.clone(), inner).prop_map(|(descriptor, value)| Value::Described(Box::new(
                Described { descriptor, value }
            ))),
        ]
    })
}

/// Lists in each other, `depth` of them, with a null at the bottom.
pub(crate) fn nested_lists(depth: usize) -> Bytes {
    let mut encoded = vec![0x40];
    for _ in 0..depth {
        let mut outer = if encoded.len() < 255 {
            vec![0xc0, encoded.len() as u8 + 1, 1]
        } else {
            let mut head = vec![0xd0];
            head.extend((encoded.len() as u32 + 4).to_be_bytes());
            head.extend(1_u32.to_be_bytes());
            head
        };
        outer.append(&mut encoded);
        encoded = outer;
    }
    encoded.into()
}
