//! Compound values: sizes at the edges, counts that lie, nesting, arrays of nothing, and round trips of anything.

mod support;

use bytes::Bytes;
use proptest::prelude::*;
use qq_proto_amqp::types::{DecodeError, NESTING_MAX, Value, has_duplicate_keys};
use support::{any_value, decode_all, encode, hex, nested_lists, text};

/// Runs on a thread with 256 KiB of stack, as a worker of some embedder may have.
fn on_small_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(run)
        .expect("a thread")
        .join()
        .expect("no overflow")
}

fn nested_descriptors(depth: usize) -> Bytes {
    // Each level describes the next: 00 44 (ulong 0), then the value.
    [[0x00, 0x44].repeat(depth), vec![0x40]].concat().into()
}

fn nested_maps(depth: usize) -> Bytes {
    let mut value = Value::Null;
    for _ in 0..depth {
        value = Value::Map(vec![(Value::Null, value)]);
    }
    encode(&value)
}

#[test]
fn co_10_nesting_passes_at_the_limit_and_fails_above() {
    let limit = usize::from(NESTING_MAX);
    on_small_stack(move || {
        for make in [nested_lists, nested_descriptors, nested_maps] {
            let bytes = make(limit);
            let value = decode_all(&bytes).expect("at the limit");
            assert_eq!(encode(&value), bytes);
            assert_eq!(value.encoded_len(), bytes.len());
            assert_eq!(Value::decode(&make(limit + 1)), Err(DecodeError::TooDeep));
        }
        assert_eq!(
            Value::decode(&nested_lists(5_000)),
            Err(DecodeError::TooDeep)
        );
        assert_eq!(
            Value::decode(&nested_descriptors(100_000)),
            Err(DecodeError::TooDeep)
        );
        // A descriptor that is described by a descriptor that is described ...
        let chain: Bytes = vec![0; 100_000].into();
        assert_eq!(Value::decode(&chain), Err(DecodeError::TooDeep));
        // ... in the constructor of an array.
        let array = hex("e0ff01")
            .into_iter()
            .chain(vec![0; 254])
            .collect::<Vec<u8>>();
        assert_eq!(Value::decode(&array.into()), Err(DecodeError::TooDeep));
    });
}

#[test]
fn co_05_short_form_is_used_only_while_its_size_byte_fits() {
    for (filler, start) in [
        (251, "c0fe01"),
        (252, "c0ff01"),
        (253, "d00000010300000001"),
    ] {
        // A binary of n bytes takes n + 2: content lengths 253, 254 and 255.
        let value = Value::List(vec![Value::Binary(vec![7; filler].into())]);
        let bytes = encode(&value);
        let start = hex(start);
        assert_eq!(bytes[..start.len()], start[..], "content of {}", filler + 2);
        assert_eq!(decode_all(&bytes), Ok(value));
    }
}

#[test]
fn compound_values_of_every_content_length_round_trip() {
    for len in (0..300).chain([65_530, 65_533, 65_535, 65_536, 70_000]) {
        let filler = Value::Binary(vec![7; len].into());
        for value in [
            Value::List(vec![filler.clone()]),
            Value::List(vec![Value::Null; len]),
            Value::Map(vec![(text("k"), filler.clone())]),
            filler,
        ] {
            let bytes = encode(&value);
            assert_eq!(bytes.len(), value.encoded_len(), "length {len}");
            assert_eq!(decode_all(&bytes), Ok(value), "length {len}");
        }
    }
}

#[test]
fn co_01_arrays_of_nothing_cost_nothing() {
    let bytes = hex("f0000000057fffffff41");
    let Value::Array(array) = decode_all(&bytes).expect("legal") else {
        panic!("an array")
    };
    assert_eq!((array.count(), array.data().len()), (0x7fff_ffff, 0));
    // Room is made by this; it must not repeat the peer's claim.
    assert_eq!(array.items().size_hint().0, 0);
    assert!(
        array
            .items()
            .take(3)
            .all(|item| item == Ok(Value::Bool(true)))
    );
    assert_eq!(encode(&Value::Array(array)), bytes);
}

#[test]
fn co_02_arrays_of_nothing_are_legal() {
    for (digits, element, count) in [
        ("e0020341", Value::Bool(true), 3),
        ("e0020340", Value::Null, 3),
        ("e0020243", Value::Uint(0), 2),
        ("e0020245", Value::List(vec![]), 2),
    ] {
        let bytes = hex(digits);
        let value = decode_all(&bytes).expect("legal");
        let Value::Array(array) = &value else {
            panic!("an array: {value:?}")
        };
        let items: Vec<_> = array.items().map(|item| item.expect("legal")).collect();
        assert_eq!(items, vec![element; count], "{digits}");
        assert_eq!(encode(&value), bytes, "{digits}");
    }
}

#[test]
fn co_04_array_elements_of_fixed_width_have_no_constructor_each() {
    let bytes = hex("c11002a10165e00a01830000018bcfe56800");
    let value = decode_all(&bytes).expect("legal");
    let Value::Map(map) = &value else {
        panic!("a map: {value:?}")
    };
    let (key, Value::Array(array)) = &map[0] else {
        panic!("an array: {map:?}")
    };
    assert_eq!(*key, text("e"));
    assert_eq!(
        array.items().collect::<Vec<_>>(),
        [Ok(Value::Timestamp(1_700_000_000_000))]
    );
    assert_eq!(encode(&value), bytes);
}

