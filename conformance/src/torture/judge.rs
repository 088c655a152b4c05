//! Judges a history: what was accepted came, nothing came that must not.

use super::Outcome;
use super::record::{Event, What};
use std::collections::HashMap;

/// What a valid history comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Messages sent.
    pub sent: u64,
    /// Of them accepted.
    pub accepted: u64,
    /// Of them without an answer, but delivered.
    pub recovered: u64,
    /// Deliveries.
    pub deliveries: u64,
    /// Messages delivered again after a settlement that nobody confirmed before a fault.
    pub legal_duplicates: u64,
}

#[derive(Default)]
struct Message {
    hash: u64,
    queue: std::sync::Arc<str>,
    is_durable: bool,
    is_accepted: bool,
    is_refused: bool,
    deliveries: Vec<u64>,
}

struct Delivery {
    m: u64,
    at_ns: u64,
    who: std::sync::Arc<str>,
    settled: Option<(u64, &'static str)>,
    confirmed_ns: Option<u64>,
}

/// Judges a history in which every queue was drained.
pub fn judge(events: &[Event]) -> Outcome<Verdict> {
    let mut messages: HashMap<u64, Message> = HashMap::new();
    let mut deliveries: HashMap<u64, Delivery> = HashMap::new();
    let mut gone: HashMap<&str, Vec<u64>> = HashMap::new();
    let mut crashes = vec![];
    let mut wrong = vec![];
    let mut verdict = Verdict::default();
    for event in events {
        match &event.what {
            What::Send {
                queue,
                m,
                hash,
                is_durable,
            } => {
                verdict.sent += 1;
                let message = messages.entry(m.0).or_default();
                message.hash = *hash;
                message.queue = queue.clone();
                message.is_durable = *is_durable;
            }
            What::Sent(m) => messages.entry(m.0).or_default().is_accepted = true,
            What::Refused(m, _) => messages.entry(m.0).or_default().is_refused = true,
            What::Received {
                queue,
                m,
                hash,
                delivery,
                ..
            } => {
                verdict.deliveries += 1;
                match messages.get_mut(&m.0) {
                    None => wrong.push(format!("phantom: {:x} was never sent", m.0)),
                    Some(message) => {
                        if message.hash != *hash {
                            wrong.push(format!("corrupt: {:x}", m.0));
                        }
                        if message.queue != *queue {
                            wrong.push(format!("misrouted: {:x} on {queue}", m.0));
                        }
                        message.deliveries.push(*delivery);
                    }
                }
                let new = Delivery {
                    m: m.0,
                    at_ns: event.at_ns,
                    who: event.who.clone(),
                    settled: None,
                    confirmed_ns: None,
                };
                if deliveries.insert(*delivery, new).is_some() {
                    wrong.push(format!("delivery {delivery:x} came twice"));
                }
            }
            What::Settle(delivery, outcome) => {
                if let Some(delivery) = deliveries.get_mut(delivery) {
                    delivery.settled = Some((event.at_ns, outcome));
                }
            }
            What::Settled(delivery) => {
                if let Some(delivery) = deliveries.get_mut(delivery) {
                    delivery.confirmed_ns = Some(event.at_ns);
                }
            }
            What::Gone => gone.entry(&event.who).or_default().push(event.at_ns),
            What::Harm(_) => crashes.push(event.at_ns),
            What::Unknown(_) | What::Healed(_) | What::Drained(_) => {}
        }
    }
    for (m, message) in &messages {
        verdict.accepted += u64::from(message.is_accepted);
        if !message.is_accepted && !message.is_refused && !message.deliveries.is_empty() {
            verdict.recovered += 1;
        }
        if message.is_refused && !message.deliveries.is_empty() {
            wrong.push(format!("rejected but seen: {m:x}"));
        }
        let is_exempt = !message.is_durable && !crashes.is_empty();
        if message.is_accepted && message.deliveries.is_empty() && !is_exempt {
            wrong.push(format!("lost: {m:x}"));
        }
        for pair in message.deliveries.windows(2) {
            let (a, b) = (&deliveries[&pair[0]], &deliveries[&pair[1]]);
            let is_left = |from: u64| {
                let ends = gone.get(&*a.who).into_iter().flatten();
                ends.chain(&crashes).any(|t| (from..=b.at_ns).contains(t))
            };
            match a.settled {
                Some((_, "accepted")) if a.confirmed_ns.is_some_and(|t| t <= b.at_ns) => {
                    wrong.push(format!("resurrected: {m:x}"));
                }
                Some((at, "accepted")) if is_left(at) => verdict.legal_duplicates += 1,
                Some((_, "accepted")) => wrong.push(format!("duplicate: {m:x}")),
                None if !is_left(a.at_ns) => wrong.push(format!("given twice: {m:x}")),
                _ => {}
            }
        }
        if let Some(last) = message.deliveries.last().map(|d| &deliveries[d])
            && last
                .settled
                .is_none_or(|(_, outcome)| outcome != "accepted")
            && message.is_accepted
        {
            wrong.push(format!("stuck: {:x}", last.m));
        }
    }
    if wrong.is_empty() {
        return Ok(verdict);
    }
    wrong.sort();
    let shown = wrong.len().min(20);
    Err(format!(
        "{} violations:\n{}",
        wrong.len(),
        wrong[..shown].join("\n")
    ))
}
