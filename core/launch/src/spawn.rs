//! The few steps between fork and exec, and the keeper: the crate's only unsafe code.
//!
//! Everything that can be prepared is prepared before the fork; between fork and exec only system calls are made.

#![allow(
    unsafe_code,
    reason = "fork, pre_exec and waitid have no safe form; each block says why it is sound"
)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{self, SaFlags, SigAction, SigHandler, SigSet, Signal, killpg};
use nix::unistd::{ForkResult, Pid, getpid, getppid, pipe2, setpgid};

use crate::judge::End;

/// What a rank's process does to itself before it becomes the program.
pub(crate) struct Preparation {
    /// Its end of the control channel; stays open over exec.
    pub(crate) channel: OwnedFd,
    /// The node's memory; stays open over exec.
    pub(crate) memory: Arc<OwnedFd>,
    /// CPUs it may run on.
    pub(crate) affinity: Option<CpuSet>,
    /// Signals blocked before mpiexec blocked its own.
    pub(crate) mask: SigSet,
    /// Limit of open files (soft, hard) to go back to, when mpiexec raised its own.
    pub(crate) open_files: Option<(u64, u64)>,
}

/// Makes `command` a rank: own process group, dies with mpiexec, bound, with its descriptors.
pub(crate) fn prepare(command: &mut Command, preparation: Preparation) {
    let parent = getpid();
    command.process_group(0);
    let between_fork_and_exec = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // mpiexec may have died before the line above.
        if getppid() != parent {
            return Err(Errno::ECHILD.into());
        }
        fcntl(&preparation.channel, FcntlArg::F_SETFD(FdFlag::empty()))?;
        fcntl(preparation.memory.as_ref(), FcntlArg::F_SETFD(FdFlag::empty()))?;
        preparation.mask.thread_set_mask()?;
        if let Some(cpus) = &preparation.affinity {
            sched_setaffinity(Pid::from_raw(0), cpus)?;
        }
        if let Some((soft, hard)) = preparation.open_files {
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls (prctl, getppid, fcntl, sigprocmask, sched_setaffinity, setrlimit) on values made before
    // the fork; it does not allocate, lock or touch other threads' state (mpiexec has one thread).
    unsafe {
        command.pre_exec(between_fork_and_exec);
    }
}

/// Undoes an inherited `SIGCHLD: ignore`, under which the kernel would throw exit codes away.
pub(crate) fn watch_children() -> io::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of this process.
    unsafe { signal::sigaction(Signal::SIGCHLD, &default) }?;
    Ok(())
}

/// How the child `pid` ended, if it did. It stays a zombie, so that its number (and its group's) cannot be given to
/// somebody else before [`reap`].
pub(crate) fn ended(pid: Pid) -> io::Result<Option<End>> {
    // SAFETY: siginfo_t is plain data for which all zeroes is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
    // SAFETY: `info` is a valid, writable siginfo_t for the duration of the call.
    Errno::result(unsafe { libc::waitid(libc::P_PID, pid.as_raw().unsigned_abs(), &mut info, flags) })?;
    // SAFETY: after a successful waitid the fields of a SIGCHLD siginfo are set, or all are zero when nothing ended.
    let (who, status) = unsafe { (info.si_pid(), info.si_status()) };
    if who == 0 {
        return Ok(None);
    }
    Ok(Some(match info.si_code {
        libc::CLD_EXITED => End::Exit(status),
        code => End::Signal { signal: status, core: code == libc::CLD_DUMPED },
    }))
}

/// A process that ends all ranks' groups when mpiexec disappears without having done so itself (SIGKILL, a crash).
///
/// The kernel's parent-death signal reaches the ranks' first processes only; programs started by a script in a rank would live on.
pub(crate) struct Keeper {
    pipe: File,
    pid: Pid,
}

impl Keeper {
    /// Forks the keeper. Must be called while this process has one thread.
    pub(crate) fn start() -> io::Result<Keeper> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        // SAFETY: mpiexec has one thread, so the child finds no lock held by another; it runs `keep` and never returns.
        match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => Ok(Keeper { pipe: writer.into(), pid: child }),
            ForkResult::Child => {
                drop(writer);
                keep(reader.into())
            }
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Puts the group of `pid` into its care.
    pub(crate) fn watch(&mut self, pid: Pid) -> io::Result<()> {
        self.pipe.write_all(&pid.as_raw().to_ne_bytes())
    }

    /// Tells it that all has been cleaned up, and waits for its end.
    pub(crate) fn dismiss(mut self) {
        // A keeper that is gone needs no telling.
        let _ = self.pipe.write_all(&0i32.to_ne_bytes());
        drop(self.pipe);
        let _ = nix::sys::wait::waitpid(self.pid, None);
    }
}

fn keep(mut pipe: File) -> ! {
    // None of these is needed for the work itself, so their failure changes nothing.
    let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
    let _ = prctl::set_name(c"mpiexec-keeper");
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdin(&null);
        let _ = nix::unistd::dup2_stdout(&null);
        let _ = nix::unistd::dup2_stderr(&null);
    }
    let mut groups = Vec::new();
    let mut number = [0; 4];
    while pipe.read_exact(&mut number).is_ok() {
        match i32::from_ne_bytes(number) {
            0 => std::process::exit(0),
            group => groups.push(Pid::from_raw(group)),
        }
    }
    for group in groups {
        let _ = killpg(group, Signal::SIGKILL);
    }
    std::process::exit(0)
}
