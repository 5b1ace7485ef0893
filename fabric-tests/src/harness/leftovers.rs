//! Finds processes that a run left behind, by a mark in their environment.
//!
//! Process groups are not enough: a launcher may give its children sessions of their own.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;

/// The variable that marks every process of a run.
pub(super) const MARK: &str = "FABRIC_TEST_RUN";

/// Ids and command lines of the live processes whose environment carries `mark`. Zombies do not count: they are
/// their parent's to reap.
#[must_use]
pub fn marked_processes(mark: &str) -> Vec<(i32, String)> {
    let wanted = format!("{MARK}={mark}");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|&pid| u32::try_from(pid) != Ok(std::process::id()))
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|item| item == wanted.as_bytes()))
        })
        .map(|pid| (pid, command_line(pid)))
        .collect()
}

/// The launcher of the run that carries `mark`: the first of its processes that has a launcher's name.
#[must_use]
pub fn launcher_of(mark: &str) -> Option<i32> {
    let found = marked_processes(mark);
    found
        .into_iter()
        .filter(|(_, line)| line.contains("mpiexec") || line.contains("mpirun"))
        .map(|(pid, _)| pid)
        .min()
}

/// Ends all processes that carry `mark`.
pub fn kill_marked(mark: &str) {
    for (pid, _) in marked_processes(mark) {
        // The process may have ended by itself meanwhile; then there is nothing to do.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

fn command_line(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}
