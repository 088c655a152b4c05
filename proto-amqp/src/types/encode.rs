//! Values to bytes, each in its shortest form.

use bytes::{BufMut, BytesMut};

use super::Value;
use crate::codec::{Field, binary_len, code, compound_len, put_compound, put_map};

impl Value {
    /// Bytes that [`encode`](Self::encode) appends.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) | Self::Uint(0) | Self::Ulong(0) => 1,
            Self::Ubyte(_) | Self::Byte(_) | Self::Uint(1..=255) | Self::Ulong(1..=255) => 2,
            Self::Int(-128..=127) | Self::Long(-128..=127) => 2,
            Self::Ushort(_) | Self::Short(_) => 3,
            Self::Uint(_) | Self::Int(_) | Self::Float(_) | Self::Decimal32(_) | Self::Char(_) => 5,
            Self::Ulong(_)
            | Self::Long(_)
            | Self::Double(_)
            | Self::Decimal64(_)
            | Self::Timestamp(_) => 9,
            Self::Decimal128(_) | Self::Uuid(_) => 17,
            Self::Binary(bytes) => binary_len(bytes.len()),
            Self::Str(text) => binary_len(text.as_bytes().len()),
            Self::Symbol(name) => binary_len(name.as_bytes().len()),
            Self::List(list) if list.is_empty() => 1,
            Self::List(list) => compound_len(list.len(), list.iter().map(Self::encoded_len).sum()),
            Self::Map(map) => {
                let content = map
                    .iter()
                    .map(|(key, value)| key.encoded_len() + value.encoded_len())
                    .sum();
                compound_len(map.len() * 2, content)
            }
            Self::Array(array) => array.encoded_len(),
            Self::Described(described) => {
                1 + described.descriptor.encoded_len() + described.value.encoded_len()
            }
        }
    }

    /// Appends the value.
    ///
    /// # Panics
    /// When a text, a binary or a compound value has 4 GiB or more.
    pub fn encode(&self, buf: &mut BytesMut) {
        match self {
            Self::Null => buf.put_u8(code::NULL),
            Self::Bool(value) => value.write(buf),
            Self::Ubyte(value) => value.write(buf),
            Self::Ushort(value) => value.write(buf),
            Self::Uint(value) => value.write(buf),
            Self::Ulong(value) => value.write(buf),
            Self::Byte(value) => put_fixed(buf, code::BYTE, value.to_be_bytes()),
            Self::Short(value) => put_fixed(buf, code::SHORT, value.to_be_bytes()),
            Self::Int(value) => match i8::try_from(*value) {
                Ok(small) => put_fixed(buf, code::SMALLINT, small.to_be_bytes()),
                Err(_) => put_fixed(buf, code::INT, value.to_be_bytes()),
            },
            Self::Long(value) => match i8::try_from(*value) {
                Ok(small) => put_fixed(buf, code::SMALLLONG, small.to_be_bytes()),
                Err(_) => put_fixed(buf, code::LONG, value.to_be_bytes()),
            },
            Self::Float(bits) => put_fixed(buf, code::FLOAT, bits.to_be_bytes()),
            Self::Double(bits) => put_fixed(buf, code::DOUBLE, bits.to_be_bytes()),
            Self::Decimal32(bytes) => put_fixed(buf, code::DECIMAL32, *bytes),
            Self::Decimal64(bytes) => put_fixed(buf, code::DECIMAL64, *bytes),
            Self::Decimal128(bytes) => put_fixed(buf, code::DECIMAL128, *bytes),
            Self::Char(value) => put_fixed(buf, code::CHAR, u32::from(*value).to_be_bytes()),
            Self::Timestamp(value) => value.write(buf),
            Self::Uuid(bytes) => put_fixed(buf, code::UUID, *bytes),
            Self::Binary(bytes) => bytes.write(buf),
            Self::Str(text) => text.write(buf),
            Self::Symbol(name) => name.write(buf),
            Self::List(list) if list.is_empty() => buf.put_u8(code::LIST0),
            Self::List(list) => {
                put_compound(
                    buf,
                    code::LIST8,
                    list.len(),
                    list.iter().map(Self::encoded_len).sum(),
                );
                list.iter().for_each(|item| item.encode(buf));
            }
            Self::Map(map) => put_map(buf, map),
            Self::Array(array) => array.encode(buf),
            Self::Described(described) => {
                buf.put_u8(code::DESCRIBED);
                described.descriptor.encode(buf);
                described.value.encode(buf);
            }
        }
    }
}

fn put_fixed<const N: usize>(buf: &mut BytesMut, constructor: u8, bytes: [u8; N]) {
    buf.put_u8(constructor);
    buf.put_slice(&bytes);
}
