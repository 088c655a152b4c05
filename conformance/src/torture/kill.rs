//! The daemon killed under load, over and over (`kill -9`), and stopped for a while (SIGSTOP).

use super::consumer::ConsumerPlan;
use super::daemon::Setup;
use super::judge::{Judged, judge};
use super::load::{Load, drain_all};
use super::producer::ProducerPlan;
use super::record::{Recorder, What, merge};
use super::{Outcome, Seed};
use std::time::{Duration, Instant};

/// The queues of the load.
pub const QUEUES: [&str; 2] = ["left", "right"];

/// What the rounds of kills came to.
#[derive(Debug, Clone, Default)]
pub struct Killed {
    /// One per round.
    pub verdicts: Vec<Judged>,
    /// Messages accepted per second, lowest round.
    pub rate_min: u64,
    /// From the start of the process to the first accepted connection, longest.
    pub to_accept: Duration,
    /// From the start of the process to the first accepted durable message, longest.
    pub to_first_message: Duration,
}

/// Producers and consumers that are at work when harm is done.
pub fn plans(round: u32) -> (Vec<ProducerPlan>, Vec<ConsumerPlan>) {
    let base = round * 16;
    let producers = (0..4).map(|n| ProducerPlan::new(base + n, QUEUES[n as usize % 2]));
    let consumers = (0..4).map(|n| ConsumerPlan {
        is_second: n >= 2,
        release_every: if n == 3 { 50 } else { 0 },
        ..ConsumerPlan::new(base + n, QUEUES[n as usize % 2])
    });
    (producers.collect(), consumers.collect())
}

/// Kills the daemon `rounds` times between half a second and `longest` after the first accepted
/// message, starts it again, drains, judges each round.
pub fn kill_rounds(setup: &Setup, rounds: u32, longest: Duration, seed: Seed) -> Outcome<Killed> {
    let mut seed = seed;
    let mut killed = Killed {
        rate_min: u64::MAX,
        ..Killed::default()
    };
    let mut daemon = setup.start()?;
    for round in 0..rounds {
        let epoch = Instant::now();
        let mut nemesis = Recorder::new(epoch, "nemesis");
        let (producers, consumers) = plans(round);
        let load = Load::start(daemon.port, epoch, &producers, &consumers);
        load.wait_accepted(1, Duration::from_secs(30))?;
        let began = Instant::now();
        let span = longest.saturating_sub(Duration::from_millis(500));
        let wait = Duration::from_millis(500) + span.mul_f64(seed.fraction());
        std::thread::sleep(wait);
        let rate = load.accepted() as f64 / began.elapsed().as_secs_f64();
        nemesis.note(What::Harm("kill9"));
        daemon.kill()?;
        let mut seen = load.join();
        killed.rate_min = killed.rate_min.min(rate as u64);
        daemon = setup.start()?;
        nemesis.note(What::Healed("kill9"));
        killed.to_accept = killed.to_accept.max(daemon.to_accept);
        let probe = Load::start(
            daemon.port,
            epoch,
            &[ProducerPlan {
                count: Some(1),
                ..ProducerPlan::new(round * 16 + 8, QUEUES[0])
            }],
            &[],
        );
        probe.wait_accepted(1, Duration::from_secs(60))?;
        killed.to_first_message = killed.to_first_message.max(daemon.age());
        seen.events.extend(probe.join().events);
        drain_all(
            daemon.port,
            epoch,
            round * 16 + 8,
            &QUEUES,
            &mut seen.events,
        )?;
        seen.events.push(nemesis.events);
        let verdict = judge(&merge(seen.events))
            .map_err(|e| format!("round {round}: {e}\n{}", daemon.log()))?;
        killed.verdicts.push(verdict);
    }
    Ok(killed)
}

/// Stops the daemon under load for a while; everything must go on as if nothing had been.
pub fn freeze(setup: &Setup, freezes: u32, pause: Duration) -> Outcome<Judged> {
    let mut daemon = setup.start()?;
    let epoch = Instant::now();
    let (producers, consumers) = plans(0);
    let load = Load::start(daemon.port, epoch, &producers, &consumers);
    for _ in 0..freezes {
        let before = load.accepted();
        load.wait_accepted(before + 500, Duration::from_secs(30))?;
        daemon.signal("STOP")?;
        std::thread::sleep(pause);
        daemon.signal("CONT")?;
    }
    let before = load.accepted();
    load.wait_accepted(before + 500, Duration::from_secs(30))?;
    let mut seen = load.stop();
    if let Some(lost) = seen.produced.iter().find_map(|p| p.lost.as_ref()) {
        return Err(format!(
            "a producer was not served on: {lost}\n{}",
            daemon.log()
        ));
    }
    drain_all(daemon.port, epoch, 8, &QUEUES, &mut seen.events)?;
    if let Some(status) = daemon.ended()? {
        return Err(format!("the daemon ended: {status}\n{}", daemon.log()));
    }
    judge(&merge(seen.events))
}
