//! Protocol Buffers by hand, for the two places where the derives would cost too much: messages on their way out are
//! written from their parts, and bodies are counted before anything is allocated for them.

use bytes::BufMut;

/// Wire type of varints.
const VARINT: u32 = 0;
/// Wire type of strings, bytes and messages.
const DELIMITED: u32 = 2;
const GROUP_START: u32 = 3;
const GROUP_END: u32 = 4;
/// Groups nest no deeper.
const GROUP_DEPTH_MAX: usize = 32;
/// A varint has no more bytes.
const VARINT_LEN_MAX: usize = 10;
/// Nor a tag.
const TAG_LEN_MAX: usize = 5;

pub(crate) const fn varint_len(value: u64) -> usize {
    // Seven bits to a byte; zero has one too.
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Writes a varint to the beginning of `out`. Returns its length.
fn write_varint(out: &mut [u8], mut value: u64) -> usize {
    let mut len = 0;
    while value >= 0x80 {
        out[len] = value as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    out[len] = value as u8;
    len + 1
}

/// Tag and a varint, in one piece: buffers charge for each call.
#[inline]
fn put_tagged(buf: &mut impl BufMut, tag: u32, value: u64) {
    if tag < 0x80 && value < 0x80 {
        buf.put_slice(&[tag as u8, value as u8]);
    } else {
        put_long_tagged(buf, tag, value);
    }
}

fn put_long_tagged(buf: &mut impl BufMut, tag: u32, value: u64) {
    let mut out = [0; TAG_LEN_MAX + VARINT_LEN_MAX];
    let tag_len = write_varint(&mut out, u64::from(tag));
    let len = tag_len + write_varint(&mut out[tag_len..], value);
    buf.put_slice(&out[..len]);
}

/// Encoded length of a field of bytes; present even when empty.
pub(crate) const fn bytes_field_len(number: u32, len: usize) -> usize {
    varint_len((number as u64) << 3) + varint_len(len as u64) + len
}

/// Encoded length of a string field, which is left out when empty.
pub(crate) const fn str_field_len(number: u32, value: &str) -> usize {
    text_field_len(number, value.as_bytes())
}

/// The same of bytes that are known to be UTF-8.
pub(crate) const fn text_field_len(number: u32, value: &[u8]) -> usize {
    if value.is_empty() {
        0
    } else {
        bytes_field_len(number, value.len())
    }
}

/// Encoded length of a varint field, which is left out when zero.
pub(crate) const fn uint_field_len(number: u32, value: u64) -> usize {
    if value == 0 {
        0
    } else {
        varint_len((number as u64) << 3) + varint_len(value)
    }
}

/// Tag and length of a field of `len` bytes; the bytes are the caller's to write.
pub(crate) fn put_delimited(buf: &mut impl BufMut, number: u32, len: usize) {
    put_tagged(buf, number << 3 | DELIMITED, len as u64);
}

pub(crate) fn put_str_field(buf: &mut impl BufMut, number: u32, value: &str) {
    put_text_field(buf, number, value.as_bytes());
}

/// A string field of bytes that are known to be UTF-8.
pub(crate) fn put_text_field(buf: &mut impl BufMut, number: u32, value: &[u8]) {
    if !value.is_empty() {
        put_delimited(buf, number, value.len());
        buf.put_slice(value);
    }
}

pub(crate) fn put_uint_field(buf: &mut impl BufMut, number: u32, value: u64) {
    if value != 0 {
        put_tagged(buf, number << 3 | VARINT, value);
    }
}

/// The bytes are no Protocol Buffers message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// One field of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    pub(crate) value: Value<'a>,
    /// Where the field, with its tag, ends in the body.
    pub(crate) end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Delimited(&'a [u8]),
    /// Fixed 32 or 64 bits, or a group: nothing in this protocol uses them.
    Other,
}

/// The fields of a body one after the other. Groups, which no message of this protocol has, are skipped as one field.
pub(crate) struct Fields<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) const fn of(body: &'a [u8]) -> Self {
        Self { body, at: 0 }
    }

    #[inline]
    fn take_varint(&mut self) -> Result<u64, Malformed> {
        match self.body.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.take_long_varint(),
        }
    }

    fn take_long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for n in 0..VARINT_LEN_MAX {
            let byte = *self.body.get(self.at).ok_or(Malformed)?;
            self.at += 1;
            // The tenth byte has room for one bit.
            if n == VARINT_LEN_MAX - 1 && byte > 1 {
                return Err(Malformed);
            }
            value |= u64::from(byte & 0x7f) << (7 * n);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    #[inline]
    fn take_slice(&mut self, len: u64) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(len).map_err(|_| Malformed)?;
        let end = self.at.checked_add(len).ok_or(Malformed)?;
        let slice = self.body.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(slice)
    }

    /// Number and wire type.
    #[inline]
    fn take_tag(&mut self) -> Result<(u32, u32), Malformed> {
        let tag = u32::try_from(self.take_varint()?).map_err(|_| Malformed)?;
        match tag >> 3 {
            0 => Err(Malformed),
            number => Ok((number, tag & 7)),
        }
    }

    // Left to itself the compiler does not, and each field of each message is one more call.
    #[inline(always)]
    fn take_value(&mut self, number: u32, wire_type: u32) -> Result<Value<'a>, Malformed> {
        Ok(match wire_type {
            VARINT => Value::Varint(self.take_varint()?),
            1 => self.take_slice(8).map(|_| Value::Other)?,
            DELIMITED => {
                let len = self.take_varint()?;
                Value::Delimited(self.take_slice(len)?)
            }
            GROUP_START => {
                self.skip_group(number)?;
                Value::Other
            }
            5 => self.take_slice(4).map(|_| Value::Other)?,
            _ => return Err(Malformed),
        })
    }

    /// Skips to the end of a group, with the groups inside it.
    fn skip_group(&mut self, number: u32) -> Result<(), Malformed> {
        let mut open = [0; GROUP_DEPTH_MAX];
        open[0] = number;
        let mut depth = 1;
        while depth > 0 {
            match self.take_tag()? {
                (number, GROUP_START) => {
                    *open.get_mut(depth).ok_or(Malformed)? = number;
                    depth += 1;
                }
                (number, GROUP_END) if number == open[depth - 1] => depth -= 1,
                (_, GROUP_END) => return Err(Malformed),
                (number, wire_type) => {
                    self.take_value(number, wire_type)?;
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn take_field(&mut self) -> Result<Field<'a>, Malformed> {
        let (number, wire_type) = self.take_tag()?;
        let value = self.take_value(number, wire_type)?;
        Ok(Field {
            number,
            value,
            end: self.at,
        })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.body.len() {
            return None;
        }
        let field = self.take_field();
        if field.is_err() {
            self.at = self.body.len();
        }
        Some(field)
    }
}

/// How often a field occurs in a body.
pub(crate) fn count_fields(body: &[u8], number: u32) -> Result<usize, Malformed> {
    let mut count = 0;
    for field in Fields::of(body) {
        count += usize::from(field?.number == number);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::{Fields, Malformed, Value, count_fields, put_uint_field, varint_len, write_varint};
    use bytes::BytesMut;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn varints_have_the_length_that_is_claimed() {
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit]);
        for value in edges.chain([u64::MAX]) {
            let mut buf = [0; 10];
            let len = write_varint(&mut buf, value);
            assert_eq!(len, varint_len(value), "{value}");
            let mut fields = Fields::of(&buf[..len]);
            assert_eq!(fields.take_varint(), Ok(value));
            assert_eq!(fields.take_varint(), Err(Malformed), "all of it was taken");
        }
        let mut buf = BytesMut::new();
        // The example of the encoding's documentation: field 1 is 150.
        put_uint_field(&mut buf, 1, 150);
        assert_eq!(buf[..], [0x08, 0x96, 0x01]);
        put_uint_field(&mut buf, 1, 0);
        assert_eq!(buf.len(), 3, "zero is not written");
    }

    #[test]
    fn fields_are_walked_and_malformed_ones_end_the_walk() {
        // A varint, two strings, a group 3 that holds a varint and a group 4, a group that does not end.
        let body = [
            0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x12, 0x00, 0x1b, 0x08, 0x01, 0x23, 0x24,
            0x1c, 0x0b,
        ];
        let fields: Vec<_> = Fields::of(&body).collect();
        assert_eq!(fields.len(), 5);
        assert_eq!(fields[0].unwrap().value, Value::Varint(150));
        assert_eq!(fields[1].unwrap().value, Value::Delimited(b"hi"));
        assert_eq!(fields[1].unwrap().end, 7);
        assert_eq!(fields[3].unwrap().value, Value::Other);
        assert_eq!(fields[3].unwrap().end, 15);
        assert_eq!(fields[4], Err(Malformed), "a group without an end");
        assert_eq!(count_fields(&body, 2), Err(Malformed));
        assert_eq!(count_fields(&body[..15], 2), Ok(2));
        for bad in [
            &[0x00, 0x01][..],
            &[0x0a, 0x05],
            &[0x08],
            &[0x09, 1, 2, 3],
            &[0xff; 11],
            // A group that ends as another, groups below the floor, an end alone.
            &[0x1b, 0x24],
            &[0x1b; 40],
            &[0x1b; 33],
            &[0x1c],
        ] {
            assert_eq!(Fields::of(bad).last(), Some(Err(Malformed)), "{bad:x?}");
        }
    }

    #[test]
    fn the_edges_of_varints_and_groups() {
        let is_sound = |body: &[u8]| Fields::of(body).all(|field| field.is_ok());
        // Ten bytes hold 64 bits: the last has one of them.
        let mut body = std::vec![0xff; 11];
        body[0] = 0x08;
        body[10] = 0x01;
        let field = Fields::of(&body).next();
        assert_eq!(field.unwrap().unwrap().value, Value::Varint(u64::MAX));
        body[10] = 0x02;
        assert!(!is_sound(&body));
        // Thirty-two groups inside each other, and one more.
        for (depth, expected) in [(32, true), (33, false)] {
            let body = [std::vec![0x1b; depth], std::vec![0x1c; depth]].concat();
            assert_eq!(is_sound(&body), expected, "{depth}");
        }
    }

    /// Bytes that look like fields more often than chance would have it.
    fn any_body() -> impl Strategy<Value = Vec<u8>> {
        let tags = prop::sample::select(std::vec![
            0x08_u8, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x12, 0x13, 0x14, 0x1a, 0x80, 0xff, 0x00, 0x01,
            0x02
        ]);
        prop::collection::vec(prop_oneof![3 => tags, 1 => any::<u8>()], 0..48)
    }

    proptest! {
        #[test]
        fn the_walk_agrees_with_the_decoder_about_what_is_well_formed(body in any_body()) {
            let decoder = <() as prost::Message>::decode(&body[..]);
            let walk = Fields::of(&body).find_map(Result::err);
            prop_assert_eq!(decoder.is_ok(), walk.is_none(), "{:?}", decoder);
        }
    }
}
