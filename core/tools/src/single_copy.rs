//! Whether the kernel lets one process read another's memory, found by doing it once.

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::io::IoSliceMut;
use std::process::{Command, Stdio};

/// Reads some bytes of a child's memory. The child is any program that waits: `cat` with a pipe as its input.
///
/// # Errors
/// A sentence with what the kernel said.
pub(crate) fn probe() -> Result<(), String> {
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("no process to try it on could be started: {error}"))?;
    let read = read_some(child.id());
    // Closing its input ends it.
    drop(child.stdin.take());
    let _ = child.wait();
    read
}

fn read_some(pid: u32) -> Result<(), String> {
    let maps =
        std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|error| format!("/proc: {error}"))?;
    let base = maps
        .lines()
        .filter(|line| line.split_whitespace().nth(1).is_some_and(|rights| rights.starts_with('r')))
        .find_map(|line| usize::from_str_radix(line.split('-').next()?, 16).ok())
        .ok_or("the process has no memory that can be read")?;
    let mut bytes = [0_u8; 8];
    let mut local = [IoSliceMut::new(&mut bytes)];
    match process_vm_readv(Pid::from_raw(pid as i32), &mut local, &[RemoteIoVec { base, len: 8 }]) {
        Ok(8) => Ok(()),
        Ok(count) => Err(format!("{count} of 8 bytes were read")),
        Err(errno) => Err(format!("{errno}")),
    }
}
