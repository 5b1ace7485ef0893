//! What mpiexec waits for: one epoll set, whose tokens say what became ready.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// A thing that can become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// Signals for mpiexec.
    Signals,
    /// The control channel of a rank.
    Channel(usize),
    /// One output stream of a rank.
    Stream(usize),
    /// One of mpiexec's own outputs.
    Outlet(usize),
    /// mpiexec's standard input.
    Input,
    /// The pipe to rank 0's standard input.
    InputPipe,
}

impl Token {
    fn encode(self) -> u64 {
        let (kind, index) = match self {
            Token::Signals => (0, 0),
            Token::Channel(index) => (1, index),
            Token::Stream(index) => (2, index),
            Token::Outlet(index) => (3, index),
            Token::Input => (4, 0),
            Token::InputPipe => (5, 0),
        };
        kind << 32 | index as u64
    }

    fn decode(word: u64) -> Token {
        let index = (word & 0xffff_ffff) as usize;
        match word >> 32 {
            0 => Token::Signals,
            1 => Token::Channel(index),
            2 => Token::Stream(index),
            3 => Token::Outlet(index),
            4 => Token::Input,
            5 => Token::InputPipe,
            kind => unreachable!("tokens come from `encode`, which has no kind {kind}"),
        }
    }
}

/// The epoll set.
pub(crate) struct Events {
    epoll: Epoll,
}

impl Events {
    pub(crate) fn new() -> io::Result<Events> {
        Ok(Events { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)? })
    }

    /// Reports when `fd` can be read.
    pub(crate) fn await_input(&self, fd: impl AsFd, token: Token) -> io::Result<()> {
        self.add(fd, token, EpollFlags::EPOLLIN)
    }

    /// Reports when `fd` can be written.
    pub(crate) fn await_room(&self, fd: impl AsFd, token: Token) -> io::Result<()> {
        self.add(fd, token, EpollFlags::EPOLLOUT)
    }

    /// Reports no more of `fd`; not being watched is fine.
    pub(crate) fn forget(&self, fd: impl AsFd) {
        // The only failures are "not in the set" and "cannot be in a set".
        let _ = self.epoll.delete(fd);
    }

    /// Reports when one of mpiexec's own outputs (0: standard output) can be written.
    pub(crate) fn await_outlet(&self, number: usize) -> io::Result<()> {
        match number {
            0 => self.await_room(io::stdout(), Token::Outlet(0)),
            _ => self.await_room(io::stderr(), Token::Outlet(number)),
        }
    }

    /// Undoes [`Events::await_outlet`].
    pub(crate) fn forget_outlet(&self, number: usize) {
        match number {
            0 => self.forget(io::stdout()),
            _ => self.forget(io::stderr()),
        }
    }

    fn add(&self, fd: impl AsFd, token: Token, what: EpollFlags) -> io::Result<()> {
        match self.epoll.add(fd, EpollEvent::new(what, token.encode())) {
            Ok(()) | Err(Errno::EEXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits until something is ready or `deadline` has passed.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> io::Result<Vec<Token>> {
        let timeout = match deadline {
            None => EpollTimeout::NONE,
            // Rounded up: waking before the deadline would spin.
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let millis = left.as_micros().div_ceil(1000).min(60_000);
                EpollTimeout::try_from(millis as i32).unwrap_or(EpollTimeout::ZERO)
            }
        };
        let mut events = [EpollEvent::empty(); 64];
        match self.epoll.wait(&mut events, timeout) {
            Ok(count) => Ok(events[..count].iter().map(|event| Token::decode(event.data())).collect()),
            Err(Errno::EINTR) => Ok(Vec::new()),
            Err(errno) => Err(errno.into()),
        }
    }
}
