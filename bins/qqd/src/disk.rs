//! How much room a file system has.

use std::path::{Path, PathBuf};

/// Free bytes below which durable publishes are refused when the owner did not say: 1 GiB or 5 % of the file system that
/// holds `path`, whichever is more, but never more than half of it. 0, which switches the alarm off, when the system does not
/// tell its size.
pub(crate) fn free_min(path: &Path) -> u64 {
    let Ok(stat) = rustix::fs::statvfs(existing(path)) else {
        return 0;
    };
    share(stat.f_blocks.saturating_mul(stat.f_frsize))
}

fn share(total_bytes: u64) -> u64 {
    (total_bytes / 20).max(1 << 30).min(total_bytes / 2)
}

/// The directory itself, or the nearest one above it that exists: where it will be made.
fn existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = absolute.ancestors().find(|above| above.exists());
    found.map_or_else(|| PathBuf::from("/"), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_disks_keep_half_and_large_ones_a_twentieth() {
        const GIB: u64 = 1 << 30;
        for (total, min) in [
            (0, 0),
            (64 << 20, 32 << 20),
            (GIB, GIB / 2),
            (4 * GIB, GIB),
            (20 * GIB, GIB),
            (200 * GIB, 10 * GIB),
        ] {
            assert_eq!(share(total), min, "{total}");
        }
    }

    #[test]
    fn a_directory_that_is_still_to_be_made_counts_as_where_it_will_be() {
        let here = std::env::temp_dir();
        assert_eq!(existing(&here.join("no/such/directory")), here);
        assert!(free_min(&here.join("no/such/directory")) > 0);
    }
}
