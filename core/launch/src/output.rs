//! Where ranks' standard output and error go.
//!
//! Ranks write straight to mpiexec's own descriptors where that keeps lines whole: a single rank, and terminals and devices (to which
//! C programs write line by line). Into files and pipes C programs write blocks of 4 KiB, which would cut the
//! lines of several ranks into each other; there, and for tagged output, mpiexec puts the lines together ([`crate::lines`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};

use crate::lines::Sink;

/// Ranks are not read while more than this waits to be written: they are slowed down to the reader's pace.
pub(crate) const HIGH_WATER: usize = 256 * 1024;

/// The most a pipe that says "writable" takes without blocking (PIPE_BUF).
const PIECE: usize = 4096;

/// How one standard stream of the ranks is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The rank has mpiexec's own descriptor.
    Direct,
    /// The rank writes into a pipe that mpiexec reads; lines go to this outlet.
    Through(usize),
}

/// Decides for standard output and error. `ranks`: how many there are.
pub(crate) fn routes(ranks: usize, tagged: bool) -> [Route; 2] {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let through = |fd: BorrowedFd<'_>| tagged || (ranks > 1 && !is_device(fd));
    let error_outlet = if same_file(stdout.as_fd(), stderr.as_fd()) { 0 } else { 1 };
    [
        if through(stdout.as_fd()) { Route::Through(0) } else { Route::Direct },
        if through(stderr.as_fd()) { Route::Through(error_outlet) } else { Route::Direct },
    ]
}

fn is_device(fd: BorrowedFd<'_>) -> bool {
    fstat(fd).is_ok_and(|facts| SFlag::from_bits_truncate(facts.st_mode) & SFlag::S_IFMT == SFlag::S_IFCHR)
}

/// Both go to the same place (`2>&1`): then a rank gets one pipe for both, and their order is kept.
fn same_file(left: BorrowedFd<'_>, right: BorrowedFd<'_>) -> bool {
    match (fstat(left), fstat(right)) {
        (Ok(left), Ok(right)) => (left.st_dev, left.st_ino) == (right.st_dev, right.st_ino),
        _ => false,
    }
}

/// One of mpiexec's own outputs and what waits for it.
#[derive(Debug)]
pub(crate) struct Outlet {
    /// Lines on their way.
    pub(crate) sink: Sink,
    written: usize,
    error: bool,
    /// Its reader has gone.
    pub(crate) broken: bool,
}

impl Outlet {
    /// Standard output (0) or standard error (1).
    pub(crate) fn new(number: usize) -> Outlet {
        Outlet { sink: Sink::default(), written: 0, error: number == 1, broken: false }
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.sink.bytes.len() - self.written
    }

    /// Writes what can be written without blocking; with `wait`, everything.
    pub(crate) fn write(&mut self, wait: bool) {
        while self.waiting() > 0 && !self.broken {
            match self.write_piece(wait) {
                Ok(0) => return,
                Ok(count) => self.written += count,
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => self.broken = true,
            }
        }
        self.sink.bytes.clear();
        self.written = 0;
    }

    fn write_piece(&self, wait: bool) -> nix::Result<usize> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let fd = if self.error { stderr.as_fd() } else { stdout.as_fd() };
        let patience = if wait { PollTimeout::NONE } else { PollTimeout::ZERO };
        let mut wanted = [PollFd::new(fd, PollFlags::POLLOUT)];
        if poll(&mut wanted, patience)? == 0 {
            return Ok(0);
        }
        let rest = &self.sink.bytes[self.written..];
        nix::unistd::write(fd, &rest[..rest.len().min(PIECE)])
    }
}
