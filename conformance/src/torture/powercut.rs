//! The power cut at every write and every sync of a workload.
//!
//! One run of a real daemon is traced. Then its disk is replayed call by call ([`super::disk`]);
//! after each call the files are made as a power cut may leave them, opened by the store, and
//! compared with what the daemon had confirmed to its client by then: all of that must be there,
//! and of what was on its way a prefix.

use super::client::{Client, Lost, PATIENCE, decode, encode};
use super::daemon::Setup;
use super::disk::{Disk, Loss};
use super::order::{Answer, answers};
use super::record::MessageId;
use super::stored::{Contents, contents};
use super::trace::{self, Call, Tracer};
use super::{Outcome, Seed};
use std::path::Path;
use std::time::{Duration, Instant};

const QUEUES: [&str; 2] = ["a", "b"];

/// One operation: what it does to the queues, and how its answer looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Publish to that queue; delivery id.
    Publish(usize, MessageId, u32),
    /// Accept the head of that queue; the broker's delivery id.
    Accept(usize, u32),
    /// Return the head of that queue with a failed attempt.
    Fail(usize, u32),
}

/// A workload that was run: its steps, and after which steps the client waited for all answers.
#[derive(Debug, Clone, Default)]
struct Workload {
    steps: Vec<Step>,
    /// Steps that were answered before the next was sent, ascending; the last is all of them.
    rests: Vec<usize>,
    port: u16,
}

/// What was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cuts {
    /// Operations of the workload.
    pub operations: usize,
    /// Writes, syncs and changes of names.
    pub boundaries: usize,
    /// Disks that were made, opened and compared.
    pub disks: usize,
}

/// Runs `operations` operations and cuts the power at every boundary, each time with everything
/// unsynced kept, lost, and `torn` times torn.
pub fn power_cuts(setup: &Setup, operations: usize, torn: u32, seed: Seed) -> Outcome<Cuts> {
    let mut setup = setup.clone();
    let path = setup.dir.join("trace");
    let options = ["-yy", "-xx", "-s", "4000000", "-e", trace::CHANGES];
    trace::wrap(&mut setup, &options, &path)?;
    let mut daemon = setup.start()?;
    let tracer = Tracer::of(&daemon)?;
    let workload =
        run(daemon.port, operations, seed).map_err(|lost| format!("{lost}\n{}", daemon.log()))?;
    daemon.kill()?;
    tracer.wait()?;
    let scratch = super::scratch(&setup.dir, "cut");
    let result = check(
        &trace::read(&path)?,
        &setup.data(),
        &workload,
        torn,
        seed,
        &scratch,
    );
    let result = result.map_err(|e| format!("seed {}: {e}", seed.number));
    let _ = std::fs::remove_dir_all(&scratch);
    result
}

/// Publishes in groups, accepts and returns, waits for the answers of each group.
fn run(port: u16, operations: usize, mut seed: Seed) -> Result<Workload, Lost> {
    let mut client = Client::open(port, "power")?;
    let mut workload = Workload {
        port: client.local_port(),
        ..Workload::default()
    };
    for (n, queue) in (0u32..).zip(QUEUES) {
        client.attach_sender(n, &format!("s{n}"), queue)?;
        client.attach_receiver(n + 2, &format!("r{n}"), queue, true)?;
    }
    let mut depths = [0u32; 2];
    let mut received = [0u32; 2];
    while workload.steps.len() < operations {
        let queue = seed.below(2) as usize;
        if depths[queue] == 0 || seed.below(5) < 3 {
            for _ in 0..=seed.below(4) {
                let queue = seed.below(2) as usize;
                let m = MessageId::new(queue as u32, workload.steps.len() as u64);
                let size = [20, 100, 1_000, 9_000][seed.below(4) as usize];
                let id = client.transfer(queue as u32, false, &encode(&m.body(size), true, 0));
                workload.steps.push(Step::Publish(queue, m, id));
                depths[queue] += 1;
            }
            client.flush()?;
        } else {
            client.credit(queue as u32 + 2, received[queue], 1, false);
            client.flush()?;
            received[queue] += 1;
            let id = next_delivery(&mut client)?;
            let is_failed = seed.one_in(4);
            let outcome = if is_failed { "failed" } else { "accepted" };
            client.settle(id, id, false, outcome);
            client.flush()?;
            depths[queue] -= u32::from(!is_failed);
            workload.steps.push(match is_failed {
                true => Step::Fail(queue, id),
                false => Step::Accept(queue, id),
            });
        }
        let since = workload.rests.last().copied().unwrap_or(0);
        wait_answers(&mut client, &workload.steps[since..])?;
        workload.rests.push(workload.steps.len());
        if workload.rests.len() == operations / 4 {
            // An idle store tidies up: those writes are boundaries too.
            std::thread::sleep(Duration::from_millis(1_500));
        }
    }
    // The client may have the last answer before the tracer saw the call that wrote it return; a thread that answers
    // again has been seen.
    client.attach_sender(4, "seen", QUEUES[0])?;
    Ok(workload)
}

