//! A history in tables: read once, by message, delivery, client and time.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{Class, Report};
use super::event::{Event, Outcome, What};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Ok,
    Fail,
    Info,
}

/// A message that was sent.
pub(super) struct Sent<'a> {
    pub(super) q: &'a str,
    pub(super) k: Option<&'a str>,
    pub(super) n: Option<u64>,
    pub(super) h: &'a str,
    pub(super) p: &'a str,
    pub(super) dur: bool,
    pub(super) first_t: u64,
    pub(super) attempts: u32,
    pub(super) answer: Option<Answer>,
    pub(super) off: Option<u64>,
}

/// A delivery.
pub(super) struct Given<'a> {
    /// Place among the deliveries: some have the same time.
    pub(super) at: usize,
    pub(super) t: u64,
    pub(super) p: &'a str,
    pub(super) q: &'a str,
    pub(super) h: &'a str,
    pub(super) c: Option<u64>,
    pub(super) off: Option<u64>,
    pub(super) outcome: Option<Outcome>,
    pub(super) settled_t: Option<u64>,
    pub(super) confirmed_t: Option<u64>,
}

/// A queue's rules.
#[derive(Clone, Copy, Default)]
pub(super) struct Rules<'a> {
    pub(super) max: Option<u64>,
    pub(super) dlq: Option<&'a str>,
    pub(super) is_log: bool,
    pub(super) dedup: bool,
    pub(super) lock: bool,
}

/// A history in tables.
#[derive(Default)]
pub(super) struct Tables<'a> {
    pub(super) sent: BTreeMap<&'a str, Sent<'a>>,
    /// In the order of the history.
    pub(super) given: Vec<Given<'a>>,
    pub(super) by_message: BTreeMap<&'a str, Vec<usize>>,
    by_delivery: BTreeMap<&'a str, usize>,
    pub(super) rules: BTreeMap<&'a str, Rules<'a>>,
    pub(super) drained: BTreeSet<&'a str>,
    gone: BTreeMap<&'a str, Vec<u64>>,
    crashes: Vec<u64>,
    pub(super) purged: BTreeMap<&'a str, Vec<u64>>,
    pub(super) expired: BTreeSet<&'a str>,
}

/// Whether one of the times, which are in order, lies between two others.
pub(super) fn has_between(times: &[u64], from: u64, to: u64) -> bool {
    let first = times.partition_point(|t| *t < from);
    times.get(first).is_some_and(|t| *t <= to)
}

impl<'a> Tables<'a> {
    pub(super) fn fill(&mut self, events: &'a [Event], report: &mut Report) {
        let mut last_t = 0;
        for (at, event) in events.iter().enumerate() {
            if event.t < last_t {
                let text = format!("time runs back at event {}", at + 1);
                report.add(Class::Malformed, text);
            }
            last_t = event.t;
            self.take(event, report);
        }
        let times = self.gone.values_mut().chain(self.purged.values_mut());
        times.for_each(|times| times.sort_unstable());
        self.crashes.sort_unstable();
    }

    fn take(&mut self, event: &'a Event, report: &mut Report) {
        let (t, p) = (event.t, event.p.as_str());
        match &event.what {
            What::SendInv { q, m, k, n, h, dur } => {
                let sent = self.sent.entry(m).or_insert(Sent {
                    q,
                    k: k.as_deref(),
                    n: *n,
                    h,
                    p,
                    dur: *dur,
                    first_t: t,
                    attempts: 0,
                    answer: None,
                    off: None,
                });
                sent.attempts += 1;
            }
            What::SendOk { m, off } => self.answer(m, Answer::Ok, *off, report),
            What::SendFail { m, .. } => self.answer(m, Answer::Fail, None, report),
            What::SendInfo { m } => self.answer(m, Answer::Info, None, report),
            What::Recv { .. } => self.take_delivery(event),
            What::SettleInv { d, .. } | What::SettleOk { d } => self.take_end(t, d, event, report),
            What::Gone => self.gone.entry(p).or_default().push(t),
            What::Fault { is_start, kind, .. } => {
                if *is_start && ["kill9", "power", "term", "disk"].contains(&kind.as_str()) {
                    self.crashes.push(t);
                }
            }
            What::Queue {
                q,
                max,
                dlq,
                is_log,
                dedup,
                lock,
            } => {
                let rules = Rules {
                    max: *max,
                    dlq: dlq.as_deref(),
                    is_log: *is_log,
                    dedup: *dedup,
                    lock: *lock,
                };
                self.rules.insert(q, rules);
            }
            What::Admin { kind, q, m } => {
                if kind != "expire" {
                    self.purged.entry(q).or_default().push(t);
                } else if let Some(m) = m {
                    self.expired.insert(m);
                }
            }
            What::Drain { q } => {
                self.drained.insert(q);
            }
        }
    }

    fn take_delivery(&mut self, event: &'a Event) {
        let What::Recv {
            q, m, h, d, c, off, ..
        } = &event.what
        else {
            return;
        };
        let at = self.given.len();
        self.by_message.entry(m).or_default().push(at);
        self.by_delivery.insert(d, at);
        self.given.push(Given {
            at,
            t: event.t,
            p: &event.p,
            q,
            h,
            c: *c,
            off: *off,
            outcome: None,
            settled_t: None,
            confirmed_t: None,
        });
    }

    fn take_end(&mut self, t: u64, d: &str, event: &Event, report: &mut Report) {
        let Some(given) = self.by_delivery.get(d) else {
            let text = format!("settlement of the unknown delivery {d}");
            return report.add(Class::Malformed, text);
        };
        let given = &mut self.given[*given];
        if let What::SettleInv { o, .. } = &event.what {
            (given.outcome, given.settled_t) = (Some(*o), Some(t));
        } else {
            given.confirmed_t = Some(t);
        }
    }

    fn answer(&mut self, m: &'a str, answer: Answer, off: Option<u64>, report: &mut Report) {
        let Some(sent) = self.sent.get_mut(m) else {
            return report.add(
                Class::Malformed,
                format!("an answer to {m}, which was not sent"),
            );
        };
        // A later attempt that succeeds outweighs an earlier one that failed.
        if answer == Answer::Ok || sent.answer != Some(Answer::Ok) {
            sent.answer = Some(answer);
        }
        sent.off = off.or(sent.off);
    }

    pub(super) fn rules_of(&self, q: &str) -> Rules<'a> {
        self.rules.get(q).copied().unwrap_or_default()
    }

    pub(super) fn is_gone_between(&self, p: &str, from: u64, to: u64) -> bool {
        self.gone
            .get(p)
            .is_some_and(|times| has_between(times, from, to))
    }

    pub(super) fn is_crash_between(&self, from: u64, to: u64) -> bool {
        has_between(&self.crashes, from, to)
    }

    /// Whether the broker may have taken a delivery back before a moment.
    pub(super) fn is_freed(&self, given: &Given<'_>, before: u64) -> bool {
        given.settled_t.is_some_and(|t| t <= before)
            || self.is_gone_between(given.p, given.t, before)
            || self.is_crash_between(given.t, before)
    }

    /// Deliveries of a message from its own queue, and from that queue's dead-letter queue.
    pub(super) fn main_of(&self, m: &str, sent: &Sent<'_>) -> Vec<&Given<'a>> {
        let all = self.by_message.get(m).map_or(&[][..], Vec::as_slice);
        all.iter()
            .map(|at| &self.given[*at])
            .filter(|given| given.q == sent.q)
            .collect()
    }
}
