//! Values from bytes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;

use super::{Array, ArrayItems, DecodeError, Described, Map, Value};
use crate::codec::{Field, Reader, Shape, code, shape_of};

/// Room that is made for items before they are read, whatever the count says.
const ROOM_MAX: usize = 32;

impl Value {
    /// Reads one value from the front and tells how many bytes it took.
    ///
    /// # Errors
    /// The first rule that the bytes break.
    pub fn decode(bytes: &Bytes) -> Result<(Self, usize), DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::read(&mut reader)?;
        Ok((value, reader.at()))
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let constructor = reader.byte()?;
        Self::read_data(constructor, reader)
    }

    /// Reads the data behind a constructor. Recursion is bounded by [`NESTING_MAX`](super::NESTING_MAX).
    pub(crate) fn read_data(constructor: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match constructor {
            code::DESCRIBED => return Self::read_described(reader),
            code::LIST0 | code::LIST8 | code::LIST32 => {
                return Self::read_list(constructor, reader);
            }
            code::MAP8 | code::MAP32 => return Self::read_map(constructor, reader),
            code::ARRAY8 | code::ARRAY32 => Self::Array(Array::read(constructor, reader)?),
            code::BINARY8 | code::BINARY32 => Self::Binary(Field::read(constructor, reader, "")?),
            code::STRING8 | code::STRING32 => Self::Str(Field::read(constructor, reader, "")?),
            code::SYMBOL8 | code::SYMBOL32 => Self::Symbol(Field::read(constructor, reader, "")?),
            _ => return Self::read_fixed(constructor, reader),
        })
    }

    fn read_fixed(constructor: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match constructor {
            code::NULL => Self::Null,
            code::TRUE | code::FALSE | code::BOOLEAN => {
                Self::Bool(Field::read(constructor, reader, "")?)
            }
            code::UBYTE => Self::Ubyte(reader.byte()?),
            code::USHORT => Self::Ushort(u16::from_be_bytes(reader.array()?)),
            code::UINT | code::SMALLUINT | code::UINT0 => {
                Self::Uint(Field::read(constructor, reader, "")?)
            }
            code::ULONG | code::SMALLULONG | code::ULONG0 => {
                Self::Ulong(Field::read(constructor, reader, "")?)
            }
            code::BYTE => Self::Byte(i8::from_be_bytes(reader.array()?)),
            code::SHORT => Self::Short(i16::from_be_bytes(reader.array()?)),
            code::INT => Self::Int(i32::from_be_bytes(reader.array()?)),
            code::SMALLINT => Self::Int(i32::from(i8::from_be_bytes(reader.array()?))),
            code::LONG => Self::Long(i64::from_be_bytes(reader.array()?)),
            code::SMALLLONG => Self::Long(i64::from(i8::from_be_bytes(reader.array()?))),
            code::FLOAT => Self::Float(reader.u32()?),
            code::DOUBLE => Self::Double(u64::from_be_bytes(reader.array()?)),
            code::DECIMAL32 => Self::Decimal32(reader.array()?),
            code::DECIMAL64 => Self::Decimal64(reader.array()?),
            code::DECIMAL128 => Self::Decimal128(reader.array()?),
            code::CHAR => Self::Char(char::from_u32(reader.u32()?).ok_or(DecodeError::NotScalar)?),
            code::TIMESTAMP => Self::Timestamp(i64::from_be_bytes(reader.array()?)),
            code::UUID => Self::Uuid(reader.array()?),
            _ => return Err(DecodeError::UnknownConstructor(constructor)),
        })
    }

    fn read_described(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.enter()?;
        let descriptor = Self::read(reader)?;
        let value = Self::read(reader)?;
        reader.leave();
        Ok(Self::Described(Box::new(Described { descriptor, value })))
    }

    fn read_list(constructor: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.enter()?;
        let (count, end) = reader.compound(constructor)?;
        let mut list = Vec::with_capacity((count as usize).min(ROOM_MAX));
        for _ in 0..count {
            list.push(Self::read(reader)?);
        }
        ended(reader, end)?;
        Ok(Self::List(list))
    }

    fn read_map(constructor: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.enter()?;
        let (count, end) = reader.compound(constructor)?;
        if count % 2 != 0 {
            return Err(DecodeError::OddMap);
        }
        let mut map = Map::with_capacity((count as usize / 2).min(ROOM_MAX));
        for _ in 0..count / 2 {
            let key = Self::read(reader)?;
            map.push((key, Self::read(reader)?));
        }
        ended(reader, end)?;
        Ok(Self::Map(map))
    }
}

fn ended(reader: &mut Reader<'_>, end: usize) -> Result<(), DecodeError> {
    if reader.at() != end {
        return Err(DecodeError::CountMismatch);
    }
    reader.leave();
    Ok(())
}

impl Array {
    /// Reads the data behind an array's constructor. Elements are delimited, not decoded.
    pub(crate) fn read(constructor: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (count, end) = reader.counted(constructor)?;
        let start = reader.at();
        if start == end {
            return Err(DecodeError::Truncated);
        }
        reader.enter()?;
        let element = read_constructor(reader)?;
        reader.leave();
        let data_start = reader.at();
        if data_start > end {
            return Err(DecodeError::CountMismatch);
        }
        let shape = shape_of(element)?;
        if let Shape::Fixed(width) = shape {
            if u64::from(count) * u64::from(width) != (end - data_start) as u64 {
                return Err(DecodeError::CountMismatch);
            }
            reader.slice(end - data_start)?;
        } else {
            if count as usize > end - data_start {
                return Err(DecodeError::CountMismatch);
            }
            for _ in 0..count {
                let len = reader.len(shape)?;
                reader.slice(len)?;
            }
            if reader.at() != end {
                return Err(DecodeError::CountMismatch);
            }
        }
        Ok(Self {
            constructor: reader.passed(start, data_start),
            count,
            data: reader.passed(data_start, end),
        })
    }
}

/// Passes the constructor of an array's elements, which may be described, and tells the primitive code in it.
fn read_constructor(reader: &mut Reader<'_>) -> Result<u8, DecodeError> {
    let mut levels = 0_u8;
    let element = loop {
        let element = reader.byte()?;
        if element != code::DESCRIBED {
            break element;
        }
        reader.enter()?;
        levels += 1;
        reader.skip_value()?;
    };
    for _ in 0..levels {
        reader.leave();
    }
    Ok(element)
}

impl ArrayItems<'_> {
    fn read(&mut self) -> Result<Value, DecodeError> {
        let mut descriptors = Vec::new();
        let mut constructor = Reader::new(&self.array.constructor);
        constructor.enter()?;
        let element = loop {
            let element = constructor.byte()?;
            if element != code::DESCRIBED {
                break element;
            }
            descriptors.push(Value::read(&mut constructor)?);
        };
        let mut reader = Reader::starting_at(&self.array.data, self.at);
        // Elements stand as deep as if the array stood alone.
        for _ in 0..=descriptors.len() {
            reader.enter()?;
        }
        let mut value = Value::read_data(element, &mut reader)?;
        self.at = reader.at();
        while let Some(descriptor) = descriptors.pop() {
            value = Value::Described(Box::new(Described { descriptor, value }));
        }
        Ok(value)
    }
}

impl Iterator for ArrayItems<'_> {
    type Item = Result<Value, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let item = self.read();
        if item.is_err() {
            self.left = 0;
        }
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Not the count: whoever makes room by it would believe the peer.
        (0, usize::try_from(self.left).ok())
    }
}
