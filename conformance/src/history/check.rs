//! The judge: reads a history once into tables, then applies each rule to them, in O(n log n).

use std::collections::BTreeMap;
use std::fmt;

use super::event::{Event, Outcome};
use super::log;
use super::tables::{Answer, Given, Sent, Tables, has_between};

/// A rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(
    missing_docs,
    reason = "the names are the classes; `Class::meaning` explains them"
)]
pub enum Class {
    Malformed,
    Phantom,
    Corrupt,
    Misrouted,
    RejectedButSeen,
    Lost,
    Stuck,
    DoubleDelivery,
    Duplicate,
    Resurrected,
    Reordered,
    KeyLockBroken,
    Overtaken,
    OverRedelivered,
    LeftBehind,
    CountRunsBack,
    OffsetDivergence,
    Skipped,
    OffsetRunsBack,
}

impl Class {
    /// Name and meaning.
    const fn wording(self) -> (&'static str, &'static str) {
        match self {
            Self::Malformed => ("malformed", "the history contradicts itself"),
            Self::Phantom => ("phantom", "delivered although nobody had sent it"),
            Self::Corrupt => ("corrupt", "delivered with another payload"),
            Self::Misrouted => ("misrouted", "delivered from another queue"),
            Self::RejectedButSeen => ("rejected-but-seen", "refused, and delivered all the same"),
            Self::Lost => (
                "lost",
                "acknowledged, never delivered, and its queue is empty",
            ),
            Self::Stuck => ("stuck", "delivered, never finished, and its queue is empty"),
            Self::DoubleDelivery => (
                "double-delivery",
                "given to a second owner while the first had it",
            ),
            Self::Duplicate => (
                "duplicate",
                "delivered again after its end, and nothing had failed",
            ),
            Self::Resurrected => ("resurrected", "delivered again after its end was confirmed"),
            Self::Reordered => ("reordered", "one producer's messages in another order"),
            Self::KeyLockBroken => (
                "key-lock-broken",
                "a second message of a key while one was held",
            ),
            Self::Overtaken => (
                "overtaken",
                "a returned message was overtaken by its successor",
            ),
            Self::OverRedelivered => ("over-redelivered", "more failed deliveries than the limit"),
            Self::LeftBehind => ("left-behind", "in the dead-letter queue and in its source"),
            Self::CountRunsBack => ("count-runs-back", "the delivery-count fell"),
            Self::OffsetDivergence => ("offset-divergence", "two messages at one offset"),
            Self::Skipped => ("skipped", "a reader jumped over an acknowledged offset"),
            Self::OffsetRunsBack => ("offset-runs-back", "a reader went back"),
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.wording().0
    }

    /// What happened, in a few words.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.wording().1
    }
}

/// What a history shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong and nothing is open.
    Valid,
    /// A rule was broken.
    Invalid,
    /// Nothing is wrong, but some queue was not drained, so loss cannot be excluded.
    Unknown,
}

/// The verdict with its reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, with the messages concerned.
    pub errors: BTreeMap<Class, Vec<String>>,
    /// Acknowledged messages of queues that were not drained.
    pub undecided: usize,
    /// Messages that were acknowledged.
    pub acknowledged: usize,
    /// Deliveries.
    pub deliveries: usize,
    /// Deliveries again after an end that a fault may have swallowed.
    pub legal_duplicates: usize,
}

impl Report {
    /// The verdict alone.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.errors.is_empty(), self.undecided) {
            (false, _) => Verdict::Invalid,
            (true, 0) => Verdict::Valid,
            (true, _) => Verdict::Unknown,
        }
    }

    pub(super) fn add(&mut self, class: Class, text: String) {
        self.errors.entry(class).or_default().push(text);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict() {
            Verdict::Valid => "valid",
            Verdict::Invalid => "invalid",
            Verdict::Unknown => "unknown",
        };
        write!(
            f,
            "{verdict}: {} acknowledged, {} deliveries, {} legal duplicates, {} undecided",
            self.acknowledged, self.deliveries, self.legal_duplicates, self.undecided
        )?;
        for (class, found) in &self.errors {
            write!(
                f,
                "\n{} ({}): {}",
                class.name(),
                found.len(),
                class.meaning()
            )?;
            for text in found.iter().take(5) {
                write!(f, "\n  {text}")?;
            }
        }
        Ok(())
    }
}

