//! The thread that writes lines, and the bounded queue in front of it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Lines that may wait for the thread.
const LINES_MAX: usize = 8_192;
/// Bytes that are collected before they are written.
const CHUNK_BYTES: usize = 64 * 1024;
/// How long the last lines may take when the process ends.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

enum Item {
    Line(Vec<u8>),
    Reopen,
    Finish(SyncSender<()>),
}

/// The owner's end: opens the file again, and waits for the last line.
#[derive(Clone)]
pub(crate) struct Log {
    items: SyncSender<Item>,
}

/// The loggers' end: one call of `write` is one line.
pub(super) struct Lines {
    items: SyncSender<Item>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// Opens the file (standard error without one) and starts the thread.
    pub(super) fn start(path: Option<String>) -> io::Result<(Self, Lines)> {
        let sink = Sink::open(path.as_deref())?;
        let (items, received) = sync_channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_lines(&received, sink, path, &counter))?;
        Ok((
            Self {
                items: items.clone(),
            },
            Lines { items, dropped },
        ))
    }

    /// Opens the file again under its name: what log rotation wants after it moved the old one.
    pub(crate) fn reopen(&self) {
        let _ = self.items.send(Item::Reopen);
    }

    /// Waits until everything that was logged is written, within reason.
    pub(crate) fn finish(&self) {
        let (done, is_done) = sync_channel(1);
        if self.items.send(Item::Finish(done)).is_ok() {
            let _ = is_done.recv_timeout(FINISH_TIMEOUT);
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.items.try_send(Item::Line(line.to_vec())) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Sink {
    File(File),
    Stderr,
}

impl Sink {
    fn open(path: Option<&str>) -> io::Result<Self> {
        match path {
            Some(path) => Ok(Self::File(
                OpenOptions::new().create(true).append(true).open(path)?,
            )),
            None => Ok(Self::Stderr),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(bytes),
            Self::Stderr => io::stderr().lock().write_all(bytes),
        }
    }
}

/// Runs until the senders are gone.
fn write_lines(items: &Receiver<Item>, mut sink: Sink, path: Option<String>, dropped: &AtomicU64) {
    let mut chunk = Vec::new();
    let mut waiting: Option<SyncSender<()>> = None;
    let mut wants_reopen = false;
    loop {
        // Everything that is there is one write; only when nothing is left does the thread sleep.
        let next = if chunk.is_empty() && waiting.is_none() && !wants_reopen {
            items.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            items.recv_timeout(Duration::ZERO)
        };
        let is_ended = matches!(next, Err(RecvTimeoutError::Disconnected));
        match next {
            Ok(Item::Line(line)) => {
                chunk.extend_from_slice(&line);
                if chunk.len() < CHUNK_BYTES {
                    continue;
                }
            }
            Ok(Item::Reopen) => wants_reopen = true,
            Ok(Item::Finish(done)) => waiting = Some(done),
            Err(_) => {}
        }
        let missing = dropped.swap(0, Ordering::Relaxed);
        if missing > 0 {
            chunk.extend_from_slice(
                format!(
                    "{missing} log lines were dropped: the log could not be written fast enough\n"
                )
                .as_bytes(),
            );
        }
        // A full disk must not end the broker: the lines are lost, the next ones are tried again.
        let _ = sink.write(&chunk);
        chunk.clear();
        if std::mem::take(&mut wants_reopen) {
            match Sink::open(path.as_deref()) {
                Ok(opened) => sink = opened,
                Err(error) => {
                    let text = format!(
                        "the log file cannot be opened again, the old one stays in use: {error}\n"
                    );
                    let _ = sink.write(text.as_bytes());
                }
            }
        }
        if let Some(done) = waiting.take() {
            let _ = done.send(());
        }
        if is_ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_in_order_and_the_file_is_opened_again() {
        let directory = std::env::temp_dir().join(format!("qqd-log-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("the directory can be made");
        let path = directory.join("log");
        let (log, mut lines) =
            Log::start(path.to_str().map(str::to_owned)).expect("the file can be opened");
        for number in 0..100 {
            writeln!(lines, "line {number}").expect("never fails");
        }
        log.finish();
        let old = directory.join("log.1");
        std::fs::rename(&path, &old).expect("it exists");
        log.reopen();
        lines.write_all(b"after\n").expect("never fails");
        log.finish();
        let expected: String = (0..100).map(|number| format!("line {number}\n")).collect();
        assert_eq!(std::fs::read_to_string(&old).expect("it exists"), expected);
        assert_eq!(
            std::fs::read_to_string(&path).expect("it exists"),
            "after\n"
        );
        std::fs::remove_dir_all(&directory).expect("it exists");
    }

    #[test]
    fn what_finds_the_queue_full_is_counted() {
        let (items, _received) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let mut lines = Lines {
            items,
            dropped: Arc::clone(&dropped),
        };
        for _ in 0..4 {
            lines.write_all(b"x\n").expect("never fails");
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
    }
}
