//! How much of the machine a process may use: the CPU bandwidth limits of cgroups, versions 1 and 2, and locked memory.

use crate::system::System;

/// The number of CPUs whose time this process's cgroup may use, rounded up; `None` when it is not limited.
///
/// The tightest limit on the way from the process's cgroup to the root counts.
pub fn cpu_quota(system: &dyn System) -> Option<usize> {
    let groups = system.read("/proc/self/cgroup").unwrap_or_default();
    let mut tightest: Option<usize> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let limit = match controllers {
            "" => walk(path, |path| unified(system, path)),
            _ if controllers.split(',').any(|name| name == "cpu") => {
                walk(path, |path| version_one(system, path))
            }
            _ => None,
        };
        tightest = [tightest, limit].into_iter().flatten().min();
    }
    tightest
}

/// Bytes of memory that this process may lock (`ulimit -l`); `None` when it is not limited or the kernel does not tell. Whoever
/// has `CAP_IPC_LOCK` in the machine's first user namespace, where the kernel asks for it, is not limited whatever stands
/// there.
pub fn memlock(system: &dyn System) -> Option<u64> {
    if may_lock_all(system) {
        return None;
    }
    let limits = system.read("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn may_lock_all(system: &dyn System) -> bool {
    const CAP_IPC_LOCK: u64 = 1 << 14;
    let status = system.read("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capable = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    // In the first namespace all user ids are themselves.
    let map = system.read("/proc/self/uid_map").unwrap_or_default();
    let is_first = map.split_whitespace().eq(["0", "0", "4294967295"]);
    is_first && capable.is_some_and(|bits| bits & CAP_IPC_LOCK != 0)
}

/// The smallest limit of `path` and of all groups above it.
fn walk(path: &str, limit: impl Fn(&str) -> Option<usize>) -> Option<usize> {
    let parents = path.match_indices('/').map(|(at, _)| &path[..at]);
    parents.chain([path]).filter_map(|path| limit(path.trim_end_matches('/'))).min()
}

fn unified(system: &dyn System, path: &str) -> Option<usize> {
    let text = system.read(&format!("/sys/fs/cgroup{path}/cpu.max"))?;
    let mut words = text.split_whitespace();
    cpus(words.next()?.parse().ok()?, words.next()?.parse().ok()?)
}

fn version_one(system: &dyn System, path: &str) -> Option<usize> {
    let number = |file: &str| {
        let folders = ["cpu", "cpu,cpuacct"].iter();
        let mut texts =
            folders.filter_map(|folder| system.read(&format!("/sys/fs/cgroup/{folder}{path}/{file}")));
        texts.find_map(|text| text.trim().parse::<i64>().ok())
    };
    cpus(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

fn cpus(quota: i64, period: i64) -> Option<usize> {
    match quota > 0 && period > 0 {
        true => usize::try_from(quota.div_euclid(period) + i64::from(quota % period > 0)).ok(),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Snapshot;

    fn quota(files: &[(&str, &str)]) -> Option<usize> {
        let files = files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned()));
        cpu_quota(&Snapshot(files.collect()))
    }

    #[test]
    fn no_group_means_no_limit() {
        assert_eq!(quota(&[]), None);
        assert_eq!(
            quota(&[("/proc/self/cgroup", "0::/a\n"), ("/sys/fs/cgroup/a/cpu.max", "max 100000\n")]),
            None
        );
    }

    #[test]
    fn the_tightest_group_on_the_way_counts() {
        let files = [
            ("/proc/self/cgroup", "0::/a/b\n"),
            ("/sys/fs/cgroup/cpu.max", "800000 100000"),
            ("/sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
        ];
        assert_eq!(quota(&files), Some(2));
    }

    #[test]
    fn locked_memory_is_read() {
        let read = |text: &str| {
            let files = [("/proc/self/limits".to_owned(), text.to_owned())];
            memlock(&Snapshot(files.into_iter().collect()))
        };
        let head = "Limit                     Soft Limit           Hard Limit           Units\n";
        assert_eq!(
            read(&format!("{head}Max locked memory         8388608    unlimited    bytes\n")),
            Some(8 << 20)
        );
        assert_eq!(read(&format!("{head}Max locked memory         unlimited  unlimited    bytes\n")), None);
        assert_eq!(read(head), None);
    }

    #[test]
    fn the_capability_to_lock_memory_is_no_limit() {
        let read = |capabilities: &str, map: &str| {
            let files = [
                ("/proc/self/limits", "Max locked memory         8388608    unlimited    bytes\n".to_owned()),
                ("/proc/self/status", format!("Name:\tx\nCapPrm:\t0\nCapEff:\t{capabilities}\n")),
                ("/proc/self/uid_map", map.to_owned()),
            ];
            memlock(&Snapshot(files.map(|(path, text)| (path.to_owned(), text)).into()))
        };
        let first = "         0          0 4294967295\n";
        assert_eq!(read("000001ffffffffff", first), None);
        assert_eq!(read("0000000000004000", first), None);
        assert_eq!(read("0000000000003fff", first), Some(8 << 20));
        assert_eq!(
            read("000001ffffffffff", "         0     100000      65536\n"),
            Some(8 << 20),
            "root of a container alone"
        );
    }

    #[test]
    fn version_one_is_read_too() {
        let files = [
            ("/proc/self/cgroup", "4:memory:/\n3:cpu,cpuacct:/docker/x\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "400000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(quota(&files), Some(4));
    }
}
