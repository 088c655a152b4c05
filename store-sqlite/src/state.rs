//! The one row that says what all others must add up to.
//!
//! SQLite's pages carry no checksum. A page that is lost, older than it should be or in the wrong place can hide a row,
//! show it twice or bring it back; each of these changes the sum of all rows' checksums, which is kept here, in
//! another page, and written in the same transactions.

use qq_core::store::codec::{Malformed, Reader, put_varint};

/// The first byte of the state: its layout.
const LAYOUT: u8 = 1;

/// Sums and counters of the whole store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The oldest row of the journal that is kept; all before it are gone.
    pub(crate) row_first: u64,
    /// The number that the next row gets.
    pub(crate) row_next: u64,
    /// The number that the next queue gets.
    pub(crate) key_next: u64,
    /// Rows in the journal.
    pub(crate) rows: u64,
    /// Over number and checksum of each row in the journal.
    pub(crate) rows_sum: u64,
    /// Over kind, name and checksum of each definition.
    pub(crate) definitions_sum: u64,
}

/// Spreads two numbers over 64 bits, so that sums of them collide by chance only (the finaliser of SplitMix64).
pub(crate) fn mix(id: u64, crc: u32) -> u64 {
    let mut mixed = id
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(u64::from(crc).wrapping_mul(0xd6e8_feb8_6659_fd93));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl State {
    pub(crate) fn add_row(&mut self, id: u64, crc: u32) {
        self.rows += 1;
        self.rows_sum = self.rows_sum.wrapping_add(mix(id, crc));
    }

    pub(crate) fn remove_row(&mut self, id: u64, crc: u32) {
        self.rows -= 1;
        self.rows_sum = self.rows_sum.wrapping_sub(mix(id, crc));
    }

    pub(crate) fn add_definition(&mut self, kind: u8, crc: u32) {
        self.definitions_sum = self.definitions_sum.wrapping_add(mix(u64::from(kind), crc));
    }

    pub(crate) fn remove_definition(&mut self, kind: u8, crc: u32) {
        self.definitions_sum = self.definitions_sum.wrapping_sub(mix(u64::from(kind), crc));
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = vec![LAYOUT];
        for value in [
            self.row_first,
            self.row_next,
            self.key_next,
            self.rows,
            self.rows_sum,
            self.definitions_sum,
        ] {
            put_varint(&mut out, value);
        }
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Nothing when the checksum is wrong.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (content, crc) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut reader = Reader::new(content);
        let read = |reader: &mut Reader<'_>| -> Result<Self, Malformed> {
            if reader.byte()? != LAYOUT {
                return Err(Malformed::Newer);
            }
            Ok(Self {
                row_first: reader.varint()?,
                row_next: reader.varint()?,
                key_next: reader.varint()?,
                rows: reader.varint()?,
                rows_sum: reader.varint()?,
                definitions_sum: reader.varint()?,
            })
        };
        read(&mut reader).ok()
    }
}
