//! Every script on the broker in process, a fresh node each, in virtual time.
//!
//! Time is virtual and maps have a fixed seed, so a failure here repeats exactly.

use qq_conformance::bed::node::{NodeBed, NodeOptions};
use qq_conformance::kit::{Env, Login};
use qq_conformance::report;
use qq_conformance::run::{Verdict, run_one, shared};
use qq_conformance::script::{Need, Script};
use qq_conformance::scripts;
use std::rc::Rc;

/// Scripts that this broker answers with "not supported", each with its reason.
const NOT_SUPPORTED: &[(&str, &str)] = &[];

fn env(needs_login: bool) -> Env {
    let login = Login::Plain("guest".into(), "guest".into());
    Env {
        login: if needs_login { login } else { Login::None },
        missing: Some("nope".into()),
        anonymous: !needs_login,
        ..Env::fresh()
    }
}

fn run_all(scripts: Vec<Script>, needs_login: bool) {
    let mut outcomes = vec![];
    for script in scripts {
        let options = NodeOptions {
            needs_login,
            ..NodeOptions::default()
        };
        let bed = shared(NodeBed::new(options));
        let env = Rc::new(env(needs_login));
        outcomes.push(run_one(&bed, &env, script).expect("a node can be reached"));
    }
    let unexpected = |id: &str| !NOT_SUPPORTED.iter().any(|(known, _)| *known == id);
    let bad: Vec<_> = outcomes
        .into_iter()
        .filter(|o| match o.verdict {
            Verdict::Pass => false,
            Verdict::Fail(..) => true,
            Verdict::NotSupported(_) => unexpected(o.script.id),
        })
        .collect();
    assert!(bad.is_empty(), "{}", report::text(&bad, true));
}

#[test]
fn scripts_without_login() {
    let chosen: Vec<_> = scripts::all()
        .into_iter()
        .filter(|s| !s.needs.contains(&Need::Login))
        .collect();
    assert!(chosen.len() > 150, "{} scripts", chosen.len());
    run_all(chosen, false);
}

#[test]
fn scripts_with_login() {
    let chosen: Vec<_> = scripts::all()
        .into_iter()
        .filter(|s| !s.needs.contains(&Need::Anonymous))
        .collect();
    run_all(chosen, true);
}
