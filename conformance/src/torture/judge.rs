//! Judges what clients saw, by the rules of [`crate::history`].

use super::Outcome;
use super::record::{Event, MessageId, What};
use crate::history::{self, Verdict};
use std::fmt::Write;

/// What a valid history comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Messages sent.
    pub sent: usize,
    /// Of them accepted.
    pub accepted: usize,
    /// Deliveries.
    pub deliveries: usize,
    /// Messages delivered again after a settlement that a fault may have swallowed.
    pub legal_duplicates: usize,
}

/// Judges a history in which every queue was drained; one that was not is an error too. The
/// history of a violation is kept in a file that the error names.
pub fn judge(events: &[Event]) -> Outcome<Judged> {
    let history: Vec<_> = events.iter().map(translated).collect();
    let report = history::check(&history);
    if report.verdict() != Verdict::Valid {
        let name = format!("qq-torture-{}-{}.jsonl", std::process::id(), history.len());
        let path = std::env::temp_dir().join(name);
        let mut lines = String::new();
        for event in &history {
            let _ = writeln!(lines, "{}", history::print(event));
        }
        let kept = match std::fs::write(&path, lines) {
            Ok(()) => path.display().to_string(),
            Err(e) => format!("not kept: {e}"),
        };
        return Err(format!("{report}\nhistory: {kept}"));
    }
    let is_send = |e: &&Event| matches!(e.what, What::Send { .. });
    Ok(Judged {
        sent: events.iter().filter(is_send).count(),
        accepted: report.acknowledged,
        deliveries: report.deliveries,
        legal_duplicates: report.legal_duplicates,
    })
}

fn name(m: MessageId) -> String {
    format!("{:x}", m.0)
}

/// The same event in the words of histories. The producer is the ordering key: its messages must
/// come in its order.
fn translated(event: &Event) -> history::Event {
    let key = |m: MessageId| Some(format!("p{}", m.producer()));
    let what = match &event.what {
        What::Send {
            queue,
            m,
            hash,
            is_durable,
        } => history::What::SendInv {
            q: queue.to_string(),
            m: name(*m),
            k: key(*m),
            n: Some(m.n()),
            h: format!("{hash:x}"),
            dur: *is_durable,
        },
        What::Sent(m) => history::What::SendOk {
            m: name(*m),
            off: None,
        },
        What::Refused(m, why) => history::What::SendFail {
            m: name(*m),
            why: why.clone(),
        },
        What::Unknown(m) => history::What::SendInfo { m: name(*m) },
        What::Received {
            queue,
            m,
            hash,
            delivery,
            count,
        } => history::What::Recv {
            q: queue.to_string(),
            m: name(*m),
            h: format!("{hash:x}"),
            d: format!("{delivery:x}"),
            k: key(*m),
            n: Some(m.n()),
            c: Some((*count).into()),
            off: None,
        },
        What::Settle(delivery, outcome) => history::What::SettleInv {
            d: format!("{delivery:x}"),
            o: match *outcome {
                "released" => history::Outcome::Released,
                "failed" => history::Outcome::Failed,
                "rejected" => history::Outcome::Rejected,
                _ => history::Outcome::Accepted,
            },
        },
        What::Settled(delivery) => history::What::SettleOk {
            d: format!("{delivery:x}"),
        },
        What::Gone => history::What::Gone,
        What::Harm(kind) | What::Healed(kind) => history::What::Fault {
            is_start: matches!(event.what, What::Harm(_)),
            kind: (*kind).to_owned(),
            node: "qqd".to_owned(),
        },
        What::Drained(queue) => history::What::Drain {
            q: queue.to_string(),
        },
    };
    history::Event {
        t: event.at_ns,
        p: event.who.to_string(),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Recorder, hash_of};
    use super::*;

    fn history(is_delivered: bool, is_settled_twice: bool) -> Vec<Event> {
        let mut recorder = Recorder::new(std::time::Instant::now(), "c");
        let m = MessageId::new(1, 0);
        let hash = hash_of(&m.body(20));
        recorder.note(What::Send {
            queue: "q".into(),
            m,
            hash,
            is_durable: true,
        });
        recorder.note(What::Sent(m));
        for delivery in 0..u64::from(is_delivered) + u64::from(is_settled_twice) {
            recorder.note(What::Received {
                queue: "q".into(),
                m,
                hash,
                delivery,
                count: 0,
            });
            recorder.note(What::Settle(delivery, "accepted"));
        }
        recorder.note(What::Drained("q".into()));
        recorder.events
    }

    #[test]
    fn the_rules_reach_what_was_recorded() {
        let judged = judge(&history(true, false)).expect("valid");
        assert_eq!((judged.sent, judged.accepted, judged.deliveries), (1, 1, 1));
        let lost = judge(&history(false, false)).expect_err("lost");
        assert!(lost.contains("lost (1)"), "{lost}");
        let twice = judge(&history(true, true)).expect_err("delivered twice");
        assert!(twice.contains("duplicate (1)"), "{twice}");
    }
}
