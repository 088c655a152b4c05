//! Rooms that fill up: a small disk, a small memory.

use super::Outcome;
use super::consumer::ConsumerPlan;
use super::daemon::{Daemon, PATIENCE, Setup};
use super::judge::{Judged, judge};
use super::load::{Load, drain_all};
use super::producer::ProducerPlan;
use super::record::{Event, Recorder, What, merge};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const QUEUE: &str = "full";

/// A file system in memory of a fixed size; unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one; an error when this is not allowed here.
    pub fn mount(folder: PathBuf, size_mib: u32) -> Outcome<Self> {
        fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size_mib}m"), "tmpfs"])
            .arg(&folder)
            .status()
            .map_err(|e| format!("mount: {e}"))?;
        match status.success() {
            true => Ok(Self(folder)),
            false => Err("a small file system cannot be mounted here (root is needed)".into()),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// What a daemon on a full disk did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Full {
    /// Messages accepted before the disk was full.
    pub accepted: u64,
    /// What refused messages were told.
    pub condition: String,
    /// From the last accepted message until all producers were refused, or a second when some were
    /// held back instead.
    pub to_refuse: Duration,
    /// Messages that consumers settled while the disk was full.
    pub drained: u64,
    /// From the moment space was back to the next accepted message.
    pub to_resume: Duration,
    /// The judgement after a kill and a new start.
    pub verdict: Judged,
}

