//! What clients saw, as a history: attempts are stamped before the bytes go out, results after
//! they came in, so that an order in time is an order that happened.

use std::sync::Arc;
use std::time::Instant;

/// A message's number: the producer in the 20 bits above, its counter in the lower 40.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

impl MessageId {
    /// The `n`th message of a producer.
    pub fn new(producer: u32, n: u64) -> Self {
        Self(u64::from(producer) << 40 | n)
    }

    /// The producer's number.
    pub fn producer(self) -> u64 {
        self.0 >> 40
    }

    /// The counter of the producer.
    pub fn n(self) -> u64 {
        self.0 & ((1 << 40) - 1)
    }

    /// The body of this message: `m` and its number in 15 hex digits, over and over, so that any
    /// 31 octets in a row name it and any damage shows.
    pub fn body(self, size: usize) -> Vec<u8> {
        let word = format!("m{:015x}", self.0);
        word.bytes().cycle().take(size.max(16)).collect()
    }

    /// The number that a body begins with.
    pub fn of_body(body: &[u8]) -> Option<Self> {
        let word = body.get(..16)?.strip_prefix(b"m")?;
        if !word.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let word = std::str::from_utf8(word).ok()?;
        u64::from_str_radix(word, 16).ok().map(Self)
    }

    /// Every number that appears somewhere in `bytes`, each once, in no order.
    pub fn all_in(bytes: &[u8]) -> Vec<Self> {
        let starts = (0..bytes.len()).filter(|i| bytes[*i] == b'm');
        let mut found: Vec<_> = starts.filter_map(|i| Self::of_body(&bytes[i..])).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// A hash of bodies (FNV-1a): equal bodies, equal hashes; damage changes it.
pub fn hash_of(body: &[u8]) -> u64 {
    body.iter().fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x100_0000_01b3)
    })
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A message goes out.
    Send {
        /// Its queue.
        queue: Arc<str>,
        /// Which.
        m: MessageId,
        /// Hash of its body.
        hash: u64,
        /// Whether it must survive.
        is_durable: bool,
    },
    /// It was accepted.
    Sent(MessageId),
    /// It was not taken, and the broker says so.
    Refused(MessageId, String),
    /// Nobody knows.
    Unknown(MessageId),
    /// A delivery came.
    Received {
        /// The queue of the link.
        queue: Arc<str>,
        /// Which message.
        m: MessageId,
        /// Hash of the body that came.
        hash: u64,
        /// A name for this delivery, unique in the history.
        delivery: u64,
        /// The delivery count that the broker told.
        count: u32,
    },
    /// An outcome goes out: accepted, rejected, released, failed.
    Settle(u64, &'static str),
    /// The broker confirmed the settlement.
    Settled(u64),
    /// The client's connection ended.
    Gone,
    /// Harm begins.
    Harm(&'static str),
    /// It is healed.
    Healed(&'static str),
    /// The queue was consumed until it was empty.
    Drained(Arc<str>),
}

/// Something that happened, to whom, when.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Nanoseconds since the epoch of the run.
    pub at_ns: u64,
    /// The client.
    pub who: Arc<str>,
    /// What.
    pub what: What,
}

/// Takes down what one client sees.
#[derive(Debug)]
pub struct Recorder {
    epoch: Instant,
    who: Arc<str>,
    /// Off for backlogs of millions, of which only counts are kept.
    pub is_on: bool,
    /// What it saw so far.
    pub events: Vec<Event>,
}

impl Recorder {
    /// A recorder for one client; all recorders of a history share the epoch.
    pub fn new(epoch: Instant, who: &str) -> Self {
        Self {
            epoch,
            who: who.into(),
            is_on: true,
            events: vec![],
        }
    }

    /// Now, as a stamp.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes something down under a stamp.
    pub fn note_at(&mut self, at_ns: u64, what: What) {
        if !self.is_on {
            return;
        }
        self.events.push(Event {
            at_ns,
            who: Arc::clone(&self.who),
            what,
        });
    }

    /// Takes something down that happens now.
    pub fn note(&mut self, what: What) {
        let now = self.now_ns();
        self.note_at(now, what);
    }
}

/// Events of many clients in the order of time; equal stamps keep each client's own order.
pub fn merge(parts: Vec<Vec<Event>>) -> Vec<Event> {
    let mut all: Vec<Event> = parts.into_iter().flatten().collect();
    all.sort_by_key(|e| e.at_ns);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_body_names_the_message() {
        let m = MessageId::new(3, 77);
        let body = m.body(100);
        assert_eq!(body.len(), 100);
        assert_eq!(MessageId::of_body(&body), Some(m));
        for at in 0..100 - 31 {
            assert_eq!(MessageId::all_in(&body[at..at + 31]), [m], "from {at}");
        }
        assert_eq!((m.producer(), m.n()), (3, 77));
        assert_eq!(MessageId::of_body(b"m00000000000000"), None);
    }
}
