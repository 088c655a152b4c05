//! The daemon as a process: ports, signals, log files (case OP-05).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of a process own files, sockets and clocks"
)]

mod common;

use std::io::Write;
use std::net::{TcpListener, TcpStream};

use common::{Daemon, Scratch, address_in, eventually, qqd, set_apart};

/// Also those that a second daemon on the same machine collides with, and how it is given others.
#[test]
fn op_05_a_port_in_use_ends_the_start_with_address_cause_and_remedy() {
    let occupied = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = occupied.local_addr().expect("it is bound");
    for (name, variable, key) in [
        ("AMQP", "QQ_SERVER_AMQP_PORT", "[server] amqp_port"),
        ("QWER-Q", "QQ_SERVER_BINARY_PORT", "[server] binary_port"),
        ("management", "QQ_MANAGEMENT_PORT", "[management] port"),
    ] {
        let output = qqd()
            .env("QQ_SERVER_AMQP_PORT", "0")
            .env("QQ_SERVER_BINARY_PORT", "0")
            .env("QQ_MANAGEMENT_ENABLED", "true")
            .env(variable, address.port().to_string())
            .output()
            .expect("qqd runs");
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(
            text.starts_with(&format!("qqd: cannot listen on {address} ({name}): ")),
            "{text}"
        );
        for word in ["in use", variable, key] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn an_address_of_another_machine_cannot_be_bound() {
    // TEST-NET-1 of RFC 5737 belongs to nobody.
    let output = qqd()
        .env("QQ_SERVER_BIND_ADDR", "192.0.2.1")
        .env("QQ_SERVER_AMQP_PORT", "0")
        .output()
        .expect("qqd runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        text.starts_with("qqd: cannot listen on 192.0.2.1:0 (AMQP): "),
        "{text}"
    );
}

#[test]
fn a_log_file_that_cannot_be_opened_is_named() {
    let output = qqd()
        .env("QQ_SERVER_AMQP_PORT", "0")
        .env("QQ_LOGGING_FILE", "/nowhere/qqd.log")
        .output()
        .expect("qqd runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        text.starts_with("qqd: /nowhere/qqd.log: log file cannot be opened: "),
        "{text}"
    );
}

#[test]
fn it_serves_and_stops_on_either_signal() {
    for signal in ["TERM", "INT"] {
        let scratch = Scratch::new(signal);
        let daemon = Daemon::start(&scratch.file("broker.toml", "[server]\namqp_port = 0\n"));
        let address = daemon.address();
        let client = TcpStream::connect(address).expect("it accepts");
        daemon.signal(signal);
        daemon.wait_for("asked to stop");
        daemon.wait_for("stopped");
        assert_eq!(daemon.wait().code(), Some(0), "{signal}");
        drop(client);
        assert!(
            TcpStream::connect(address).is_err(),
            "the port is free again"
        );
    }
}

#[test]
fn the_first_line_says_what_runs() {
    let scratch = Scratch::new("first");
    let toml = "[server]\namqp_port = 0\n[[queue]]\nname = \"a\"\n[[queue]]\nname = \"b\"\n[cluster]\nenabled = true\n";
    let daemon = Daemon::start(&scratch.file("broker.toml", toml));
    let line = daemon.wait_for("AMQP on ");
    for words in [
        env!("CARGO_PKG_VERSION"),
        "store memory (nothing survives a restart): 0 messages in 2 queues, recovered in ",
        "auto-creation of queues off",
        "login not required",
    ] {
        assert!(line.contains(words), "{words}: {line}");
    }
    daemon.wait_for("[cluster]: not available in this build, without effect: enabled");
}

#[test]
fn hangup_reads_level_and_users_again_and_keeps_them_when_the_file_is_wrong() {
    let scratch = Scratch::new("hangup");
    let users = scratch.file("users", "ann:x\n");
    let toml = |level: &str| {
        format!(
            "[server]\namqp_port = 0\n[logging]\nlevel = \"{level}\"\n[auth]\nusers_file = \"{users}\"\n"
        )
    };
    let daemon = Daemon::start(&scratch.file("broker.toml", &toml("info")));
    assert!(daemon.wait_for("AMQP on ").contains("1 users"));

    scratch.file("users", "ann:x\nbob:y\n");
    scratch.file("broker.toml", &toml("debug"));
    daemon.signal("HUP");
    let line = daemon.wait_for("read again");
    assert!(line.contains("log level debug, 2 users"), "{line}");

    scratch.file("broker.toml", "[server]\namqp_prot = 0\n");
    daemon.signal("HUP");
    let line = daemon.wait_for("not read again");
    assert!(
        line.contains("broker.toml:2: server.amqp_prot: unknown key"),
        "{line}"
    );

    daemon.signal("TERM");
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn the_log_file_holds_json_and_is_opened_again_after_a_rotation() {
    let scratch = Scratch::new("rotate");
    let log = scratch.path("qqd.log");
    let toml = format!("[server]\namqp_port = 0\n[logging]\nformat = \"json\"\nfile = \"{log}\"\n");
    let daemon = Daemon::start(&scratch.file("broker.toml", &toml));
    let first = eventually("the first line", || {
        let text = std::fs::read_to_string(&log).ok()?;
        text.ends_with('\n').then_some(text)
    });
    for line in first.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("a JSON object");
        for key in ["time", "level", "target", "text"] {
            assert!(value[key].is_string(), "{key} in {line}");
        }
    }
    TcpStream::connect(address_in(first.lines().next().expect("a line"))).expect("it accepts");

    std::fs::rename(&log, scratch.path("qqd.log.1")).expect("it exists");
    daemon.signal("HUP");
    eventually("a line in the new file", || {
        std::fs::read_to_string(&log)
            .ok()
            .filter(|text| text.contains("read again"))
    });
    daemon.signal("TERM");
    assert_eq!(daemon.wait().code(), Some(0));
    let text = std::fs::read_to_string(&log).expect("it exists");
    assert!(
        text.lines()
            .last()
            .is_some_and(|line| line.contains("\"stopped\"")),
        "{text}"
    );
}

#[test]
fn op_06_health_probes_leave_no_warnings() {
    let scratch = Scratch::new("probes");
    let daemon = Daemon::start(&scratch.file("broker.toml", "[server]\namqp_port = 0\n"));
    let address = daemon.address();
    for _ in 0..20 {
        drop(TcpStream::connect(address).expect("it accepts"));
        // Closing with unread input makes a reset: the broker answers the header that it gets.
        let mut probe = TcpStream::connect(address).expect("it accepts");
        probe.write_all(b"AMQP\x00\x01\x00\x00").expect("it reads");
        probe.peek(&mut [0]).expect("an answer");
    }
    daemon.signal("HUP");
    for line in daemon.lines_until("read again") {
        assert!(!line.contains("WARN") && !line.contains("ERROR"), "{line}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_limit_of_open_files_is_raised_as_far_as_allowed() {
    let scratch = Scratch::new("files");
    let config = scratch.file("broker.toml", "[server]\namqp_port = 0\n");
    let command = format!(
        "ulimit -Sn 100; ulimit -Hn 300; exec {} --config {config}",
        env!("CARGO_BIN_EXE_qqd")
    );
    let mut shell = set_apart(std::process::Command::new("/bin/sh"));
    shell.args(["-c", &command]);
    let daemon = Daemon::spawn(shell);
    daemon.address();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.id())).expect("it runs");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let numbers: Vec<&str> = line
        .expect("a line")
        .split_whitespace()
        .skip(3)
        .take(2)
        .collect();
    assert_eq!(numbers, ["300", "300"]);
}