/// Fills a disk of `size_mib`, two fifths of which something else takes, until messages are refused:
/// because `free_min_mib` are left, or because nothing is. Lets consumers drain half of them, gives
/// the rest back, goes on, kills, starts, drains and judges.
pub fn full_disk(setup: &Setup, size_mib: u32, free_min_mib: u32) -> Outcome<Full> {
    let mut setup = setup.clone();
    setup.room_min_mib = Some(free_min_mib);
    let disk = SmallDisk::mount(setup.data(), size_mib)?;
    let filler = setup.data().join("filler");
    let part = vec![0; (size_mib as usize) * 410_000];
    fs::write(&filler, part).map_err(|e| e.to_string())?;
    let mut full = Full::default();
    let mut daemon = setup.start()?;
    let epoch = Instant::now();
    let mut nemesis = Recorder::new(epoch, "nemesis");
    let producers = [0, 1].map(|id| ProducerPlan {
        size: 8_000,
        is_stopped_by_refusal: true,
        ..ProducerPlan::new(id, QUEUE)
    });
    let filling = Load::start(daemon.port, epoch, &producers, &[]);
    let mut events = vec![];
    full.to_refuse = refuses(&daemon, epoch, &filling, &mut full.condition, &mut events)?;
    full.accepted = filling.accepted();
    // Consumers settle as long as there is something, room or not.
    let consumers = [ConsumerPlan {
        is_second: true,
        ..ConsumerPlan::new(20, QUEUE)
    }];
    let half = full.accepted / 2;
    let load = Load::start(daemon.port, epoch, &[], &consumers);
    let until = Instant::now() + Duration::from_secs(60);
    while load.received() < half {
        if Instant::now() > until {
            let count = load.received();
            return Err(format!("{count} of {half} messages came\n{}", daemon.log()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let seen = load.stop();
    full.drained = seen.received();
    if let Some(lost) = seen.consumed.iter().find_map(|c| c.lost.as_ref()) {
        return Err(format!(
            "a consumer was not served: {lost}\n{}",
            daemon.log()
        ));
    }
    events.extend(seen.events);
    fs::remove_file(&filler).map_err(|e| e.to_string())?;
    full.to_resume = resumes(&daemon, epoch, &mut events)?;
    // Who was held back has an answer now.
    events.extend(filling.stop().events);
    nemesis.note(What::Harm("kill9"));
    daemon.kill()?;
    let mut daemon = setup.start()?;
    nemesis.note(What::Healed("kill9"));
    drain_all(daemon.port, epoch, 30, &[QUEUE], &mut events)?;
    events.push(nemesis.events);
    full.verdict = judge(&merge(events)).map_err(|e| format!("{e}\n{}", daemon.log()))?;
    daemon.kill()?;
    drop(disk);
    Ok(full)
}

/// Waits until producers are refused, or not answered for a second: what was on its way when the
/// disk was full may wait for room, what comes then must be refused.
fn refuses(
    daemon: &Daemon,
    epoch: Instant,
    filling: &Load,
    condition: &mut String,
    events: &mut Vec<Vec<Event>>,
) -> Outcome<Duration> {
    let began = Instant::now();
    for probe in 0.. {
        let (mut last, mut since) = (0, Instant::now());
        while !filling.is_produced() && since.elapsed() < Duration::from_secs(1) {
            let now = filling.accepted();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let to_refuse = since.elapsed();
        let plan = ProducerPlan {
            count: Some(20),
            first_n: probe * 1_000,
            is_stopped_by_refusal: true,
            ..ProducerPlan::new(4, QUEUE)
        };
        let seen = Load::start(daemon.port, epoch, &[plan], &[]).join();
        events.extend(seen.events);
        let Some(late) = seen.produced.first() else {
            break;
        };
        if late.refused > 0 && late.accepted == 0 {
            condition.clone_from(&late.condition);
            return Ok(to_refuse);
        }
        // The machine was slow, not the disk full.
        if filling.is_produced() || late.lost.is_some() || began.elapsed() > PATIENCE * 3 {
            return Err(format!("on a full disk: {late:?}\n{}", daemon.log()));
        }
    }
    Err("no probe ran".into())
}

/// Publishes until something is accepted again.
fn resumes(daemon: &Daemon, epoch: Instant, events: &mut Vec<Vec<Event>>) -> Outcome<Duration> {
    let began = Instant::now();
    for n in 0.. {
        let plan = ProducerPlan {
            count: Some(20),
            is_stopped_by_refusal: true,
            first_n: n * 1_000,
            ..ProducerPlan::new(5, QUEUE)
        };
        let seen = Load::start(daemon.port, epoch, &[plan], &[]).join();
        let accepted = seen.accepted();
        events.extend(seen.events);
        if accepted > 0 {
            return Ok(began.elapsed());
        }
        if began.elapsed() > Duration::from_secs(60) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!(
        "nothing is accepted although there is space\n{}",
        daemon.log()
    ))
}

/// What a daemon with little memory did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pressed {
    /// Messages accepted.
    pub accepted: u64,
    /// Messages refused.
    pub refused: u64,
    /// What they were told.
    pub condition: String,
    /// Resident memory at its highest, KiB.
    pub resident_kib: u64,
    /// Messages that consumers got afterwards.
    pub drained: u64,
    /// The judgement.
    pub verdict: Judged,
}

/// Publishes more messages, which cannot go to disk, than `memory_mib` takes, in an address space
/// of `space_mib`: publishers are held back or refused before the process dies, consumers drain,
/// and a new start is clean.
pub fn little_memory(setup: &Setup, memory_mib: u32, space_mib: u32) -> Outcome<Pressed> {
    let mut setup = setup.clone();
    setup
        .limits
        .push_str(&format!("memory_max = \"{memory_mib}MiB\"\n"));
    if space_mib > 0 {
        let space = u64::from(space_mib) << 20;
        setup.wrapper = vec!["prlimit".into(), format!("--as={space}")];
    }
    let mut daemon = setup.start()?;
    let epoch = Instant::now();
    let producers = [0, 1, 2].map(|id| ProducerPlan {
        size: 50_000,
        window: 64,
        is_durable: false,
        is_stopped_by_refusal: true,
        ..ProducerPlan::new(id, QUEUE)
    });
    let load = Load::start(daemon.port, epoch, &producers, &[]);
    let mut pressed = Pressed::default();
    // Until all are refused, or nothing is taken for two seconds.
    let (mut last, mut since) = (0, Instant::now());
    while !load.is_produced() && since.elapsed() < Duration::from_secs(2) {
        let now = load.accepted();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        pressed.resident_kib = pressed.resident_kib.max(daemon.resident_kib());
        if let Some(status) = daemon.ended()? {
            return Err(format!(
                "died before it refused: {status}\n{}",
                daemon.log()
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // Who was held back goes on while consumers drain, so everybody gets an answer.
    let mut load = load;
    load.add_consumer(daemon.port, ConsumerPlan::new(40, QUEUE));
    let mut seen = load.stop();
    pressed.accepted = seen.accepted();
    pressed.refused = seen.refused();
    let conditions = seen.produced.iter().map(|p| p.condition.clone());
    pressed.condition = conditions.max().unwrap_or_default();
    pressed.drained = seen.received();
    pressed.drained += drain_all(daemon.port, epoch, 50, &[QUEUE], &mut seen.events)?;
    pressed.verdict = judge(&merge(seen.events)).map_err(|e| format!("{e}\n{}", daemon.log()))?;
    daemon.signal("TERM")?;
    let status = daemon.wait(Duration::from_secs(30))?;
    if status.code() != Some(0) {
        return Err(format!("{status}\n{}", daemon.log()));
    }
    let daemon = setup.start()?;
    super::sockets::serves(daemon.port, "after")?;
    Ok(pressed)
}
