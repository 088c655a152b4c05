//! System calls of the store that fail or take long, injected by `strace` at the kernel's door.

use super::Outcome;
use super::client::Lost;
use super::daemon::{Daemon, PATIENCE, Setup};
use super::judge::{Judged, judge};
use super::kill::{QUEUES, plans};
use super::load::{Load, Seen, drain_all};
use super::order;
use super::record::{Recorder, What, merge};
use super::trace::{self, Tracer};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Messages of each producer in a scene that ends by itself.
const MESSAGES: u64 = 2_000;

/// What a daemon did whose calls fail for good.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Its exit code; `None` when it lived on, because what failed did not matter: no call failed,
    /// or only one on the folder of the store, which was synced again before anything was accepted.
    pub code: Option<i32>,
    /// What failed.
    pub failed: Vec<String>,
    /// Whether it failed before it took a client.
    pub is_at_start: bool,
    /// Messages accepted.
    pub accepted: u64,
    /// Clients that were told why.
    pub told: usize,
    /// Clients.
    pub clients: usize,
}

/// The `nth` sync of a thread fails with EIO under load: the daemon ends with an error, tells its
/// clients, has accepted nothing that is not safe, and has everything after a new start. On a
/// `fresh` store the first syncs are those that make it.
pub fn sync_fails(setup: &Setup, nth: u32, is_fresh: bool) -> Outcome<Stopped> {
    let inject = format!("inject=fdatasync,fsync:error=EIO:when={nth}");
    stops(setup, &inject, is_fresh)
}

/// Writes to the store fail with EIO from the `nth` of a thread on, for good.
pub fn writes_fail(setup: &Setup, nth: u32, is_fresh: bool) -> Outcome<Stopped> {
    let inject = format!("inject=pwrite64:error=EIO:when={nth}+");
    stops(setup, &inject, is_fresh)
}

fn stops(setup: &Setup, inject: &str, is_fresh: bool) -> Outcome<Stopped> {
    if !is_fresh {
        make_store(setup)?;
    }
    let mut traced = setup.clone();
    let path = setup.dir.join("trace");
    let options = [
        "-yy",
        "-xx",
        "-s",
        "4000000",
        "-e",
        trace::CHANGES,
        "-e",
        inject,
    ];
    trace::wrap(&mut traced, &options, &path)?;
    let mut daemon = traced.spawn()?;
    let mut stopped = Stopped {
        is_at_start: true,
        ..Stopped::default()
    };
    let epoch = Instant::now();
    let mut nemesis = Recorder::new(epoch, "nemesis");
    let mut events = vec![];
    if daemon.wait_ready().is_ok() {
        let tracer = Tracer::of(&daemon)?;
        let (mut producers, consumers) = plans(0);
        producers.iter_mut().for_each(|p| p.count = Some(MESSAGES));
        // Ends with the daemon, or when all is sent.
        let seen = Load::start(daemon.port, epoch, &producers, &consumers).join();
        nemesis.note(What::Harm("disk"));
        // A daemon that lives on without a reason is found below.
        if seen.accepted() < MESSAGES * producers.len() as u64 {
            stopped.code = daemon.wait(PATIENCE)?.code();
        } else {
            daemon.kill()?;
        }
        stopped.is_at_start = false;
        stopped.accepted = seen.accepted();
        count_told(&seen, &mut stopped);
        tracer.wait()?;
        let ports = seen.produced.iter().zip(&producers);
        let ports = ports.filter(|(p, _)| p.accepted > 0);
        let ports: HashMap<u16, u32> = ports.map(|(p, plan)| (p.local_port, plan.id)).collect();
        order::check(
            &trace::read(&path)?,
            &setup.data().display().to_string(),
            &ports,
        )?;
        events = seen.events;
    } else {
        stopped.code = daemon.wait(PATIENCE)?.code();
    }
    stopped.failed = failed(&path)?;
    let folder = setup.data().display().to_string();
    let is_harmless = stopped.failed.iter().all(|target| *target == folder);
    let is_well = match stopped.code {
        Some(code) => code != 0,
        None => is_harmless,
    };
    if !is_well {
        return Err(format!("{inject}: {stopped:?}\n{}", daemon.log()));
    }
    let daemon = setup.start()?;
    nemesis.note(What::Healed("disk"));
    finish(&daemon, epoch, nemesis, events)?;
    Ok(stopped)
}

