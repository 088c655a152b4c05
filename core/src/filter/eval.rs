//! What a selector says of a message: true, false or unknown, as SQL-92 has it.
//!
//! Values are borrowed from the message and from the selector. The one exception are texts in other letters, which are
//! made in a scratch that lives as long as the evaluation. Nothing can fail: what has no value is null, and a condition
//! on null is unknown.

use std::cell::OnceCell;
use std::cmp::Ordering;

use super::Field;
use super::View;
use super::field::Place;
use super::node::{Comparison, Factor, Letters, Node, Part};
use super::parse::Program;
use super::token::Dialect;
use crate::route::Scalar;

impl Program {
    /// Whether the selector is true of a message, as opposed to false or unknown.
    pub(super) fn is_true(&self, view: &dyn View) -> bool {
        let scratch: Vec<OnceCell<String>> =
            (0..self.scratch_len).map(|_| OnceCell::new()).collect();
        let evaluation = Evaluation {
            view,
            scratch: &scratch,
            dialect: self.dialect,
        };
        evaluation.truth(&self.root) == Some(true)
    }
}

struct Evaluation<'e> {
    view: &'e dyn View,
    scratch: &'e [OnceCell<String>],
    dialect: Dialect,
}

impl<'e> Evaluation<'e> {
    /// A condition. Values that are no truth make it unknown.
    fn truth(&self, node: &'e Node) -> Option<bool> {
        match node {
            Node::Not(inner) => self.truth(inner).map(|truth| !truth),
            Node::And(terms) => {
                let mut all = Some(true);
                for term in terms {
                    match self.truth(term) {
                        Some(false) => return Some(false),
                        Some(true) => {}
                        None => all = None,
                    }
                }
                all
            }
            Node::Or(terms) => {
                let mut any = Some(false);
                for term in terms {
                    match self.truth(term) {
                        Some(true) => return Some(true),
                        Some(false) => {}
                        None => any = None,
                    }
                }
                any
            }
            Node::Compare(comparison, sides) => {
                self.compare(*comparison, self.value(&sides.0), self.value(&sides.1))
            }
            Node::Between(parts) => {
                let value = self.value(&parts.0);
                let above = self.compare(Comparison::GreaterEqual, value, self.value(&parts.1));
                let below = self.compare(Comparison::LessEqual, value, self.value(&parts.2));
                match (above, below) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                }
            }
            Node::In(value, list) => {
                let value = self.value(value);
                if matches!(value, Scalar::Null) {
                    return None;
                }
                let is_same = |datum: &crate::route::Datum| is_equal(value, datum.scalar());
                Some(list.iter().any(is_same))
            }
            Node::Like(value, like) => match self.value(value) {
                Scalar::Text(text) => like.is_match(text),
                _ => None,
            },
            Node::IsNull(value) => Some(matches!(self.value(value), Scalar::Null)),
            _ => match self.value(node) {
                Scalar::Bool(truth) => Some(truth),
                _ => None,
            },
        }
    }

    fn value(&self, node: &'e Node) -> Scalar<'e> {
        match node {
            Node::Const(datum) => datum.scalar(),
            Node::Place(place) => self.place(place),
            Node::Negate(inner) => match self.value(inner) {
                Scalar::Int(value) => value.checked_neg().map_or(Scalar::Null, Scalar::Int),
                Scalar::Float(value) => Scalar::Float(-value),
                _ => Scalar::Null,
            },
            Node::Sum(first, rest) => rest
                .iter()
                .fold(self.value(first), |sum, (is_minus, node)| {
                    add(sum, self.value(node), *is_minus)
                }),
            Node::Product(first, rest) => (rest.iter())
                .fold(self.value(first), |product, (factor, node)| {
                    multiply(*factor, product, self.value(node))
                }),
            Node::Now => Scalar::Int(self.view.now_ms().into()),
            Node::Part(part, operands) => {
                let (text, number, len) = &**operands;
                let len = len.as_ref().map(|len| self.value(len));
                part_of(*part, self.value(text), self.value(number), len)
            }
            Node::Letters(letters, text, slot) => match self.value(text) {
                Scalar::Text(text) => {
                    Scalar::Text(self.scratch[*slot].get_or_init(|| match letters {
                        Letters::Lower => text.to_lowercase(),
                        Letters::Upper => text.to_uppercase(),
                    }))
                }
                _ => Scalar::Null,
            },
            condition => self.truth(condition).map_or(Scalar::Null, Scalar::Bool),
        }
    }

    fn place(&self, place: &Place) -> Scalar<'e> {
        let view = self.view;
        match place {
            Place::Field(field) => view.field(*field),
            Place::Property(name) => view.property(name),
            Place::Annotation(name) => view.annotation(name),
            Place::Footer(name) => view.footer(name),
            Place::DeliveryMode => match view.field(Field::Durable) {
                Scalar::Bool(true) => Scalar::Text("PERSISTENT"),
                _ => Scalar::Text("NON_PERSISTENT"),
            },
            Place::Redelivered => match view.field(Field::DeliveryCount) {
                Scalar::Int(count) => Scalar::Bool(count > 0),
                _ => Scalar::Bool(false),
            },
            Place::Attempt => match view.field(Field::DeliveryCount) {
                Scalar::Int(count) => Scalar::Int(count + 1),
                _ => Scalar::Int(1),
            },
        }
    }

    /// Compares two values. With a null it is unknown; with values of unlike kinds it is false, whatever the operator,
    /// as JMS says.
    fn compare(&self, comparison: Comparison, a: Scalar<'_>, b: Scalar<'_>) -> Option<bool> {
        if matches!(a, Scalar::Null) || matches!(b, Scalar::Null) {
            return None;
        }
        if is_number(a) && is_number(b) {
            // NaN is neither equal to anything nor less or greater.
            return Some(match a.number_order(b) {
                Some(order) => holds(comparison, order),
                None => comparison == Comparison::NotEqual,
            });
        }
        if matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
            let is_wanted = comparison == Comparison::Equal;
            return Some(is_alike(a, b) && is_equal(a, b) == is_wanted);
        }
        // JMS orders numbers only; the draft orders texts by their characters, and UTF-8 sorts as they do.
        Some(match (self.dialect, a, b) {
            (Dialect::Sql, Scalar::Text(a), Scalar::Text(b)) => holds(comparison, a.cmp(b)),
            (Dialect::Sql, Scalar::Bytes(a), Scalar::Bytes(b)) => holds(comparison, a.cmp(b)),
            _ => false,
        })
    }
}

