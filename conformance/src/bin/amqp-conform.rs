//! `amqp-conform`: runs the conformance scripts against any AMQP 1.0 broker and prints a
//! scorecard. Exit codes: 0 all passed, 1 failures, 2 usage, 3 the broker cannot be reached.
#![forbid(unsafe_code)]

use argh::FromArgs;
use qq_conformance::bed::tcp::TcpBed;
use qq_conformance::{coverage, report, run, script::Script, scripts, target};
use std::process::ExitCode;
use std::rc::Rc;

/// Run the AMQP 1.0 conformance scripts against a broker.
#[derive(FromArgs)]
struct Args {
    /// broker, such as amqp://user:pass@host:5672; user and port may be left out
    #[argh(positional)]
    url: Option<String>,

    /// print the scorecard as JSON
    #[argh(switch)]
    json: bool,

    /// only scripts whose id or area fits this glob (such as SF-* or settlement)
    #[argh(option)]
    only: Option<String>,

    /// form of queue addresses: plain (default), rabbitmq (/queues/NAME), rabbitmq3 (/queue/NAME),
    /// or a template with {{}} for the name
    #[argh(option, default = "String::from(\"plain\")")]
    address_style: String,

    /// an address that does not exist on the broker, for the scripts that need one
    #[argh(option)]
    missing: Option<String>,

    /// show the end of the conversation of each failure
    #[argh(switch)]
    trace: bool,

    /// list the scripts and the clauses they check
    #[argh(switch)]
    list: bool,

    /// print the table of clauses with and without a script
    #[argh(switch)]
    coverage: bool,
}

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const UNREACHABLE: u8 = 3;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let args = match Args::from_args(&["amqp-conform"], words.get(1..).unwrap_or_default()) {
        Ok(args) => args,
        Err(exit) if exit.status.is_ok() => {
            println!("{}", exit.output);
            return ExitCode::SUCCESS;
        }
        Err(exit) => return complain(USAGE, exit.output.trim_end()),
    };
    let wanted = |s: &Script| {
        args.only
            .as_ref()
            .is_none_or(|g| target::fits(g, s.id) || target::fits(g, s.area))
    };
    let chosen: Vec<_> = scripts::all().into_iter().filter(wanted).collect();
    if args.coverage {
        print!("{}", coverage::table());
        return ExitCode::SUCCESS;
    }
    if chosen.is_empty() {
        return complain(USAGE, "no script fits --only");
    }
    if args.list {
        for script in chosen {
            let clauses = script.clauses.join(" ");
            println!(
                "{:<6} {:<13} {} [{clauses}]",
                script.id, script.area, script.what
            );
        }
        return ExitCode::SUCCESS;
    }
    let Some(url) = &args.url else {
        return complain(USAGE, "no broker was given; try --help");
    };
    test(url, &args, &chosen)
}

fn complain(code: u8, what: &str) -> ExitCode {
    eprintln!("amqp-conform: {what}");
    ExitCode::from(code)
}

fn test(url: &str, args: &Args, chosen: &[Script]) -> ExitCode {
    let place = match target::parse(url) {
        Ok(place) => place,
        Err(what) => return complain(USAGE, &format!("{url}: {what}")),
    };
    if let Err(what) = target::template(&args.address_style) {
        return complain(USAGE, &what);
    }
    let env = match target::look(&place, &args.address_style, args.missing.clone()) {
        Ok(env) => Rc::new(env),
        Err(what) => return complain(UNREACHABLE, &what),
    };
    let mut outcomes = vec![];
    for script in chosen {
        let bed = run::shared(TcpBed::new(&place.host, place.port));
        match run::run_one(&bed, &env, *script) {
            Ok(outcome) => {
                if !args.json {
                    eprintln!("{:<6} {}", script.id, word(&outcome.verdict));
                }
                outcomes.push(outcome);
            }
            Err(what) => return complain(UNREACHABLE, &what),
        }
    }
    let shown = format!("{}:{}", place.host, place.port);
    if args.json {
        println!("{:#}", report::json(&shown, &outcomes));
    } else {
        print!("\n{shown}\n\n{}", report::text(&outcomes, args.trace));
    }
    if report::tally(&outcomes).failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    }
}

fn word(verdict: &run::Verdict) -> &'static str {
    match verdict {
        run::Verdict::Pass => "pass",
        run::Verdict::Fail(..) => "FAIL",
        run::Verdict::NotSupported(_) => "not supported",
    }
}
