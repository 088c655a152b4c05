//! Simple values of message properties, whatever protocol they came by, and what it means that two of them are equal.
//!
//! Bindings and filters compare values that were written by different hands: a number is the same number in every
//! width, a text the same text as string or symbol.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

/// A simple value, borrowed from the message it stands in.
#[derive(Clone, Copy, Debug)]
pub enum Scalar<'a> {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number of any width; timestamps are milliseconds since 1970.
    Int(i128),
    /// A binary or decimal fraction.
    Float(f64),
    /// One character, which is no text.
    Char(char),
    /// A string or a symbol.
    Text(&'a str),
    /// Octets.
    Bytes(&'a [u8]),
    /// An RFC 4122 uuid.
    Uuid([u8; 16]),
    /// A list, a map or whatever else cannot be compared.
    Other,
}

/// From here on a float may be larger than every `i128`.
const INT_RANGE: f64 = 1.701_411_834_604_692_3e38;

impl Scalar<'_> {
    /// The same value in the one form that equal values share: whole floats become integers.
    #[must_use]
    #[inline]
    pub fn normal(self) -> Self {
        match self {
            Self::Float(float) if float.trunc() == float && float.abs() < INT_RANGE => {
                #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
                let int = float as i128;
                Self::Int(int)
            }
            other => other,
        }
    }

    /// Whether both are the same value: numbers by value across widths, all else by kind and content. Nulls are the
    /// same, and so are NaNs of the same bits, which makes this an equivalence; [`Scalar::Other`] equals nothing.
    #[must_use]
    #[inline]
    pub fn is_same(self, other: Scalar<'_>) -> bool {
        match (self.normal(), other.normal()) {
            (Scalar::Null, Scalar::Null) => true,
            (Scalar::Bool(a), Scalar::Bool(b)) => a == b,
            (Scalar::Int(a), Scalar::Int(b)) => a == b,
            (Scalar::Float(a), Scalar::Float(b)) => a.to_bits() == b.to_bits(),
            (Scalar::Char(a), Scalar::Char(b)) => a == b,
            (Scalar::Text(a), Scalar::Text(b)) => a == b,
            (Scalar::Bytes(a), Scalar::Bytes(b)) => a == b,
            (Scalar::Uuid(a), Scalar::Uuid(b)) => a == b,
            _ => false,
        }
    }

    /// Which of two numbers is larger, exactly and across widths; none when one is no number or NaN.
    #[must_use]
    #[inline]
    pub fn number_order(self, other: Scalar<'_>) -> Option<Ordering> {
        match (self, other) {
            (Scalar::Int(a), Scalar::Int(b)) => Some(a.cmp(&b)),
            (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b),
            (Scalar::Int(int), Scalar::Float(float)) => int_float_order(int, float),
            (Scalar::Float(float), Scalar::Int(int)) => {
                int_float_order(int, float).map(Ordering::reverse)
            }
            _ => None,
        }
    }

    /// Feeds a hasher so that values which are the same hash alike.
    #[inline]
    pub fn hash_into(self, state: &mut impl Hasher) {
        match self.normal() {
            Self::Null => state.write_u8(0),
            Self::Bool(value) => state.write_u16(0x0100 | u16::from(value)),
            Self::Int(value) => {
                state.write_u8(2);
                #[expect(clippy::cast_possible_truncation, reason = "the low half is enough")]
                let low = value as i64;
                state.write_i64(low);
            }
            Self::Float(value) => {
                state.write_u8(3);
                state.write_u64(value.to_bits());
            }
            Self::Char(value) => {
                state.write_u8(4);
                state.write_u32(value.into());
            }
            Self::Text(value) => {
                state.write_u8(5);
                state.write(value.as_bytes());
            }
            Self::Bytes(value) => {
                state.write_u8(6);
                state.write(value);
            }
            Self::Uuid(value) => {
                state.write_u8(7);
                state.write(&value);
            }
            Self::Other => state.write_u8(8),
        }
    }
}

/// Compares without rounding: a cast of either side could make different numbers equal.
fn int_float_order(int: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float >= INT_RANGE {
        return Some(Ordering::Less);
    }
    if float <= -INT_RANGE {
        return Some(Ordering::Greater);
    }
    let whole = float.trunc();
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
    let order = int.cmp(&(whole as i128));
    Some(order.then_with(|| 0.0_f64.total_cmp(&(float - whole + 0.0))))
}

/// A simple value on its own, as bindings and filters keep it. In JSON and TOML the plain types stand for themselves and
/// the rest is a table of one entry, such as `{ "uuid": [..] }`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Datum {
    /// No value: as a criterion, "there, whatever its value".
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number above those of `Int`.
    Uint(u64),
    /// A fraction.
    Float(f64),
    /// A string or a symbol.
    Text(String),
    /// What JSON has no type for.
    Typed(TypedDatum),
}

/// A value that JSON and TOML have no type for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TypedDatum {
    /// One character, which is no text.
    Char(char),
    /// An RFC 4122 uuid.
    Uuid([u8; 16]),
    /// Octets.
    Binary(Vec<u8>),
}

