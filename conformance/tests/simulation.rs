//! The simulator over many seeds, and what makes it trustworthy: equal seeds give equal runs, and a crash at every moment
//! at which the store could lose something loses nothing.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes, sockets, files and clocks"
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use qq_conformance::history::{Verdict, check};
use qq_conformance::sim::{Fault, Plan, Report, Size, run};

/// Seeds of the test that runs with all others. More: `qq-sim --seeds 0..3000`.
const SEEDS: u64 = 300;
/// Further seeds that found a mistake once, with the kind of trouble that was the newest then.
const FOUND: [(u64, Fault); 15] = [
    (413, Fault::Delays),
    (944, Fault::Delays),
    (1522, Fault::Delays),
    (443, Fault::Qwerq),
    (597, Fault::Qwerq),
    (3630, Fault::Qwerq),
    (5987, Fault::Qwerq),
    (6777, Fault::Qwerq),
    (639, Fault::Qwerq),
    (781, Fault::Qwerq),
    (792, Fault::Qwerq),
    (1985, Fault::Qwerq),
    (2248, Fault::Qwerq),
    (2597, Fault::Qwerq),
    (2298, Fault::Qwerq),
];

/// Runs plans on all processors; returns what failed, with the command that repeats it.
fn run_all(plans: &[Plan], size: Size) -> (Vec<String>, Vec<Report>) {
    let next = AtomicU64::new(0);
    let failed = Mutex::new(Vec::new());
    let reports = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let report = run(plan);
                    if let Some(violation) = &report.violation {
                        let arguments = plan.arguments(size);
                        let text = format!("{}\n  repeat: qq-sim {arguments}", violation.text);
                        failed.lock().expect("no panic").push(text);
                    }
                    reports.lock().expect("no panic").push(report);
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic");
    (failed, reports.into_inner().expect("no panic"))
}

#[test]
fn seeds_break_no_rule() {
    let found = FOUND.map(|(seed, newest)| Plan::until(seed, Size::Short, newest));
    let plans: Vec<Plan> = (0..SEEDS)
        .map(|seed| Plan::new(seed, Size::Short))
        .chain(found)
        .collect();
    let (failed, reports) = run_all(&plans, Size::Short);
    assert!(
        failed.is_empty(),
        "{} of {} seeds:\n{}",
        failed.len(),
        plans.len(),
        failed.join("\n")
    );
    let operations: u64 = reports.iter().map(|report| report.operations).sum();
    let crashes: u32 = reports.iter().map(|report| report.crashes).sum();
    assert!(
        operations > SEEDS * 200 && crashes > 100,
        "{operations} operations, {crashes} crashes"
    );
}

#[test]
fn a_long_run_has_what_it_promises() {
    let plans: Vec<Plan> = (0..6).map(|seed| Plan::new(seed, Size::Long)).collect();
    let (failed, reports) = run_all(&plans, Size::Long);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    for report in &reports {
        assert!(
            report.operations >= 2_000,
            "{} operations",
            report.operations
        );
        assert!(report.crashes >= 5, "{} crashes", report.crashes);
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in [1, 8, 33] {
        let plan = Plan::new(seed, Size::Short);
        let (first, second) = (run(&plan), run(&plan));
        assert_eq!(first.history, second.history, "seed {seed}");
        assert_eq!(first.virtual_ms, second.virtual_ms);
    }
    let other = run(&Plan::new(2, Size::Short)).history;
    assert_ne!(
        run(&Plan::new(1, Size::Short)).history,
        other,
        "the seed changes nothing"
    );
}

/// A busy run without any other trouble, for crashes at chosen moments.
fn plain_run() -> Plan {
    let mut plan = Plan::new(12, Size::Short);
    plan.faults = vec![Fault::Outcomes, Fault::Second];
    plan.clients = vec![0, 1, 2];
    plan.end_after(200);
    plan
}

#[test]
fn a_crash_at_any_boundary_of_the_store_loses_nothing() {
    let boundaries = run(&plain_run()).boundaries;
    assert!(boundaries > 50, "{boundaries} boundaries");
    let plans: Vec<Plan> = (1..=boundaries)
        .map(|boundary| Plan {
            crash_at: Some(boundary),
            ..plain_run()
        })
        .collect();
    let (failed, reports) = run_all(&plans, Size::Short);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // The last boundaries lie behind the point from which on everything is healed.
    let crashed = reports.iter().filter(|report| report.crashes == 1).count();
    assert!(crashed > 30, "{crashed} of {boundaries} runs crashed");
}

#[test]
fn histories_of_runs_are_valid_and_not_empty() {
    let mut deliveries = 0;
    for seed in 0..10 {
        let report = check(&run(&Plan::new(seed, Size::Short)).history);
        assert_eq!(report.verdict(), Verdict::Valid, "seed {seed}: {report}");
        deliveries += report.deliveries;
    }
    assert!(deliveries > 500, "{deliveries} deliveries");
}
