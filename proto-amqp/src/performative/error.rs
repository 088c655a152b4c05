//! Errors as they travel (part 2, 2.8.14).

use bytes::BytesMut;

use crate::codec::{Field, Reader, composite};
use crate::types::{DecodeError, Map, Str, Symbol};

composite! {
    /// What went wrong (part 2, 2.8.14). Written with all three fields: some clients look for the third.
    AmqpError = 0x1d, all {
        /// For programs: one of [`condition`](crate::condition) or of an extension.
        condition["condition"]: required Symbol,
        /// For people.
        description["description"]: optional Str,
        /// Details for programs.
        info["info"]: optional Map,
    }
}

impl Field for AmqpError {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        match super::descriptor::read(constructor, reader, name)? {
            Some(Self::DESCRIPTOR) => Self::read_fields(reader),
            _ => Err(DecodeError::FieldType(name)),
        }
    }

    fn write(&self, buf: &mut BytesMut) {
        self.encode(buf);
    }
}
