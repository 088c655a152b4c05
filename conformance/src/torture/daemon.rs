//! A daemon that can be harmed: started under a wrapper (`strace`, `prlimit`), killed, stopped and
//! started again on the same folder.
//!
//! It binds a free port of its own choice at each start, which its first log line names, so that
//! nobody can take the port while it is down.

use super::Outcome;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a daemon may take to answer, or to end, before a scene gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How to start a daemon.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// The daemon's binary.
    pub binary: PathBuf,
    /// Its folder: configuration, logs, and the store in `data`.
    pub dir: PathBuf,
    /// Lines of `[server]`.
    pub server: String,
    /// Lines of `[storage]`; without any it is the durable store with synced writes.
    pub storage: String,
    /// Lines of `[limits]`.
    pub limits: String,
    /// Free room of the disk, in MiB, below which durable messages are refused; without it a little: how full the
    /// machine's own disk is must not decide a test.
    pub room_min_mib: Option<u32>,
    /// A command that becomes or starts the daemon: `["prlimit", "--nofile=64"]`.
    pub wrapper: Vec<String>,
    /// Environment variables.
    pub variables: Vec<(String, String)>,
}

impl Setup {
    /// A durable daemon in a folder below `base`, which is emptied.
    pub fn fresh(binary: &Path, base: &Path, name: &str) -> Self {
        // A trace of system calls names files from the root on.
        let base = std::path::absolute(base).unwrap_or_else(|_| base.to_path_buf());
        let dir = base.join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        Self {
            binary: binary.to_path_buf(),
            dir,
            ..Self::default()
        }
    }

    /// Where the store is.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Octets of the store's files, without the room that is kept aside.
    pub fn data_octets(&self) -> u64 {
        let files = fs::read_dir(self.data()).into_iter().flatten().flatten();
        files
            .filter(|f| f.file_name() != "ballast")
            .filter_map(|f| f.metadata().ok())
            .map(|m| m.len())
            .sum()
    }

    /// The configuration file, written anew.
    pub fn configure(&self) -> Outcome<PathBuf> {
        let data = self.data();
        let storage = if self.storage.is_empty() {
            format!("backend = \"sqlite\"\npath = \"{}\"\n", data.display())
        } else {
            self.storage.replace("DATA", &data.display().to_string())
        };
        let room = self.room_min_mib.unwrap_or(16);
        let text = format!(
            "[server]
bind_addr = \"127.0.0.1\"
amqp_port = 0
binary_port = 0
{}
[management]
enabled = false
[storage]
{storage}
\
             [defaults]
auto_create_queues = true
failure_policy = \"drop\"
\
             max_deliveries = 0
[logging]
level = \"info\"
[limits]
disk_free_min = \"{room}MiB\"
{}
",
            self.server, self.limits
        );
        let path = self.dir.join("qqd.toml");
        fs::create_dir_all(&self.dir).map_err(|e| format!("{}: {e}", self.dir.display()))?;
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    }

    /// A command of the daemon with its configuration and nothing else yet.
    pub fn command(&self) -> Outcome<Command> {
        let config = self.configure()?;
        let mut command = match self.wrapper.split_first() {
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&self.binary);
                command
            }
            None => Command::new(&self.binary),
        };
        command.arg("--config").arg(config);
        command.envs(self.variables.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Runs the daemon with one of its maintenance flags to its end: exit code and all it said.
    pub fn run(&self, flags: &[&str]) -> Outcome<(Option<i32>, String)> {
        let plain = Self {
            wrapper: vec![],
            ..self.clone()
        };
        let output = plain.command()?.args(flags).output();
        let output = output.map_err(|e| format!("{}: {e}", self.binary.display()))?;
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok((output.status.code(), said))
    }

    /// Starts it without waiting; standard error goes to a log of its own.
    pub fn spawn(&self) -> Outcome<Daemon> {
        let mut command = self.command()?;
        let nth = (1..).find(|n| !self.dir.join(format!("log-{n}")).exists());
        let log = self.dir.join(format!("log-{}", nth.unwrap_or(0)));
        let file = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let began = Instant::now();
        let child = command
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .map_err(|e| format!("{:?}: {e}", command.get_program()))?;
        Ok(Daemon {
            child,
            port: 0,
            log,
            began,
            to_accept: Duration::ZERO,
        })
    }

    /// Starts it and waits until it takes connections.
    pub fn start(&self) -> Outcome<Daemon> {
        let mut daemon = self.spawn()?;
        daemon.wait_ready()?;
        Ok(daemon)
    }
}

