//! The machine this process runs on: the live view of the kernel's files, and the processors it may use.

use std::fs;

use nix::sched::{CpuSet as KernelCpuSet, sched_getaffinity};
use nix::unistd::Pid;
use weft_place::{CpuSet, System, limits};

/// The kernel's files as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveSystem;

impl System for LiveSystem {
    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// The CPUs this process may run on; empty when the kernel does not tell.
pub fn allowed_cpus() -> CpuSet {
    let Ok(mask) = sched_getaffinity(Pid::from_raw(0)) else {
        return CpuSet::new();
    };
    (0..KernelCpuSet::count()).filter(|&cpu| mask.is_set(cpu).unwrap_or(false)).collect()
}

/// How many of `cpus` may be busy at the same time, given the container's limit; at least 1.
pub fn usable(cpus: &CpuSet) -> usize {
    limits::cpu_quota(&LiveSystem).unwrap_or(usize::MAX).min(cpus.len()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_processor() {
        let cpus = allowed_cpus();
        assert!(!cpus.is_empty());
        assert!((1..=cpus.len()).contains(&usable(&cpus)));
    }

    #[test]
    fn files_and_folders_are_read() {
        assert!(LiveSystem.read("/proc/self/stat").is_some());
        assert!(LiveSystem.list("/proc/self").contains(&"stat".to_owned()));
        assert!(LiveSystem.read("/no/such/file").is_none() && LiveSystem.list("/no/such/folder").is_empty());
    }
}
