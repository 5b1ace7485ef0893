//! The few steps between fork and exec, and the keeper: the crate's only unsafe code.
//!
//! Everything that can be prepared is prepared before the fork; between fork and exec only system calls are made.

#![allow(
    unsafe_code,
    reason = "fork, pre_exec and waitid have no safe form; each block says why it is sound"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{self, SaFlags, SigAction, SigHandler, SigSet, Signal, killpg};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use nix::unistd::{ForkResult, Pid, getpid, getppid, setpgid};

use crate::judge::End;

/// What a rank's process does to itself before it becomes the program.
pub(crate) struct Preparation {
    /// Its end of the control channel; stays open over exec.
    pub(crate) channel: OwnedFd,
    /// The node's memory; stays open over exec.
    pub(crate) memory: Arc<OwnedFd>,
    /// Where it puts its group into the keeper's care.
    pub(crate) keeper: Arc<OwnedFd>,
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
        // Done here and not by mpiexec, so that no moment is left in which mpiexec can die and the group be unknown. Without
        // a keeper the parent-death signal has to do.
        let _ =
            send(preparation.keeper.as_raw_fd(), &getpid().as_raw().to_ne_bytes(), MsgFlags::MSG_NOSIGNAL);
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
    // SAFETY: the closure only makes system calls (prctl, getppid, getpid, send, fcntl, sigprocmask, sched_setaffinity,
    // setrlimit) on values made before the fork; it does not allocate, lock or touch other threads' state (mpiexec has one
    // thread).
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
/// The kernel's parent-death signal reaches the ranks' first processes only; programs started by a script in a rank would live
/// on.
pub(crate) struct Keeper {
    socket: Arc<OwnedFd>,
    pid: Pid,
}

impl Keeper {
    /// Forks the keeper. Must be called while this process has one thread.
    pub(crate) fn start() -> io::Result<Keeper> {
        // Packets keep numbers whole; a socket can be written without SIGPIPE should the keeper be gone.
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        // SAFETY: mpiexec has one thread, so the child finds no lock held by another; it runs `keep` and never returns.
        match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => Ok(Keeper { socket: Arc::new(ours), pid: child }),
            ForkResult::Child => {
                drop(ours);
                keep(&theirs)
            }
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Where ranks put their groups into its care.
    pub(crate) fn socket(&self) -> Arc<OwnedFd> {
        self.socket.clone()
    }

    /// Tells it that all has been cleaned up, and waits for its end.
    pub(crate) fn dismiss(self) {
        // A keeper that is gone needs no telling.
        let _ = send(self.socket.as_raw_fd(), &0i32.to_ne_bytes(), MsgFlags::MSG_NOSIGNAL);
        drop(self.socket);
        let _ = nix::sys::wait::waitpid(self.pid, None);
    }
}

fn keep(socket: &OwnedFd) -> ! {
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
    loop {
        match recv(socket.as_raw_fd(), &mut number, MsgFlags::empty()) {
            Ok(4) if number == [0; 4] => std::process::exit(0),
            Ok(4) => groups.push(Pid::from_raw(i32::from_ne_bytes(number))),
            Err(Errno::EINTR) => {}
            // Every other end of the socket is closed: mpiexec is gone.
            _ => break,
        }
    }
    for group in groups {
        let _ = killpg(group, Signal::SIGKILL);
    }
    std::process::exit(0)
}
