//! The planted bugs: where the code under test makes mistakes on purpose, the simulator must say so. Most builds have
//! none of them; then this checks that they are really not there. The whole list: `qq-sim --planted`, in a build with
//! `RUSTFLAGS='--cfg qq_planted'`.

use qq_conformance::sim::{Bug, Plan, Size, run};

#[cfg(not(qq_planted))]
#[test]
fn plain_builds_have_no_planted_bug() {
    for bug in Bug::ALL {
        let mut plan = Plan::new(3, Size::Short);
        plan.end_after(60);
        plan.planted = Some(bug);
        let report = run(&plan);
        assert_eq!(report.violation, None, "{bug:?}");
    }
}

#[cfg(qq_planted)]
#[test]
fn every_planted_bug_is_found() {
    let is_found = |bug: &Bug| {
        (0..300).any(|seed| {
            let mut plan = Plan::new(seed, Size::Short);
            plan.planted = Some(*bug);
            run(&plan).violation.is_some()
        })
    };
    let missed: Vec<Bug> = Bug::ALL.into_iter().filter(|bug| !is_found(bug)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
