//! Exchanges, bindings, schemas and the positions of named readers: rows of the definition table under numbers of the
//! store's own, as queues have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use qq_core::route::{BindingSpec, ExchangeSpec};
use qq_core::schema::SchemaVersion;
use qq_core::store::Op;
use qq_core::store::codec::{Reader, put_varint};
use qq_core::vocab::{QueueId, Seq};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::definition;

/// Which number has which exchange, binding, reader or version of a schema.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    exchanges: BTreeMap<String, u64>,
    /// By their whole definition, written down: it is their identity.
    bindings: BTreeMap<Vec<u8>, u64>,
    schemas: BTreeMap<(String, u32), u64>,
    readers: BTreeMap<(QueueId, String), u64>,
}

/// The value of a reader's row without its checksum.
fn write_offset(queue: QueueId, reader: &str, next: Seq) -> Vec<u8> {
    let mut value = Vec::new();
    put_varint(&mut value, queue.0);
    put_varint(&mut value, next.0);
    value.extend_from_slice(reader.as_bytes());
    value
}

fn read_offset(value: &[u8]) -> Result<Op, String> {
    let mut reader = Reader::new(value);
    let queue = reader.varint().map_err(|e| e.to_string())?;
    let next = reader.varint().map_err(|e| e.to_string())?;
    let name = std::str::from_utf8(reader.rest()).map_err(|e| e.to_string())?;
    Ok(Op::OffsetStored {
        queue: QueueId(queue),
        reader: name.to_owned(),
        next: Some(Seq(next)),
    })
}

/// A row that is to be written; without a value it is deleted.
pub(crate) struct Change {
    pub(crate) kind: u8,
    pub(crate) key: u64,
    pub(crate) value: Option<Vec<u8>>,
}

/// A definition as bytes: by the names of its fields, so that fields can be added.
fn write<T: Serialize>(spec: &T) -> Vec<u8> {
    serde_json::to_vec(spec).expect("a definition has only named fields and finite numbers")
}

/// Reads a definition without its checksum.
///
/// # Errors
/// What is wrong, for people.
fn read<T: DeserializeOwned>(value: &[u8]) -> Result<Arc<T>, String> {
    serde_json::from_slice(value)
        .map(Arc::new)
        .map_err(|e| e.to_string())
}

/// The operation that a row stands for.
///
/// # Errors
/// What is wrong, for people.
pub(crate) fn read_op(kind: u8, value: &[u8]) -> Result<Op, String> {
    match kind {
        definition::EXCHANGE => Ok(Op::ExchangeDeclared { spec: read(value)? }),
        definition::BINDING => Ok(Op::Bound { spec: read(value)? }),
        definition::SCHEMA => {
            let record = SchemaVersion::read(value).map_err(|e| e.to_string())?;
            let record = Arc::new(record);
            Ok(Op::SchemaRegistered { record })
        }
        definition::OFFSET => read_offset(value),
        _ => Err("a newer version wrote it".into()),
    }
}

impl Topology {
    /// Enters a row that is in the table.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub(crate) fn load(&mut self, kind: u8, key: u64, value: &[u8]) -> Result<(), String> {
        let before = match read_op(kind, value)? {
            Op::ExchangeDeclared { spec } => self.exchanges.insert(spec.name.clone(), key),
            Op::Bound { spec } => self.bindings.insert(write(&*spec), key),
            Op::SchemaRegistered { record } => {
                let name = (record.subject.clone(), record.version);
                self.schemas.insert(name, key)
            }
            Op::OffsetStored { queue, reader, .. } => self.readers.insert((queue, reader), key),
            _ => None,
        };
        match before {
            Some(other) => Err(format!("it is there twice, also as {other}")),
            None => Ok(()),
        }
    }

    /// An exchange or a binding is there from now on. `key_next` is the next free number of the store.
    pub(crate) fn declare(&mut self, spec: &ExchangeSpec, key_next: &mut u64) -> Change {
        let key = *self
            .exchanges
            .entry(spec.name.clone())
            .or_insert_with(|| take(key_next));
        let value = Some(write(spec));
        let kind = definition::EXCHANGE;
        Change { kind, key, value }
    }

    /// An exchange is gone.
    pub(crate) fn delete(&mut self, name: &str) -> Option<Change> {
        let key = self.exchanges.remove(name)?;
        let (kind, value) = (definition::EXCHANGE, None);
        Some(Change { kind, key, value })
    }

    /// A binding is there from now on.
    pub(crate) fn bind(&mut self, spec: &BindingSpec, key_next: &mut u64) -> Change {
        let written = write(spec);
        let value = Some(written.clone());
        let key = *self
            .bindings
            .entry(written)
            .or_insert_with(|| take(key_next));
        let kind = definition::BINDING;
        Change { kind, key, value }
    }

    /// A version of a schema is there from now on.
    pub(crate) fn register(&mut self, record: &SchemaVersion, key_next: &mut u64) -> Change {
        let mut value = Vec::new();
        record.write(&mut value);
        let key = *self
            .schemas
            .entry((record.subject.clone(), record.version))
            .or_insert_with(|| take(key_next));
        let (kind, value) = (definition::SCHEMA, Some(value));
        Change { kind, key, value }
    }

    /// A version of a schema is gone.
    pub(crate) fn forget(&mut self, subject: &str, version: u32) -> Option<Change> {
        let key = self.schemas.remove(&(subject.to_owned(), version))?;
        let (kind, value) = (definition::SCHEMA, None);
        Some(Change { kind, key, value })
    }

    /// A reader goes on at a position, or is forgotten.
    pub(crate) fn store_offset(
        &mut self,
        queue: QueueId,
        reader: &str,
        next: Option<Seq>,
        key_next: &mut u64,
    ) -> Option<Change> {
        let kind = definition::OFFSET;
        let name = (queue, reader.to_owned());
        let Some(next) = next else {
            let key = self.readers.remove(&name)?;
            return Some(Change {
                kind,
                key,
                value: None,
            });
        };
        let key = *self.readers.entry(name).or_insert_with(|| take(key_next));
        let value = Some(write_offset(queue, reader, next));
        Some(Change { kind, key, value })
    }

    /// A queue is gone, and its readers with it.
    pub(crate) fn forget_readers(&mut self, queue: QueueId) -> Vec<Change> {
        let mut of_queue = self.readers.split_off(&(queue, String::new()));
        let mut others = of_queue.split_off(&(QueueId(queue.0.saturating_add(1)), String::new()));
        self.readers.append(&mut others);
        let kind = definition::OFFSET;
        let gone = of_queue.into_values().map(|key| Change {
            kind,
            key,
            value: None,
        });
        gone.collect()
    }

    /// A binding is gone.
    pub(crate) fn unbind(&mut self, spec: &BindingSpec) -> Option<Change> {
        let key = self.bindings.remove(&write(spec))?;
        let (kind, value) = (definition::BINDING, None);
        Some(Change { kind, key, value })
    }
}

fn take(key_next: &mut u64) -> u64 {
    let key = *key_next;
    *key_next += 1;
    key
}
