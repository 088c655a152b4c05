//! `qq-sim`: runs seeds of the simulator, says which failed, and how to repeat it with less.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a binary owns its arguments, its clock and its files"
)]

use std::process::ExitCode;
use std::time::Instant;

use qq_conformance::history;
use qq_conformance::sim::{Fault, Plan, Report, Size, run, shrink};

/// Runs the simulator: one seed is one run, the same every time.
#[derive(argh::FromArgs)]
struct Args {
    /// one seed
    #[argh(option)]
    seed: Option<u64>,
    /// seeds as A..B, the end not included
    #[argh(option)]
    seeds: Option<String>,
    /// over 2,000 operations and at least five crashes a seed
    #[argh(switch)]
    long: bool,
    /// kinds of trouble to leave out, with commas
    #[argh(option)]
    without: Option<String>,
    /// nothing but these kinds of trouble, with commas
    #[argh(option)]
    only: Option<String>,
    /// numbers of the clients to keep, with commas
    #[argh(option)]
    clients: Option<String>,
    /// acts before everything is healed
    #[argh(option)]
    acts: Option<u32>,
    /// acts to leave out, as FIRST-LAST, with commas
    #[argh(option)]
    skip: Option<String>,
    /// crash at this boundary of the store
    #[argh(option)]
    crash_at: Option<u64>,
    /// write the history to this file, as lines of JSON
    #[argh(option)]
    history: Option<String>,
    /// print what faces and broker say to each other
    #[argh(switch)]
    trace: bool,
    /// judge the history in this file, and run nothing
    #[argh(option)]
    check: Option<String>,
    /// after a failure, look for a smaller run that fails alike
    #[argh(switch)]
    shrink: bool,
    /// make these seeds find each planted bug; needs a build with --cfg qq_planted
    #[argh(switch)]
    planted: bool,
    /// threads (default: as many as the machine has)
    #[argh(option)]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    let args: Args = argh::from_env();
    match start(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}

fn size(args: &Args) -> Size {
    if args.long { Size::Long } else { Size::Short }
}

fn start(args: &Args) -> Result<bool, String> {
    if let Some(path) = &args.check {
        return judge(path);
    }
    if args.planted {
        return find_planted(args);
    }
    if let Some(seeds) = &args.seeds {
        let (from, to) = seeds.split_once("..").ok_or("--seeds takes A..B")?;
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|error| format!("{text}: {error}"))
        };
        return many(args, number(from)?, number(to)?);
    }
    let plan = plan(args, args.seed.ok_or("give --seed N or --seeds A..B")?)?;
    let begun = Instant::now();
    let report = run(&plan);
    tell(&plan, &report, begun.elapsed().as_secs_f64());
    if let Some(path) = &args.history {
        let lines: Vec<_> = report.history.iter().map(history::print).collect();
        std::fs::write(path, lines.join("\n") + "\n")
            .map_err(|error| format!("{path}: {error}"))?;
    }
    let Some(violation) = &report.violation else {
        return Ok(true);
    };
    println!("{}: {}", violation.class, violation.text);
    if args.shrink {
        let smaller = shrink(&plan, violation);
        println!("smaller: qq-sim {}", smaller.arguments(size(args)));
    }
    Ok(false)
}

/// Judges a history that is in a file.
fn judge(path: &str) -> Result<bool, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let events: Result<Vec<_>, _> = lines
        .map(|(at, line)| {
            history::parse(line).map_err(|error| format!("{path}, line {}: {error}", at + 1))
        })
        .collect();
    let report = history::check(&events?);
    println!("{report}");
    Ok(report.verdict() == history::Verdict::Valid)
}

fn tell(plan: &Plan, report: &Report, seconds: f64) {
    let faults: Vec<_> = plan.faults.iter().map(|fault| fault.name()).collect();
    println!(
        "seed {}: {} operations, {} crashes, {} store boundaries, {:.1} s in {seconds:.2} s; {}",
        plan.seed,
        report.operations,
        report.crashes,
        report.boundaries,
        report.virtual_ms as f64 / 1_000.0,
        faults.join(" ")
    );
}

