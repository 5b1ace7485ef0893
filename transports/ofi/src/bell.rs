//! Sleeping until the provider has something, or another thread rings.
//!
//! A wait object may be slept on only after the library was asked (`fi_trywait`), and that question must not meet other calls. So it
//! is asked by the look that follows the arming ([`Sleepers::is_awaited`]), with the transport at hand; its answer is left here for the sleeper.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use weft_api::{Bell, Pollable};

/// How long a sleeper sleeps whom the provider cannot wake.
const NAP: Duration = Duration::from_micros(50);

/// The threads of this process that sleep, or are about to.
#[derive(Debug)]
pub(crate) struct Sleepers {
    number: AtomicU32,
    /// The library said that its wait object tells of everything that comes from now on.
    safe: AtomicBool,
    /// The provider's wait object.
    wait: Option<OwnedFd>,
    /// Readable from a call until the last sleeper has gone: who comes in between wakes up once for nothing.
    called: File,
}

impl Sleepers {
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(wait: Option<OwnedFd>) -> std::io::Result<Sleepers> {
        // SAFETY: plain numbers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        let called = unsafe { File::from_raw_fd(fd) };
        Ok(Sleepers { number: AtomicU32::new(0), safe: AtomicBool::new(false), wait, called })
    }

    /// Whether somebody is about to sleep on the wait object and wants to know whether that is safe.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.wait.is_some() && self.number.load(Ordering::Relaxed) > 0
    }

    /// The answer.
    pub(crate) fn may_sleep(&self, safe: bool) {
        self.safe.store(safe, Ordering::Release);
    }
}

/// What a blocked caller sleeps on.
#[derive(Clone, Debug)]
pub struct OfiBell(pub(crate) Arc<Sleepers>);

impl OfiBell {
    /// Wakes the threads of this process that sleep, or are about to: those that armed their bell before.
    pub fn ring(&self) {
        // Ordered with the sleeper's arming by whatever lock both took: see the caller. SeqCst costs nothing here.
        if self.0.number.load(Ordering::SeqCst) > 0 {
            // It can only be full, and then it is readable.
            let _ = (&self.0.called).write(&1_u64.to_ne_bytes());
        }
    }
}

impl Bell for OfiBell {
    fn arm(&self) {
        self.0.number.fetch_add(1, Ordering::SeqCst);
    }

    fn sleep(&self, limit: Duration) {
        let wait = self.0.wait.as_ref().map(|fd| fd.as_raw_fd());
        sleep_on([wait, Some(self.0.called.as_raw_fd())], self.limit(limit));
        self.disarm();
    }

    fn disarm(&self) {
        if self.0.number.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Nothing to read is fine.
            let _ = (&self.0.called).read(&mut [0; 8]);
        }
    }
}

impl Pollable for OfiBell {
    fn descriptors<'a>(&'a self, list: &mut Vec<BorrowedFd<'a>>) {
        list.extend(self.0.wait.as_ref().map(|fd| fd.as_fd()));
        list.push(self.0.called.as_fd());
    }

    fn limit(&self, limit: Duration) -> Duration {
        match self.0.wait {
            Some(_) if self.0.safe.load(Ordering::Acquire) => limit,
            // Something has come, or may have.
            Some(_) => Duration::ZERO,
            None => limit.min(NAP),
        }
    }
}

/// Sleeps until one of the descriptors is readable. An interrupted sleep is a short one.
fn sleep_on(descriptors: [Option<RawFd>; 2], limit: Duration) {
    let mut list = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; 2];
    for (place, fd) in list.iter_mut().zip(descriptors.into_iter().flatten()) {
        place.fd = fd;
    }
    let limit = libc::timespec {
        tv_sec: limit.as_secs().min(3600) as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    };
    // SAFETY: a list of as many entries as are said to be (those below zero are passed over), a time, and no signal mask.
    unsafe { libc::ppoll(list.as_mut_ptr(), list.len() as libc::nfds_t, &limit, std::ptr::null()) };
}
