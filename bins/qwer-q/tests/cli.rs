//! The real program as a daemon, and the same program as its client.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of programs starts them"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_qwer-q");
const EVENT: &str = "syntax = \"proto3\";\npackage shop;\nmessage Order { int32 id = 1; }\n";

/// A daemon on free ports, with a token, in a folder of its own.
struct Daemon {
    process: Child,
    broker: String,
    dir: PathBuf,
    /// What it said until it was there.
    log: String,
}

impl Daemon {
    fn start(name: &str, flags: &[&str]) -> Self {
        let flags = [&["-p", "0", "--auth-token", "s3cret"], flags].concat();
        Self::start_with(name, &flags, &[])
    }

    fn start_with(name: &str, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let dir = std::env::temp_dir().join(format!("qwer-q-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        let mut process = Command::new(PROGRAM)
            .args(["serve", "--amqp-port", "0", "--metrics-port", "0"])
            .args(flags)
            .env_remove("QWERQ_AUTH_TOKEN")
            .env_remove("QWERQ_SCHEMA_MODE")
            .envs(variables.iter().copied())
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut log = BufReader::new(process.stderr.take().expect("piped"));
        let mut broker = None;
        let mut seen = String::new();
        while broker.is_none() {
            let mut line = String::new();
            assert_ne!(
                log.read_line(&mut line).expect("a log"),
                0,
                "it ended: {seen}"
            );
            broker = line
                .split_once("QWER-Q on ")
                .and_then(|(_, rest)| rest.split_once(','))
                .map(|(address, _)| address.to_owned());
            seen.push_str(&line);
        }
        // Reads on, so that the daemon is never held up by a full pipe.
        std::thread::spawn(move || for _ in log.lines() {});
        Self {
            process,
            broker: broker.expect("found"),
            dir,
            log: seen,
        }
    }

    fn run(&self, words: &[&str]) -> Output {
        self.run_as(Some("s3cret"), words)
    }

    fn run_as(&self, token: Option<&str>, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command
            .args(words)
            .args(["-b", &self.broker])
            .stdin(Stdio::null())
            .current_dir(&self.dir);
        command.env_remove("QWERQ_AUTH_TOKEN");
        if let Some(token) = token {
            command.env("QWERQ_AUTH_TOKEN", token);
        }
        command.output().expect("it runs")
    }

    /// What a command that succeeds prints.
    fn says(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {text}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The code and text of a command that fails.
    fn fails(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.run(words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn messages_go_in_and_out() {
    let daemon = Daemon::start("queues", &["--data-dir="]);
    assert_eq!(
        daemon.says(&["queue", "list"]),
        "NAME  MESSAGES  IN-FLIGHT\n"
    );
    let id = daemon.says(&[
        "queue", "publish", "orders", "hello", "--header", "k=v", "--id", "m-1",
    ]);
    assert_eq!(id, "m-1\n");
    let mut child = Command::new(PROGRAM)
        .args([
            "queue",
            "publish",
            "orders",
            "-b",
            &daemon.broker,
            "--auth-token",
            "s3cret",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(b"from a pipe")
        .expect("taken");
    assert!(child.wait_with_output().expect("it ends").status.success());
    let list = "NAME    MESSAGES  IN-FLIGHT\norders  2         0\n";
    assert_eq!(daemon.says(&["queue", "list"]), list);
    assert_eq!(
        daemon.says(&["queue", "consume", "orders", "-n", "2"]),
        "hello\nfrom a pipe\n"
    );
    let nothing = daemon.fails(&["queue", "consume", "orders", "--timeout", "1"]);
    assert_eq!(nothing.0, Some(1));
    daemon.says(&["queue", "publish", "orders", "x"]);
    assert_eq!(
        daemon.says(&["queue", "purge", "orders"]),
        "1 messages removed from \"orders\"\n"
    );
    let (code, text) = daemon.fails(&["queue", "purge", "nowhere"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("nowhere"), "{text}");
}

#[test]
fn schemas_are_registered_without_another_program_and_hold_after_a_restart() {
    let daemon = Daemon::start("schemas", &[]);
    assert_eq!(daemon.says(&["schema", "list"]), "No schemas registered\n");
    std::fs::write(daemon.dir.join("order.proto"), EVENT).expect("a file");
    let register = [
        "schema",
        "register",
        "-q",
        "orders",
        "-p",
        "order.proto",
        "-m",
        "shop.Order",
    ];
    assert_eq!(
        daemon.says(&register),
        "Schema registered for queue \"orders\" (version 1)\n"
    );
    let wrong = EVENT.replace("int32", "string");
    std::fs::write(daemon.dir.join("order.proto"), wrong).expect("a file");
    let (code, text) = daemon.fails(&register);
    assert_eq!(code, Some(1));
    assert!(text.contains("shop.Order.id (field-type)"), "{text}");
    let (code, text) = daemon.fails(&[
        "schema",
        "register",
        "-q",
        "q",
        "-p",
        "missing.proto",
        "-m",
        "M",
    ]);
    assert_eq!(
        (code, text.contains("missing.proto")),
        (Some(2), true),
        "{text}"
    );
    let list = "QUEUE   MESSAGE TYPE  VERSION\norders  shop.Order    1\n";
    assert_eq!(daemon.says(&["schema", "list"]), list);
    let (code, text) = daemon.fails(&["queue", "publish", "orders", "no order"]);
    assert_eq!(
        (code, text.contains("schema validation failed")),
        (Some(1), true),
        "{text}"
    );
    // An order with the id 42.
    daemon.says(&["queue", "publish", "orders", "\u{8}*"]);
}

#[test]
fn nobody_comes_in_without_the_token() {
    let daemon = Daemon::start("token", &["--data-dir=", "--schema-mode", "strict"]);
    for token in [None, Some("wrong")] {
        let output = daemon.run_as(token, &["queue", "list"]);
        assert!(!output.status.success(), "{token:?}");
        assert!(output.stdout.is_empty(), "{token:?}");
    }
    let (code, text) = daemon.fails(&["queue", "publish", "q", "x"]);
    assert_eq!(
        (code, text.contains("schema required for queue")),
        (Some(1), true),
        "{text}"
    );
}

/// Flags and commands as the first QWER-Q shows them, in the long form where there are two.
#[test]
fn the_command_lines_of_the_first_qwer_q_work_as_they_are() {
    let flags = [
        "--port=0",
        "--data-dir",
        "data",
        "--schema-mode",
        "permissive",
        "--batch-interval",
        "10ms",
        "--sync-interval=100ms",
        "--auth-token",
        "s3cret",
    ];
    let daemon = Daemon::start_with("lines", &flags, &[]);
    for flag in ["--batch-interval 10ms", "--sync-interval 100ms"] {
        let warning = format!("WARNING: {flag} has no effect");
        assert!(daemon.log.contains(&warning), "{}", daemon.log);
    }
    std::fs::write(daemon.dir.join("order.proto"), EVENT).expect("a file");
    let register = "schema register --queue orders --proto order.proto --message shop.Order";
    daemon.says(&register.split(' ').collect::<Vec<_>>());
    let list = "QUEUE   MESSAGE TYPE  VERSION\norders  shop.Order    1\n";
    assert_eq!(daemon.says(&["schema", "list"]), list);
    let broker = format!("--broker={}", daemon.broker);
    let output = Command::new(PROGRAM)
        .args(["queue", "list", "--auth-token", "s3cret", &broker])
        .output()
        .expect("it runs");
    assert_eq!(output.stdout, b"NAME  MESSAGES  IN-FLIGHT\n");
    assert!(daemon.dir.join("data").is_dir());
}

/// Variables say what flags do not, and flags win.
#[test]
fn variables_stand_in_for_flags() {
    let variables = [
        ("QWERQ_AUTH_TOKEN", "s3cret"),
        ("QWERQ_SCHEMA_MODE", "strict"),
    ];
    let strict = Daemon::start_with("variables", &["-p", "0", "--data-dir="], &variables);
    let publish = ["queue", "publish", "q", "x"];
    let (code, text) = strict.fails(&publish);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("schema required for queue"), "{text}");
    assert!(!strict.run_as(None, &publish).status.success());
    assert!(!strict.log.contains("has no effect"), "{}", strict.log);
    let flags = [
        "--port=0",
        "--data-dir=",
        "--auth-token=s3cret",
        "--schema-mode=permissive",
        "--sync-interval=0",
    ];
    let others = [
        ("QWERQ_AUTH_TOKEN", "other"),
        ("QWERQ_SCHEMA_MODE", "strict"),
    ];
    let permissive = Daemon::start_with("flags", &flags, &others);
    permissive.says(&publish);
    assert!(
        !permissive.log.contains("has no effect"),
        "{}",
        permissive.log
    );
}

#[test]
fn what_is_wrong_is_said_on_one_line_with_its_code() {
    let run = |words: &[&str]| {
        let output = Command::new(PROGRAM).args(words).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(text.lines().count(), 1, "{text}");
        (output.status.code(), text)
    };
    let (code, text) = run(&["queue", "list", "-b", "127.0.0.1:1"]);
    assert_eq!(
        (code, text.contains("127.0.0.1:1")),
        (Some(3), true),
        "{text}"
    );
    let (code, text) = run(&["serve", "--max-message-size", "2GB"]);
    assert_eq!(
        (code, text.contains("--max-message-size")),
        (Some(2), true),
        "{text}"
    );
    let (code, _) = run(&["serve", "--cluster-bootstrap"]);
    assert_eq!(code, Some(2));
}
