//! Sleeping until the provider has something, or another thread rings.
//!
//! A wait object may be slept on only after the library was asked (`fi_trywait`), and that question must not meet other calls.
//! So it is asked by the look that follows the arming ([`WaitObject::is_awaited`]), with the transport at hand; its answer is
//! left here for the sleeper.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_api::sleepers::{Sleeper, Sleepers};
use weft_api::{Bell, Pollable};

/// How long a sleeper sleeps whom the provider cannot wake, or not by everything.
const NAP: Duration = Duration::from_micros(50);

/// What the provider wakes sleepers by, and who sleeps.
#[derive(Debug)]
pub(crate) struct WaitObject {
    /// The library said that its wait object tells of everything that comes from now on.
    safe: AtomicBool,
    /// Something goes on that the wait object does not tell of.
    silent: AtomicBool,
    /// The provider's wait object.
    wait: Option<OwnedFd>,
    sleepers: Arc<Sleepers>,
}

impl WaitObject {
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(wait: Option<OwnedFd>) -> std::io::Result<WaitObject> {
        Ok(WaitObject {
            safe: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            wait,
            sleepers: Arc::new(Sleepers::new()?),
        })
    }

    /// Whether somebody is about to sleep on the wait object and wants to know whether that is safe.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.wait.is_some() && self.sleepers.is_awaited()
    }

    /// The answer, and whether something goes on that nothing wakes anybody for.
    pub(crate) fn may_sleep(&self, safe: bool, silent: bool) {
        self.silent.store(silent, Ordering::Relaxed);
        self.safe.store(safe, Ordering::Release);
    }
}

/// What a blocked caller sleeps on.
#[derive(Clone, Debug)]
pub struct OfiBell {
    object: Arc<WaitObject>,
    sleeper: Sleeper,
}

impl OfiBell {
    pub(crate) fn new(object: Arc<WaitObject>) -> OfiBell {
        let sleeper = Sleeper::new(Arc::clone(&object.sleepers));
        OfiBell { object, sleeper }
    }

    /// Wakes the threads of this process that sleep, or are about to: see [`Sleepers::ring`].
    pub fn ring(&self) {
        self.sleeper.sleepers().ring();
    }
}

impl Bell for OfiBell {
    fn arm(&self) {
        self.sleeper.arm();
    }

    fn sleep(&self, limit: Duration) {
        let limit = self.limit(limit);
        match &self.object.wait {
            Some(wait) => self.sleeper.sleep(&[wait.as_fd()], limit),
            None => self.sleeper.sleep(&[], limit),
        }
        self.disarm();
    }

    fn disarm(&self) {
        self.sleeper.disarm();
    }
}

impl Pollable for OfiBell {
    fn descriptors<'a>(&'a self, list: &mut Vec<BorrowedFd<'a>>) {
        list.extend(self.object.wait.as_ref().map(|fd| fd.as_fd()));
        list.push(self.sleeper.descriptor());
    }

    fn limit(&self, limit: Duration) -> Duration {
        match self.object.wait {
            Some(_) if self.object.safe.load(Ordering::Acquire) => {
                if self.object.silent.load(Ordering::Relaxed) { limit.min(NAP) } else { limit }
            }
            // Something has come, or may have.
            Some(_) => Duration::ZERO,
            None => limit.min(NAP),
        }
    }
}