fn holds(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterEqual => order.is_ge(),
    }
}

const fn is_number(value: Scalar<'_>) -> bool {
    matches!(value, Scalar::Int(_) | Scalar::Float(_))
}

/// Whether two values can be equal at all. Octets and texts can, since a user-id or an id may be either; so can a
/// character and a text, which no selector can write otherwise.
const fn is_alike(a: Scalar<'_>, b: Scalar<'_>) -> bool {
    use Scalar::{Bool, Bytes, Char, Float, Int, Text, Uuid};
    matches!(
        (a, b),
        (Int(_) | Float(_), Int(_) | Float(_))
            | (Bool(_), Bool(_))
            | (Text(_) | Bytes(_), Text(_) | Bytes(_))
            | (Text(_) | Char(_), Char(_))
            | (Char(_), Text(_))
            | (Uuid(_) | Bytes(_), Uuid(_))
            | (Uuid(_), Bytes(_))
    )
}

/// Whether two values are equal as filters see it: by content, where [`Scalar::is_same`] wants the same kind as well.
pub(super) fn is_equal(a: Scalar<'_>, b: Scalar<'_>) -> bool {
    match (a, b) {
        (Scalar::Int(_) | Scalar::Float(_), Scalar::Int(_) | Scalar::Float(_)) => {
            a.number_order(b) == Some(Ordering::Equal)
        }
        (Scalar::Text(text), Scalar::Bytes(bytes)) | (Scalar::Bytes(bytes), Scalar::Text(text)) => {
            text.as_bytes() == bytes
        }
        (Scalar::Text(text), Scalar::Char(c)) | (Scalar::Char(c), Scalar::Text(text)) => {
            text.strip_prefix(c) == Some("")
        }
        (Scalar::Uuid(uuid), Scalar::Bytes(bytes)) | (Scalar::Bytes(bytes), Scalar::Uuid(uuid)) => {
            uuid == bytes
        }
        (Scalar::Null, _) => false,
        _ => a.is_same(b),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a fraction makes the whole sum one, as in SQL"
)]
fn floats(a: Scalar<'_>, b: Scalar<'_>) -> Option<(f64, f64)> {
    let float = |value: Scalar<'_>| match value {
        Scalar::Int(value) => Some(value as f64),
        Scalar::Float(value) => Some(value),
        _ => None,
    };
    float(a).zip(float(b))
}