/// A started daemon; killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    /// Its AMQP port.
    pub port: u16,
    log: PathBuf,
    began: Instant,
    /// From the start of the process to the first accepted connection.
    pub to_accept: Duration,
}

impl Daemon {
    /// Waits until a connection is accepted.
    pub fn wait_ready(&mut self) -> Outcome<()> {
        while self.began.elapsed() < PATIENCE {
            if let Some(status) = self.ended()? {
                return Err(format!(
                    "the daemon ended at once: {status}\n{}",
                    self.log()
                ));
            }
            self.port = port_in(&self.log()).unwrap_or(0);
            if self.port != 0 && TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                self.to_accept = self.began.elapsed();
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err(format!("the daemon takes no connection\n{}", self.log()))
    }

    /// Time since the process was started.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it logged since this start.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal such as `TERM`.
    pub fn signal(&self, name: &str) -> Outcome<()> {
        let status = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.id().to_string())
            .status()
            .map_err(|e| format!("kill: {e}"))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("no process for SIG{name}\n{}", self.log()))
        }
    }

    /// Ends it as a crash does, and waits until it is gone.
    pub fn kill(&mut self) -> Outcome<()> {
        self.child.kill().map_err(|e| format!("kill: {e}"))?;
        self.child.wait().map_err(|e| format!("wait: {e}"))?;
        Ok(())
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Outcome<Option<ExitStatus>> {
        self.child.try_wait().map_err(|e| format!("wait: {e}"))
    }

    /// Waits for its end by itself.
    pub fn wait(&mut self, patience: Duration) -> Outcome<ExitStatus> {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!("the daemon does not end\n{}", self.log()))
    }

    /// A numeric field of its `/proc/PID/status`, in the file's unit (KiB for memory).
    pub fn status(&self, field: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        let line = text.lines().find(|l| l.starts_with(field));
        let number = line.and_then(|l| l.split_whitespace().nth(1));
        number.and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// Resident memory in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// Octets that it made the kernel send to a disk so far.
    pub fn written(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/io", self.id())).unwrap_or_default();
        let line = text.lines().find(|l| l.starts_with("write_bytes:"));
        let number = line.and_then(|l| l.split_whitespace().nth(1));
        number.and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// Open file descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.id())).map_or(0, Iterator::count)
    }

    /// Processor time used so far, in ticks of 10 ms.
    pub fn cpu_ticks(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        let tail = text.rsplit(')').next().unwrap_or_default();
        let fields: Vec<u64> = tail
            .split_whitespace()
            .map(|f| f.parse().unwrap_or(0))
            .collect();
        fields.get(11).unwrap_or(&0) + fields.get(12).unwrap_or(&0)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A stopped process does take SIGKILL.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port that a log names in `AMQP on 127.0.0.1:PORT`.
fn port_in(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once("AMQP on 127.0.0.1:")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    // The line may be half written.
    if rest.len() == digits.len() {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::port_in;

    #[test]
    fn a_half_written_line_names_no_port() {
        assert_eq!(port_in("INFO AMQP on 127.0.0.1:567"), None);
        assert_eq!(port_in("INFO AMQP on 127.0.0.1:5672, store"), Some(5672));
        assert_eq!(port_in(""), None);
    }
}