impl Datum {
    /// The value, borrowed.
    #[must_use]
    #[inline]
    pub fn scalar(&self) -> Scalar<'_> {
        match self {
            Self::Null => Scalar::Null,
            Self::Bool(value) => Scalar::Bool(*value),
            Self::Int(value) => Scalar::Int(i128::from(*value)),
            Self::Uint(value) => Scalar::Int(i128::from(*value)),
            Self::Float(value) => Scalar::Float(*value),
            Self::Text(value) => Scalar::Text(value),
            Self::Typed(TypedDatum::Char(value)) => Scalar::Char(*value),
            Self::Typed(TypedDatum::Uuid(value)) => Scalar::Uuid(*value),
            Self::Typed(TypedDatum::Binary(value)) => Scalar::Bytes(value),
        }
    }

    /// A copy of a value; none of one that cannot be compared or has no place in 64 bits.
    #[must_use]
    pub fn of(scalar: Scalar<'_>) -> Option<Self> {
        Some(match scalar {
            Scalar::Null => Self::Null,
            Scalar::Bool(value) => Self::Bool(value),
            Scalar::Int(value) => match i64::try_from(value) {
                Ok(value) => Self::Int(value),
                Err(_) => Self::Uint(u64::try_from(value).ok()?),
            },
            Scalar::Float(value) => Self::Float(value),
            Scalar::Char(value) => Self::Typed(TypedDatum::Char(value)),
            Scalar::Text(value) => Self::Text(value.to_owned()),
            Scalar::Bytes(value) => Self::Typed(TypedDatum::Binary(value.to_vec())),
            Scalar::Uuid(value) => Self::Typed(TypedDatum::Uuid(value)),
            Scalar::Other => return None,
        })
    }
}

impl PartialEq for Datum {
    fn eq(&self, other: &Self) -> bool {
        self.scalar().is_same(other.scalar())
    }
}

impl Eq for Datum {}

impl Hash for Datum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.scalar().hash_into(state);
    }
}

impl From<&str> for Datum {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Datum {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Datum {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for Datum {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// The named properties of a message that headers exchanges look at (in AMQP 1.0 its application-properties).
/// Implementors read them only when they are asked.
pub trait Headers {
    /// Calls `each` for every property, in order.
    fn each(&self, each: &mut dyn FnMut(&str, Scalar<'_>));
}

/// A message without properties.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHeaders;

impl Headers for NoHeaders {
    fn each(&self, _each: &mut dyn FnMut(&str, Scalar<'_>)) {}
}

impl Headers for [(&str, Datum)] {
    fn each(&self, each: &mut dyn FnMut(&str, Scalar<'_>)) {
        for (key, value) in self {
            each(key, value.scalar());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_in_every_width() {
        assert!(Scalar::Int(1).is_same(Scalar::Float(1.0)));
        assert!(Scalar::Float(-0.0).is_same(Scalar::Int(0)));
        assert!(!Scalar::Int(1).is_same(Scalar::Float(1.5)));
        assert!(!Scalar::Int(1).is_same(Scalar::Text("1")));
        assert!(!Scalar::Int(1).is_same(Scalar::Bool(true)));
        // 2^53 + 1 has no double of its own: a cast would call these equal.
        let (odd, even) = ((1_i128 << 53) + 1, 9_007_199_254_740_992.0);
        assert!(!Scalar::Int(odd).is_same(Scalar::Float(even)));
        assert_eq!(
            Scalar::Int(odd).number_order(Scalar::Float(even)),
            Some(Ordering::Greater)
        );
    }

    #[test]
    fn order_is_exact_and_total_but_for_nan() {
        let order = |a: Scalar<'_>, b: Scalar<'_>| a.number_order(b);
        use Scalar::{Float, Int};
        assert_eq!(order(Int(1), Float(1.5)), Some(Ordering::Less));
        assert_eq!(order(Int(-1), Float(-1.5)), Some(Ordering::Greater));
        assert_eq!(order(Float(1.5), Int(1)), Some(Ordering::Greater));
        assert_eq!(order(Int(0), Float(-0.0)), Some(Ordering::Equal));
        assert_eq!(
            order(Int(i128::MAX), Float(f64::INFINITY)),
            Some(Ordering::Less)
        );
        assert_eq!(
            order(Int(i128::MIN), Float(f64::NEG_INFINITY)),
            Some(Ordering::Greater)
        );
        assert_eq!(order(Int(0), Float(f64::NAN)), None);
        assert_eq!(order(Int(0), Scalar::Text("0")), None);
    }

    #[test]
    fn a_datum_survives_its_text() {
        for datum in [
            Datum::Null,
            Datum::Bool(true),
            Datum::Int(-5),
            Datum::Uint(u64::MAX),
            Datum::Float(0.5),
            Datum::from("x"),
            Datum::Typed(TypedDatum::Char('c')),
            Datum::Typed(TypedDatum::Uuid([7; 16])),
            Datum::Typed(TypedDatum::Binary(vec![0, 255])),
        ] {
            let text = serde_json::to_string(&datum).expect("plain data");
            let back: Datum = serde_json::from_str(&text).expect(&text);
            assert_eq!(back, datum, "{text}");
            let copy = Datum::of(datum.scalar()).expect("a simple value");
            assert_eq!(copy, datum);
        }
    }
}
