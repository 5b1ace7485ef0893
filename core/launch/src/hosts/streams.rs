//! What ranks write and read, as it passes through the head.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::{getpgrp, isatty, tcgetpgrp};

use super::INPUT_CREDIT;
use super::frames::Kind;
use super::head::Head;
use crate::judge::{Cause, End, Stage};

impl Head {
    pub(super) fn show(&mut self, rank: usize, stream: usize, bytes: &[u8]) {
        let outlet = if stream == 0 { 0 } else { self.error_outlet };
        let (number, sink) = (2 * rank + stream, &mut self.outlets[outlet].sink);
        self.lines[rank][stream].push(number, &self.tags[rank], bytes, Instant::now(), sink);
    }

    pub(super) fn flush_lines(&mut self, rank: usize, now: Instant, ended: bool) {
        for stream in 0..2 {
            let outlet = if stream == 0 { 0 } else { self.error_outlet };
            let sink = &mut self.outlets[outlet].sink;
            self.lines[rank][stream].flush(2 * rank + stream, &self.tags[rank], now, ended, sink);
        }
    }

    /// Writes what agents and mpiexec's own outputs take without blocking.
    pub(super) fn write(&mut self) {
        for outlet in &mut self.outlets {
            outlet.write(false);
            self.broken |= outlet.broken;
        }
        if self.broken && self.judge.cause().is_none() {
            // As without mpiexec: whoever writes to a reader that is gone gets SIGPIPE.
            let end = End::Signal { signal: Signal::SIGPIPE as i32, core: false };
            let first = self.judge.running().next();
            if let Some(rank) = first {
                let others = self.judge.running().count() - 1;
                let cause = Cause::Ended { rank, end, stage: Stage::Inside, others };
                let order = self.judge.condemn(cause, Instant::now());
                self.obey(order);
            }
        }
        for index in 0..self.hosts.len() {
            let host = &mut self.hosts[index];
            let Some(to) = host.child.as_ref().and_then(|child| child.stdin.as_ref()) else { continue };
            if host.gone {
                continue;
            }
            let mut written = 0;
            while written < host.out.len() {
                match nix::unistd::write(to, &host.out[written..]) {
                    Ok(count) => written += count,
                    Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => break,
                    // A broken connection shows as the end of the agent's output, after its last words; nobody hears these.
                    Err(_) => written = host.out.len(),
                }
            }
            host.out.drain(..written);
        }
    }

    /// Whether standard input is wanted now: rank 0 keeps up, and a terminal is not somebody else's.
    pub(super) fn may_read_input(&self) -> bool {
        let terminal = isatty(io::stdin()).unwrap_or(false);
        self.input_open
            && self.input_under_way < INPUT_CREDIT
            && (!terminal || tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp()))
    }

    pub(super) fn pass_input(&mut self) -> io::Result<()> {
        if !self.may_read_input() {
            return Ok(());
        }
        let stdin = io::stdin();
        let mut wanted = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        if poll(&mut wanted, PollTimeout::ZERO).unwrap_or(0) == 0 {
            return Ok(());
        }
        let mut bytes = [0; 16 * 1024];
        match nix::unistd::read(io::stdin(), &mut bytes) {
            Ok(0) | Err(Errno::EIO | Errno::EBADF) => {
                self.input_open = false;
                self.tell(0, Kind::Input, &[]);
            }
            Ok(count) => {
                self.input_under_way += count;
                self.tell(0, Kind::Input, &bytes[..count]);
            }
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }
}
