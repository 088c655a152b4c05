//! Starts the real daemon for tests: builds it when no path was given, gives it a free port and a
//! folder of its own, ends it when the test ends.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a daemon may take to answer, or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A runtime that the daemon can be built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// The default.
    Tokio,
    /// The other.
    Smol,
}

/// The daemon's binary: from `QQ_QQD_TOKIO` or `QQ_QQD_SMOL`, else built into this target folder.
pub(crate) fn binary(flavour: Flavour) -> PathBuf {
    static BUILD: Mutex<()> = Mutex::new(());
    let (variable, name) = match flavour {
        Flavour::Tokio => ("QQ_QQD_TOKIO", "tokio"),
        Flavour::Smol => ("QQ_QQD_SMOL", "smol"),
    };
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let _guard = BUILD.lock().unwrap_or_else(|e| e.into_inner());
    let exe = std::env::current_exe().expect("the test's own path");
    let target = exe
        .ancestors()
        .nth(3)
        .expect("the target folder")
        .join("qqd")
        .join(name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace");
    let mut build = Command::new(env!("CARGO"));
    build
        .current_dir(root)
        .args(["build", "--quiet", "-p", "qqd", "--target-dir"])
        .arg(&target);
    build.args(["--no-default-features", "--features", name]);
    let status = build.status().expect("cargo can be started");
    assert!(status.success(), "the daemon was not built: {status}");
    target.join("debug").join("qqd")
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// A running daemon.
pub(crate) struct Daemon {
    /// The process.
    pub(crate) child: Child,
    /// Its AMQP port.
    pub(crate) port: u16,
    /// Its folder: configuration and log.
    pub(crate) dir: PathBuf,
}

/// Writes a configuration: a free port, memory, queues on attach; `extra` goes below.
pub(crate) fn configure(dir: &Path, port: u16, server: &str, extra: &str) -> PathBuf {
    fs::create_dir_all(dir).expect("a folder for the daemon");
    let users = dir.join("users");
    fs::write(&users, "guest:guest\n").expect("the users file");
    let text = format!(
        "[server]\nbind_addr = \"127.0.0.1\"\namqp_port = {port}\nbinary_port = 0\n{server}\n\
         [management]\nenabled = false\n[storage]\nbackend = \"memory\"\n\
         [defaults]\nauto_create_queues = true\nauto_create_except = [\"conform-absent-\"]\n\
         [logging]\nlevel = \"warn\"\n{extra}\n"
    );
    let text = text.replace("USERS", &users.display().to_string());
    let path = dir.join("qqd.toml");
    fs::write(&path, text).expect("the configuration");
    path
}

/// A folder that no other test uses.
pub(crate) fn folder(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("the test's own path");
    let base = exe.parent().expect("a folder").join("daemons");
    let dir = base.join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a folder");
    dir
}

impl Daemon {
    /// Starts a daemon and waits until it takes connections.
    pub(crate) fn start(flavour: Flavour, name: &str, server: &str, extra: &str) -> Self {
        let binary = binary(flavour);
        let command = Command::new(binary);
        Self::start_with(command, name, server, extra)
    }

    /// The same with a command of the caller's, to which `--config FILE` is added.
    pub(crate) fn start_with(mut command: Command, name: &str, server: &str, extra: &str) -> Self {
        let dir = folder(name);
        let port = free_port();
        let config = configure(&dir, port, server, extra);
        let log = fs::File::create(dir.join("log")).expect("a log file");
        let child = command
            .arg("--config")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the daemon can be started");
        let mut daemon = Self { child, port, dir };
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = daemon.child.try_wait().expect("a process");
            assert!(
                ended.is_none(),
                "the daemon ended: {ended:?}\n{}",
                daemon.log()
            );
            assert!(
                Instant::now() < until,
                "the daemon takes no connection\n{}",
                daemon.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        daemon
    }

    /// What the daemon logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Asks the daemon to end.
    pub(crate) fn terminate(&self) {
        let status = Command::new("kill")
            .arg("-TERM")
            .arg(self.child.id().to_string())
            .status();
        assert!(
            status.expect("kill can be started").success(),
            "the daemon is gone"
        );
    }

    /// Waits for the daemon's end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a process") {
                return status;
            }
            assert!(
                Instant::now() < until,
                "the daemon does not end\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Resident memory in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.status_field("VmRSS:")
    }

    /// Open file descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .map(Iterator::count)
            .unwrap_or(0)
    }

    fn status_field(&self, name: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let text = text.expect("the process's status");
        let line = text.lines().find(|l| l.starts_with(name)).expect("a field");
        line.split_whitespace()
            .nth(1)
            .and_then(|n| n.parse().ok())
            .expect("a number")
    }

    /// Processor time used so far, in ticks of 10 ms.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let text = text.expect("the process's statistics");
        let tail = text.rsplit(')').next().expect("fields").split_whitespace();
        let fields: Vec<u64> = tail.map(|f| f.parse().unwrap_or(0)).collect();
        fields[11] + fields[12]
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}
