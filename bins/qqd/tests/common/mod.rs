//! What the daemon's tests share: starting it in an environment of its own, and files that go away afterwards.
#![allow(dead_code, reason = "every test file uses a part")]

pub(crate) mod api;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// The daemon with an environment that only the test decides, and a store that leaves no files.
pub(crate) fn qqd() -> Command {
    set_apart(Command::new(env!("CARGO_BIN_EXE_qqd")))
}

/// A command that starts the daemon by itself, in the same environment.
pub(crate) fn set_apart(mut command: Command) -> Command {
    command
        .env_clear()
        .env("QQ_STORAGE_BACKEND", "memory")
        .env("QQ_SERVER_BINARY_PORT", "0")
        .env("QQ_MANAGEMENT_PORT", "0");
    command
}

/// A directory for one test, removed at its end.
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// `name` must differ between tests of one process.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("qqd-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the directory can be made");
        Self { path }
    }

    /// Where a file of that name is or would be.
    pub(crate) fn path(&self, name: &str) -> String {
        self.path.join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("the file can be written");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A daemon that serves on a free port; killed when the test ends before it.
pub(crate) struct Daemon {
    child: Child,
    lines: Receiver<String>,
}

impl Daemon {
    /// Starts it with that configuration file.
    pub(crate) fn start(config: &str) -> Self {
        let mut command = qqd();
        command.args(["--config", config]);
        Self::spawn(command)
    }

    /// Starts it by a command that becomes the daemon.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let stderr = child.stderr.take().expect("it was asked for");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line of the log that contains `words`; lines before it are passed over.
    pub(crate) fn wait_for(&self, words: &str) -> String {
        self.lines_until(words).pop().expect("the line itself")
    }

    /// The lines of the log up to the next one that contains `words`.
    pub(crate) fn lines_until(&self, words: &str) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(rest) {
                Ok(line) => {
                    seen.push(line);
                    if seen.last().is_some_and(|line| line.contains(words)) {
                        return seen;
                    }
                }
                Err(_) => panic!("no line with {words:?} in {seen:#?}"),
            }
        }
    }

    /// The address that the first line names.
    pub(crate) fn address(&self) -> SocketAddr {
        address_in(&self.wait_for("AMQP on "))
    }

    /// Sends a signal such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let status = Command::new("/bin/sh")
            .args(["-c", &kill])
            .status()
            .expect("sh runs");
        assert!(status.success(), "{kill}");
    }

    /// Waits for the end.
    pub(crate) fn wait(mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the daemon does not end");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address in a line with `AMQP on 127.0.0.1:PORT,`.
pub(crate) fn address_in(line: &str) -> SocketAddr {
    let address = line
        .split_once("AMQP on ")
        .and_then(|(_, rest)| rest.split_once(", "));
    address
        .expect("the line names an address")
        .0
        .parse()
        .expect("an address")
}

/// Tries until it works out, for things that another process does in its own time.
pub(crate) fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(done) = attempt() {
            return done;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never happened: {what}");
}
