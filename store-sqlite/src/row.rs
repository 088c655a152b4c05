//! The journal's rows as bytes: a head that says what the row holds, and a body with the messages.
//!
//! The head comes first in the SQLite record, so that recovery reads the heads of all rows without touching the pages
//! that hold bodies. It ends with a checksum that covers the row's number and the checksum of the body: a row that
//! turns up under another number is found out. Each message has a checksum of its own over its bytes and its places.

use bytes::Bytes;
use qq_core::store::codec::{Malformed, Reader, put_bytes, put_signed, put_varint};
use smallvec::SmallVec;

/// The first byte of a head: the layout of heads and bodies.
const LAYOUT: u8 = 1;

/// What a queue has in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// The store's own number of the queue.
    pub(crate) key: u64,
    /// Messages of the queue are counted without gaps: the number of the first one here.
    pub(crate) ord_first: u64,
    /// One more than the number of the last one that is or was here.
    pub(crate) ord_end: u64,
    /// All positions below are taken.
    pub(crate) seq_next: u64,
    /// Positions that are here, as first and length, ascending.
    pub(crate) runs: Vec<(u64, u32)>,
}

/// Messages that left: positions of a queue whose bodies are in an earlier row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) row: u64,
    pub(crate) key: u64,
    pub(crate) first: u64,
    pub(crate) len: u32,
}

/// What became of a message that was returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Returned {
    /// The row in which this was written first: of two, the one with the higher stamp holds.
    pub(crate) stamp: u64,
    pub(crate) delivery_count: u32,
    pub(crate) annotations: Option<Bytes>,
}

/// A message in an earlier row was returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Return {
    pub(crate) row: u64,
    pub(crate) key: u64,
    pub(crate) seq: u64,
    pub(crate) returned: Returned,
}

/// What a row holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The row was written anew after some of its messages left.
    pub(crate) is_rewritten: bool,
    pub(crate) body_len: u32,
    pub(crate) body_crc: u32,
    pub(crate) messages: u32,
    /// Arrival times are kept as distances from this one.
    pub(crate) arrived_base_ms: i64,
    pub(crate) sections: Vec<Section>,
    pub(crate) acks: Vec<Ack>,
    pub(crate) returns: Vec<Return>,
}

/// Appends the checksum of a row's head, which covers the row's number.
fn seal(id: u64, out: &mut Vec<u8>) -> u32 {
    let crc = head_crc(id, out);
    out.extend_from_slice(&crc.to_le_bytes());
    crc
}

fn head_crc(id: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// The checksum at the end of a head, if it is right.
pub(crate) fn checked_crc(id: u64, head: &[u8]) -> Option<u32> {
    let (bytes, crc) = head.split_last_chunk::<4>()?;
    let crc = u32::from_le_bytes(*crc);
    (head_crc(id, bytes) == crc).then_some(crc)
}

impl Head {
    /// The bytes of the head of row `id`, and their checksum.
    pub(crate) fn write(&self, id: u64) -> (Vec<u8>, u32) {
        let mut out = Vec::with_capacity(64 + self.sections.len() * 12 + self.acks.len() * 8);
        out.push(LAYOUT);
        out.push(u8::from(self.is_rewritten));
        put_varint(&mut out, u64::from(self.body_len));
        out.extend_from_slice(&self.body_crc.to_le_bytes());
        put_varint(&mut out, u64::from(self.messages));
        put_signed(&mut out, self.arrived_base_ms);
        put_varint(&mut out, self.sections.len() as u64);
        for section in &self.sections {
            put_varint(&mut out, section.key);
            put_varint(&mut out, section.ord_first);
            put_varint(&mut out, section.ord_end - section.ord_first);
            put_varint(&mut out, section.seq_next);
            put_varint(&mut out, section.runs.len() as u64);
            // Downward from `seq_next`, since that is close to all of them.
            let mut above = section.seq_next;
            for &(first, len) in section.runs.iter().rev() {
                put_varint(&mut out, above - (first + u64::from(len)));
                put_varint(&mut out, u64::from(len));
                above = first;
            }
        }
        put_varint(&mut out, self.acks.len() as u64);
        for ack in &self.acks {
            put_varint(&mut out, id - ack.row);
            put_varint(&mut out, ack.key);
            put_varint(&mut out, ack.first);
            put_varint(&mut out, u64::from(ack.len));
        }
        put_varint(&mut out, self.returns.len() as u64);
        for back in &self.returns {
            put_varint(&mut out, id - back.row);
            put_varint(&mut out, back.key);
            put_varint(&mut out, back.seq);
            put_returned(&mut out, &back.returned);
        }
        let crc = seal(id, &mut out);
        (out, crc)
    }

    /// Reads the head of row `id`, whose checksum is right.
    pub(crate) fn read(id: u64, head: &[u8]) -> Result<Self, Malformed> {
        let bytes = head.get(..head.len().saturating_sub(4)).unwrap_or_default();
        let mut reader = Reader::new(bytes);
        if reader.byte()? != LAYOUT {
            return Err(Malformed::Newer);
        }
        let is_rewritten = reader.byte()? & 1 != 0;
        let mut out = Self {
            is_rewritten,
            body_len: reader.varint_u32()?,
            body_crc: reader.fixed_u32()?,
            messages: reader.varint_u32()?,
            arrived_base_ms: reader.signed()?,
            ..Self::default()
        };
        for _ in 0..reader.count()? {
            out.sections.push(read_section(&mut reader)?);
        }
        for _ in 0..reader.count()? {
            out.acks.push(Ack {
                row: earlier(id, reader.varint()?)?,
                key: reader.varint()?,
                first: reader.varint()?,
                len: reader.varint_u32()?,
            });
        }
        for _ in 0..reader.count()? {
            out.returns.push(Return {
                row: earlier(id, reader.varint()?)?,
                key: reader.varint()?,
                seq: reader.varint()?,
                returned: read_returned(&mut reader)?,
            });
        }
        Ok(out)
    }
}

fn earlier(id: u64, distance: u64) -> Result<u64, Malformed> {
    id.checked_sub(distance).ok_or(Malformed::Range)
}

fn read_section(reader: &mut Reader<'_>) -> Result<Section, Malformed> {
    let key = reader.varint()?;
    let ord_first = reader.varint()?;
    let ord_end = ord_first
        .checked_add(reader.varint()?)
        .ok_or(Malformed::Range)?;
    let seq_next = reader.varint()?;
    let mut runs = Vec::new();
    let mut above = seq_next;
    for _ in 0..reader.count()? {
        let end = above
            .checked_sub(reader.varint()?)
            .ok_or(Malformed::Range)?;
        let len = reader.varint_u32()?;
        let first = end.checked_sub(u64::from(len)).ok_or(Malformed::Range)?;
        runs.push((first, len));
        above = first;
    }
    runs.reverse();
    Ok(Section {
        key,
        ord_first,
        ord_end,
        seq_next,
        runs,
    })
}

fn put_returned(out: &mut Vec<u8>, returned: &Returned) {
    put_varint(out, returned.stamp);
    // The count shares its number with the flag for annotations.
    let count = u64::from(returned.delivery_count) << 1;
    match &returned.annotations {
        Some(annotations) => {
            put_varint(out, count | 1);
            put_bytes(out, annotations);
        }
        None => put_varint(out, count),
    }
}

fn read_returned(reader: &mut Reader<'_>) -> Result<Returned, Malformed> {
    let stamp = reader.varint()?;
    let count = reader.varint()?;
    Ok(Returned {
        stamp,
        delivery_count: u32::try_from(count >> 1).map_err(|_| Malformed::Range)?,
        annotations: (count & 1 != 0)
            .then(|| reader.bytes().map(Bytes::copy_from_slice))
            .transpose()?,
    })
}

/// A queue's number and a position in it.
pub(crate) type Place = (u64, u64);

/// A message of a body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record<'a> {
    /// Where it stands or stood.
    pub(crate) places: SmallVec<[Place; 2]>,
    /// What became of it, by index into `places`.
    pub(crate) returned: SmallVec<[(u32, Returned); 0]>,
    pub(crate) arrived_at_ms: i64,
    /// As [`qq_core::store::codec::put_message`] writes it.
    pub(crate) message: &'a [u8],
}

