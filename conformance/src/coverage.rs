//! The coverage table: which clauses have a script, which have none.

use crate::{clauses, scripts};
use std::fmt::Write;

/// Clauses that a test checks because a script cannot: (clause, test of this crate, or crate and test).
const TESTS: &[(&str, &str)] = &[
    (
        "2.5.6-d",
        "node_special::ids_near_the_wrap_and_an_early_flow",
    ),
    (
        "2.8.15-f",
        "node_special::a_full_queue_rejects_and_credit_returns",
    ),
    (
        "2.8.15-h",
        "node_special::a_queue_deleted_under_its_consumer",
    ),
    ("2.8.16-b", "process::drain_on_sigterm"),
    ("3.2.1-b", "torture_kill::killed_under_load"),
    ("3.2.1-h", "node_special::higher_priorities_first"),
    (
        "5.3.3.3-a",
        "qq-proto-amqp sasl::challenges_and_responses_take_turns_until_the_outcome",
    ),
    (
        "5.3.3.4-a",
        "qq-proto-amqp sasl::challenges_and_responses_take_turns_until_the_outcome",
    ),
];

/// The table as Markdown; `COVERAGE.md` holds a copy that a test keeps equal.
pub fn table() -> String {
    let scripts = scripts::all();
    let clauses = clauses::all();
    let checked_by = |id: &str| -> Vec<&'static str> {
        let by_script = scripts
            .iter()
            .filter(|s| s.clauses.contains(&id))
            .map(|s| s.id);
        by_script
            .chain(TESTS.iter().filter(|t| t.0 == id).map(|t| t.1))
            .collect()
    };
    let covered = clauses
        .iter()
        .filter(|c| !checked_by(c.id).is_empty())
        .count();
    let strict = |c: &&clauses::Clause| c.level.starts_with("must");
    let musts = clauses.iter().filter(strict).count();
    let musts_covered = clauses
        .iter()
        .filter(strict)
        .filter(|c| !checked_by(c.id).is_empty())
        .count();
    let mut out = String::from("# Coverage of the AMQP 1.0 clauses\n\n");
    let _ = writeln!(
        out,
        "Made by `amqp-conform --coverage`; a test keeps this file equal to it.\n\n\
         {} clauses, {covered} with a script or test; of {musts} at level must or must-not, \
         {musts_covered}. {} scripts.\n",
        clauses.len(),
        scripts.len(),
    );
    out.push_str("Parts: 1 types, 2 transport, 3 messaging, 4 transactions, 5 security.\n");
    let heading = "| clause | level | who | rule | scripts |\n| --- | --- | --- | --- | --- |\n";
    for (title, is_wanted) in [("Without a script", false), ("With a script", true)] {
        let _ = write!(out, "\n## {title}\n\n{heading}");
        for clause in &clauses {
            let by = checked_by(clause.id);
            if by.is_empty() == is_wanted {
                continue;
            }
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} |",
                clause.id,
                clause.level,
                clause.who,
                clause.sentence,
                by.join(", ")
            );
        }
    }
    out
}
