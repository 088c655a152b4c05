//! Writes the history: what clients did and saw, and what the simulator did to them.
//!
//! The simulator knows what no client can: when exactly the broker took a link back. What a client still reads and says
//! on such a link is void, and is not written; the time is, as `gone`.

use std::collections::{BTreeMap, BTreeSet};

use qq_core::broker::{FailurePolicy, Overflow, QueueSpec};
use qq_core::vocab::ConnId;

use super::letter::{Arrived, Letter};
use super::setup::{KEYED, LOG, first_grave};
use crate::history::{Event, Outcome, What};

/// Stands for a delivery that is not in the history.
pub(super) const VOID: u64 = u64::MAX;

/// What was sent, for the fields that deliveries repeat.
#[derive(Debug)]
struct Sent {
    key: Option<String>,
    n: u64,
}

/// A message that was sent to an exchange: for the history, every queue that gets it gets one of its own.
#[derive(Debug)]
struct Posted {
    process: String,
    hash: String,
    copies: BTreeSet<String>,
}

/// A delivery in the history.
#[derive(Debug)]
struct Given {
    process: String,
    name: String,
}

/// A delivery that was given an outcome under a transaction.
#[derive(Debug)]
struct Retired {
    delivery: u64,
    outcome: Outcome,
    /// Its client forgot it, so that it goes back by itself when the transaction fails.
    is_forgotten: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) events: Vec<Event>,
    sent: BTreeMap<u64, Sent>,
    posted: BTreeMap<u64, Posted>,
    given: BTreeMap<u64, Given>,
    /// The last delivery of each message.
    newest: BTreeMap<String, u64>,
    /// Processes whose link the broker took back.
    cut: BTreeSet<String>,
    next_delivery: u64,
    next_n: BTreeMap<(String, String), u64>,
    /// Whether the clients see the broker's order, so that keys may be written.
    pub(super) has_keys: bool,
    /// Where dead letters of a queue come first.
    graves: BTreeMap<String, String>,
    /// Queues that keep what they refuse aside.
    kept_aside: BTreeSet<String>,
    /// Messages that a stream does not have, for one reason or another.
    dropped: BTreeSet<u64>,
    /// Outcomes that wait for the discharge of a transaction.
    retired: BTreeMap<(ConnId, u64), Vec<Retired>>,
    /// Dead letters that went further than to their first grave: there they are messages of their own.
    moved: BTreeSet<String>,
}

impl Recorder {
    fn add(&mut self, t: u64, p: &str, what: What) {
        let p = p.to_owned();
        self.events.push(Event { t, p, what });
    }

    pub(super) fn queue(&mut self, t: u64, spec: &QueueSpec) {
        let grave = first_grave(spec);
        if let Some(grave) = &grave {
            self.graves.insert(spec.name.clone(), grave.clone());
        }
        if spec.overflow == Overflow::RejectDlx {
            self.kept_aside.insert(spec.name.clone());
        }
        // What is lost with a crash or a reset is not always an attempt, so that the limit can be judged in calm runs
        // only. There the last to have a message may just have closed its connection at the end.
        let has_max = self.has_keys && spec.failure_policy != FailurePolicy::Infinite;
        let max = (has_max && spec.max_deliveries > 0).then(|| u64::from(spec.max_deliveries) + 1);
        let what = What::Queue {
            q: spec.name.clone(),
            max,
            dlq: grave.clone(),
            is_log: spec.is_stream(),
            dedup: false,
            // The last attempt of a message that becomes a dead letter is told apart by the reference alone.
            lock: self.has_keys && spec.name == KEYED && grave.is_none(),
        };
        self.add(t, "admin", what);
    }

