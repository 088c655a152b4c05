//! Composites (part 1, 1.4): described lists whose fields are known. One macro makes struct, defaults, decoder and
//! encoder from the list of fields, so that the four cannot disagree.

use super::{Field, Reader, code};
use crate::types::DecodeError;

/// The fields of a list, one after the other. Fields that are null or left off at the end are absent alike.
pub(crate) struct Fields<'r, 'a> {
    pub(crate) reader: &'r mut Reader<'a>,
    left: u32,
    end: usize,
}

impl<'r, 'a> Fields<'r, 'a> {
    /// Begins at the list's constructor.
    #[inline]
    pub(crate) fn begin(reader: &'r mut Reader<'a>) -> Result<Self, DecodeError> {
        let constructor = reader.byte()?;
        if !matches!(constructor, code::LIST0 | code::LIST8 | code::LIST32) {
            return Err(DecodeError::NotDescribedList);
        }
        reader.enter()?;
        let (left, end) = reader.compound(constructor)?;
        Ok(Self { reader, left, end })
    }

    /// Whether fields are left, be they null.
    #[inline]
    pub(crate) const fn has_more(&self) -> bool {
        self.left > 0
    }

    /// Constructor of the next field; none when it is absent.
    #[inline]
    pub(crate) fn next_code(&mut self) -> Result<Option<u8>, DecodeError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let constructor = self.reader.byte()?;
        Ok((constructor != code::NULL).then_some(constructor))
    }

    /// The next field; none when it is absent.
    #[inline]
    pub(crate) fn next<T: Field>(&mut self, name: &'static str) -> Result<Option<T>, DecodeError> {
        match self.next_code()? {
            Some(constructor) => T::read(constructor, self.reader, name).map(Some),
            None => Ok(None),
        }
    }

    /// Checks that nothing is left.
    #[inline]
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.left > 0 {
            return Err(DecodeError::TooManyFields);
        }
        if self.reader.at() != self.end {
            return Err(DecodeError::CountMismatch);
        }
        self.reader.leave();
        Ok(())
    }
}

macro_rules! field_type {
    (optional, $ty:ty) => { Option<$ty> };
    (multiple, $ty:ty) => { alloc::vec::Vec<$ty> };
    ($policy:ident, $ty:ty) => { $ty };
}

macro_rules! field_default {
    (required) => {
        Default::default()
    };
    (optional) => {
        None
    };
    (multiple) => {
        alloc::vec::Vec::new()
    };
    ($policy:ident, $value:expr) => {
        $value
    };
}

macro_rules! field_read {
    ($fields:ident, $wire:literal, required) => {
        $fields
            .next($wire)?
            .ok_or($crate::types::DecodeError::FieldMissing($wire))?
    };
    ($fields:ident, $wire:literal, optional) => {
        $fields.next($wire)?
    };
    ($fields:ident, $wire:literal, multiple) => {
        $fields.next($wire)?.unwrap_or_default()
    };
    ($fields:ident, $wire:literal, $policy:ident, $value:expr) => {
        $fields.next($wire)?.unwrap_or($value)
    };
}

macro_rules! field_write {
    ($list:ident, $field:expr, optional) => {
        $list.field($field.as_ref())
    };
    ($list:ident, $field:expr, multiple) => {
        $list.field((!$field.is_empty()).then_some(&$field))
    };
    // Said although it is the default: some peers look for it.
    ($list:ident, $field:expr, explicit, $value:expr) => {
        $list.field(Some(&$field))
    };
    ($list:ident, $field:expr, default, $value:expr) => {
        $list.field(($field != $value).then_some(&$field))
    };
    ($list:ident, $field:expr, required) => {
        $list.field(Some(&$field))
    };
}

/// Makes a composite. `all` writes every field, absent ones as nulls; `short` leaves absent ones off at the end.
///
/// Policies: `required`, `optional`, `multiple` (symbols), `default = value` (left off when equal), `explicit = value`
/// (always written).
macro_rules! composite {
    (
        $(#[$meta:meta])*
        $name:ident = $code:literal, $trim:ident {
            $($(#[$field_meta:meta])* $field:ident[$wire:literal]: $policy:ident $ty:ty $(= $value:expr)?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $crate::codec::field_type!($policy, $ty),)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::codec::field_default!($policy $(, $value)?),)* }
            }
        }

        impl $name {
            /// Code of its descriptor.
            pub const DESCRIPTOR: u64 = $code;

            #[allow(dead_code, reason = "composites without fields of their own kind have no caller for it")]
            pub(crate) fn read_fields(
                reader: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::types::DecodeError> {
                let mut fields = $crate::codec::Fields::begin(reader)?;
                let read = Self {
                    $($field: $crate::codec::field_read!(fields, $wire, $policy $(, $value)?),)*
                };
                fields.finish()?;
                Ok(read)
            }

            /// Appends the encoded form.
            pub fn encode(&self, buf: &mut bytes::BytesMut) {
                let mut list = $crate::codec::ListWriter::begin(buf, $code);
                $($crate::codec::field_write!(list, self.$field, $policy $(, $value)?);)*
                list.$trim();
            }
        }
    };
}

pub(crate) use {composite, field_default, field_read, field_type, field_write};
