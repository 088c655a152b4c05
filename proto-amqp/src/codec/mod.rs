//! Reading and writing of encoded values, below the typed composites: a cursor, the constructors, and the macro that
//! makes a composite out of its list of fields.

mod composite;
mod constructor;
mod field;
mod reader;
mod writer;

pub(crate) use composite::{Fields, composite, field_default, field_read, field_type, field_write};
pub(crate) use constructor::{Shape, code, shape_of};
pub(crate) use field::Field;
pub(crate) use reader::Reader;
pub(crate) use writer::{ListWriter, binary_len, compound_len, put_compound, put_map, put_symbols};
