//! Target for the type codec: bytes as a value. What decodes must encode to no more bytes, tell its length, and decode
//! to itself; arrays may be walked for as long as somebody wants to.

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::types::{Array, NESTING_MAX, Value, has_duplicate_keys};

/// Elements of an array that are looked at: with elements of no bytes there may be 2^32.
const ITEMS_MAX: usize = 64;

/// One value at the front of `data`.
pub fn types(data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    let Ok((value, used)) = Value::decode(&data) else {
        return;
    };
    assert!(used <= data.len(), "{used} bytes of {}", data.len());
    let encoded = check_encoding(&value);
    assert!(
        encoded.len() <= used,
        "{} bytes became {}: {value:?}",
        used,
        encoded.len()
    );
    // The canonical form is a fixed point.
    let (again, again_used) = Value::decode(&encoded).expect("our own bytes");
    assert_eq!(again_used, encoded.len());
    assert_eq!(again, value);
    assert_eq!(check_encoding(&again), encoded);
    walk(&value, 0);
}

fn check_encoding(value: &Value) -> Bytes {
    let mut buf = BytesMut::new();
    value.encode(&mut buf);
    assert_eq!(buf.len(), value.encoded_len(), "{value:?}");
    buf.freeze()
}

fn walk(value: &Value, depth: u8) {
    assert!(depth <= NESTING_MAX, "nested deeper than allowed");
    match value {
        Value::List(list) => list.iter().for_each(|item| walk(item, depth + 1)),
        Value::Map(map) => {
            let _ = has_duplicate_keys(map);
            for (key, value) in map {
                walk(key, depth + 1);
                walk(value, depth + 1);
            }
        }
        Value::Described(described) => {
            walk(&described.descriptor, depth + 1);
            walk(&described.value, depth + 1);
        }
        Value::Array(array) => walk_array(array),
        Value::Str(text) => assert_eq!(text.as_str().len(), text.as_bytes().len()),
        Value::Symbol(name) => assert!(name.as_str().is_ascii()),
        _ => {}
    }
}

fn walk_array(array: &Array) {
    let mut count = 0;
    let mut has_failed = false;
    for item in array.items().take(ITEMS_MAX) {
        assert!(!has_failed, "an array goes on behind an error");
        count += 1;
        match item {
            Ok(item) => drop(check_encoding(&item)),
            Err(_) => has_failed = true,
        }
    }
    if !has_failed {
        assert_eq!(
            count,
            ITEMS_MAX.min(usize::try_from(array.count()).unwrap_or(usize::MAX))
        );
    }
}
