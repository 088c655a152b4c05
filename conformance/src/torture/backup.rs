//! A backup taken while the daemon is under load, restored elsewhere: it holds everything that was
//! accepted before it began, and is a state that the daemon was in.

use super::Outcome;
use super::daemon::Setup;
use super::load::{Load, drain_all};
use super::producer::ProducerPlan;
use super::record::{MessageId, What, merge};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const QUEUES: [&str; 2] = ["left", "right"];

/// What a backup held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackedUp {
    /// Messages accepted before it began.
    pub before: u64,
    /// Messages in it.
    pub held: u64,
    /// Messages accepted in the whole run.
    pub accepted: u64,
    /// How long it took.
    pub took: Duration,
}

/// Takes a backup after `warm_up` of load, goes on for as long, restores into a second daemon and
/// compares.
pub fn backup(setup: &Setup, warm_up: Duration) -> Outcome<BackedUp> {
    let daemon = setup.start()?;
    let epoch = Instant::now();
    let producers = [0, 1, 2, 3].map(|id| ProducerPlan::new(id, QUEUES[id as usize % 2]));
    let load = Load::start(daemon.port, epoch, &producers, &[]);
    std::thread::sleep(warm_up);
    let began_ns = u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let began = Instant::now();
    let target = setup.dir.join("backup");
    let (code, said) = setup.run(&["--backup", &target.display().to_string()])?;
    if code != Some(0) {
        return Err(format!("--backup: {code:?}\n{said}"));
    }
    let mut result = BackedUp {
        took: began.elapsed(),
        ..BackedUp::default()
    };
    std::thread::sleep(warm_up);
    let seen = load.stop();
    result.accepted = seen.accepted();
    let mut elsewhere = setup.clone();
    elsewhere.dir = setup.dir.join("elsewhere");
    let (code, said) = elsewhere.run(&["--restore", &target.display().to_string()])?;
    if code != Some(0) {
        return Err(format!("--restore: {code:?}\n{said}"));
    }
    let second = elsewhere.start()?;
    let mut events = vec![];
    result.held = drain_all(second.port, epoch, 0, &QUEUES, &mut events)?;
    let mut held: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for event in merge(events) {
        if let What::Received { m, .. } = event.what {
            held.entry(m.producer()).or_default().insert(m.n());
        }
    }
    let events = merge(seen.events).into_iter();
    let early = events.take_while(|e| e.at_ns < began_ns);
    let accepted = early.filter_map(|e| match e.what {
        What::Sent(m) => Some(m),
        _ => None,
    });
    for MessageId(number) in accepted {
        let m = MessageId(number);
        result.before += 1;
        if !held
            .get(&m.producer())
            .is_some_and(|all| all.contains(&m.n()))
        {
            return Err(format!(
                "{m:?} was accepted before the backup and is not in it"
            ));
        }
    }
    for (producer, numbers) in &held {
        let newest = numbers.last().copied().unwrap_or(0);
        if newest + 1 != numbers.len() as u64 {
            return Err(format!(
                "producer {producer}: {} of the first {newest}",
                numbers.len()
            ));
        }
    }
    let (code, said) = setup.run(&["--restore", &target.display().to_string()])?;
    match code {
        // A store that is there is never overwritten.
        Some(0) => Err(format!("a restore over a store was not refused\n{said}")),
        _ => Ok(result),
    }
}