/// The run of a seed, with what the arguments take out of it.
fn plan(args: &Args, seed: u64) -> Result<Plan, String> {
    let mut plan = Plan::new(seed, size(args));
    let named = |list: &str| -> Result<Vec<Fault>, String> {
        let names = list
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        names
            .map(|name| {
                Fault::named(name).ok_or_else(|| format!("no kind of trouble is called {name}"))
            })
            .collect()
    };
    if let Some(list) = &args.only {
        plan.faults = named(list)?;
    }
    if let Some(list) = &args.without {
        let without = named(list)?;
        plan.faults.retain(|fault| !without.contains(fault));
    }
    if let Some(list) = &args.clients {
        let numbers = list.split(',').map(|text| text.trim().parse());
        plan.clients = numbers
            .collect::<Result<_, _>>()
            .map_err(|error| format!("--clients: {error}"))?;
    }
    if let Some(acts) = args.acts {
        plan.end_after(acts);
    }
    plan.crash_at = args.crash_at;
    plan.is_traced = args.trace;
    for range in args.skip.iter().flat_map(|list| list.split(',')) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) => plan.skipped.push((first, last)),
            _ => return Err(format!("--skip takes ranges such as 3-8, not {range}")),
        }
    }
    Ok(plan)
}

/// For each planted bug, the first seed that finds it.
#[cfg(not(qq_planted))]
fn find_planted(_: &Args) -> Result<bool, String> {
    Err("this build has no planted bugs: build it with RUSTFLAGS='--cfg qq_planted' and a target folder of its own".into())
}

/// For each planted bug, the first seed that finds it.
#[cfg(qq_planted)]
fn find_planted(args: &Args) -> Result<bool, String> {
    use qq_conformance::sim::Bug;

    let seeds = 300;
    let mut missed = 0;
    println!("| bug | seeds | found as |\n| --- | --- | --- |");
    for bug in Bug::ALL {
        let found = (0..seeds).find_map(|seed| {
            let mut plan = Plan::new(seed, size(args));
            plan.planted = Some(bug);
            Some((seed, run(&plan).violation?))
        });
        match found {
            Some((seed, violation)) => {
                let line = violation.text.lines().next().unwrap_or_default();
                println!("| {bug:?} | {} | {}: {line} |", seed + 1, violation.class);
            }
            None => {
                missed += 1;
                println!("| {bug:?} | not in {seeds} | |");
            }
        }
    }
    println!("{} of {} found", Bug::ALL.len() - missed, Bug::ALL.len());
    Ok(missed == 0)
}

/// What became of a range of seeds.
#[derive(Default)]
struct Sum {
    operations: u64,
    crashes: u64,
    virtual_ms: u64,
    fewest_operations: Option<u64>,
    fewest_crashes: Option<u32>,
    failed: Vec<(u64, String)>,
}

fn many(args: &Args, from: u64, to: u64) -> Result<bool, String> {
    plan(args, from)?;
    let begun = Instant::now();
    let threads = args
        .threads
        .or_else(|| std::thread::available_parallelism().ok().map(Into::into))
        .unwrap_or(1);
    let next = std::sync::atomic::AtomicU64::new(from);
    let sum = std::sync::Mutex::new(Sum::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= to {
                        return;
                    }
                    // The arguments were read above, for the first seed; they do not depend on it.
                    let Ok(plan) = plan(args, seed) else {
                        return;
                    };
                    note(&sum, args, &plan, &run(&plan));
                }
            });
        }
    });
    let sum = sum.into_inner().map_err(|_| "a run panicked")?;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{} seeds, {} failed; {} operations (fewest {}), {} crashes (fewest {}); {:.0} s of virtual time in {seconds:.1} s, \
         {:.0} times as fast",
        to - from,
        sum.failed.len(),
        sum.operations,
        sum.fewest_operations.unwrap_or(0),
        sum.crashes,
        sum.fewest_crashes.unwrap_or(0),
        sum.virtual_ms as f64 / 1_000.0,
        sum.virtual_ms as f64 / 1_000.0 / seconds
    );
    Ok(sum.failed.is_empty())
}

fn note(sum: &std::sync::Mutex<Sum>, args: &Args, plan: &Plan, report: &Report) {
    let Ok(mut sum) = sum.lock() else {
        return;
    };
    sum.operations += report.operations;
    sum.crashes += u64::from(report.crashes);
    sum.virtual_ms += report.virtual_ms;
    if let Some(violation) = &report.violation {
        println!("{}: {}", violation.class, violation.text);
        println!("  repeat: qq-sim {}", plan.arguments(size(args)));
        sum.failed.push((plan.seed, violation.text.clone()));
    } else {
        let fewest = sum.fewest_operations.unwrap_or(u64::MAX);
        sum.fewest_operations = Some(fewest.min(report.operations));
        if plan.has(Fault::Crash) {
            let fewest = sum.fewest_crashes.unwrap_or(u32::MAX);
            sum.fewest_crashes = Some(fewest.min(report.crashes));
        }
    }
}