/// Judges a history.
#[must_use]
pub fn check(events: &[Event]) -> Report {
    let mut report = Report::default();
    let mut tables = Tables::default();
    tables.fill(events, &mut report);
    report.deliveries = tables.given.len();
    for (m, given) in &tables.by_message {
        check_deliveries(&tables, m, given, &mut report);
    }
    for (m, sent) in &tables.sent {
        if tables.rules_of(sent.q).is_log {
            report.acknowledged += usize::from(sent.answer == Some(Answer::Ok));
            continue;
        }
        let main = tables.main_of(m, sent);
        check_owners(&tables, m, &main, &mut report);
        check_attempts(&tables, m, sent, &main, &mut report);
        check_end(&tables, m, sent, &mut report);
    }
    check_keys(&tables, &mut report);
    log::check(&tables, &mut report);
    report
}

/// Each delivery by itself: was it sent, is it the same, does it belong here?
fn check_deliveries(tables: &Tables<'_>, m: &str, given: &[usize], report: &mut Report) {
    let Some(sent) = tables.sent.get(m) else {
        for _ in given {
            report.add(Class::Phantom, format!("{m} was never sent"));
        }
        return;
    };
    let dlq = tables.rules_of(sent.q).dlq;
    for given in given.iter().map(|at| &tables.given[*at]) {
        if given.q != sent.q && Some(given.q) != dlq {
            let text = format!("{m} was sent to {} and seen on {}", sent.q, given.q);
            report.add(Class::Misrouted, text);
        }
        if given.t < sent.first_t {
            report.add(
                Class::Phantom,
                format!("{m} was delivered before it was sent"),
            );
        }
        if given.h != sent.h {
            report.add(Class::Corrupt, m.to_owned());
        }
        if sent.answer == Some(Answer::Fail) {
            report.add(Class::RejectedButSeen, m.to_owned());
        }
    }
}

/// Each delivery and its successor: one owner at a time, nothing comes back after its end, counts do not fall.
fn check_owners(tables: &Tables<'_>, m: &str, main: &[&Given<'_>], report: &mut Report) {
    for pair in main.windows(2) {
        let (first, next) = (pair[0], pair[1]);
        if !tables.is_freed(first, next.t) {
            let text = format!("{m} was with {} and given to {}", first.p, next.p);
            report.add(Class::DoubleDelivery, text);
        }
        if let Some(outcome) = first.outcome
            && outcome.is_terminal()
        {
            let settled_t = first.settled_t.unwrap_or(u64::MAX);
            let may_be_lost = tables.is_gone_between(first.p, settled_t, next.t)
                || tables.is_crash_between(settled_t, next.t);
            if first.confirmed_t.is_some_and(|t| t <= next.t) {
                let text = format!("{m} after a confirmed {outcome:?}");
                report.add(Class::Resurrected, text);
            } else if may_be_lost {
                report.legal_duplicates += 1;
            } else {
                report.add(Class::Duplicate, format!("{m} after {outcome:?}"));
            }
        }
        if let (Some(before), Some(after)) = (first.c, next.c)
            && after < before
        {
            report.add(Class::CountRunsBack, format!("{m}: {before}, then {after}"));
        }
    }
}

/// The limit of attempts, and the move to the dead-letter queue.
fn check_attempts(
    tables: &Tables<'_>,
    m: &str,
    sent: &Sent<'_>,
    main: &[&Given<'_>],
    report: &mut Report,
) {
    let rules = tables.rules_of(sent.q);
    let Some(last) = main.last() else {
        return;
    };
    if let Some(max) = rules.max.filter(|max| *max > 0) {
        let is_failed = |given: &&&Given<'_>| match given.outcome {
            Some(outcome) => outcome == Outcome::Failed,
            None => tables.is_gone_between(given.p, given.t, u64::MAX),
        };
        let failed = main[..main.len() - 1].iter().filter(is_failed).count() as u64;
        if failed >= max {
            let text = format!("{m} again after {failed} failures, the limit is {max}");
            report.add(Class::OverRedelivered, text);
        }
    }
    let dead = tables.by_message[m]
        .iter()
        .map(|at| &tables.given[*at])
        .find(|given| Some(given.q) == rules.dlq);
    if let Some(dead) = dead
        && last.t > dead.t
        && !tables.is_crash_between(dead.t, last.t)
    {
        report.add(Class::LeftBehind, m.to_owned());
    }
}

