//! Values of AMQP as JSON and back: the shapes of the HTTP API as AMQP maps.
//!
//! Texts, truth values, lists and maps are what they are; a whole number is a long (an ulong above those), a fraction a
//! double, nothing is null. What JSON has no type for is written as in JSON: a map of one entry (see
//! [`crate::route::Datum`]).

use qq_proto_amqp::types::{Map, Str, Value};
use serde_json::{Map as Object, Value as Json, json};

/// A value as JSON.
///
/// # Errors
/// A text that says what has no place in JSON.
pub(super) fn to_json(value: &Value) -> Result<Json, String> {
    let fraction = |number: f64| {
        let number = serde_json::Number::from_f64(number);
        number
            .map(Json::Number)
            .ok_or_else(|| "a number is not finite".to_owned())
    };
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Ubyte(value) => Json::from(*value),
        Value::Ushort(value) => Json::from(*value),
        Value::Uint(value) => Json::from(*value),
        Value::Ulong(value) => Json::from(*value),
        Value::Byte(value) => Json::from(*value),
        Value::Short(value) => Json::from(*value),
        Value::Int(value) => Json::from(*value),
        Value::Long(value) | Value::Timestamp(value) => Json::from(*value),
        Value::Float(bits) => fraction(f64::from(f32::from_bits(*bits)))?,
        Value::Double(bits) => fraction(f64::from_bits(*bits))?,
        Value::Str(text) => Json::from(text.as_str()),
        Value::Symbol(name) => Json::from(name.as_str()),
        Value::Char(value) => json!({ "char": value }),
        Value::Uuid(bytes) => json!({ "uuid": bytes }),
        Value::Binary(bytes) => json!({ "binary": &bytes[..] }),
        Value::List(values) => Json::Array(values.iter().map(to_json).collect::<Result<_, _>>()?),
        Value::Map(map) => Json::Object(to_object(map)?),
        Value::Decimal32(_) | Value::Decimal64(_) | Value::Decimal128(_) => {
            return Err("decimals mean nothing here; send an integer or a double".to_owned());
        }
        Value::Array(_) => return Err("arrays mean nothing here; send a list".to_owned()),
        Value::Described(_) => return Err("described values mean nothing here".to_owned()),
    })
}

/// A map as an object.
///
/// # Errors
/// A text that says what has no place in an object.
pub(super) fn to_object(map: &Map) -> Result<Object<String, Json>, String> {
    let mut object = Object::new();
    for (key, value) in map {
        let name = text_of(key).ok_or("the keys of maps must be strings")?;
        if object.insert(name.to_owned(), to_json(value)?).is_some() {
            return Err(format!(
                "{} stands twice in a map",
                crate::broker::quoted(name)
            ));
        }
    }
    Ok(object)
}

/// A string or a symbol.
pub(super) fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::Str(text) => Some(text.as_str()),
        Value::Symbol(name) => Some(name.as_str()),
        _ => None,
    }
}

/// JSON as a value.
pub(super) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::Long(value),
            (None, Some(value)) => Value::Ulong(value),
            (None, None) => Value::Double(number.as_f64().unwrap_or_default().to_bits()),
        },
        Json::String(text) => Value::Str(Str::from(text.as_str())),
        Json::Array(values) => Value::List(values.iter().map(from_json).collect()),
        Json::Object(object) => Value::Map(
            object
                .iter()
                .map(|(name, value)| (Value::Str(Str::from(name.as_str())), from_json(value)))
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use qq_proto_amqp::types::Symbol;

    fn text(text: &str) -> Value {
        Value::Str(Str::from(text))
    }

    #[test]
    fn numbers_of_every_width_are_numbers() {
        for value in [
            Value::Ubyte(7),
            Value::Ushort(7),
            Value::Uint(7),
            Value::Ulong(7),
            Value::Byte(7),
            Value::Short(7),
            Value::Int(7),
            Value::Long(7),
        ] {
            assert_eq!(to_json(&value), Ok(json!(7)), "{value:?}");
        }
        assert_eq!(to_json(&Value::Double(0.5_f64.to_bits())), Ok(json!(0.5)));
        assert!(to_json(&Value::Double(f64::NAN.to_bits())).is_err());
        assert_eq!(from_json(&json!(7)), Value::Long(7));
        assert_eq!(from_json(&json!(u64::MAX)), Value::Ulong(u64::MAX));
        assert_eq!(from_json(&json!(0.5)), Value::Double(0.5_f64.to_bits()));
    }

    #[test]
    fn maps_and_lists_go_both_ways() {
        let map = vec![
            (text("a"), Value::List(vec![Value::Null, Value::Bool(true)])),
            (text("b"), Value::Map(vec![(text("c"), text("d"))])),
        ];
        let json = json!({"a": [null, true], "b": {"c": "d"}});
        assert_eq!(to_json(&Value::Map(map.clone())), Ok(json.clone()));
        assert_eq!(from_json(&json), Value::Map(map));
    }

    #[test]
    fn what_is_no_json_is_a_map_of_one_or_an_error() {
        let bytes = Value::Binary(Bytes::from_static(b"\x01"));
        assert_eq!(to_json(&bytes), Ok(json!({"binary": [1]})));
        assert_eq!(to_json(&Value::Char('x')), Ok(json!({"char": "x"})));
        let symbol = Value::Symbol(Symbol::from_static("s"));
        assert_eq!(to_json(&symbol), Ok(json!("s")));
        assert!(to_json(&Value::Decimal32([0; 4])).is_err());
        assert!(to_object(&vec![(Value::Uint(1), Value::Null)]).is_err());
        let twice = vec![(text("a"), Value::Null), (symbol_of("a"), Value::Null)];
        assert!(to_object(&twice).is_err());
    }

    fn symbol_of(name: &str) -> Value {
        Value::Symbol(Symbol::new(name).expect("ASCII"))
    }
}
