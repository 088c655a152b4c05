//! A broker that panics takes the process with it, since it may have applied half of an operation.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests drive real sockets, threads and processes"
)]

mod bed;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use bed::{Bed, FRONTS};

/// Set in the process that is to die: the name of the front end.
const ROLE: &str = "QQ_TEST_FRONT";

#[test]
fn a_broker_that_panics_ends_the_process() {
    if let Ok(role) = std::env::var(ROLE) {
        let front = FRONTS.into_iter().find(|front| front.name == role);
        die(front.expect("a front end"));
        return;
    }
    for front in FRONTS {
        let test = "a_broker_that_panics_ends_the_process";
        let output = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", test, "--nocapture"])
            .env(ROLE, front.name)
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("told to"), "{}: {text}", front.name);
        // SIGABRT, not a normal end with a status.
        assert_eq!(output.status.signal(), Some(6), "{}: {text}", front.name);
    }
}

/// The consumer settles the message, so that the broker is the last one to have it, on its own task.
fn die(front: bed::Front) {
    let bed = Bed::start(front, |_| {});
    let mut client = bed.connect();
    client.write(b"bomb\ntake\n");
    let mut words = [client.line(), client.line()];
    words.sort();
    assert_eq!(words, ["confirmed", "got"]);
    client.write(b"done\nhello\n");
    client.line();
    // The line above may come before the broker's turn; this one would come after it.
    client.write(b"put\n");
    client.line();
}
