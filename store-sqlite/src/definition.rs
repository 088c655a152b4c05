//! Definitions: what is declared, in an ordinary table with one row each. New kinds of things take new numbers.

use std::sync::Arc;

use qq_core::broker::QueueSpec;
use qq_core::store::Op;
use qq_core::store::codec::{Reader, put_varint};
use qq_core::vocab::QueueId;

use crate::{keys, topology};

/// A queue: its name in the table is the store's own number for it, its value the queue's id and its specification.
pub(crate) const QUEUE: u8 = 1;
/// The next position of a queue of which no row of the journal tells.
pub(crate) const COUNT: u8 = 2;
/// An exchange with a name: its name in the table is a number as of a queue, its value the specification.
pub(crate) const EXCHANGE: u8 = 3;
/// A binding: in the same way.
pub(crate) const BINDING: u8 = 4;
/// A version of a schema: in the same way.
pub(crate) const SCHEMA: u8 = 5;

/// The position of a named reader of a stream: in the same way.
pub(crate) const OFFSET: u8 = 9;

/// Keys of messages that queues have seen, of one transaction.
pub(crate) const KEYS: u8 = 6;

/// Appends the checksum, which covers kind and name.
pub(crate) fn seal(kind: u8, name: u64, mut value: Vec<u8>) -> (Vec<u8>, u32) {
    let crc = value_crc(kind, name, &value);
    value.extend_from_slice(&crc.to_le_bytes());
    (value, crc)
}

fn value_crc(kind: u8, name: u64, value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(&name.to_le_bytes());
    hasher.update(value);
    hasher.finalize()
}

/// The value without its checksum, and the checksum, if it is right.
pub(crate) fn unseal(kind: u8, name: u64, value: &[u8]) -> Option<(&[u8], u32)> {
    let (content, crc) = value.split_last_chunk::<4>()?;
    let crc = u32::from_le_bytes(*crc);
    (value_crc(kind, name, content) == crc).then_some((content, crc))
}

/// A queue's value. The specification is kept by the names of its fields, so that fields can be added.
pub(crate) fn queue(key: u64, id: QueueId, spec: &QueueSpec) -> (Vec<u8>, u32) {
    let mut value = Vec::new();
    put_varint(&mut value, id.0);
    value.extend(serde_json::to_vec(spec).expect("a specification has only named fields"));
    seal(QUEUE, key, value)
}

/// Reads a queue's value without its checksum.
///
/// # Errors
/// What is wrong, for people.
pub(crate) fn read_queue(value: &[u8]) -> Result<(QueueId, Arc<QueueSpec>), String> {
    let mut reader = Reader::new(value);
    let id = reader.varint().map_err(|e| e.to_string())?;
    let spec = serde_json::from_slice(reader.rest()).map_err(|e| e.to_string())?;
    Ok((QueueId(id), Arc::new(spec)))
}

/// The operation that makes what a row without its checksum describes; not for counts.
///
/// # Errors
/// What is wrong, for people.
pub(crate) fn read_op(kind: u8, value: &[u8]) -> Result<Op, String> {
    if kind == QUEUE {
        return read_queue(value).map(|(queue, spec)| Op::QueueDeclared { queue, spec });
    }
    if kind == KEYS {
        return keys::read_op(value);
    }
    topology::read_op(kind, value)
}

/// The value of a count: next position and next number of the queue.
pub(crate) fn count(key: u64, seq_next: u64, ord_next: u64) -> (Vec<u8>, u32) {
    let mut value = Vec::new();
    put_varint(&mut value, seq_next);
    put_varint(&mut value, ord_next);
    seal(COUNT, key, value)
}

/// Reads a count without its checksum.
pub(crate) fn read_count(value: &[u8]) -> Option<(u64, u64)> {
    let mut reader = Reader::new(value);
    Some((reader.varint().ok()?, reader.varint().ok()?))
}
