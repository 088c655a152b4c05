//! Files that are damaged after a kill: cut at every sector of the journal's tail, single bits
//! flipped anywhere. The store may refuse with a report; it must never serve something else.

use super::daemon::Setup;
use super::kill::plans;
use super::load::Load;
use super::stored::{Contents, contents};
use super::{Outcome, Seed};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// What was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Damaged {
    /// Damaged copies of the store.
    pub copies: u32,
    /// Of them refused with a text.
    pub refused: u32,
    /// Of them opened with everything that was there.
    pub whole: u32,
    /// Of them opened with less: only where a file was cut.
    pub shorter: u32,
}

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// Fills a store with about `messages` messages, some of them settled, kills the daemon and returns
/// the files as they are then.
pub fn killed_store(setup: &Setup, messages: u64) -> Outcome<Files> {
    let mut daemon = setup.start()?;
    let (mut producers, consumers) = plans(0);
    for plan in &mut producers {
        plan.count = Some(messages / 4);
        plan.size = 300;
    }
    let epoch = Instant::now();
    let mut load = Load::start(daemon.port, epoch, &producers[1..], &consumers[..1]);
    load.wait_accepted(messages / 2, super::daemon::PATIENCE)?;
    load.add_producer(daemon.port, producers[0].clone());
    load.wait_accepted(messages * 9 / 10, super::daemon::PATIENCE)?;
    daemon.kill()?;
    load.join();
    let mut files = Files::new();
    for entry in fs::read_dir(setup.data())
        .map_err(|e| e.to_string())?
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Shared memory of the processes that had it open, and room kept aside.
        if !name.ends_with("-shm") && name != "ballast" {
            files.insert(name, fs::read(entry.path()).map_err(|e| e.to_string())?);
        }
    }
    Ok(files)
}

/// Cuts the journal at the last `sectors` multiples of 512 octets, and flips `flips` random bits.
pub fn damage(
    files: &Files,
    scratch: &Path,
    sectors: usize,
    flips: u32,
    mut seed: Seed,
) -> Outcome<Damaged> {
    let sound = open(files, scratch).map_err(|e| format!("the sound store is refused: {e}"))?;
    let mut damaged = Damaged::default();
    let wal = files
        .iter()
        .filter(|(name, _)| name.ends_with("-wal"))
        .map(|(n, f)| (n, f.len()));
    let (wal, len) = wal
        .max_by_key(|(_, len)| *len)
        .ok_or("there is no journal to cut")?;
    let cuts = (0..=len / 512).rev().map(|n| n * 512).take(sectors);
    for cut in cuts {
        let mut files = files.clone();
        files.entry(wal.clone()).or_default().truncate(cut);
        let found = open(&files, scratch);
        judge(&mut damaged, &sound, found, true).map_err(|e| format!("{wal} cut at {cut}: {e}"))?;
    }
    let all: Vec<_> = files.iter().filter(|(_, f)| !f.is_empty()).collect();
    let total: usize = all.iter().map(|(_, f)| f.len()).sum();
    for _ in 0..flips {
        let mut at = seed.below(total as u64) as usize;
        let bit = seed.below(8) as u8;
        let mut copy = files.clone();
        for (name, file) in &all {
            if at < file.len() {
                copy.entry((*name).clone()).or_default()[at] ^= 1 << bit;
                let found = open(&copy, scratch);
                // A damaged last commit is one whose sync never returned, for all anybody can see.
                let is_cut = name.ends_with("-wal") && at >= last_commit(file);
                judge(&mut damaged, &sound, found, is_cut)
                    .map_err(|e| format!("bit {bit} of octet {at} of {name}: {e}"))?;
                break;
            }
            at -= file.len();
        }
    }
    Ok(damaged)
}

/// Where the last commit of a write-ahead log begins. The log has a head of 32 octets with the size
/// of a page at 8; then frames of 24 octets and a page, of which those that end a commit have a
/// number other than 0 at 4, and those of this round the two salts of the head at 8.
fn last_commit(wal: &[u8]) -> usize {
    let word = |at: usize| {
        wal.get(at..at + 4)
            .map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    };
    let frame = word(8) as usize + 24;
    let mut ends = vec![32];
    let mut at = 32;
    while at + frame <= wal.len() && wal[at + 8..at + 16] == wal[16..24] {
        if word(at + 4) != 0 {
            ends.push(at + frame);
        }
        at += frame;
    }
    ends.pop();
    ends.pop().unwrap_or(32)
}

fn open(files: &Files, scratch: &Path) -> Result<Contents, String> {
    let _ = fs::remove_dir_all(scratch);
    fs::create_dir_all(scratch).map_err(|e| e.to_string())?;
    for (name, content) in files {
        fs::write(scratch.join(name), content).map_err(|e| e.to_string())?;
    }
    contents(scratch)
}

/// A flipped bit must be found or be harmless. A file that was cut, or whose last commit is
/// damaged, may have lost what was at its end, but never something in the middle.
fn judge(
    damaged: &mut Damaged,
    sound: &Contents,
    found: Result<Contents, String>,
    is_cut: bool,
) -> Outcome<()> {
    damaged.copies += 1;
    match found {
        Err(text) if text.is_empty() => return Err("refused without a word".into()),
        Err(_) => damaged.refused += 1,
        Ok(found) if found == *sound => damaged.whole += 1,
        Ok(found) if is_cut => {
            is_earlier(&found, sound)?;
            damaged.shorter += 1;
        }
        Ok(found) => {
            let count = |c: &Contents| c.values().map(Vec::len).sum::<usize>();
            return Err(format!(
                "{} messages of {} are served",
                count(&found),
                count(sound)
            ));
        }
    }
    Ok(())
}

/// Whether a state is an earlier one: of each producer the messages up to some counter, and of the
/// settled ones some are back at the head.
fn is_earlier(found: &Contents, sound: &Contents) -> Outcome<()> {
    for (queue, messages) in found {
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for (m, _) in messages {
            if m.0 == u64::MAX {
                return Err(format!("a body on {queue} is not whole"));
            }
            let before = last.insert(m.producer(), m.n());
            if before.is_some_and(|n| m.n() <= n) {
                return Err(format!("{m:?} on {queue} is out of order"));
            }
        }
        // Everything of the sound state up to the newest found is found.
        let whole = sound.get(queue).map_or(&[][..], Vec::as_slice);
        for (m, _) in whole {
            let is_due = last.get(&m.producer()).is_some_and(|n| m.n() <= *n);
            if is_due && !messages.iter().any(|(found, _)| found == m) {
                return Err(format!("{m:?} is missing in the middle of {queue}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::last_commit;

    #[test]
    fn the_last_commit_begins_behind_the_one_before() {
        let frame = |ends: u8, salt: u8| {
            let mut frame = vec![0; 24 + 512];
            frame[7] = ends;
            frame[8..16].fill(salt);
            frame
        };
        let mut head = vec![0; 32];
        head[10] = 2;
        head[16..24].fill(7);
        let wal = [
            head,
            frame(0, 7),
            frame(1, 7),
            frame(0, 7),
            frame(3, 7),
            frame(9, 6),
        ]
        .concat();
        assert_eq!(last_commit(&wal), 32 + 2 * 536);
        assert_eq!(last_commit(&wal[..32 + 2 * 536]), 32);
        assert_eq!(last_commit(&wal[..32]), 32);
    }
}