fn add<'e>(a: Scalar<'e>, b: Scalar<'e>, is_minus: bool) -> Scalar<'e> {
    if let (Scalar::Int(a), Scalar::Int(b)) = (a, b) {
        let sum = if is_minus {
            a.checked_sub(b)
        } else {
            a.checked_add(b)
        };
        return sum.map_or(Scalar::Null, Scalar::Int);
    }
    floats(a, b).map_or(Scalar::Null, |(a, b)| {
        Scalar::Float(if is_minus { a - b } else { a + b })
    })
}

/// Integers stay integers and are divided towards zero; what is divided by zero has no value.
fn multiply<'e>(factor: Factor, a: Scalar<'e>, b: Scalar<'e>) -> Scalar<'e> {
    if let (Scalar::Int(a), Scalar::Int(b)) = (a, b) {
        let product = match factor {
            Factor::Times => a.checked_mul(b),
            Factor::Over => a.checked_div(b),
            Factor::Modulo => a.checked_rem(b),
        };
        return product.map_or(Scalar::Null, Scalar::Int);
    }
    match (factor, floats(a, b)) {
        (Factor::Times, Some((a, b))) => Scalar::Float(a * b),
        (Factor::Over, Some((a, b))) if b != 0.0 => Scalar::Float(a / b),
        _ => Scalar::Null,
    }
}

/// A part of a text by numbers of characters; positions count from 1. Numbers that make no sense give null.
fn part_of<'e>(
    part: Part,
    text: Scalar<'e>,
    number: Scalar<'_>,
    len: Option<Scalar<'_>>,
) -> Scalar<'e> {
    let whole = |value: Scalar<'_>| match value.normal() {
        Scalar::Int(value) => usize::try_from(value).ok(),
        _ => None,
    };
    let (Scalar::Text(text), Some(number)) = (text, whole(number)) else {
        return Scalar::Null;
    };
    let byte_of = |text: &str, chars: usize| {
        text.char_indices()
            .nth(chars)
            .map_or(text.len(), |(at, _)| at)
    };
    match part {
        Part::Left => Scalar::Text(&text[..byte_of(text, number)]),
        Part::Right => {
            let skip = text.chars().count().saturating_sub(number);
            Scalar::Text(&text[byte_of(text, skip)..])
        }
        Part::Middle => {
            let Some(skip) = number.checked_sub(1) else {
                return Scalar::Null;
            };
            let rest = &text[byte_of(text, skip)..];
            match len.map(whole) {
                None => Scalar::Text(rest),
                Some(Some(len)) => Scalar::Text(&rest[..byte_of(rest, len)]),
                Some(None) => Scalar::Null,
            }
        }
    }
}
