//! Every script over TCP against the real daemon, once for each runtime.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes, sockets, files and clocks"
)]

mod common;

use common::{Daemon, Flavour};
use qq_conformance::bed::tcp::TcpBed;
use qq_conformance::kit::{Env, Login};
use qq_conformance::report;
use qq_conformance::run::{Verdict, run_one, shared};
use qq_conformance::script::{Need, Script};
use qq_conformance::scripts;
use std::rc::Rc;

/// Scripts that do not run over TCP, or that this daemon answers with "not supported", and why.
const NOT_SUPPORTED: &[(&str, &str)] = &[
    (
        "HB-02",
        "takes minutes with the default idle time; `short_idle_time` runs it",
    ),
    ("HB-05", "minutes of real time; runs in process"),
    (
        "OP-02",
        "minutes of real time; runs in process, and tests/process.rs has the daemon's",
    ),
    ("TX-10", "minutes of real time; runs in process"),
];

fn run_all(daemon: &Daemon, login: Login, chosen: Vec<Script>, allowed: &[(&str, &str)]) {
    let env = Rc::new(Env {
        anonymous: login == Login::None,
        login,
        template: "{}".into(),
        missing: Some("conform-absent-queue".into()),
        run: "t".into(),
    });
    let mut bad = vec![];
    for script in chosen {
        let bed = shared(TcpBed::new("127.0.0.1", daemon.port));
        let outcome =
            run_one(&bed, &env, script).unwrap_or_else(|what| panic!("{what}\n{}", daemon.log()));
        let is_allowed = allowed.iter().any(|(id, _)| *id == script.id);
        match outcome.verdict {
            Verdict::Pass => {}
            Verdict::NotSupported(_) if is_allowed => {}
            _ => bad.push(outcome),
        }
    }
    assert!(
        bad.is_empty(),
        "{}\n{}",
        report::text(&bad, true),
        daemon.log()
    );
}

fn open_door(flavour: Flavour, name: &str) {
    let daemon = Daemon::start(flavour, name, "", "");
    let chosen = scripts::all()
        .into_iter()
        .filter(|s| !s.needs.contains(&Need::Login));
    run_all(&daemon, Login::None, chosen.collect(), NOT_SUPPORTED);
}

fn behind_login(flavour: Flavour, name: &str) {
    let extra = "[sasl]\nenabled = true\n[auth]\nusers_file = \"USERS\"\n";
    let daemon = Daemon::start(flavour, name, "", extra);
    let login = Login::Plain("guest".into(), "guest".into());
    // The rest does not depend on how a peer came in.
    let areas = ["header", "frame", "open", "sasl"];
    let chosen = scripts::all()
        .into_iter()
        .filter(|s| areas.contains(&s.area) && !s.needs.contains(&Need::Anonymous));
    run_all(&daemon, login, chosen.collect(), NOT_SUPPORTED);
}

fn short_idle_time(flavour: Flavour, name: &str) {
    let daemon = Daemon::start(flavour, name, "idle_timeout = \"1s\"", "");
    let chosen = scripts::all().into_iter().filter(|s| s.id == "HB-02");
    run_all(&daemon, Login::None, chosen.collect(), &[]);
}

#[test]
fn tokio_open_door() {
    open_door(Flavour::Tokio, "tokio-open");
}

#[test]
fn smol_open_door() {
    open_door(Flavour::Smol, "smol-open");
}

#[test]
fn tokio_behind_login() {
    behind_login(Flavour::Tokio, "tokio-login");
}

#[test]
fn smol_behind_login() {
    behind_login(Flavour::Smol, "smol-login");
}

#[test]
fn tokio_short_idle_time() {
    short_idle_time(Flavour::Tokio, "tokio-idle");
}

#[test]
fn smol_short_idle_time() {
    short_idle_time(Flavour::Smol, "smol-idle");
}
