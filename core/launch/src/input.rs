//! Standard input for rank 0.
//!
//! A file or pipe is handed to rank 0 itself: nothing is copied, nothing is read that it does not read, and end of file and
//! back-pressure are the real ones. A terminal cannot be handed over (ranks are background jobs, which may not read it), so
//! what is typed is passed on through a pipe.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{getpgrp, isatty, pipe2, tcgetpgrp};

use crate::events::{Events, Token};

/// How long to look away from a terminal that belongs to somebody else at the moment.
const AWAY: Duration = Duration::from_millis(500);

/// The way of typed lines to rank 0.
pub(crate) struct Typed {
    pipe: Option<File>,
    waiting: Vec<u8>,
    look_again: Option<Instant>,
}

/// Standard input for rank 0, and what mpiexec has to pass on itself, if anything.
pub(crate) fn for_rank_0() -> io::Result<(Stdio, Option<Typed>)> {
    if !isatty(io::stdin()).unwrap_or(false) {
        return Ok((Stdio::from(io::stdin().as_fd().try_clone_to_owned()?), None));
    }
    let (reader, writer): (OwnedFd, OwnedFd) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((reader.into(), Some(Typed { pipe: Some(writer.into()), waiting: Vec::new(), look_again: None })))
}

/// Lets go of a file or pipe that rank 0 has now, so that its writer learns at once when rank 0 has read enough.
pub(crate) fn let_go() {
    if let Ok(null) = File::open("/dev/null") {
        // When this fails, the writer learns it at the end of the job.
        let _ = nix::unistd::dup2_stdin(&null);
    }
}

impl Typed {
    /// Watches the terminal, or the pipe while it is full.
    pub(crate) fn watch(&mut self, events: &Events) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        match (self.waiting.is_empty(), self.look_again) {
            (true, None) => events.await_input(io::stdin(), Token::Input),
            (true, Some(_)) => Ok(()),
            (false, _) => events.await_room(pipe, Token::InputPipe),
        }
    }

    /// When to look at the terminal again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.look_again
    }

    /// Looks at the terminal again, when its time has come.
    pub(crate) fn tick(&mut self, now: Instant, events: &Events) -> io::Result<()> {
        if self.look_again.is_some_and(|at| at <= now) {
            self.look_again = None;
            self.watch(events)?;
        }
        Ok(())
    }

    /// The terminal has something.
    pub(crate) fn read(&mut self, events: &Events) -> io::Result<()> {
        events.forget(io::stdin());
        if !tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp()) {
            // mpiexec runs in the background: reading would stop it, and what is typed is for somebody else.
            self.look_again = Some(Instant::now() + AWAY);
            return Ok(());
        }
        let mut bytes = [0; 4096];
        match io::stdin().lock().read(&mut bytes) {
            Ok(0) | Err(_) => self.pipe = None,
            Ok(count) => {
                self.waiting.extend_from_slice(&bytes[..count]);
                self.write(events)?;
            }
        }
        self.watch(events)
    }

    /// Passes on what waits.
    pub(crate) fn write(&mut self, events: &Events) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        events.forget(&*pipe);
        while !self.waiting.is_empty() {
            match pipe.write(&self.waiting) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // Rank 0 reads no more.
                    self.pipe = None;
                    return Ok(());
                }
            }
        }
        self.watch(events)
    }
}
