//! Appending of encoded values, each in its shortest form.

use bytes::{BufMut, BytesMut};

use super::{Field, code};
use crate::types::{Map, Symbol};

/// Writes the list of a composite. Sizes are filled in at the end; only lists above 254 bytes are moved for it.
pub(crate) struct ListWriter<'b> {
    buf: &'b mut BytesMut,
    start: usize,
    count: u8,
    kept_count: u8,
    kept_end: usize,
}

impl<'b> ListWriter<'b> {
    #[inline]
    pub(crate) fn begin(buf: &'b mut BytesMut, descriptor: u8) -> Self {
        buf.put_slice(&[
            code::DESCRIBED,
            code::SMALLULONG,
            descriptor,
            code::LIST8,
            0,
            0,
        ]);
        let start = buf.len();
        Self {
            buf,
            start,
            count: 0,
            kept_count: 0,
            kept_end: start,
        }
    }

    /// The next field; none is written as null.
    #[inline]
    pub(crate) fn field<T: Field>(&mut self, value: Option<&T>) {
        self.count += 1;
        match value {
            Some(value) => {
                value.write(self.buf);
                self.kept_count = self.count;
                self.kept_end = self.buf.len();
            }
            None => self.buf.put_u8(code::NULL),
        }
    }

    /// Ends the list with all its fields.
    pub(crate) fn all(mut self) {
        self.kept_count = self.count;
        self.kept_end = self.buf.len();
        self.short();
    }

    /// Ends the list behind the last field that is there.
    pub(crate) fn short(self) {
        let Self {
            buf,
            start,
            kept_count,
            kept_end,
            ..
        } = self;
        buf.truncate(kept_end);
        let content = kept_end - start;
        if kept_count == 0 {
            buf.truncate(start - 3);
            buf.put_u8(code::LIST0);
        } else if content < 255 {
            buf[start - 2] = content as u8 + 1;
            buf[start - 1] = kept_count;
        } else {
            buf.put_bytes(0, 6);
            buf.copy_within(start..kept_end, start + 6);
            buf[start - 3] = code::LIST32;
            buf[start - 2..start + 2].copy_from_slice(&size32(content + 4));
            buf[start + 2..start + 6].copy_from_slice(&u32::from(kept_count).to_be_bytes());
        }
    }
}

/// A size field. What does not fit in 32 bits cannot be held in a frame either.
fn size32(size: usize) -> [u8; 4] {
    u32::try_from(size)
        .expect("an encoded value stays below 4 GiB")
        .to_be_bytes()
}

#[inline]
pub(crate) fn put_uint(buf: &mut BytesMut, value: u32) {
    match value {
        0 => buf.put_u8(code::UINT0),
        1..=255 => buf.put_slice(&[code::SMALLUINT, value as u8]),
        _ => {
            buf.put_u8(code::UINT);
            buf.put_u32(value);
        }
    }
}

#[inline]
pub(crate) fn put_ulong(buf: &mut BytesMut, value: u64) {
    match value {
        0 => buf.put_u8(code::ULONG0),
        1..=255 => buf.put_slice(&[code::SMALLULONG, value as u8]),
        _ => {
            buf.put_u8(code::ULONG);
            buf.put_u64(value);
        }
    }
}

/// Encoded length of a binary, string or symbol of `len` bytes.
pub(crate) const fn binary_len(len: usize) -> usize {
    if len <= 255 { 2 + len } else { 5 + len }
}

/// Appends a binary, string or symbol. `code8` is the constructor of its short form.
pub(crate) fn put_binary(buf: &mut BytesMut, code8: u8, bytes: &[u8]) {
    if bytes.len() <= 255 {
        buf.put_slice(&[code8, bytes.len() as u8]);
    } else {
        buf.put_u8(code8 + 0x10);
        buf.put_slice(&size32(bytes.len()));
    }
    buf.put_slice(bytes);
}

/// Encoded length of a list, map or array with this much content behind the count.
pub(crate) const fn compound_len(count: usize, content: usize) -> usize {
    if content < 255 && count <= 255 {
        3 + content
    } else {
        9 + content
    }
}

/// Appends constructor, size and count of a list, map or array. The short form's size byte counts itself the count.
pub(crate) fn put_compound(buf: &mut BytesMut, code8: u8, count: usize, content: usize) {
    if content < 255 && count <= 255 {
        buf.put_slice(&[code8, content as u8 + 1, count as u8]);
    } else {
        buf.put_u8(code8 + 0x10);
        buf.put_slice(&size32(content + 4));
        buf.put_slice(&size32(count));
    }
}

/// Appends a map.
pub(crate) fn put_map(buf: &mut BytesMut, map: &Map) {
    let content = map
        .iter()
        .map(|(key, value)| key.encoded_len() + value.encoded_len())
        .sum();
    put_compound(buf, code::MAP8, map.len() * 2, content);
    for (key, value) in map {
        key.encode(buf);
        value.encode(buf);
    }
}

/// Appends a field that may hold several symbols: an array, which every peer takes.
pub(crate) fn put_symbols(buf: &mut BytesMut, symbols: &[Symbol]) {
    let is_short = symbols.iter().all(|symbol| symbol.as_bytes().len() <= 255);
    let width = if is_short { 1 } else { 4 };
    let content = 1 + symbols
        .iter()
        .map(|symbol| width + symbol.as_bytes().len())
        .sum::<usize>();
    put_compound(buf, code::ARRAY8, symbols.len(), content);
    buf.put_u8(if is_short {
        code::SYMBOL8
    } else {
        code::SYMBOL32
    });
    for symbol in symbols {
        let bytes = symbol.as_bytes();
        if is_short {
            buf.put_u8(bytes.len() as u8);
        } else {
            buf.put_slice(&size32(bytes.len()));
        }
        buf.put_slice(bytes);
    }
}
