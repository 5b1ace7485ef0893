//! Sleeping until a completion comes.

use crate::context::Context;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;
use weft_api::sleepers::{Sleeper, Sleepers};
use weft_api::{Bell, Pollable};

/// Sleeps until a completion comes or another thread rings.
#[derive(Clone, Debug)]
pub struct VerbsBell {
    context: Arc<Context>,
    sleeper: Sleeper,
}

impl VerbsBell {
    pub(crate) fn new(context: Arc<Context>, sleepers: Arc<Sleepers>) -> VerbsBell {
        VerbsBell { context, sleeper: Sleeper::new(sleepers) }
    }

    /// Wakes the threads of this process that sleep, or are about to: see [`Sleepers::ring`].
    pub fn ring(&self) {
        self.sleeper.sleepers().ring();
    }
}

impl Bell for VerbsBell {
    // What completes between the second look and the sleep is announced at the channel, which stays readable.
    fn arm(&self) {
        self.sleeper.arm();
        self.context.arm();
    }

    fn sleep(&self, limit: Duration) {
        self.sleeper.sleep(&[self.context.channel_fd()], limit);
        self.disarm();
    }

    fn disarm(&self) {
        // Whoever takes an announcement takes it from all who sleep beside him, so he calls them. They were counted before it
        // could be made at their wish.
        let taken = self.context.take_announcements();
        self.sleeper.disarm();
        if taken {
            self.ring();
        }
    }
}

impl Pollable for VerbsBell {
    fn descriptors<'a>(&'a self, list: &mut Vec<BorrowedFd<'a>>) {
        list.extend([self.context.channel_fd(), self.sleeper.descriptor()]);
    }
}