/// Appends a message to a body. `put` appends the message itself.
pub(crate) fn put_record(
    body: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    record: &Record<'_>,
    arrived_base_ms: i64,
    put: impl FnOnce(&mut Vec<u8>),
) {
    scratch.clear();
    put_varint(scratch, record.places.len() as u64);
    for &(key, seq) in &record.places {
        put_varint(scratch, key);
        put_varint(scratch, seq);
    }
    put_signed(scratch, record.arrived_at_ms.wrapping_sub(arrived_base_ms));
    put_varint(scratch, record.returned.len() as u64);
    for (place, returned) in &record.returned {
        put_varint(scratch, u64::from(*place));
        put_returned(scratch, returned);
    }
    put(scratch);
    put_varint(body, scratch.len() as u64);
    body.extend_from_slice(&crc32fast::hash(scratch).to_le_bytes());
    body.extend_from_slice(scratch);
}

/// Why a message of a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadRecord {
    Checksum,
    Malformed(Malformed),
}

impl From<Malformed> for BadRecord {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl std::fmt::Display for BadRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Checksum => f.write_str("its checksum is wrong"),
            Self::Malformed(malformed) => malformed.fmt(f),
        }
    }
}

/// The next message's content, not verified, or nothing at the end.
pub(crate) fn next_record<'a>(
    reader: &mut Reader<'a>,
) -> Result<Option<(u32, &'a [u8])>, Malformed> {
    if reader.rest().is_empty() {
        return Ok(None);
    }
    let len = usize::try_from(reader.varint()?).map_err(|_| Malformed::Range)?;
    let crc = reader.fixed_u32()?;
    Ok(Some((crc, reader.take(len)?)))
}

/// The places of a message, which stand at the beginning of its content.
pub(crate) fn read_places(reader: &mut Reader<'_>) -> Result<SmallVec<[Place; 2]>, Malformed> {
    let mut places = SmallVec::new();
    for _ in 0..reader.count()? {
        places.push((reader.varint()?, reader.varint()?));
    }
    Ok(places)
}

/// Verifies and reads a message's content.
pub(crate) fn read_record(
    crc: u32,
    content: &[u8],
    arrived_base_ms: i64,
) -> Result<Record<'_>, BadRecord> {
    if crc32fast::hash(content) != crc {
        return Err(BadRecord::Checksum);
    }
    let mut reader = Reader::new(content);
    let places = read_places(&mut reader)?;
    let arrived_at_ms = reader.signed()?.wrapping_add(arrived_base_ms);
    let mut returned = SmallVec::new();
    for _ in 0..reader.count()? {
        returned.push((reader.varint_u32()?, read_returned(&mut reader)?));
    }
    Ok(Record {
        places,
        returned,
        arrived_at_ms,
        message: reader.rest(),
    })
}
