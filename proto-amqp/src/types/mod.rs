//! The AMQP type system (part 1): every primitive as a Rust value, compound values that stay cheap to hold, and the
//! errors of reading them.
//!
//! Strings, symbols and binaries are slices of the buffer they came in. Arrays stay encoded: a peer that claims two
//! thousand million elements of zero bytes each costs nobody anything.

mod array;
mod decode;
mod encode;
mod error;
mod map;
mod tag;
mod text;
mod value;

pub use array::{Array, ArrayItems};
pub use error::DecodeError;
pub use map::{Map, has_duplicate_keys};
pub use tag::DeliveryTag;
pub use text::{Str, Symbol};
pub use value::{Described, Value};

/// Compound and described values may stand in each other this deep: a list in a list counts 2. One more is refused.
pub const NESTING_MAX: u8 = 32;