#[test]
fn arrays_of_any_element_are_read_lazily() {
    // Two strings, two lists, and one described string each.
    for (digits, expected) in [
        ("e00702a1 0161 026263", vec![text("a"), text("bc")]),
        (
            "e00702c0 0100 020140",
            vec![Value::List(vec![]), Value::List(vec![Value::Null])],
        ),
    ] {
        let Value::Array(array) = decode_all(&hex(digits)).expect("legal") else {
            panic!("an array")
        };
        assert_eq!(
            array.items().collect::<Result<Vec<_>, _>>(),
            Ok(expected),
            "{digits}"
        );
    }
    let Value::Array(array) = decode_all(&hex("e00701005309a10161")).expect("legal") else {
        panic!("an array")
    };
    let items: Vec<_> = array.items().collect::<Result<_, _>>().expect("legal");
    let [Value::Described(described)] = &items[..] else {
        panic!("one described value: {items:?}")
    };
    assert_eq!(
        (&described.descriptor, &described.value),
        (&Value::Ulong(9), &text("a"))
    );
    // The data of the element is wrong, which shows when it is looked at.
    let Value::Array(array) = decode_all(&hex("e0060173 0000d800")).expect("delimited") else {
        panic!("an array")
    };
    assert_eq!(
        array.items().collect::<Vec<_>>(),
        [Err(DecodeError::NotScalar)]
    );
}

#[test]
fn counts_and_sizes_that_lie_are_refused() {
    for (digits, error) in [
        // More items than bytes.
        ("c00205 40", DecodeError::CountMismatch),
        ("d000000005ffffffff40", DecodeError::CountMismatch),
        // Fewer items than the size covers.
        ("c003014040", DecodeError::CountMismatch),
        // An item that reaches beyond its list.
        ("c0020150 0000", DecodeError::CountMismatch),
        // A size that does not cover the count.
        ("c00000", DecodeError::CountMismatch),
        ("d00000000300000000", DecodeError::CountMismatch),
        // A size beyond the bytes.
        ("c0ff0140", DecodeError::Truncated),
        ("d0ffffffff0000000140", DecodeError::Truncated),
        ("b0ffffffff00", DecodeError::Truncated),
        // Arrays whose data does not fit the count.
        ("e0040350 0102", DecodeError::CountMismatch),
        ("e0040150 0102", DecodeError::CountMismatch),
        ("e0040141 0000", DecodeError::CountMismatch),
        (
            "f00000000affffffff a1 0161 0162 00",
            DecodeError::CountMismatch,
        ),
        ("e00100", DecodeError::Truncated),
    ] {
        assert_eq!(Value::decode(&hex(digits)), Err(error), "{digits}");
    }
}

#[test]
fn co_06_odd_maps_are_refused_and_equal_keys_are_found() {
    assert_eq!(
        Value::decode(&hex("c10803a10161a1016240")),
        Err(DecodeError::OddMap)
    );
    let Value::Map(map) = decode_all(&hex("c10b04a101615201a101615202")).expect("readable") else {
        panic!("a map")
    };
    assert_eq!(map.len(), 2, "nothing is merged");
    assert!(has_duplicate_keys(&map));
    // The same key in two encodings is the same key; the same number in two types is not.
    let Value::Map(map) =
        decode_all(&hex("c10e04 5301 40 800000000000000001 40")).expect("readable")
    else {
        panic!("a map")
    };
    assert!(has_duplicate_keys(&map));
    assert!(!has_duplicate_keys(&vec![
        (Value::Uint(1), Value::Null),
        (Value::Ulong(1), Value::Null)
    ]));
}

#[test]
fn co_12_extreme_timestamps_keep_every_bit() {
    for (digits, milliseconds) in [
        ("837fffffffffffffff", i64::MAX),
        ("838000000000000000", i64::MIN),
        ("830000e677d21fdbff", 253_402_300_799_999),
        ("83ffffc77cedd32800", -62_135_596_800_000),
    ] {
        let value = decode_all(&hex(digits)).expect("legal");
        assert_eq!(value, Value::Timestamp(milliseconds));
        assert_eq!(encode(&value), hex(digits));
    }
}

proptest! {
    #[test]
    fn any_value_round_trips_and_tells_its_length(value in any_value()) {
        let bytes = encode(&value);
        prop_assert_eq!(bytes.len(), value.encoded_len());
        prop_assert_eq!(decode_all(&bytes), Ok(value));
    }

    #[test]
    fn no_bytes_harm_and_what_decodes_encodes_no_longer(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let bytes = Bytes::from(bytes);
        if let Ok((value, used)) = Value::decode(&bytes) {
            prop_assert!(used <= bytes.len());
            let again = encode(&value);
            prop_assert!(again.len() <= used, "{} > {}", again.len(), used);
            prop_assert_eq!(decode_all(&again), Ok(value));
        }
    }

    #[test]
    fn every_cut_of_a_value_is_refused(value in any_value()) {
        let bytes = encode(&value);
        for len in 0..bytes.len() {
            prop_assert!(Value::decode(&bytes.slice(..len)).is_err(), "cut to {}", len);
        }
    }
}
