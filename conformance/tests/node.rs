//! Every script on the broker in process, a fresh node each, in virtual time.
//!
//! Time is virtual and maps have a fixed seed, so a failure here repeats exactly.

use qq_conformance::bed::node::{Delivery, NodeBed, NodeOptions};
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

fn run_all(scripts: Vec<Script>, needs_login: bool, delivery: Delivery) {
    let mut outcomes = vec![];
    for script in scripts {
        let options = NodeOptions {
            needs_login,
            delivery,
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

fn open_door() -> Vec<Script> {
    let chosen: Vec<_> = scripts::all()
        .into_iter()
        .filter(|s| !s.needs.contains(&Need::Login))
        .collect();
    assert!(chosen.len() > 150, "{} scripts", chosen.len());
    chosen
}

#[test]
fn scripts_as_sent() {
    run_all(open_door(), false, Delivery::AsSent);
}

/// As a socket does it when the broker is slow: many frames in one read.
#[test]
fn scripts_joined() {
    run_all(open_door(), false, Delivery::Together);
}

/// As a socket does it when the line is slow: frames cut anywhere.
#[test]
fn scripts_in_pieces() {
    run_all(open_door(), false, Delivery::Pieces(61));
}

#[test]
fn scripts_with_login() {
    let chosen: Vec<_> = scripts::all()
        .into_iter()
        .filter(|s| !s.needs.contains(&Need::Anonymous))
        .collect();
    run_all(chosen, true, Delivery::AsSent);
}
