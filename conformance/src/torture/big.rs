//! Backlogs of millions: how long a restart takes, how much memory the daemon needs, how fast it
//! all comes out again. Figures are reported, never asserted; only counts and bodies are.

use super::Outcome;
use super::consumer::ConsumerPlan;
use super::daemon::{Daemon, Setup};
use super::load::Load;
use super::producer::ProducerPlan;
use std::time::{Duration, Instant};

const QUEUE: &str = "big";

/// What a backlog cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Big {
    /// Messages.
    pub messages: u64,
    /// Messages accepted per second while they were queued.
    pub fill_rate: u64,
    /// Resident memory at its highest while they were queued, KiB.
    pub fill_kib: u64,
    /// Octets of the store's files when all were queued.
    pub disk: u64,
    /// From the start of the process to the first accepted connection, after a kill.
    pub to_accept: Duration,
    /// To the first accepted durable message.
    pub to_first_message: Duration,
    /// Resident memory after the restart, KiB.
    pub restart_kib: u64,
    /// Messages per second while they were consumed and settled.
    pub drain_rate: u64,
    /// Resident memory at its highest meanwhile, KiB.
    pub drain_kib: u64,
    /// Octets of the store's files a while after all were gone.
    pub disk_after: u64,
}

/// Queues `messages` of `size` octets, kills the daemon, starts it, and drains.
pub fn backlog(setup: &Setup, messages: u64, size: usize) -> Outcome<Big> {
    let mut big = Big::default();
    let mut daemon = setup.start()?;
    let epoch = Instant::now();
    let producers: Vec<_> = (0..2)
        .map(|id| ProducerPlan {
            count: Some(messages / 2),
            size,
            window: 2_048,
            is_recorded: false,
            ..ProducerPlan::new(id, QUEUE)
        })
        .collect();
    let load = Load::start(daemon.port, epoch, &producers, &[]);
    let began = Instant::now();
    while !load.is_produced() {
        big.fill_kib = big.fill_kib.max(daemon.resident_kib());
        std::thread::sleep(Duration::from_millis(100));
    }
    let seen = load.join();
    big.messages = seen.accepted();
    if big.messages != messages / 2 * 2 {
        return Err(format!("{:?}\n{}", seen.produced, daemon.log()));
    }
    big.fill_rate = per_second(big.messages, began.elapsed());
    big.disk = setup.data_octets();
    daemon.kill()?;
    let daemon = setup.start()?;
    big.to_accept = daemon.to_accept;
    let probe = ProducerPlan {
        count: Some(1),
        ..ProducerPlan::new(3, "probe")
    };
    Load::start(daemon.port, epoch, &[probe], &[]).wait_accepted(1, Duration::from_secs(120))?;
    big.to_first_message = daemon.age();
    big.restart_kib = daemon.resident_kib();
    drain(&daemon, &mut big)?;
    std::thread::sleep(Duration::from_secs(10));
    big.disk_after = setup.data_octets();
    Ok(big)
}

fn drain(daemon: &Daemon, big: &mut Big) -> Outcome<()> {
    let began = Instant::now();
    let consumers: Vec<_> = (0..2)
        .map(|n| ConsumerPlan {
            credit: 4_096,
            is_recorded: false,
            ..ConsumerPlan::new(100 + n, QUEUE)
        })
        .collect();
    let load = Load::start(daemon.port, began, &[], &consumers);
    let (mut last, mut since) = (0, Instant::now());
    while load.received() < big.messages {
        let now = load.received();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > Duration::from_secs(60) {
            return Err(format!("{now} of {} came\n{}", big.messages, daemon.log()));
        }
        big.drain_kib = big.drain_kib.max(daemon.resident_kib());
        std::thread::sleep(Duration::from_millis(20));
    }
    big.drain_rate = per_second(big.messages, began.elapsed());
    let seen = load.stop();
    if let Some(lost) = seen.consumed.iter().find_map(|c| c.lost.as_ref()) {
        return Err(format!("{lost}\n{}", daemon.log()));
    }
    // Each body is whole and came once: the producers' counters are 0 … n without a gap.
    let mut numbers: Vec<_> = seen.consumed.into_iter().flat_map(|c| c.numbers).collect();
    numbers.sort_unstable();
    numbers.dedup();
    match numbers.len() as u64 == big.messages {
        true => Ok(()),
        false => Err(format!("{} of {} messages", numbers.len(), big.messages)),
    }
}

fn per_second(count: u64, time: Duration) -> u64 {
    (count as f64 / time.as_secs_f64()) as u64
}
