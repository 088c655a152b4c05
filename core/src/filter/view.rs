//! A message as filters see it: nothing is decoded before somebody asks for it.

use super::Field;
use crate::route::Scalar;

/// What a filter can ask of a message. What is absent is [`Scalar::Null`].
pub trait View {
    /// A standard field.
    fn field(&self, field: Field) -> Scalar<'_>;

    /// An application property.
    fn property(&self, name: &str) -> Scalar<'_>;

    /// A message annotation.
    fn annotation(&self, name: &str) -> Scalar<'_>;

    /// An entry of the footer.
    fn footer(&self, name: &str) -> Scalar<'_>;

    /// The wall clock, milliseconds since 1970.
    fn now_ms(&self) -> i64;

    /// Whether the consumer's own connection published the message.
    fn is_local(&self) -> bool;
}
