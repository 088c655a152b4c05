//! Streams in the reference: where readers begin, and how far those with a name came.

use qq_core::vocab::{ConnId, ConsumerSpec, ExpiryPolicy, LinkKey, StreamStart};

use super::queue::{Peer, Queue, is_wanted};
use super::{Consumer, Mirror, PortKind, Reference};

/// The name under which the store keeps the place of a link. No simulated name needs to be escaped.
pub(super) fn kept_name(key: &LinkKey) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("amq.sub-{}.{}", text(&key.container), text(&key.name))
}

/// The name of a reader whose place is kept.
pub(super) fn reader_of(queue: &Queue, spec: &ConsumerSpec) -> Option<String> {
    let is_kept = queue.spec.is_stream() && spec.subscription.expiry == ExpiryPolicy::Never;
    let key = spec.key.as_ref().filter(|_| is_kept)?;
    Some(kept_name(key))
}

/// Where a reader begins.
pub(super) fn start_of(queue: &Queue, spec: &ConsumerSpec) -> u64 {
    let next = queue.next;
    let first = queue.entries.keys().next().copied().unwrap_or(next);
    let kept = reader_of(queue, spec).and_then(|name| queue.offsets.get(&name).copied());
    let wanted = kept.unwrap_or(match spec.stream.start {
        StreamStart::First => first,
        StreamStart::Last => queue.entries.keys().next_back().copied().unwrap_or(next),
        StreamStart::Next => next,
        StreamStart::Offset(offset) => offset,
        StreamStart::Since(_) | StreamStart::Ago(_) => unreachable!("nobody asks for a moment"),
    });
    wanted.clamp(first, next)
}

/// The next message for a reader of a stream.
pub(super) fn unread(consumer: &Consumer, queue: &Queue) -> Option<u64> {
    if !queue.spec.is_stream() {
        return None;
    }
    let mut waiting = queue.waiting.range(consumer.browse_from..);
    let is_for_it = |seq: &&u64| {
        let entry = queue.entries.get(*seq);
        entry.is_some_and(|entry| is_wanted(&consumer.wants, entry))
    };
    waiting.find(is_for_it).copied()
}

impl Consumer {
    /// The oldest position that it has not settled.
    pub(super) fn place(&self) -> u64 {
        let oldest = self.held.values().next().copied();
        oldest.unwrap_or(self.browse_from)
    }
}

impl Reference {
    /// The place of a named reader is as good as stored.
    pub(super) fn keep_place(&mut self, peer: Peer) {
        if let Some(PortKind::Consumer(consumer)) = self.ports.get_mut(&peer)
            && let Some(reader) = consumer.reader.clone()
            && let Some(queue) = self.queues.get_mut(&consumer.queue)
        {
            consumer.is_noted = false;
            queue.offsets.insert(reader, consumer.place());
        }
    }

    /// The same for all that moved on in this round.
    pub(super) fn keep_places(&mut self) {
        let is_noted = |port: &PortKind| match port {
            PortKind::Consumer(consumer) => consumer.is_noted,
            PortKind::Producer(_) => false,
        };
        let noted = self.ports.iter().filter(|(_, port)| is_noted(port));
        let noted: Vec<Peer> = noted.map(|(peer, _)| *peer).collect();
        noted.into_iter().for_each(|peer| self.keep_place(peer));
    }

    /// Messages that streams hold: nobody takes them.
    pub(in crate::sim) fn in_streams(&self) -> usize {
        let streams = self.queues.values().filter(|queue| queue.spec.is_stream());
        streams.map(|queue| queue.entries.len()).sum()
    }

    /// Whether a connection has all that there is of all streams. It has nothing of one that it does not read yet.
    pub(in crate::sim) fn has_read_all(&self, conn: ConnId) -> bool {
        let streams = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.spec.is_stream());
        let mut filled = streams.filter(|(_, queue)| !queue.entries.is_empty());
        filled.all(|(name, queue)| {
            let mut of_conn = self.ports.iter().filter(|((owner, _), _)| *owner == conn);
            of_conn.any(|(_, port)| match port {
                PortKind::Consumer(consumer) => {
                    consumer.queue == *name && unread(consumer, queue).is_none()
                }
                PortKind::Producer(_) => false,
            })
        })
    }

    /// In what the places that the store keeps differ from those that readers came to.
    pub(in crate::sim) fn misplaced(&self, mirror: &Mirror) -> Vec<String> {
        let mut wrong = Vec::new();
        for queue in self.queues.values().filter(|queue| queue.is_durable()) {
            let kept = mirror.safe.queues.get(&queue.id);
            if let Some(kept) = kept.filter(|kept| kept.offsets != queue.offsets) {
                let (kept, offsets) = (&kept.offsets, &queue.offsets);
                wrong.push(format!(
                    "the store keeps the places {kept:?}, not {offsets:?}"
                ));
            }
        }
        wrong
    }
}
