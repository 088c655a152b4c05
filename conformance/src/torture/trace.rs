//! System calls of a daemon, as `strace` wrote them down: who wrote what to which file or socket,
//! and when each call began and returned.
//!
//! The tracer stops the traced thread at both ends of a call and writes its lines in that order,
//! so an order of lines is an order that happened.

use super::Outcome;
use super::daemon::{Daemon, PATIENCE, Setup};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Calls that change files or tell peers something.
pub const CHANGES: &str = "trace=pwrite64,write,writev,sendto,sendmsg,fdatasync,fsync,ftruncate,\
                           fallocate,unlink,unlinkat,rename,renameat,renameat2,openat";

/// One call.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// First argument when it is a descriptor: its path, or `TCP:[HERE->THERE]`.
    pub target: String,
    /// Quoted arguments, decoded.
    pub strings: Vec<Vec<u8>>,
    /// Arguments as text.
    pub arguments: Vec<String>,
    /// Line at which it began.
    pub began: usize,
    /// Line at which it returned; the largest number when it never did.
    pub returned: usize,
    /// What it returned; negative for an error.
    pub result: i64,
    /// Path of the descriptor that it returned.
    pub opened: String,
    /// Whether the tracer made it fail.
    pub is_injected: bool,
}

impl Call {
    /// Octets that were really written.
    pub fn data(&self) -> Vec<u8> {
        let mut data = self.strings.concat();
        data.truncate(usize::try_from(self.result).unwrap_or(0));
        data
    }

    /// A numeric argument.
    pub fn number(&self, index: usize) -> Option<u64> {
        self.arguments.get(index)?.parse().ok()
    }
}

/// Whether `strace` can be started, with a text that says what to do when not.
pub fn need_strace() -> Outcome<()> {
    let run = Command::new("strace")
        .arg("-V")
        .stdout(Stdio::null())
        .status();
    match run {
        Ok(status) if status.success() => Ok(()),
        _ => Err("strace is needed: apt-get install strace".into()),
    }
}

/// Puts `strace` with these options around a daemon. The daemon stays the child process, so that
/// its id and exit code are its own.
pub fn wrap(setup: &mut Setup, options: &[&str], output: &Path) -> Outcome<()> {
    need_strace()?;
    let words = ["strace", "-D", "-f", "-q", "-e", "signal=none", "-o"];
    setup.wrapper = words.iter().map(|w| (*w).to_owned()).collect();
    setup.wrapper.push(output.display().to_string());
    setup
        .wrapper
        .extend(options.iter().map(|o| (*o).to_owned()));
    Ok(())
}

/// The tracer of a process; it ends after the process and its file is whole only then.
#[derive(Debug)]
pub struct Tracer(PathBuf);

impl Tracer {
    /// The tracer of a running daemon.
    pub fn of(daemon: &Daemon) -> Outcome<Self> {
        match daemon.status("TracerPid:") {
            0 => Err(format!("the daemon is not traced\n{}", daemon.log())),
            id => Ok(Self(PathBuf::from(format!("/proc/{id}")))),
        }
    }

    /// Waits for its end.
    pub fn wait(&self) -> Outcome<()> {
        let until = Instant::now() + PATIENCE;
        while self.0.exists() {
            if Instant::now() > until {
                return Err("the tracer does not end".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Reads a trace that was written with `-f -yy -xx`.
pub fn read(path: &Path) -> Outcome<Vec<Call>> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(parse(&text))
}

/// The calls of a trace, in the order in which they began.
pub fn parse(text: &str) -> Vec<Call> {
    let mut calls = vec![];
    let mut open: HashMap<&str, (String, usize)> = HashMap::new();
    for (line_number, line) in text.lines().enumerate() {
        let Some((process, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            open.insert(process, (begun.to_owned(), line_number));
        } else if rest.starts_with("<... ") {
            let tail = rest.split_once(" resumed>").map_or("", |(_, tail)| tail);
            if let Some((begun, began)) = open.remove(process) {
                calls.extend(call(&format!("{begun}{tail}"), began, line_number));
            }
        } else {
            calls.extend(call(rest, line_number, line_number));
        }
    }
    // Calls that never returned may have had their effect.
    for (begun, began) in open.into_values() {
        calls.extend(call(&format!("{begun}) = -1"), began, usize::MAX));
    }
    calls.sort_by_key(|c| c.began);
    calls
}

fn call(text: &str, began: usize, returned: usize) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return None;
    }
    let (inside, result) = rest.rsplit_once(" = ")?;
    let inside = inside.trim_end().strip_suffix(')')?;
    let mut call = Call {
        name: name.to_owned(),
        began,
        returned,
        ..Call::default()
    };
    let number: String = result
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '-')
        .collect();
    call.result = number.parse().unwrap_or(-1);
    call.opened = described(result);
    call.is_injected = result.contains("(INJECTED)");
    call.target = described(inside.split(", ").next().unwrap_or_default());
    // Quoted texts hold nothing but hex escapes, so quotes come in pairs.
    for (n, part) in inside.split('"').enumerate() {
        if n % 2 == 1 {
            call.strings.push(unescape(part));
        }
    }
    call.arguments = inside.split(", ").map(str::to_owned).collect();
    Some(call)
}

/// What stands in angle brackets behind a descriptor.
fn described(text: &str) -> String {
    let Some((_, rest)) = text.split_once('<') else {
        return String::new();
    };
    let inside = rest.rsplit_once('>').map_or("", |(inside, _)| inside);
    if inside.starts_with("\\x") {
        String::from_utf8_lossy(&unescape(inside)).into_owned()
    } else {
        inside.to_owned()
    }
}

fn unescape(text: &str) -> Vec<u8> {
    text.split("\\x")
        .skip(1)
        .filter_map(|pair| u8::from_str_radix(pair.get(..2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"17  openat(AT_FDCWD<\x2f\x74>, "\x2f\x61", O_RDWR|O_CREAT, 0777) = 3<\x2f\x61>
17  pwrite64(3<\x2f\x61>, "\x68\x69\x00", 3, 512 <unfinished ...>
18  fdatasync(4<\x2f\x62> <unfinished ...>
17  <... pwrite64 resumed>)           = 2
18  <... fdatasync resumed>)          = -1 EIO (Input/output error) (INJECTED)
17  writev(6<TCP:[127.0.0.1:1->127.0.0.1:2]>, [{iov_base="\x31", iov_len=1}, {iov_base="\x32\x32", iov_len=2}], 2) = 3
17  fsync(3<\x2f\x61> <unfinished ...>
17  +++ exited with 0 +++
"#;

    #[test]
    fn calls_keep_their_data_their_ends_and_their_order() {
        let calls = parse(TEXT);
        let names: Vec<_> = calls.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(
            names,
            ["openat", "pwrite64", "fdatasync", "writev", "fsync"]
        );
        assert_eq!((calls[0].result, calls[0].opened.as_str()), (3, "/a"));
        assert_eq!(calls[0].strings, [b"/a".to_vec()]);
        let write = &calls[1];
        assert_eq!((write.target.as_str(), write.number(3)), ("/a", Some(512)));
        // A short write wrote what it says.
        assert_eq!(write.data(), b"hi");
        assert_eq!((write.began, write.returned), (1, 3));
        assert_eq!((calls[2].result, calls[2].returned), (-1, 4));
        assert!(calls[2].is_injected && !calls[1].is_injected);
        assert_eq!(calls[3].data(), b"122");
        assert_eq!(calls[3].target, "TCP:[127.0.0.1:1->127.0.0.1:2]");
        assert_eq!(calls[4].returned, usize::MAX);
    }
}
