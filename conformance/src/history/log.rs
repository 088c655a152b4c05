//! The rules of logs: an offset is one message, readers see all of it in order.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{Class, Report};
use super::tables::{Answer, Given, Tables};

/// One log: what was read, by offset and by message.
#[derive(Default)]
struct Log<'t> {
    at: BTreeMap<u64, &'t str>,
    reads: BTreeMap<&'t str, Vec<&'t Given<'t>>>,
}

pub(super) fn check(tables: &Tables<'_>, report: &mut Report) {
    let mut logs: BTreeMap<&str, Log<'_>> = BTreeMap::new();
    for (m, given) in &tables.by_message {
        for given in given.iter().map(|at| &tables.given[*at]) {
            let Some(off) = given.off.filter(|_| tables.rules_of(given.q).is_log) else {
                continue;
            };
            let log = logs.entry(given.q).or_default();
            let first = *log.at.entry(off).or_insert(m);
            if first != *m {
                let text = format!("{}: offset {off} is {first} and {m}", given.q);
                report.add(Class::OffsetDivergence, text);
            }
            log.reads.entry(given.p).or_default().push(given);
        }
    }
    for (q, log) in &logs {
        check_messages(tables, q, log, report);
        check_readers(tables, q, log, report);
    }
}

fn check_messages(tables: &Tables<'_>, q: &str, log: &Log<'_>, report: &mut Report) {
    let mut offsets: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (off, m) in &log.at {
        offsets.entry(m).or_default().insert(*off);
    }
    if tables.rules_of(q).dedup {
        for (m, offsets) in offsets.iter().filter(|(_, offsets)| offsets.len() > 1) {
            report.add(Class::Duplicate, format!("{q}: {m} is at {offsets:?}"));
        }
    }
    let top = log.at.keys().next_back().copied().unwrap_or(0);
    for (m, sent) in tables.sent.iter().filter(|(_, sent)| sent.q == q) {
        let is_due = match sent.off {
            Some(off) => off <= top,
            None => tables.drained.contains(q),
        };
        if sent.answer == Some(Answer::Ok) && is_due && !offsets.contains_key(m) {
            report.add(Class::Lost, format!("{q}: {m} is not in the log"));
        }
    }
}

fn check_readers(tables: &Tables<'_>, q: &str, log: &Log<'_>, report: &mut Report) {
    let acknowledged: BTreeSet<u64> = tables
        .sent
        .values()
        .filter(|sent| sent.q == q && sent.answer == Some(Answer::Ok))
        .filter_map(|sent| sent.off)
        .collect();
    for (p, reads) in &log.reads {
        let mut reads: Vec<_> = reads
            .iter()
            .map(|given| (given.at, given.t, given.off))
            .collect();
        reads.sort_unstable();
        for pair in reads.windows(2) {
            let ((_, t, Some(off)), (_, next_t, Some(next))) = (pair[0], pair[1]) else {
                continue;
            };
            if tables.is_gone_between(p, t, next_t) {
                continue;
            }
            if next <= off {
                let text = format!("{q}: {p} read {off}, then {next}");
                report.add(Class::OffsetRunsBack, text);
            } else if acknowledged.range(off + 1..next).next().is_some() {
                let text = format!("{q}: {p} jumped from {off} to {next}");
                report.add(Class::Skipped, text);
            }
        }
    }
}
