//! Keys of messages that queues have seen (deduplication): rows of the definition table, one for each transaction that
//! brought any. A row goes as a whole when the windows of all its keys are over by the clock of the newest key.

use std::collections::BTreeSet;

use bytes::Bytes;
use qq_core::store::codec::{Malformed, Reader, put_bytes, put_signed, put_varint};
use qq_core::store::{Op, SeenKey};
use qq_core::vocab::QueueId;

/// Rows that one transaction deletes at most; it adds one.
const FORGET_MAX: usize = 64;

/// Which rows there are.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// When the last window of a row ends, and the row's name.
    rows: BTreeSet<(i64, u64)>,
}

/// A row's value without its checksum.
pub(crate) fn write(keys: &[SeenKey]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, keys.len() as u64);
    for key in keys {
        put_varint(&mut out, key.queue.0);
        put_signed(&mut out, key.seen_at_ms);
        put_signed(&mut out, key.until_ms);
        put_bytes(&mut out, &key.key);
    }
    out
}

fn read(value: &[u8]) -> Result<Vec<SeenKey>, Malformed> {
    let mut reader = Reader::new(value);
    let mut keys = Vec::new();
    for _ in 0..reader.count()? {
        keys.push(SeenKey {
            queue: QueueId(reader.varint()?),
            seen_at_ms: reader.signed()?,
            until_ms: reader.signed()?,
            key: Bytes::copy_from_slice(reader.bytes()?),
        });
    }
    Ok(keys)
}

/// The operation that a row stands for.
///
/// # Errors
/// What is wrong, for people.
pub(crate) fn read_op(value: &[u8]) -> Result<Op, String> {
    let keys = read(value).map_err(|e| e.to_string())?;
    Ok(Op::Keyed { keys })
}

fn last_of(keys: &[SeenKey]) -> i64 {
    keys.iter()
        .map(|key| key.until_ms)
        .max()
        .unwrap_or(i64::MIN)
}

impl Keys {
    /// Enters a row that is in the table.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub(crate) fn load(&mut self, name: u64, value: &[u8]) -> Result<(), String> {
        let keys = read(value).map_err(|e| e.to_string())?;
        self.rows.insert((last_of(&keys), name));
        Ok(())
    }

    /// A row with these keys is there from now on; returns the rows that may go.
    pub(crate) fn add(&mut self, name: u64, keys: &[SeenKey]) -> Vec<u64> {
        let now_ms = keys.iter().map(|key| key.seen_at_ms).max();
        let now_ms = now_ms.unwrap_or(i64::MIN);
        let mut over = Vec::new();
        while over.len() < FORGET_MAX
            && let Some((_, name)) = self
                .rows
                .first()
                .filter(|(until_ms, _)| *until_ms <= now_ms)
        {
            over.push(*name);
            self.rows.pop_first();
        }
        self.rows.insert((last_of(keys), name));
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(queue: u64, key: &'static [u8], seen_at_ms: i64, window_ms: i64) -> SeenKey {
        SeenKey {
            queue: QueueId(queue),
            key: Bytes::from_static(key),
            seen_at_ms,
            until_ms: seen_at_ms + window_ms,
        }
    }

    #[test]
    fn keys_come_back_as_they_were() {
        let keys = vec![key(1, b"a", -5, 10), key(u64::MAX, b"", i64::MIN, 0)];
        assert_eq!(read(&write(&keys)), Ok(keys));
        assert!(read(&[2, 0]).is_err());
    }

    #[test]
    fn a_row_goes_when_its_last_window_is_over() {
        let mut keys = Keys::default();
        assert!(
            keys.add(1, &[key(1, b"a", 0, 100), key(2, b"a", 0, 500)])
                .is_empty()
        );
        assert!(keys.add(2, &[key(1, b"b", 10, 100)]).is_empty());
        assert_eq!(keys.add(3, &[key(1, b"c", 110, 100)]), [2]);
        assert_eq!(keys.add(4, &[key(1, b"d", 500, 100)]), [3, 1]);
        assert_eq!(keys.rows.len(), 1);
    }
}
