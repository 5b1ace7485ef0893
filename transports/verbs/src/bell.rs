//! Sleeping until a completion comes.

use crate::context::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weft_api::{Bell, Pollable};

/// The threads of this process that sleep, or are about to.
#[derive(Debug)]
pub(crate) struct Sleepers {
    number: AtomicU32,
    /// Readable from a call until the last sleeper has gone: who comes in between wakes up once for nothing.
    called: EventFd,
}

impl Sleepers {
    pub(crate) fn new() -> io::Result<Sleepers> {
        let called = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Sleepers { number: AtomicU32::new(0), called })
    }
}

/// Sleeps until a completion comes or another thread rings.
#[derive(Clone, Debug)]
pub struct VerbsBell {
    context: Arc<Context>,
    sleepers: Arc<Sleepers>,
}

impl VerbsBell {
    pub(crate) fn new(context: Arc<Context>, sleepers: Arc<Sleepers>) -> VerbsBell {
        VerbsBell { context, sleepers }
    }

    /// Wakes the threads of this process that sleep, or are about to: those that armed their bell before.
    pub fn ring(&self) {
        // Ordered with the sleeper's arming by whatever lock both took: see the caller. SeqCst costs nothing here.
        if self.sleepers.number.load(Ordering::SeqCst) > 0 {
            // It can only be full, and then it is readable.
            let _ = self.sleepers.called.write(1);
        }
    }
}

impl Bell for VerbsBell {
    // What completes between the second look and the sleep is announced at the channel, which stays readable.
    fn arm(&self) {
        self.sleepers.number.fetch_add(1, Ordering::SeqCst);
        self.context.arm();
    }

    fn sleep(&self, limit: Duration) {
        let limit = PollTimeout::try_from(limit.max(Duration::from_millis(1))).unwrap_or(PollTimeout::MAX);
        let of = |fd| PollFd::new(fd, PollFlags::POLLIN);
        // An interrupted sleep is a short one.
        let _ = poll(&mut [of(self.context.channel_fd()), of(self.sleepers.called.as_fd())], limit);
        self.disarm();
    }

    fn disarm(&self) {
        // Whoever takes an announcement takes it from all who sleep beside him, so he calls them.
        let taken = self.context.take_announcements();
        if self.sleepers.number.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Nothing to read is fine.
            let _ = self.sleepers.called.read();
        } else if taken {
            let _ = self.sleepers.called.write(1);
        }
    }
}

impl Pollable for VerbsBell {
    fn descriptors<'a>(&'a self, list: &mut Vec<BorrowedFd<'a>>) {
        list.extend([self.context.channel_fd(), self.sleepers.called.as_fd()]);
    }
}
