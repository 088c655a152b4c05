//! Walks the entries of an encoded map without decoding the values that nobody asked for.

use bytes::Bytes;

use super::SectionRange;
use crate::codec::{Field, Reader, code};
use crate::types::{DecodeError, Value};

/// A key of a map, as far as keys of sections go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'a> {
    /// ASCII, checked.
    Symbol(&'a [u8]),
    /// UTF-8, checked.
    Str(&'a str),
    Ulong(u64),
    /// Any other type.
    Other,
}

/// The entries of an encoded map, one after the other.
pub(super) struct Entries<'a> {
    reader: Reader<'a>,
    left: u32,
    end: usize,
}

impl<'a> Entries<'a> {
    /// Begins at the map's constructor. Parity is checked here (part 1, 1.6.23).
    pub(super) fn begin(message: &'a Bytes, start: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::starting_at(message, start);
        let constructor = reader.byte()?;
        if !matches!(constructor, code::MAP8 | code::MAP32) {
            return Err(DecodeError::FieldType("map"));
        }
        let (count, end) = reader.compound(constructor)?;
        if count % 2 != 0 {
            return Err(DecodeError::OddMap);
        }
        Ok(Self {
            reader,
            left: count / 2,
            end,
        })
    }

    pub(super) fn next_key(&mut self) -> Result<Option<Key<'a>>, DecodeError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let constructor = self.reader.byte()?;
        let key = match constructor {
            code::SYMBOL8 | code::SYMBOL32 => {
                let name = self.reader.sized(constructor)?;
                if !name.is_ascii() {
                    return Err(DecodeError::NotAscii);
                }
                Key::Symbol(name)
            }
            code::STRING8 | code::STRING32 => {
                let text = self.reader.sized(constructor)?;
                Key::Str(core::str::from_utf8(text).map_err(|_| DecodeError::NotUtf8)?)
            }
            code::ULONG | code::SMALLULONG | code::ULONG0 => {
                Key::Ulong(u64::read(constructor, &mut self.reader, "key")?)
            }
            _ => {
                self.reader.skip_rest(constructor)?;
                Key::Other
            }
        };
        Ok(Some(key))
    }

    pub(super) fn skip_value(&mut self) -> Result<(), DecodeError> {
        self.reader.skip_value()
    }

    fn value(&mut self) -> Result<Value, DecodeError> {
        Value::read(&mut self.reader)
    }

    /// Checks that the entries fill the map.
    pub(super) fn finish(self) -> Result<(), DecodeError> {
        if self.reader.at() == self.end {
            Ok(())
        } else {
            Err(DecodeError::CountMismatch)
        }
    }
}

/// Looks a text key up, be it a string or a symbol, in the map of a section. Only the value found is decoded.
///
/// # Errors
/// What is wrong with the map up to the key. With equal keys, which are invalid, the first one counts; whoever relies
/// on a value should check for them, see [`has_duplicate_keys`](crate::types::has_duplicate_keys).
pub fn find_in_map(
    message: &Bytes,
    range: &SectionRange,
    key: &str,
) -> Result<Option<Value>, DecodeError> {
    let mut entries = Entries::begin(message, range.value.start)?;
    while let Some(found) = entries.next_key()? {
        let is_match = match found {
            Key::Symbol(name) => name == key.as_bytes(),
            Key::Str(text) => text == key,
            Key::Ulong(_) | Key::Other => false,
        };
        if is_match {
            return entries.value().map(Some);
        }
        entries.skip_value()?;
    }
    entries.finish()?;
    Ok(None)
}
