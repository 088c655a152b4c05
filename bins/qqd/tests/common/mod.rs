//! What the daemon's tests share: starting it in an environment of its own, and files that go away afterwards.

use std::path::PathBuf;
use std::process::Command;

/// The daemon with an environment that only the test decides.
pub fn qqd() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qqd"));
    command.env_clear();
    command
}

/// A directory for one test, removed at its end.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// `name` must differ between tests of one process.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("qqd-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the directory can be made");
        Self { path }
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path.join(name);
        std::fs::write(&path, text).expect("the file can be written");
        path.to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