fn next_delivery(client: &mut Client) -> Result<u32, Lost> {
    loop {
        let frame = client.wait_for("transfer", PATIENCE)?;
        if !frame.flag("more") {
            debug_assert!(frame.payload.is_empty() || decode(&frame.payload).is_some());
            return Ok(frame.number("delivery-id").unwrap_or(0) as u32);
        }
    }
}

fn wait_answers(client: &mut Client, steps: &[Step]) -> Result<(), Lost> {
    let mut left: Vec<Answer> = steps.iter().map(|s| s.answer()).collect();
    let until = Instant::now() + PATIENCE;
    while !left.is_empty() {
        let frame = client.wait_for(
            "disposition",
            until.saturating_duration_since(Instant::now()),
        )?;
        let first = frame.number("first").unwrap_or(0) as u32;
        let last = frame.number("last").map_or(first, |l| l as u32);
        if frame.flag("role") && frame.state() != "accepted" {
            return Err(Lost::Cut(format!("not accepted: {frame:?}")));
        }
        if frame.flag("settled") {
            let is_to_sender = frame.flag("role");
            left.retain(|a| a.is_to_sender != is_to_sender || !(first..=last).contains(&a.id));
        }
    }
    Ok(())
}

impl Step {
    fn answer(self) -> Answer {
        match self {
            Self::Publish(_, _, id) => Answer {
                is_to_sender: true,
                id,
            },
            Self::Accept(_, id) | Self::Fail(_, id) => Answer {
                is_to_sender: false,
                id,
            },
        }
    }

    fn apply(self, contents: &mut Contents) {
        let (Self::Publish(queue, ..) | Self::Accept(queue, _) | Self::Fail(queue, _)) = self;
        let messages = contents.entry(QUEUES[queue].into()).or_default();
        match self {
            Self::Publish(_, m, _) => messages.push((m, 0)),
            Self::Accept(..) => {
                messages.remove(0);
            }
            Self::Fail(..) => messages[0].1 += 1,
        }
    }
}

/// The queues after 0, 1, 2 … steps.
fn states(steps: &[Step]) -> Vec<Contents> {
    let mut states = vec![Contents::new()];
    for step in steps {
        let mut next = states.last().cloned().unwrap_or_default();
        step.apply(&mut next);
        next.retain(|_, messages| !messages.is_empty());
        states.push(next);
    }
    states
}

fn check(
    calls: &[Call],
    data: &Path,
    workload: &Workload,
    torn: u32,
    seed: Seed,
    scratch: &Path,
) -> Outcome<Cuts> {
    let told = answers(calls, workload.port)?;
    let mut answered = vec![];
    for step in &workload.steps {
        let at = told
            .iter()
            .find(|(a, _)| *a == step.answer())
            .map(|(_, at)| *at);
        answered.push(at.ok_or_else(|| format!("the trace has no answer to {step:?}"))?);
    }
    let states = states(&workload.steps);
    let mut disk = Disk::new(data);
    let mut cuts = Cuts {
        operations: workload.steps.len(),
        ..Cuts::default()
    };
    let calls: Vec<&Call> = calls.iter().filter(|c| disk.is_about(c)).collect();
    for (n, call) in calls.iter().enumerate() {
        disk.apply(call);
        cuts.boundaries += 1;
        let until = calls.get(n + 1).map_or(usize::MAX, |next| next.began);
        let done = answered.iter().filter(|at| **at < until).count();
        let rest = workload.rests.iter().find(|r| **r >= done).copied();
        // The group that was answered last may be whole and the next on its way.
        let rest = match rest {
            Some(rest) if rest == done => workload.rests.iter().find(|r| **r > done).copied(),
            other => other,
        };
        let allowed = &states[done..=rest.unwrap_or(workload.steps.len())];
        let mut losses = vec![Loss::Nothing, Loss::Everything];
        losses.extend(
            (0..torn).map(|t| Loss::Torn(Seed::new(seed.number ^ (n as u64) << 20 ^ u64::from(t)))),
        );
        for loss in losses {
            cuts.disks += 1;
            try_disk(&disk, loss, scratch, allowed).map_err(|e| {
                format!(
                    "boundary {n} ({}, {loss:?}, {done} operations confirmed): {e}",
                    call.name
                )
            })?;
        }
    }
    Ok(cuts)
}

fn try_disk(disk: &Disk, loss: Loss, scratch: &Path, allowed: &[Contents]) -> Outcome<()> {
    let _ = std::fs::remove_dir_all(scratch);
    std::fs::create_dir_all(scratch).map_err(|e| e.to_string())?;
    for (name, content) in disk.after(loss) {
        std::fs::write(scratch.join(name), content).map_err(|e| e.to_string())?;
    }
    // Recovery must come to the same when it is repeated.
    for round in ["first", "second"] {
        let found = contents(scratch).map_err(|e| format!("{round} recovery refused: {e}"))?;
        if !allowed.contains(&found) {
            return Err(format!("{round} recovery: {found:?}\nallowed: {allowed:?}"));
        }
    }
    Ok(())
}
