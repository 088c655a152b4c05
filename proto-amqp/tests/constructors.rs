//! Every constructor of part 1, 1.6: its bytes by the standard, the value they mean, and the shortest form of it.

mod support;

use bytes::Bytes;
use qq_proto_amqp::types::{DecodeError, Value};
use support::{decode_all, encode, hex, sym, text};

/// Bytes, value, and the bytes that we write for it when they differ.
type Case = (&'static str, Value, Option<&'static str>);

fn fixed_width_cases() -> Vec<Case> {
    vec![
        ("40", Value::Null, None),
        ("41", Value::Bool(true), None),
        ("42", Value::Bool(false), None),
        ("5601", Value::Bool(true), Some("41")),
        ("5600", Value::Bool(false), Some("42")),
        ("50ff", Value::Ubyte(255), None),
        ("60fffe", Value::Ushort(65_534), None),
        ("43", Value::Uint(0), None),
        ("5200", Value::Uint(0), Some("43")),
        ("52ff", Value::Uint(255), None),
        ("7000000100", Value::Uint(256), None),
        ("70000000ff", Value::Uint(255), Some("52ff")),
        ("44", Value::Ulong(0), None),
        ("53ff", Value::Ulong(255), None),
        ("808000000000000001", Value::Ulong((1 << 63) + 1), None),
        ("800000000000000007", Value::Ulong(7), Some("5307")),
        ("5180", Value::Byte(-128), None),
        ("618000", Value::Short(-32_768), None),
        ("5480", Value::Int(-128), None),
        ("54fe", Value::Int(-2), None),
        ("71ffffff7f", Value::Int(-129), None),
        ("7100000080", Value::Int(128), None),
        ("71fffffffe", Value::Int(-2), Some("54fe")),
        ("5580", Value::Long(-128), None),
        ("81ffffffffffffff7f", Value::Long(-129), None),
        ("810000000000000080", Value::Long(128), None),
        ("817fffffffffffffff", Value::Long(i64::MAX), None),
        ("727fc00001", Value::Float(0x7fc0_0001), None),
        ("823ff8000000000000", Value::Double(1.5_f64.to_bits()), None),
        ("7422500001", Value::Decimal32([0x22, 0x50, 0, 1]), None),
        (
            "842238000000000001",
            Value::Decimal64([0x22, 0x38, 0, 0, 0, 0, 0, 1]),
            None,
        ),
        (
            "9422080000000000000000000000000007",
            Value::Decimal128([0x22, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]),
            None,
        ),
        ("730001f600", Value::Char('\u{1f600}'), None),
        (
            "830000018bcfe56800",
            Value::Timestamp(1_700_000_000_000),
            None,
        ),
        ("838000000000000000", Value::Timestamp(i64::MIN), None),
        (
            "98000102030405060708090a0b0c0d0e0f",
            Value::Uuid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
            None,
        ),
    ]
}

fn variable_and_compound_cases() -> Vec<Case> {
    vec![
        (
            "a0030001ff",
            Value::Binary(Bytes::from_static(&[0, 1, 255])),
            None,
        ),
        (
            "b0000000030001ff",
            Value::Binary(Bytes::from_static(&[0, 1, 255])),
            Some("a0030001ff"),
        ),
        ("a103e282ac", text("€"), None),
        ("b100000003e282ac", text("€"), Some("a103e282ac")),
        ("a303782d61", sym("x-a"), None),
        ("b300000003782d61", sym("x-a"), Some("a303782d61")),
        ("45", Value::List(vec![]), None),
        ("c00100", Value::List(vec![]), Some("45")),
        (
            "c0030241 40",
            Value::List(vec![Value::Bool(true), Value::Null]),
            None,
        ),
        (
            "d000000006000000024140",
            Value::List(vec![Value::Bool(true), Value::Null]),
            Some("c003024140"),
        ),
        ("c10100", Value::Map(vec![]), None),
        (
            "c106 02a1016b5207",
            Value::Map(vec![(text("k"), Value::Uint(7))]),
            None,
        ),
        (
            "d100000009 00000002a1016b5207",
            Value::Map(vec![(text("k"), Value::Uint(7))]),
            Some("c10602a1016b5207"),
        ),
    ]
}

#[test]
fn every_constructor_means_what_the_standard_says() {
    for (digits, value, written) in fixed_width_cases()
        .into_iter()
        .chain(variable_and_compound_cases())
    {
        let bytes = hex(digits);
        assert_eq!(decode_all(&bytes).as_ref(), Ok(&value), "{digits}");
        let expected = written.map_or(bytes, hex);
        assert_eq!(encode(&value), expected, "{digits}");
        assert_eq!(value.encoded_len(), expected.len(), "{digits}");
    }
}

#[test]
fn every_prefix_of_every_constructor_is_truncated() {
    for (digits, _, _) in fixed_width_cases()
        .into_iter()
        .chain(variable_and_compound_cases())
    {
        let bytes = hex(digits);
        for len in 0..bytes.len() {
            let outcome = Value::decode(&bytes.slice(..len));
            assert_eq!(
                outcome,
                Err(DecodeError::Truncated),
                "{digits} cut to {len}"
            );
        }
    }
}

#[test]
fn codes_without_a_type_are_refused() {
    let known = [
        0x00, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x60,
        0x61, 0x70, 0x71, 0x72, 0x73, 0x74, 0x80, 0x81, 0x82, 0x83, 0x84, 0x94, 0x98, 0xa0, 0xa1,
        0xa3, 0xb0, 0xb1, 0xb3, 0xc0, 0xc1, 0xd0, 0xd1, 0xe0, 0xf0,
    ];
    for code in (0..=255_u8).filter(|code| !known.contains(code)) {
        let bytes = Bytes::from([&[code][..], &[0; 32]].concat());
        assert_eq!(
            Value::decode(&bytes),
            Err(DecodeError::UnknownConstructor(code)),
            "{code:02x}"
        );
    }
}

#[test]
fn values_outside_of_their_type_are_refused() {
    for (digits, error) in [
        ("5602", DecodeError::NotBool),
        ("730000d800", DecodeError::NotScalar),
        ("7300110000", DecodeError::NotScalar),
        ("a102c328", DecodeError::NotUtf8),
        ("a30180", DecodeError::NotAscii),
    ] {
        assert_eq!(Value::decode(&hex(digits)), Err(error), "{digits}");
    }
}

#[test]
fn co_14_rare_primitives_keep_every_bit() {
    let digits = "c03c0a74225000058422380000000000019422080000000000000000000000000007727fc0000182fff0000000000000\
                  730001f60051ff61800054fe55fd";
    let bytes = hex(digits);
    let value = decode_all(&bytes).expect("legal");
    let Value::List(list) = &value else {
        panic!("a list: {value:?}")
    };
    assert_eq!(list.len(), 10);
    assert_eq!(list[0], Value::Decimal32([0x22, 0x50, 0, 5]));
    assert_eq!(list[3], Value::Float(0x7fc0_0001));
    assert_eq!(list[4], Value::Double(f64::NEG_INFINITY.to_bits()));
    assert_eq!(list[5], Value::Char('\u{1f600}'));
    assert_eq!(
        list[6..],
        [
            Value::Byte(-1),
            Value::Short(-32_768),
            Value::Int(-2),
            Value::Long(-3)
        ]
    );
    assert_eq!(encode(&value), bytes);
    assert_eq!(value.encoded_len(), bytes.len());
}
