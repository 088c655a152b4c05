//! Looks at SQLite's write-ahead log before SQLite does.
//!
//! SQLite takes the log up to the first frame whose checksum is wrong and drops the rest in silence: right for a write
//! that a crash tore, wrong for a bit that rotted in a commit that was confirmed. The two differ: a commit is written
//! only when the one before it is safe, so a torn write is followed by no later commit. A bad frame with a later
//! commit's frames behind it is damage.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use qq_core::store::StoreError;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The running checksum of a log: two sums that depend on the order of words (see SQLite's file format, 4.2).
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sums(u32, u32);

impl Sums {
    fn add(mut self, bytes: &[u8], is_big_endian: bool) -> Self {
        for pair in bytes.as_chunks::<8>().0 {
            let [a, b, c, d, e, f, g, h] = *pair;
            let word = if is_big_endian {
                u32::from_be_bytes
            } else {
                u32::from_le_bytes
            };
            self.0 = self.0.wrapping_add(word([a, b, c, d])).wrapping_add(self.1);
            self.1 = self.1.wrapping_add(word([e, f, g, h])).wrapping_add(self.0);
        }
        self
    }
}

fn be(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Fills `buffer`, or says that the file ends before.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<bool> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

/// Refuses a log that holds damaged commits.
pub(crate) fn check(path: &Path) -> Result<(), StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => {
            return Err(StoreError::fatal(format!(
                "cannot read {}: {e}",
                path.display()
            )));
        }
    };
    match scan(&mut BufReader::with_capacity(1 << 20, file)) {
        Ok(None) => Ok(()),
        Ok(Some(damage)) => Err(StoreError::damaged(format!(
            "{}: {damage}; commits behind it were confirmed. Restore a backup, or salvage",
            path.display()
        ))),
        Err(e) => Err(StoreError::fatal(format!(
            "cannot read {}: {e}",
            path.display()
        ))),
    }
}

/// What is damaged, if anything is.
fn scan(reader: &mut impl Read) -> std::io::Result<Option<String>> {
    let mut header = [0; HEADER_BYTES];
    if !fill(reader, &mut header)? {
        return Ok(None);
    }
    let magic = be(&header, 0);
    let is_big_endian = magic & 1 != 0;
    let page = be(&header, 8) as usize;
    let salts = (be(&header, 16), be(&header, 20));
    let mut sums = Sums(0, 0).add(&header[..24], is_big_endian);
    let is_header_good = magic & !1 == 0x377f_0682
        && page.is_power_of_two()
        && (512..=65536).contains(&page)
        && sums == Sums(be(&header, 24), be(&header, 28));
    if !is_header_good {
        return bad_header(reader, salts);
    }
    let mut frame = vec![0; FRAME_HEADER_BYTES + page];
    // The first bad frame, and what came behind it.
    let mut bad = None;
    let mut commits_behind = 0;
    let mut number = 0;
    while fill(reader, &mut frame)? {
        number += 1;
        let is_ours = (be(&frame, 8), be(&frame, 12)) == salts;
        let next = sums
            .add(&frame[..8], is_big_endian)
            .add(&frame[FRAME_HEADER_BYTES..], is_big_endian);
        let is_commit = be(&frame, 4) != 0;
        match bad {
            None if is_ours && next == Sums(be(&frame, 16), be(&frame, 20)) => sums = next,
            // A frame that was not reached still has what an earlier use of the log left there.
            None => bad = Some((number, is_commit && is_ours)),
            // Frames of an earlier use of the log have other salts and mean nothing.
            Some((at, _)) if is_ours => {
                if commits_behind > 0 {
                    return Ok(Some(format!("frame {at} is damaged")));
                }
                commits_behind += u32::from(is_commit);
            }
            Some(_) => {}
        }
        if let Some((at, true)) = bad
            && commits_behind > 0
        {
            return Ok(Some(format!("frame {at} is damaged")));
        }
    }
    Ok(None)
}

/// A header is written and made safe before the first frame of its use of the log. One that fits no frame was torn
/// then, and nothing in the log counts; one that half fits was good once.
fn bad_header(reader: &mut impl Read, salts: (u32, u32)) -> std::io::Result<Option<String>> {
    let mut frame = [0; FRAME_HEADER_BYTES];
    if !fill(reader, &mut frame)? {
        return Ok(None);
    }
    let fits = be(&frame, 8) == salts.0 || be(&frame, 12) == salts.1;
    Ok(fits.then(|| "its header is damaged".to_string()))
}
