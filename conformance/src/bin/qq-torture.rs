//! `qq-torture`: the scenes of the torture tests with counts and seconds as arguments, and the
//! long ones that only make sense outside continuous integration. Prints what it measured.
//! Exit codes: 0 nothing wrong, 1 a violation, 2 usage.
#![forbid(unsafe_code)]

use argh::FromArgs;
use qq_conformance::torture::daemon::Setup;
use qq_conformance::torture::{
    Outcome, Seed, backup, big, clock, damage, faults, kill, order, powercut, room, scratch,
    sockets,
};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Torture a daemon. Scenes: kill freeze order batching powercut full sync-fails writes-fail
/// no-room slow-disk damage clock half-close zero-window storm descriptors memory terminate backup
/// backlog all
#[derive(FromArgs)]
struct Args {
    /// what to do
    #[argh(positional)]
    scene: String,

    /// the daemon's binary, best built with --release
    #[argh(option)]
    qqd: PathBuf,

    /// folder for stores and logs, emptied (default: ./torture)
    #[argh(option, default = "PathBuf::from(\"torture\")")]
    dir: PathBuf,

    /// rounds, operations, messages, clients or copies, as the scene takes it
    #[argh(option)]
    count: Option<u64>,

    /// seconds of a load, a pause or a delay, as the scene takes it
    #[argh(option)]
    seconds: Option<f64>,

    /// octets of a message (default 100)
    #[argh(option, default = "100")]
    size: usize,

    /// seed of everything that looks random
    #[argh(option)]
    seed: Option<u64>,
}

impl Args {
    fn count(&self, default: u64) -> u64 {
        self.count.unwrap_or(default)
    }

    fn number(&self, default: u32) -> u32 {
        u32::try_from(self.count(default.into())).unwrap_or(u32::MAX)
    }

    fn time(&self, default: f64) -> Duration {
        Duration::from_secs_f64(self.seconds.unwrap_or(default))
    }

    fn setup(&self, name: &str) -> Setup {
        Setup::fresh(&self.qqd, &self.dir, name)
    }
}

/// All scenes, in the order of `all`.
const SCENES: &[&str] = &[
    "kill",
    "freeze",
    "order",
    "batching",
    "powercut",
    "full",
    "sync-fails",
    "writes-fail",
    "no-room",
    "slow-disk",
    "damage",
    "clock",
    "half-close",
    "zero-window",
    "storm",
    "descriptors",
    "memory",
    "terminate",
    "backup",
];

fn main() -> ExitCode {
    let args: Args = argh::from_env();
    let seed = args.seed.unwrap_or_else(|| std::process::id().into());
    println!("seed {seed}");
    let scenes = match args.scene.as_str() {
        "all" => SCENES.to_vec(),
        one => vec![one],
    };
    let mut code = ExitCode::SUCCESS;
    for scene in scenes {
        match play(scene, &args, Seed::new(seed)) {
            Some(Ok(report)) => println!("{scene}: {report}"),
            Some(Err(text)) => {
                println!("{scene}: WRONG: {text}");
                code = ExitCode::from(1);
            }
            None => {
                eprintln!("qq-torture: no scene {scene:?}");
                return ExitCode::from(2);
            }
        }
    }
    code
}

fn shown<T: std::fmt::Debug>(result: Outcome<T>) -> Option<Outcome<String>> {
    Some(result.map(|report| format!("{report:#?}")))
}

fn play(scene: &str, args: &Args, seed: Seed) -> Option<Outcome<String>> {
    let setup = args.setup(scene);
    match scene {
        "kill" => shown(kill::kill_rounds(
            &setup,
            args.number(100),
            args.time(2.0),
            seed,
        )),
        "freeze" => shown(kill::freeze(&setup, args.number(3), args.time(10.0))),
        "order" => shown(order::order(&setup, args.count(40_000), args.size)),
        "batching" => shown(order::batching(&setup, args.count(400_000), args.size)),
        "powercut" => shown(powercut::power_cuts(
            &setup,
            args.count(200) as usize,
            8,
            seed,
        )),
        "full" => {
            let size = args.number(512);
            let none = room::full_disk(&setup, size, 0);
            shown(none.and_then(|full| Ok((full, room::full_disk(&args.setup("full"), size, 8)?))))
        }
        "sync-fails" => shown(each(args, 30, faults::sync_fails)),
        "writes-fail" => shown(each(args, 60, faults::writes_fail)),
        "no-room" => {
            let first = args.number(200);
            shown(faults::no_room_for_a_while(&setup, first, first + 50))
        }
        "slow-disk" => shown(faults::slow_disk(
            &setup,
            args.time(0.2),
            Duration::from_secs(20),
        )),
        "damage" => shown(damage_scene(args, seed)),
        "backlog" => shown(big::backlog(&setup, args.count(10_000_000), args.size)),
        "backup" => shown(backup::backup(&setup, args.time(3.0))),
        "memory" => shown(room::little_memory(&setup, args.number(64), 0)),
        _ => play_sockets(scene, args, seed),
    }
}

fn play_sockets(scene: &str, args: &Args, seed: Seed) -> Option<Outcome<String>> {
    let setup = args.setup(scene);
    match scene {
        "clock" => shown(clock::jumps(&setup, args.time(3.0))),
        "half-close" => shown(
            setup
                .start()
                .and_then(|d| sockets::half_close(&d, args.count(200))),
        ),
        "zero-window" => shown(
            setup
                .start()
                .and_then(|d| sockets::zero_window(&d, args.count(50_000))),
        ),
        "storm" => {
            let count = args.number(20_000);
            shown(
                setup
                    .start()
                    .and_then(|d| sockets::reset_storm(&d, count, seed)),
            )
        }
        "descriptors" => shown(sockets::no_descriptors(&setup, args.time(10.0))),
        "terminate" => shown(sockets::terminate(&setup, args.count(1_000) as usize)),
        _ => None,
    }
}

/// A scene for each of 1, 2, 3 …, on a fresh store and on one that is there.
fn each<T: std::fmt::Debug>(
    args: &Args,
    count: u32,
    scene: impl Fn(&Setup, u32, bool) -> Outcome<T>,
) -> Outcome<Vec<T>> {
    let nths = (1..=args.number(count)).flat_map(|n| [(n, true), (n, false)]);
    nths.map(|(n, is_fresh)| {
        let done = scene(&args.setup("fails"), n, is_fresh);
        done.map_err(|e| format!("at {n}, a fresh store: {is_fresh}: {e}"))
    })
    .collect()
}

fn damage_scene(args: &Args, seed: Seed) -> Outcome<damage::Damaged> {
    let setup = args.setup("damage");
    let files = damage::killed_store(&setup, 4_000)?;
    let flips = args.number(1_000);
    let scratch = scratch(&setup.dir, "copy");
    let result = damage::damage(&files, &scratch, usize::MAX, flips, seed);
    let _ = std::fs::remove_dir_all(&scratch);
    result
}
