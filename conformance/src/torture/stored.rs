//! What a store's files hold, read by the store itself in this process.

use super::client::decode;
use super::record::MessageId;
use qq_core::store::{Op, Store};
use qq_core::vocab::{QueueId, Seq};
use qq_store_sqlite::{SqliteStore, StoreConfig};
use std::collections::BTreeMap;
use std::path::Path;

/// A message in a queue: which, and how many attempts failed.
pub type Held = (MessageId, u32);

/// Queues by name, their messages in order.
pub type Contents = BTreeMap<String, Vec<Held>>;

/// Opens a store without ballast and without synced writes: for copies that are thrown away.
pub fn open(folder: &Path) -> Result<SqliteStore, String> {
    let config = StoreConfig {
        sync_writes: false,
        ballast_bytes: 0,
        cache_bytes: 1 << 20,
        ..StoreConfig::new(folder)
    };
    SqliteStore::open(config).map_err(|e| e.text)
}

/// Recovers a store and says what is in it. An error is the store's own refusal; a body that is not
/// one of ours, or not whole, is told as message `u64::MAX`.
pub fn contents(folder: &Path) -> Result<Contents, String> {
    let mut names: BTreeMap<QueueId, String> = BTreeMap::new();
    let mut held: BTreeMap<QueueId, BTreeMap<Seq, Held>> = BTreeMap::new();
    let mut store = open(folder)?;
    let recovered = store.recover(&mut |op| match op {
        Op::QueueDeclared { queue, spec } => {
            names.insert(queue, spec.name.clone());
        }
        Op::QueueDeleted { queue } => {
            names.remove(&queue);
            held.remove(&queue);
        }
        Op::Enqueued(stored) => {
            let m = whole(&stored.message.payload);
            for (queue, seq) in &stored.places {
                held.entry(*queue).or_default().insert(*seq, (m, 0));
            }
        }
        Op::Removed { queue, seq } => {
            held.entry(queue).or_default().remove(&seq);
        }
        Op::Returned {
            queue,
            seq,
            delivery_count,
            ..
        } => {
            if let Some(one) = held.entry(queue).or_default().get_mut(&seq) {
                one.1 = delivery_count;
            }
        }
        _ => {}
    });
    recovered.map_err(|e| e.text)?;
    let mut contents = Contents::new();
    for (queue, messages) in held {
        let name = names.get(&queue).cloned().unwrap_or_default();
        contents.insert(name, messages.into_values().collect());
    }
    contents.retain(|_, messages| !messages.is_empty());
    Ok(contents)
}

/// The message of a payload when every octet of its body is right.
fn whole(payload: &[u8]) -> MessageId {
    let body = decode(payload).map(|(_, body)| body).unwrap_or_default();
    match MessageId::of_body(&body) {
        Some(m) if m.body(body.len()) == body => m,
        _ => MessageId(u64::MAX),
    }
}