/// What was acknowledged must have come to an end, once its queue is empty.
fn check_end(tables: &Tables<'_>, m: &str, sent: &Sent<'_>, report: &mut Report) {
    if sent.answer != Some(Answer::Ok) {
        return;
    }
    report.acknowledged += 1;
    let is_volatile = !sent.dur && tables.is_crash_between(sent.first_t, u64::MAX);
    let is_purged = tables
        .purged
        .get(sent.q)
        .is_some_and(|times| has_between(times, sent.first_t, u64::MAX));
    if is_volatile || is_purged || tables.expired.contains(m) {
        return;
    }
    let dlq = tables.rules_of(sent.q).dlq;
    let given = tables.by_message.get(m).map_or(&[][..], Vec::as_slice);
    let is_over = given.iter().any(|at| match tables.given[*at].outcome {
        Some(Outcome::Accepted) => true,
        Some(Outcome::Rejected | Outcome::Undeliverable) => dlq.is_none(),
        _ => false,
    });
    if is_over {
        return;
    }
    let is_drained =
        tables.drained.contains(sent.q) && dlq.is_none_or(|dlq| tables.drained.contains(dlq));
    if !is_drained {
        report.undecided += 1;
    } else if given.is_empty() {
        report.add(Class::Lost, m.to_owned());
    } else {
        report.add(
            Class::Stuck,
            format!("{m}, delivered {} times", given.len()),
        );
    }
}

/// Deliveries of one queue and key, by message.
type Keyed<'t> = BTreeMap<(&'t str, &'t str), Vec<(&'t str, &'t Sent<'t>, Vec<&'t Given<'t>>)>>;

fn check_keys(tables: &Tables<'_>, report: &mut Report) {
    let mut keyed: Keyed<'_> = BTreeMap::new();
    for (m, sent) in &tables.sent {
        let main = tables.main_of(m, sent);
        if let Some(k) = sent.k
            && !main.is_empty()
        {
            keyed.entry((sent.q, k)).or_default().push((m, sent, main));
        }
    }
    for ((q, k), messages) in &keyed {
        check_order(q, k, messages, report);
        if tables.rules_of(q).lock {
            check_lock(tables, q, k, messages, report);
        }
    }
}

/// One consumer sees one producer's messages of a key for the first time in the order in which they were sent.
fn check_order(
    q: &str,
    k: &str,
    messages: &[(&str, &Sent<'_>, Vec<&Given<'_>>)],
    report: &mut Report,
) {
    let mut firsts: BTreeMap<(&str, &str), Vec<(usize, &Sent<'_>)>> = BTreeMap::new();
    for (_, sent, main) in messages {
        let list = firsts.entry((main[0].p, sent.p)).or_default();
        list.push((main[0].at, *sent));
    }
    for list in firsts.values_mut() {
        list.sort_by_key(|(at, _)| *at);
        for pair in list.windows(2) {
            let (before, after) = (pair[0].1, pair[1].1);
            // A message that was sent twice may rightly come late.
            let is_plain = after.attempts == 1 && after.answer == Some(Answer::Ok);
            if after.n < before.n && is_plain {
                let (n, then) = (before.n.unwrap_or(0), after.n.unwrap_or(0));
                let text = format!("{q}, key {k}: {then} after {n}");
                report.add(Class::Reordered, text);
            }
        }
    }
}

/// One message of a key at a time, and what returns comes before its successors.
fn check_lock(
    tables: &Tables<'_>,
    q: &str,
    k: &str,
    messages: &[(&str, &Sent<'_>, Vec<&Given<'_>>)],
    report: &mut Report,
) {
    let mut all: Vec<(usize, usize, usize)> = Vec::new();
    for (index, (_, _, main)) in messages.iter().enumerate() {
        all.extend(
            main.iter()
                .enumerate()
                .map(|(nth, given)| (given.at, index, nth)),
        );
    }
    all.sort_unstable();
    let max = tables.rules_of(q).max.filter(|max| *max > 0);
    for pair in all.windows(2) {
        let ((_, held, nth), (at, next, _)) = (pair[0], pair[1]);
        let t = tables.given[at].t;
        if held == next {
            continue;
        }
        let (m, _, main) = &messages[held];
        let (given, successor) = (main[nth], messages[next].0);
        if tables.expired.contains(successor) {
            // It left as it was delivered, so that it may come later than its own successor came to somebody else.
            continue;
        }
        if !tables.is_freed(given, t) {
            let text = format!("{q}, key {k}: {successor} was given while {m} was held");
            report.add(Class::KeyLockBroken, text);
        }
        let returned = matches!(given.outcome, Some(Outcome::Released | Outcome::Failed))
            && given.settled_t.is_some_and(|settled| settled <= t);
        let is_used_up = max.is_some_and(|max| nth as u64 + 1 >= max);
        let is_purged = tables.purged.get(q).is_some_and(|times| {
            let settled_t = given.settled_t.unwrap_or(u64::MAX);
            has_between(times, settled_t, t)
        });
        if returned && !is_used_up && !is_purged {
            let text = format!("{q}, key {k}: {successor} overtook {m}");
            report.add(Class::Overtaken, text);
        }
    }
}
