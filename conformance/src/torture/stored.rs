//! What a store's files hold, read by the store itself in this process: recovered, then fetched
//! body by body.

use super::client::decode;
use super::record::MessageId;
use qq_core::store::{Fetch, Op, Store};
use qq_core::vocab::{QueueId, Seq};
use qq_store_sqlite::{SqliteStore, StoreConfig};
use std::collections::BTreeMap;
use std::path::Path;

/// Positions asked for at once.
const FETCH: u32 = 512;

/// A message in a queue: which, and how many attempts failed.
pub type Held = (MessageId, u32);

/// Queues by name, their messages in order; queues without any are left out.
pub type Contents = BTreeMap<String, Vec<Held>>;

/// What recovery told.
#[derive(Default)]
struct Told {
    names: BTreeMap<QueueId, String>,
    held: BTreeMap<QueueId, BTreeMap<Seq, Held>>,
}

impl Told {
    fn take(&mut self, op: Op) {
        match op {
            Op::QueueDeclared { queue, spec } => {
                self.names.insert(queue, spec.name.clone());
            }
            Op::QueueDeleted { queue } => {
                self.names.remove(&queue);
                self.held.remove(&queue);
            }
            Op::Enqueued(stored) => {
                let m = whole(&stored.message.payload);
                for (queue, seq) in &stored.places {
                    self.held.entry(*queue).or_default().insert(*seq, (m, 0));
                }
            }
            Op::Removed { queue, seq, count } => {
                let held = self.held.entry(queue).or_default();
                for seq in seq.0..seq.0 + count {
                    held.remove(&Seq(seq));
                }
            }
            Op::Returned {
                queue,
                seq,
                delivery_count,
                ..
            } => {
                if let Some(one) = self.held.entry(queue).or_default().get_mut(&seq) {
                    one.1 = delivery_count;
                }
            }
            // Positions that are taken, and what no workload here makes.
            _ => {}
        }
    }
}

/// Recovers a store, reads every body, and says what is in it. An error is the store's own refusal,
/// or a difference between what recovery and reading say; a body that is not whole is told as
/// message `u64::MAX`.
pub fn contents(folder: &Path) -> Result<Contents, String> {
    let config = StoreConfig {
        // For copies that are thrown away.
        sync_writes: false,
        ballast_bytes: 0,
        cache_bytes: 1 << 20,
        ..StoreConfig::new(folder)
    };
    let mut store = SqliteStore::open(config).map_err(|e| e.text)?;
    let mut told = Told::default();
    let recovered = store.recover(&mut |op| told.take(op));
    recovered.map_err(|e| e.text)?;
    let mut contents = Contents::new();
    for (queue, messages) in told.held.into_iter().filter(|(_, m)| !m.is_empty()) {
        let read = read(&mut store, queue, &messages)?;
        let held: BTreeMap<Seq, MessageId> = messages.iter().map(|(s, h)| (*s, h.0)).collect();
        if read != held {
            return Err(format!("recovery says {held:?}, reading {read:?}"));
        }
        let name = told.names.get(&queue).cloned().unwrap_or_default();
        contents.insert(name, messages.into_values().collect());
    }
    Ok(contents)
}

fn read(
    store: &mut SqliteStore,
    queue: QueueId,
    messages: &BTreeMap<Seq, Held>,
) -> Result<BTreeMap<Seq, MessageId>, String> {
    let mut read = BTreeMap::new();
    let mut left = messages.keys().copied().peekable();
    while let Some(first) = left.next() {
        let fetch = Fetch {
            queue,
            first,
            count: FETCH,
        };
        let got = store.fetch(&fetch).map_err(|e| e.text)?;
        let end = Seq(first.0 + u64::from(FETCH));
        // More may come than is alive: what was settled meanwhile.
        let got = got
            .into_iter()
            .filter(|(seq, _)| messages.contains_key(seq));
        read.extend(got.map(|(seq, message)| (seq, whole(&message.payload))));
        while left.next_if(|seq| *seq < end).is_some() {}
    }
    Ok(read)
}

/// The message of a payload when every octet of its body is right.
fn whole(payload: &[u8]) -> MessageId {
    let body = decode(payload).map(|(_, body)| body).unwrap_or_default();
    match MessageId::of_body(&body) {
        Some(m) if m.body(body.len()) == body => m,
        _ => MessageId(u64::MAX),
    }
}
