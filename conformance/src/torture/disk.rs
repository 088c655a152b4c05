//! What a disk may hold after the power went: a model that replays a daemon's calls and can be
//! asked, at any point, for the files as they might be.
//!
//! A synced write stays. An unsynced one may be there, may be missing, or may be torn into sectors
//! of 512 octets of which each is there or not, in any order. A name that was made, moved or
//! removed holds for certain only once its folder was synced.

use super::Seed;
use super::trace::Call;
use std::collections::BTreeMap;
use std::path::Path;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// How much of what was not synced survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Everything.
    Nothing,
    /// Nothing.
    Everything,
    /// Each sector by chance, each change of names up to a point by chance.
    Torn(Seed),
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Resize(usize),
    /// At least so long.
    Grow(usize),
}

#[derive(Debug, Clone, Default)]
struct File {
    synced: Vec<u8>,
    pending: Vec<Change>,
}

/// A name pointing to a file, or to none any more.
#[derive(Debug, Clone)]
struct Naming {
    name: String,
    file: Option<usize>,
}

/// A folder on the disk; names are relative to it.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    folder: String,
    files: Vec<File>,
    /// Names as programs see them.
    names: BTreeMap<String, usize>,
    /// Names that are certain.
    synced_names: BTreeMap<String, usize>,
    pending_names: Vec<Naming>,
}

impl Disk {
    /// An empty folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.display().to_string(),
            ..Self::default()
        }
    }

    fn name(&self, path: &str) -> Option<String> {
        let name = path.strip_prefix(&self.folder)?.strip_prefix('/')?;
        // The index of the journal is shared memory; it is made anew whenever nobody has it open.
        (!name.ends_with("-shm")).then(|| name.to_owned())
    }

    /// Whether a call changes the disk or makes a change certain.
    pub fn is_about(&self, call: &Call) -> bool {
        let is_path = call.strings.iter().take(2).any(|s| {
            let path = String::from_utf8_lossy(s);
            call.name != "pwrite64" && self.name(&path).is_some()
        });
        match call.name.as_str() {
            "openat" => call.result >= 0 && is_path,
            "unlink" | "unlinkat" | "rename" | "renameat" | "renameat2" => {
                call.result == 0 && is_path
            }
            "pwrite64" | "write" | "ftruncate" | "fallocate" => self.name(&call.target).is_some(),
            "fsync" | "fdatasync" => {
                self.name(&call.target).is_some() || call.target == self.folder
            }
            _ => false,
        }
    }

    fn renamed(&mut self, name: String, file: Option<usize>) {
        match file {
            Some(file) => self.names.insert(name.clone(), file),
            None => self.names.remove(&name),
        };
        self.pending_names.push(Naming { name, file });
    }

    fn change(&mut self, target: &str, change: Change) {
        let file = self.name(target).and_then(|n| self.names.get(&n).copied());
        if let Some(file) = file {
            self.files[file].pending.push(change);
        }
    }

    /// Executes a call.
    pub fn apply(&mut self, call: &Call) {
        let path = |n: usize| {
            let bytes = call.strings.get(n).map_or(&[][..], Vec::as_slice);
            String::from_utf8_lossy(bytes).into_owned()
        };
        let len = |n: usize| call.number(n).unwrap_or(0) as usize;
        match call.name.as_str() {
            "openat" => self.open(&path(0), call),
            "pwrite64" => {
                let change = Change::Write(len(3), call.data());
                self.change(&call.target, change);
            }
            "write" => {
                // Only plain files that are written from front to back use it.
                let end = self.seen(&call.target).len();
                self.change(&call.target, Change::Write(end, call.data()));
            }
            "ftruncate" => self.change(&call.target, Change::Resize(len(1))),
            "fallocate" => self.change(&call.target, Change::Grow(len(2) + len(3))),
            "unlink" | "unlinkat" => {
                if let Some(name) = self.name(&path(0)) {
                    self.renamed(name, None);
                }
            }
            "rename" | "renameat" | "renameat2" => {
                if let (Some(from), Some(to)) = (self.name(&path(0)), self.name(&path(1))) {
                    let file = self.names.get(&from).copied();
                    self.renamed(to, file);
                    self.renamed(from, None);
                }
            }
            "fsync" | "fdatasync" if call.result == 0 => self.sync(&call.target),
            _ => {}
        }
    }

    fn open(&mut self, path: &str, call: &Call) {
        let Some(name) = self.name(path) else {
            return;
        };
        let flags = call.arguments.get(2).map_or("", String::as_str);
        if !self.names.contains_key(&name) {
            if flags.contains("O_CREAT") {
                self.files.push(File::default());
                self.renamed(name, Some(self.files.len() - 1));
            }
        } else if flags.contains("O_TRUNC") {
            self.change(&call.opened, Change::Resize(0));
        }
    }

    fn sync(&mut self, target: &str) {
        if target == self.folder {
            self.pending_names.clear();
            self.synced_names = self.names.clone();
        } else if let Some(file) = self.name(target).and_then(|n| self.names.get(&n)) {
            let file = &mut self.files[*file];
            let pending = std::mem::take(&mut file.pending);
            pending.iter().for_each(|c| c.apply(&mut file.synced));
        }
    }

    /// A file as programs see it.
    fn seen(&self, target: &str) -> Vec<u8> {
        let file = self.name(target).and_then(|n| self.names.get(&n));
        file.map_or(vec![], |f| self.files[*f].after(&mut Loss::Nothing))
    }

    /// The files as a power cut now may leave them.
    pub fn after(&self, mut loss: Loss) -> BTreeMap<String, Vec<u8>> {
        let kept = match &mut loss {
            Loss::Nothing => self.pending_names.len(),
            Loss::Everything => 0,
            Loss::Torn(seed) => seed.below(self.pending_names.len() as u64 + 1) as usize,
        };
        let mut names = self.synced_names.clone();
        for naming in &self.pending_names[..kept] {
            match naming.file {
                Some(file) => names.insert(naming.name.clone(), file),
                None => names.remove(&naming.name),
            };
        }
        let files = names.into_iter();
        files
            .map(|(name, file)| (name, self.files[file].after(&mut loss)))
            .collect()
    }
}

