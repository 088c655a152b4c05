//! How much memory the process may count on.

use std::fs;

/// 40 % of the memory of the control group or the machine, whichever is smaller; 1 GiB when neither can be read.
pub(crate) fn share_of_available() -> usize {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| total_of_meminfo(&text));
    let groups = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let group = groups
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
    let available = group.chain(machine).min();
    available.map_or(1 << 30, |bytes| {
        usize::try_from(bytes / 5 * 2).unwrap_or(usize::MAX)
    })
}

/// The line `MemTotal:  16303428 kB`, in bytes.
fn total_of_meminfo(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1_024)
}

/// Bytes of memory that this process holds, and its threads; 0 where the system does not tell.
pub(crate) fn of_process() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let kib = number("VmRSS:").unwrap_or(0);
    (kib * 1_024, number("Threads:").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        let text = "MemFree:  1 kB\nMemTotal:       16303428 kB\nMemAvailable: 3 kB\n";
        assert_eq!(total_of_meminfo(text), Some(16_303_428 * 1_024));
        assert_eq!(total_of_meminfo("MemTotal: many kB\n"), None);
        assert_eq!(total_of_meminfo(""), None);
    }
}