/// A store that is there, whose daemon ended as it should.
fn make_store(setup: &Setup) -> Outcome<()> {
    let mut daemon = setup.start()?;
    super::sockets::serves(daemon.port, "made")?;
    daemon.signal("TERM")?;
    daemon.wait(PATIENCE).map(|_| ())
}

/// Paths of the calls that were made to fail.
fn failed(trace: &std::path::Path) -> Outcome<Vec<String>> {
    let calls = trace::read(trace)?.into_iter();
    let failed = calls.filter(|c| c.is_injected).map(|c| c.target);
    Ok(failed.collect())
}

fn count_told(seen: &Seen, stopped: &mut Stopped) {
    let produced = seen.produced.iter().map(|p| p.lost.as_ref());
    let all: Vec<_> = produced
        .chain(seen.consumed.iter().map(|c| c.lost.as_ref()))
        .collect();
    stopped.clients = all.len();
    let told = all.iter().filter(|lost| match lost {
        Some(Lost::Closed(condition)) => !condition.is_empty(),
        _ => false,
    });
    stopped.told = told.count();
}

fn finish(
    daemon: &Daemon,
    epoch: Instant,
    nemesis: Recorder,
    mut events: Vec<Vec<super::record::Event>>,
) -> Outcome<Judged> {
    drain_all(daemon.port, epoch, 8, &QUEUES, &mut events)?;
    events.push(nemesis.events);
    judge(&merge(events)).map_err(|e| format!("{e}\n{}", daemon.log()))
}

/// What a daemon did whose calls failed for a while, or took long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Survived {
    /// Messages accepted.
    pub accepted: u64,
    /// Messages refused.
    pub refused: u64,
    /// The longest time to an answer.
    pub slowest: Duration,
    /// Resident memory at its highest, KiB.
    pub resident_kib: u64,
    /// The judgement after a new start.
    pub verdict: Judged,
}

/// Writes `first` to `last` of each thread find no room: the daemon lives, answers everything, and
/// has everything that it accepted after a kill.
pub fn no_room_for_a_while(setup: &Setup, first: u32, last: u32) -> Outcome<Survived> {
    let inject = format!("inject=pwrite64:error=ENOSPC:when={first}..{last}");
    survives(setup, "pwrite64", &inject, Duration::from_secs(3))
}

/// One write fails with EIO and works when repeated.
pub fn one_write_fails(setup: &Setup, nth: u32) -> Outcome<Survived> {
    let inject = format!("inject=pwrite64:error=EIO:when={nth}");
    survives(setup, "pwrite64", &inject, Duration::from_secs(2))
}

/// Every sync takes `delay` longer.
pub fn slow_disk(setup: &Setup, delay: Duration, load: Duration) -> Outcome<Survived> {
    let calls = "fdatasync,fsync";
    let inject = format!("inject={calls}:delay_enter={}", delay.as_micros());
    survives(setup, calls, &inject, load)
}

fn survives(setup: &Setup, calls: &str, inject: &str, load_for: Duration) -> Outcome<Survived> {
    let mut traced = setup.clone();
    let only = format!("trace={calls}");
    let options = ["--seccomp-bpf", "-e", &only, "-e", inject];
    trace::wrap(&mut traced, &options, &setup.dir.join("trace"))?;
    let mut daemon = traced.start()?;
    let epoch = Instant::now();
    let mut nemesis = Recorder::new(epoch, "nemesis");
    let (producers, consumers) = plans(0);
    let load = Load::start(daemon.port, epoch, &producers, &consumers);
    let until = Instant::now() + load_for;
    let mut survived = Survived::default();
    while Instant::now() < until {
        survived.resident_kib = survived.resident_kib.max(daemon.resident_kib());
        std::thread::sleep(Duration::from_millis(20));
    }
    let seen = load.stop();
    if let Some(lost) = seen.produced.iter().find_map(|p| p.lost.as_ref()) {
        return Err(format!(
            "{inject}: a producer was not served: {lost}\n{}",
            daemon.log()
        ));
    }
    survived.accepted = seen.accepted();
    survived.refused = seen.refused();
    survived.slowest = seen.slowest();
    nemesis.note(What::Harm("kill9"));
    daemon.kill()?;
    let daemon = setup.start()?;
    nemesis.note(What::Healed("kill9"));
    survived.verdict = finish(&daemon, epoch, nemesis, seen.events)?;
    Ok(survived)
}