impl File {
    fn after(&self, loss: &mut Loss) -> Vec<u8> {
        let mut content = self.synced.clone();
        for change in &self.pending {
            match loss {
                Loss::Nothing => change.apply(&mut content),
                Loss::Everything => {}
                Loss::Torn(seed) => change.tear(&mut content, seed),
            }
        }
        content
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write(at, data) => {
                let end = at + data.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*at..end].copy_from_slice(data);
            }
            Self::Resize(len) => content.resize(*len, 0),
            Self::Grow(len) => content.resize(content.len().max(*len), 0),
        }
    }

    /// The length may be there without the data, some sectors and not others.
    fn tear(&self, content: &mut Vec<u8>, seed: &mut Seed) {
        let Self::Write(at, data) = self else {
            if seed.one_in(2) {
                self.apply(content);
            }
            return;
        };
        let mut from = 0;
        while from < data.len() {
            let to = data.len().min(((at + from) / SECTOR + 1) * SECTOR - at);
            match seed.below(3) {
                0 => Self::Write(at + from, data[from..to].to_vec()).apply(content),
                1 => Self::Grow(at + to).apply(content),
                _ => {}
            }
            from = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, target: &str, arguments: &[&str], strings: &[&str]) -> Call {
        Call {
            name: name.into(),
            target: target.into(),
            arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
            strings: strings.iter().map(|s| s.as_bytes().to_vec()).collect(),
            result: match name {
                "pwrite64" => strings[0].len() as i64,
                _ => 0,
            },
            ..Call::default()
        }
    }

    fn disk(calls: &[Call]) -> Disk {
        let mut disk = Disk::new(Path::new("/d"));
        for call in calls {
            assert!(disk.is_about(call), "{call:?}");
            disk.apply(call);
        }
        disk
    }

    fn made() -> Vec<Call> {
        vec![
            call("openat", "", &["", "", "O_RDWR|O_CREAT"], &["/d/a"]),
            call("pwrite64", "/d/a", &["", "", "4", "0"], &["safe"]),
            call("fdatasync", "/d/a", &[], &[]),
            call("fsync", "/d", &[], &[]),
        ]
    }

    #[test]
    fn what_was_synced_stays() {
        let mut calls = made();
        calls.push(call("pwrite64", "/d/a", &["", "", "4", "4"], &["late"]));
        let disk = disk(&calls);
        let of = |loss| disk.after(loss).remove("a").expect("the file");
        assert_eq!(of(Loss::Nothing), b"safelate");
        assert_eq!(of(Loss::Everything), b"safe");
        for n in 0..50 {
            let torn = of(Loss::Torn(Seed::new(n)));
            assert!([&b"safe"[..], b"safelate", b"safe\0\0\0\0"].contains(&&torn[..]));
        }
    }

    #[test]
    fn a_name_is_certain_when_its_folder_is_synced() {
        let disk = disk(&made()[..3]);
        assert!(disk.after(Loss::Everything).is_empty());
        assert_eq!(disk.after(Loss::Nothing).len(), 1);
    }

    #[test]
    fn sectors_are_torn_one_by_one() {
        let mut calls = made();
        let big = "x".repeat(3 * SECTOR);
        calls.push(call("pwrite64", "/d/a", &["", "", "", "0"], &[&big]));
        let disk = disk(&calls);
        let mut kinds = std::collections::BTreeSet::new();
        for n in 0..200 {
            let torn = disk
                .after(Loss::Torn(Seed::new(n)))
                .remove("a")
                .expect("it");
            for sector in torn.chunks(SECTOR) {
                let whole = sector.iter().all(|b| *b == b'x');
                let old = sector.starts_with(b"safe") || sector.iter().all(|b| *b == 0);
                assert!(whole || old, "a torn sector");
            }
            kinds.insert(torn);
        }
        assert!(kinds.len() > 10, "{} kinds of files", kinds.len());
    }

    #[test]
    fn removed_and_moved_names_may_come_back() {
        let mut calls = made();
        calls.push(call("rename", "", &[], &["/d/a", "/d/b"]));
        let disk = disk(&calls);
        let names = |loss| disk.after(loss).into_keys().collect::<Vec<_>>();
        assert_eq!(names(Loss::Nothing), ["b"]);
        assert_eq!(names(Loss::Everything), ["a"]);
    }
}
