//! The daemon with its durable store: what it finds again, and when it refuses to start.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of a process own files, sockets and clocks"
)]
#![cfg(feature = "sqlite")]

mod common;

use std::net::TcpStream;
use std::process::{Command, Output};

use common::{Daemon, Scratch, qqd};

const TWO_QUEUES: &str =
    "[server]\namqp_port = 0\n[[queue]]\nname = \"a\"\n[[queue]]\nname = \"b\"\n";
const NO_QUEUE: &str = "[server]\namqp_port = 0\n";

/// The daemon on the default store, below a directory of the test's.
fn durable(scratch: &Scratch, toml: &str) -> Command {
    let config = scratch.file("broker.toml", toml);
    let mut command = qqd();
    command
        .env_remove("QQ_STORAGE_BACKEND")
        // How full the machine's disk is must not decide a test.
        .env("QQ_LIMITS_DISK_FREE_MIN", "16MiB")
        .current_dir(scratch.path("."))
        .args(["--config", &config]);
    command
}

fn refused(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().expect("qqd runs");
    (status.code(), String::from_utf8(stderr).expect("UTF-8"))
}

/// Works on the store: exit code, standard output, standard error.
fn work(scratch: &Scratch, toml: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = durable(scratch, toml);
    let output = command.args(args).output().expect("qqd runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A bit of the last byte of every page but the first, which names the tables: cells grow from the end of a page, so
/// it belongs to a row if there is one.
fn damage(path: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(path).expect("it was made");
    bytes
        .iter_mut()
        .skip(2 * 4_096 - 1)
        .step_by(4_096)
        .for_each(|byte| *byte ^= 1);
    std::fs::write(path, &bytes).expect("it can be written");
    bytes
}

/// Starts, reads the first line, and stops.
fn first_line(scratch: &Scratch, toml: &str) -> String {
    let daemon = Daemon::spawn(durable(scratch, toml));
    let line = daemon.wait_for("AMQP on ");
    daemon.signal("TERM");
    assert_eq!(daemon.wait().code(), Some(0));
    line
}

#[test]
fn by_default_queues_are_found_again() {
    let scratch = Scratch::new("found");
    let line = first_line(&scratch, TWO_QUEUES);
    let words = "store sqlite in ./qq-data: 0 messages in 2 queues, recovered in ";
    assert!(line.contains(words), "{line}");
    // Nobody declares them this time.
    let line = first_line(&scratch, NO_QUEUE);
    assert!(line.contains("0 messages in 2 queues, "), "{line}");
}

#[test]
fn op_05_a_store_in_use_refuses_a_second_daemon_and_the_first_goes_on() {
    let scratch = Scratch::new("used");
    let first = Daemon::spawn(durable(&scratch, NO_QUEUE));
    let address = first.address();
    let (code, text) = refused(durable(&scratch, NO_QUEUE));
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.starts_with("qqd: the store in ./qq-data cannot be used: "),
        "{text}"
    );
    assert!(text.contains(&format!("process {}", first.id())), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    TcpStream::connect(address).expect("the first still accepts");
}

#[test]
fn du_05_a_damaged_store_is_refused_with_what_to_do_and_left_as_it_is() {
    let scratch = Scratch::new("damaged");
    first_line(&scratch, TWO_QUEUES);
    let path = scratch.path("qq-data/store.db");
    let sound = std::fs::read(&path).expect("it was made");
    let flipped = damage(&path);
    let half = sound[..sound.len() / 2].to_vec();
    for bytes in [flipped, half, Vec::new()] {
        std::fs::write(&path, &bytes).expect("it can be written");
        let (code, text) = refused(durable(&scratch, NO_QUEUE));
        assert_eq!(code, Some(1), "{text}");
        assert!(
            text.starts_with("qqd: the store in ./qq-data is damaged: "),
            "{text}"
        );
        for words in ["--check-store", "--salvage"] {
            assert!(text.contains(words), "{text}");
        }
        assert_eq!(text.lines().count(), 1, "{text}");
        assert_eq!(std::fs::read(&path).expect("it is there"), bytes);
    }
    std::fs::write(&path, sound).expect("it can be written");
    let line = first_line(&scratch, NO_QUEUE);
    assert!(line.contains("0 messages in 2 queues, "), "{line}");
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let scratch = Scratch::new("nodir");
    let file = scratch.file("file", "not a directory");
    let toml = format!("{NO_QUEUE}[storage]\npath = \"{file}/data\"\n");
    let (code, text) = refused(durable(&scratch, &toml));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(&file), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn without_sync_the_owner_is_told_what_is_lost() {
    let scratch = Scratch::new("nosync");
    let toml = format!("{NO_QUEUE}[storage]\nsync_writes = false\n");
    let daemon = Daemon::spawn(durable(&scratch, &toml));
    let line = daemon.wait_for("sync_writes = false");
    assert!(
        line.contains("WARN") && line.contains("power cut"),
        "{line}"
    );
}

#[test]
fn an_empty_path_is_a_mistake_of_the_configuration() {
    let scratch = Scratch::new("nopath");
    let (code, text) = refused(durable(&scratch, "[storage]\npath = \"\"\n"));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("broker.toml:2: storage.path"), "{text}");
}

#[test]
fn a_check_says_whether_the_store_is_sound() {
    let scratch = Scratch::new("check");
    let (code, _, text) = work(&scratch, NO_QUEUE, &["--check-store"]);
    assert_eq!(code, Some(1), "there is none yet: {text}");
    assert!(
        text.contains("./qq-data") && text.lines().count() == 1,
        "{text}"
    );
    assert!(
        !std::path::Path::new(&scratch.path("qq-data")).exists(),
        "and none is made"
    );

    first_line(&scratch, TWO_QUEUES);
    let (code, report, text) = work(&scratch, NO_QUEUE, &["--check-store"]);
    assert_eq!((code, text.as_str()), (Some(0), ""));
    assert!(report.contains("2 queues, 0 messages"), "{report}");

    let path = scratch.path("qq-data/store.db");
    let bytes = damage(&path);
    let (code, report, text) = work(&scratch, NO_QUEUE, &["--check-store"]);
    assert_eq!(code, Some(1), "{report}{text}");
    assert!(
        format!("{report}{text}").contains("definition"),
        "{report}{text}"
    );
    assert_eq!(std::fs::read(&path).expect("it is there"), bytes);
}

#[test]
fn a_running_broker_can_be_checked_and_copied_and_the_copy_is_a_store() {
    let scratch = Scratch::new("backup");
    first_line(&scratch, TWO_QUEUES);
    let daemon = Daemon::spawn(durable(&scratch, TWO_QUEUES));
    daemon.address();
    let (code, report, text) = work(&scratch, NO_QUEUE, &["--check-store"]);
    assert_eq!(code, Some(0), "{report}{text}");
    let copy = scratch.path("copy.db");
    let (code, report, text) = work(&scratch, NO_QUEUE, &["--backup", &copy]);
    assert_eq!(code, Some(0), "{report}{text}");
    assert!(report.contains("2 queues, 0 messages"), "{report}");
    let (code, _, text) = work(&scratch, NO_QUEUE, &["--backup", &copy]);
    assert_eq!(code, Some(1), "nothing is overwritten: {text}");
    assert!(text.contains(&copy), "{text}");
    // Neither is a store that is there.
    let (code, _, text) = work(&scratch, NO_QUEUE, &["--restore", &copy]);
    assert_eq!(code, Some(1), "{text}");
    let (code, _, text) = work(&scratch, NO_QUEUE, &["--salvage"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("in use"), "{text}");
    daemon.signal("TERM");
    assert_eq!(daemon.wait().code(), Some(0));

    let elsewhere = format!("{NO_QUEUE}[storage]\npath = \"./other\"\n");
    let (code, report, text) = work(&scratch, &elsewhere, &["--restore", &copy]);
    assert_eq!(code, Some(0), "{report}{text}");
    let line = first_line(&scratch, &elsewhere);
    let words = "store sqlite in ./other: 0 messages in 2 queues, ";
    assert!(line.contains(words), "{line}");
    damage(&copy);
    let third = format!("{NO_QUEUE}[storage]\npath = \"./third\"\n");
    let (code, _, text) = work(&scratch, &third, &["--restore", &copy]);
    assert_eq!(code, Some(1), "a damaged copy is none: {text}");
}

#[test]
fn a_salvage_makes_a_store_that_starts_and_keeps_the_damaged_files() {
    let scratch = Scratch::new("salvage");
    first_line(&scratch, TWO_QUEUES);
    let bytes = damage(&scratch.path("qq-data/store.db"));
    let (code, report, text) = work(&scratch, NO_QUEUE, &["--salvage"]);
    assert_eq!(code, Some(0), "{report}{text}");
    assert!(report.contains("definition"), "{report}");
    let line = first_line(&scratch, NO_QUEUE);
    assert!(
        line.contains("store sqlite in ./qq-data: 0 messages"),
        "{line}"
    );
    let files = std::fs::read_dir(scratch.path("qq-data")).expect("it is there");
    let aside = files
        .map(|file| file.expect("an entry").path())
        .find(|path| path.to_string_lossy().contains("store.db.damaged-"));
    let aside = aside.expect("the damaged file");
    assert_eq!(std::fs::read(aside).expect("it can be read"), bytes);
}

#[test]
fn without_files_there_is_nothing_to_work_on() {
    let scratch = Scratch::new("nofiles");
    let memory = format!("{NO_QUEUE}[storage]\nbackend = \"memory\"\n");
    for args in [
        &["--check-store"][..],
        &["--salvage"],
        &["--backup", "a"],
        &["--restore", "a"],
    ] {
        let (code, report, text) = work(&scratch, &memory, args);
        assert_eq!((code, report.as_str()), (Some(2), ""), "{args:?}: {text}");
        assert!(text.starts_with(&format!("qqd: {}: [storage] backend = \"memory\"", args[0])));
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