    /// A message goes to a queue. In a transaction it is not in order with others.
    pub(super) fn send(
        &mut self,
        t: u64,
        p: &str,
        q: &str,
        letter: &Letter,
        is_durable: bool,
        is_in_order: bool,
    ) {
        let n = self.next_n.entry((p.to_owned(), q.to_owned())).or_default();
        let sent = Sent {
            // Late ones come when they do.
            key: order_of(q, letter)
                .filter(|_| self.has_keys && is_in_order && letter.delay_ms.is_none()),
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

    /// A message goes to an exchange. What that means is known later.
    pub(super) fn post(&mut self, p: &str, letter: &Letter) {
        let posted = Posted {
            process: p.to_owned(),
            hash: letter.hash(),
            copies: BTreeSet::new(),
        };
        self.posted.insert(letter.number, posted);
    }

    /// An exchange gave a message to a queue.
    pub(super) fn routed(&mut self, t: u64, number: u64, q: &str, is_durable: bool) {
        let Some(posted) = self.posted.get_mut(&number) else {
            return;
        };
        if posted.copies.insert(q.to_owned()) {
            let (p, what) = (
                posted.process.clone(),
                What::SendInv {
                    q: q.to_owned(),
                    m: copy_name(number, q),
                    k: None,
                    n: None,
                    h: posted.hash.clone(),
                    dur: is_durable,
                },
            );
            self.add(t, &p, what);
        }
    }

    /// The answer to a message that was sent to an exchange, for each copy; none when there will be none.
    fn answer_posted(&mut self, t: u64, p: &str, number: u64, is_taken: bool) {
        let copies = self.posted.get(&number).map(|posted| posted.copies.clone());
        for q in copies.unwrap_or_default() {
            let m = copy_name(number, &q);
            // One that was refused is there only as a dead letter.
            let what = if is_taken {
                What::SendOk { m, off: None }
            } else {
                What::SendInfo { m }
            };
            self.add(t, p, what);
        }
    }

    pub(super) fn sent(&mut self, t: u64, p: &str, q: &str, number: u64, refusal: Option<&str>) {
        if self.posted.contains_key(&number) {
            return self.answer_posted(t, p, number, refusal.is_none());
        }
        let m = message(number);
        let is_gone = q == LOG && self.dropped.contains(&number);
        let what = match refusal {
            // The stream had it under another name.
            None if is_gone => What::SendInfo { m },
            None => What::SendOk { m, off: None },
            // Refused, and a dead letter all the same.
            Some(_) if self.kept_aside.contains(q) => What::SendInfo { m },
            Some(why) => What::SendFail {
                m,
                why: why.to_owned(),
            },
        };
        self.add(t, p, what);
    }

    /// Nobody will ever know.
    pub(super) fn unknown(&mut self, t: u64, p: &str, number: u64) {
        if self.posted.contains_key(&number) {
            return self.answer_posted(t, p, number, false);
        }
        self.add(t, p, What::SendInfo { m: message(number) });
    }

    /// A message that was sent to a queue was dropped as rules say.
    pub(super) fn dropped(&mut self, t: u64, number: u64, q: &str) {
        let m = self.base_name(number, q);
        if q == LOG {
            self.dropped.insert(number);
        }
        self.add(
            t,
            "admin",
            What::Admin {
                kind: "expire".to_owned(),
                q: String::new(),
                m: Some(m),
            },
        );
    }

    /// The name of what was sent to a queue.
    fn base_name(&self, number: u64, q: &str) -> String {
        match self.posted.contains_key(&number) {
            true => copy_name(number, q),
            false => message(number),
        }
    }

    /// A delivery; returns its number, or [`VOID`].
    pub(super) fn receive(&mut self, t: u64, p: &str, q: &str, arrived: &Arrived) -> u64 {
        if self.cut.contains(p) {
            return VOID;
        }
        let d = self.next_delivery;
        self.next_delivery += 1;
        let m = self.name_of(t, q, arrived);
        let sent = self.sent.get(&arrived.number);
        let key = sent.and_then(|sent| sent.key.clone());
        let what = What::Recv {
            q: q.to_owned(),
            m: m.clone(),
            h: arrived.hash.clone(),
            d: delivery(d),
            n: key.as_ref().and(sent).map(|sent| sent.n),
            k: key,
            c: Some(u64::from(arrived.header.delivery_count)),
            off: arrived.offset,
        };
        let given = Given {
            process: p.to_owned(),
            name: m,
        };
        self.newest.insert(given.name.clone(), d);
        self.given.insert(d, given);
        self.add(t, p, what);
        d
    }

    /// The message's name in the history.
    fn name_of(&mut self, t: u64, q: &str, arrived: &Arrived) -> String {
        let origin = arrived.origin.as_deref().unwrap_or(q);
        let base = self.base_name(arrived.number, origin);
        if origin == q || self.graves.get(origin).is_some_and(|grave| grave == q) {
            return base;
        }
        let m = format!("{base}>{q}");
        if self.moved.insert(m.clone()) {
            let what = What::SendInv {
                q: q.to_owned(),
                m: m.clone(),
                k: None,
                n: None,
                h: arrived.hash.clone(),
                dur: true,
            };
            self.add(t, "broker", what);
            self.add(t, "broker", What::SendInfo { m: m.clone() });
        }
        m
    }

    /// A settlement. One of a delivery that was given to somebody else meanwhile means nothing, and is not written.
    pub(super) fn settle(&mut self, t: u64, d: u64, o: Outcome) {
        let Some(given) = self.given.get(&d) else {
            return;
        };
        let is_void = self.cut.contains(&given.process) || self.newest.get(&given.name) != Some(&d);
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

    /// The broker took a delivery back that its consumer held for too long. What is said of it later means nothing.
    pub(super) fn lose(&mut self, t: u64, d: u64) {
        self.settle(t, d, Outcome::Failed);
        self.given.remove(&d);
    }

    /// A client gave a delivery an outcome under a transaction, and may have forgotten it.
    pub(super) fn retire(&mut self, txn: (ConnId, u64), d: u64, o: Outcome, is_forgotten: bool) {
        let retired = Retired {
            delivery: d,
            outcome: o,
            is_forgotten,
        };
        self.retired.entry(txn).or_default().push(retired);
    }

    /// The broker executed a discharge.
    pub(super) fn discharged(&mut self, t: u64, txn: (ConnId, u64), is_done: bool) {
        for retired in self.retired.remove(&txn).unwrap_or_default() {
            let (d, o) = (retired.delivery, retired.outcome);
            if is_done {
                self.settle(t, d, o);
                // What its client may say of it later means nothing.
                self.given.remove(&d);
            } else if retired.is_forgotten {
                // The broker takes it back by itself.
                let o = match o {
                    Outcome::Released => Outcome::Released,
                    _ => Outcome::Failed,
                };
                self.settle(t, d, o);
            }
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

    pub(super) fn admin(&mut self, t: u64, kind: &str, q: &str) {
        let what = What::Admin {
            kind: kind.to_owned(),
            q: q.to_owned(),
            m: None,
        };
        self.add(t, "admin", what);
    }

    pub(super) fn drained(&mut self, t: u64, q: &str) {
        self.add(t, "admin", What::Drain { q: q.to_owned() });
    }
}

/// What a message is in one order with. Messages of different priorities are not, nor are those of different keys.
fn order_of(q: &str, letter: &Letter) -> Option<String> {
    match &letter.group_id {
        Some(key) => Some(key.clone()),
        None if q == KEYED => None,
        None => Some(format!("p{}", letter.priority.unwrap_or(4))),
    }
}

fn copy_name(number: u64, q: &str) -> String {
    format!("m{number}@{q}")
}

fn message(number: u64) -> String {
    format!("m{number}")
}

fn delivery(number: u64) -> String {
    format!("d{number}")
}
