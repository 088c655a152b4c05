//! The scorecard: per area what passed, with the rule's sentence for each failure; and its JSON.

use crate::clauses;
use crate::run::{Outcome, Verdict};
use serde_json::{Value, json};
use std::fmt::Write;

/// Numbers of passed, failed and unsupported scripts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Scripts that passed.
    pub passed: usize,
    /// Scripts that failed.
    pub failed: usize,
    /// Scripts that could not be run, or whose feature the broker lacks.
    pub unsupported: usize,
}

/// Counts verdicts.
pub fn tally<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Tally {
    let mut tally = Tally::default();
    for outcome in outcomes {
        match outcome.verdict {
            Verdict::Pass => tally.passed += 1,
            Verdict::Fail(..) => tally.failed += 1,
            Verdict::NotSupported(_) => tally.unsupported += 1,
        }
    }
    tally
}

fn areas(outcomes: &[Outcome]) -> Vec<&'static str> {
    let mut areas = vec![];
    for outcome in outcomes {
        if !areas.contains(&outcome.script.area) {
            areas.push(outcome.script.area);
        }
    }
    areas
}

/// The scorecard as text. With `trace` each failure shows the end of its conversation.
pub fn text(outcomes: &[Outcome], trace: bool) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<14} {:>6} {:>6} {:>14}",
        "area", "pass", "fail", "not supported"
    );
    for area in areas(outcomes) {
        let t = tally(outcomes.iter().filter(|o| o.script.area == area));
        let _ = writeln!(
            out,
            "{area:<14} {:>6} {:>6} {:>14}",
            t.passed, t.failed, t.unsupported
        );
    }
    let t = tally(outcomes);
    let _ = writeln!(
        out,
        "{:<14} {:>6} {:>6} {:>14}",
        "total", t.passed, t.failed, t.unsupported
    );
    for outcome in outcomes {
        match &outcome.verdict {
            Verdict::Pass => {}
            Verdict::NotSupported(reason) => {
                let _ = writeln!(out, "\n{} not supported: {reason}", outcome.script.id);
            }
            Verdict::Fail(what, lines) => {
                let script = &outcome.script;
                let _ = writeln!(
                    out,
                    "\n{} FAILED: {}\n  got: {what}",
                    script.id, script.what
                );
                for clause in script.clauses.iter().filter_map(|id| clauses::find(id)) {
                    let _ = writeln!(
                        out,
                        "  {} ({}): {}",
                        clause.id, clause.level, clause.sentence
                    );
                }
                for line in lines.iter().filter(|_| trace) {
                    let _ = writeln!(out, "    {line}");
                }
            }
        }
    }
    out
}

/// The scorecard as JSON.
pub fn json(target: &str, outcomes: &[Outcome]) -> Value {
    let t = tally(outcomes);
    let scripts: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            let (verdict, detail) = match &outcome.verdict {
                Verdict::Pass => ("pass", None),
                Verdict::Fail(what, _) => ("fail", Some(what)),
                Verdict::NotSupported(reason) => ("not-supported", Some(reason)),
            };
            json!({
                "id": outcome.script.id,
                "area": outcome.script.area,
                "what": outcome.script.what,
                "clauses": outcome.script.clauses,
                "verdict": verdict,
                "detail": detail,
            })
        })
        .collect();
    json!({
        "target": target,
        "passed": t.passed,
        "failed": t.failed,
        "not_supported": t.unsupported,
        "scripts": scripts,
    })
}
