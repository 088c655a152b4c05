//! Writes the history: what clients did and saw, and what the simulator did to them.
//!
//! The simulator knows what no client can: when exactly the broker took a link back. What a client still reads and says
//! on such a link is void, and is not written; the time is, as `gone`.

use std::collections::{BTreeMap, BTreeSet};

use super::letter::{Arrived, Letter};
use crate::history::{Event, Outcome, What};

/// Stands for a delivery that is not in the history.
pub(super) const VOID: u64 = u64::MAX;

/// What was sent, for the fields that deliveries repeat.
#[derive(Debug)]
struct Sent {
    key: Option<String>,
    n: u64,
}

/// A delivery in the history.
#[derive(Debug)]
struct Given {
    process: String,
    number: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) events: Vec<Event>,
    sent: BTreeMap<u64, Sent>,
    given: BTreeMap<u64, Given>,
    /// The last delivery of each message.
    newest: BTreeMap<u64, u64>,
    /// Processes whose link the broker took back.
    cut: BTreeSet<String>,
    next_delivery: u64,
    next_n: BTreeMap<(String, String), u64>,
    /// Whether the clients see the broker's order, so that keys may be written.
    pub(super) has_keys: bool,
}

impl Recorder {
    fn add(&mut self, t: u64, p: &str, what: What) {
        let p = p.to_owned();
        self.events.push(Event { t, p, what });
    }

    pub(super) fn queue(&mut self, t: u64, q: &str) {
        let what = What::Queue {
            q: q.to_owned(),
            max: None,
            dlq: None,
            is_log: false,
            dedup: false,
            lock: false,
        };
        self.add(t, "admin", what);
    }

    pub(super) fn send(&mut self, t: u64, p: &str, q: &str, letter: &Letter, is_durable: bool) {
        let n = self.next_n.entry((p.to_owned(), q.to_owned())).or_default();
        let sent = Sent {
            key: self.has_keys.then(|| "k".to_owned()),
            n: *n,
        };
        *n += 1;
        let what = What::SendInv {
            q: q.to_owned(),
            m: message(letter.number),
            k: sent.key.clone(),
            n: sent.key.as_ref().map(|_| sent.n),
            h: letter.hash(),
            dur: is_durable,
        };
        self.sent.insert(letter.number, sent);
        self.add(t, p, what);
    }

    pub(super) fn sent(&mut self, t: u64, p: &str, number: u64, refusal: Option<&str>) {
        let m = message(number);
        let what = match refusal {
            None => What::SendOk { m, off: None },
            Some(why) => What::SendFail {
                m,
                why: why.to_owned(),
            },
        };
        self.add(t, p, what);
    }

    /// Nobody will ever know.
    pub(super) fn unknown(&mut self, t: u64, p: &str, number: u64) {
        self.add(t, p, What::SendInfo { m: message(number) });
    }

    /// A delivery; returns its number, or [`VOID`].
    pub(super) fn receive(&mut self, t: u64, p: &str, q: &str, arrived: &Arrived) -> u64 {
        if self.cut.contains(p) {
            return VOID;
        }
        let d = self.next_delivery;
        self.next_delivery += 1;
        let sent = self.sent.get(&arrived.number);
        let key = sent.and_then(|sent| sent.key.clone());
        let what = What::Recv {
            q: q.to_owned(),
            m: message(arrived.number),
            h: arrived.hash.clone(),
            d: delivery(d),
            n: key.as_ref().and(sent).map(|sent| sent.n),
            k: key,
            c: Some(u64::from(arrived.header.delivery_count)),
            off: None,
        };
        let given = Given {
            process: p.to_owned(),
            number: arrived.number,
        };
        self.given.insert(d, given);
        self.newest.insert(arrived.number, d);
        self.add(t, p, what);
        d
    }

    /// A settlement. One of a delivery that was given to somebody else meanwhile means nothing, and is not written.
    pub(super) fn settle(&mut self, t: u64, d: u64, o: Outcome) {
        let Some(given) = self.given.get(&d) else {
            return;
        };
        let is_void =
            self.cut.contains(&given.process) || self.newest.get(&given.number) != Some(&d);
        if is_void {
            self.given.remove(&d);
        } else {
            let p = given.process.clone();
            self.add(t, &p, What::SettleInv { d: delivery(d), o });
        }
    }

    /// The broker confirmed a settlement.
    pub(super) fn settled(&mut self, t: u64, d: u64) {
        if let Some(given) = self.given.get(&d) {
            let p = given.process.clone();
            self.add(t, &p, What::SettleOk { d: delivery(d) });
        }
    }

    /// A link is over.
    pub(super) fn gone(&mut self, t: u64, p: &str) {
        self.add(t, p, What::Gone);
    }

    /// The broker took a link back, whatever its client believes.
    pub(super) fn cut(&mut self, t: u64, p: &str) {
        self.cut.insert(p.to_owned());
        self.gone(t, p);
    }

    pub(super) fn fault(&mut self, t: u64, kind: &str, is_start: bool) {
        let what = What::Fault {
            is_start,
            kind: kind.to_owned(),
            node: "n1".to_owned(),
        };
        self.add(t, "nemesis", what);
    }

    pub(super) fn admin(&mut self, t: u64, kind: &str, q: &str, number: Option<u64>) {
        let what = What::Admin {
            kind: kind.to_owned(),
            q: q.to_owned(),
            m: number.map(message),
        };
        self.add(t, "admin", what);
    }

    pub(super) fn drained(&mut self, t: u64, q: &str) {
        self.add(t, "admin", What::Drain { q: q.to_owned() });
    }
}

fn message(number: u64) -> String {
    format!("m{number}")
}

fn delivery(number: u64) -> String {
    format!("d{number}")
}
