//! Room on the disk: when it gets short, and the little that is kept aside for that moment.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::config::{StoreConfig, ballast};

/// How often the file system is asked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Room {
    dir: PathBuf,
    min_bytes: u64,
    ballast_bytes: u64,
    has_ballast: bool,
    /// The ballast went, and what it left is for what consumers settle: until there is more, nothing new is to come.
    is_given_up: bool,
    is_short: bool,
    looked_at: Option<Instant>,
}

impl Room {
    pub(crate) fn new(config: &StoreConfig) -> Self {
        let mut room = Self {
            dir: config.dir.clone(),
            min_bytes: config.room_min_bytes,
            ballast_bytes: config.ballast_bytes,
            has_ballast: ballast(&config.dir).exists(),
            is_given_up: false,
            is_short: false,
            looked_at: None,
        };
        room.take_ballast();
        room
    }

    /// Whether less is free than there should be. Short begins at the limit and ends a tenth above it, so that it does
    /// not change with every message.
    pub(crate) fn is_short(&mut self) -> bool {
        if self.is_given_up {
            let enough = self.ballast_bytes.saturating_mul(2);
            self.is_given_up = free_bytes(&self.dir).is_some_and(|free| free < enough);
            if self.is_given_up {
                return true;
            }
        }
        if self.min_bytes == 0 {
            return false;
        }
        let is_fresh = self.looked_at.is_some_and(|at| at.elapsed() < LOOK_EVERY);
        if !is_fresh {
            self.looked_at = Some(Instant::now());
            let limit = if self.is_short {
                self.min_bytes.saturating_add(self.min_bytes / 10)
            } else {
                self.min_bytes
            };
            match free_bytes(&self.dir) {
                Some(free) => self.is_short = free < limit,
                None => log::warn!("cannot see how much room {} has", self.dir.display()),
            }
        }
        self.is_short
    }

    /// Gives the ballast up; says whether there was any.
    pub(crate) fn drop_ballast(&mut self) -> bool {
        if !self.has_ballast {
            return false;
        }
        self.has_ballast = false;
        self.is_given_up = true;
        let path = ballast(&self.dir);
        match fs::remove_file(&path) {
            Ok(()) => {
                log::warn!("the disk is full: {} was given up", path.display());
                true
            }
            Err(error) => {
                log::warn!("cannot remove {}: {error}", path.display());
                false
            }
        }
    }

    /// Sets room aside again once there is several times as much.
    pub(crate) fn take_ballast(&mut self) {
        let enough = self
            .ballast_bytes
            .saturating_mul(4)
            .saturating_add(self.min_bytes);
        if self.has_ballast || self.ballast_bytes == 0 {
            return;
        }
        if free_bytes(&self.dir).is_none_or(|free| free < enough) {
            return;
        }
        let path = ballast(&self.dir);
        let made = File::create(&path).and_then(|file| {
            let flags = rustix::fs::FallocateFlags::empty();
            rustix::fs::fallocate(&file, flags, 0, self.ballast_bytes).map_err(Into::into)
        });
        match made {
            Ok(()) => self.has_ballast = true,
            Err(error) => {
                log::debug!("cannot set room aside in {}: {error}", path.display());
                let _ = fs::remove_file(&path);
                // Not every file system can; it is not asked again.
                self.ballast_bytes = 0;
            }
        }
    }
}

/// Bytes that an ordinary user may still write.
pub(crate) fn free_bytes(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_its_ballast_a_disk_is_short_until_there_is_more_than_that() {
        let dir = std::env::temp_dir().join(format!("qq-room-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        fs::write(ballast(&dir), []).expect("a ballast");
        let of = |ballast_bytes| StoreConfig {
            ballast_bytes,
            ..StoreConfig::new(&dir)
        };
        // More than any disk has.
        let mut room = Room::new(&of(1 << 60));
        assert!(!room.is_short());
        assert!(room.drop_ballast());
        assert!(room.is_short(), "with no limit of its own, too");
        room.ballast_bytes = 1;
        assert!(!room.is_short());
        fs::remove_dir_all(&dir).expect("the folder");
    }
}
