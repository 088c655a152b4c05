//! Runs scripts on beds, and a probe behind each: other connections must go on working.

use crate::bed::Bed;
use crate::kit::{Env, Kit, SharedBed};
use crate::script::{Done, Failure, Need, Script};
use crate::wire::message;
use std::cell::RefCell;
use std::rc::Rc;

/// What became of a script.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// Every check held.
    Pass,
    /// The broker broke a clause: what it did, and the conversation.
    Fail(String, Vec<String>),
    /// The broker or the bed lacks what the script needs.
    NotSupported(String),
}

/// A script and its verdict.
#[derive(Clone)]
pub struct Outcome {
    /// The script.
    pub script: Script,
    /// What became of it.
    pub verdict: Verdict,
}

/// Runs one script on a bed. The error says that the broker cannot be reached at all.
pub fn run_one(bed: &SharedBed, env: &Rc<Env>, script: Script) -> Result<Outcome, String> {
    if let Some(reason) = lacks(bed, env, script) {
        return Ok(Outcome {
            script,
            verdict: Verdict::NotSupported(reason),
        });
    }
    let mut kit = Kit::new(Rc::clone(bed), Rc::clone(env), script.id);
    let result = (script.run)(&mut kit).and_then(|()| probe(&mut kit));
    let verdict = match result {
        Ok(()) => Verdict::Pass,
        Err(Failure::Broke(what)) => Verdict::Fail(what, kit.trace.borrow().clone()),
        Err(Failure::Unsupported(reason)) => Verdict::NotSupported(reason),
        Err(Failure::Unreachable(reason)) => return Err(format!("{}: {reason}", script.id)),
    };
    Ok(Outcome { script, verdict })
}

/// Wraps a bed for sharing between the peers of a script.
pub fn shared(bed: impl Bed + 'static) -> SharedBed {
    Rc::new(RefCell::new(Box::new(bed)))
}

fn lacks(bed: &SharedBed, env: &Env, script: Script) -> Option<String> {
    script.needs.iter().find_map(|need| match need {
        Need::Missing if env.missing.is_none() => Some("no missing address is known".to_string()),
        Need::Login if !matches!(env.login, crate::kit::Login::Plain(..)) => {
            Some("no user and password were given".to_string())
        }
        Need::Anonymous if !env.anonymous => Some("SASL ANONYMOUS is not offered".to_string()),
        Need::VirtualTime if !bed.borrow().is_virtual() => {
            Some("would wait for minutes of real time".to_string())
        }
        _ => None,
    })
}

/// Publishes and receives one message over a fresh connection.
fn probe(kit: &mut Kit) -> Done {
    let step = |e: Failure| match e {
        Failure::Broke(what) => Failure::Broke(format!("probe behind the script: {what}")),
        other => other,
    };
    probe_once(kit).map_err(step)
}

fn probe_once(kit: &mut Kit) -> Done {
    let mut peer = kit.session_as("probe")?;
    peer.sender("probe", 0, "probe")?;
    peer.receiver("probe", 1, "probe")?;
    peer.credit_wait(0)?;
    peer.publish(0, 0, &message::data(b"probe"));
    crate::same!(
        peer.outcome(0)?,
        "accepted",
        "outcome of the probe's message"
    );
    peer.credit(1, 1);
    let got = peer.must_get("probe")?;
    crate::same!(got.text(), "probe", "what the probe got back");
    peer.settle(got.id, "accepted");
    peer.close()
}
