//! Bells that sleep on descriptors, so that one sleep can wait for two transports.

use crate::Bell;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A bell whose ring makes a descriptor readable.
///
/// Whoever sleeps on the descriptors himself does so between [`Bell::arm`] and [`Bell::disarm`], and no longer than
/// [`Pollable::limit`] says; the same second look is due after arming.
pub trait Pollable: Bell {
    /// Appends what becomes readable when the bell is rung. What was rung since the arming stays readable until the disarming.
    fn descriptors<'a>(&'a self, list: &mut Vec<BorrowedFd<'a>>);

    /// How long a sleep may last at most when `limit` is wished: a transport with a clock of its own must be called by then.
    fn limit(&self, limit: Duration) -> Duration {
        limit
    }
}

/// The bells of one transport that has one or more devices.
#[derive(Clone, Debug)]
pub struct Bells<B> {
    first: B,
    others: Vec<B>,
    most: Option<Arc<AtomicU64>>,
}

impl<B> Bells<B> {
    /// Sleeps until one of them is rung.
    pub const fn new(first: B, others: Vec<B>) -> Bells<B> {
        Bells { first, others, most: None }
    }

    /// The same, but that no sleep is longer than so many nanoseconds, unless they are 0: of a transport to which something
    /// comes that rings no bell. It is read when a sleep begins, since a call fetches its bell once.
    ///
    /// *Memory ordering:* relaxed. Only the transport writes it, under the lock that the second look after arming takes too:
    /// what was written before that look is seen by the sleep that follows it. What is written later must come with something
    /// that rings.
    #[must_use]
    pub fn at_most(self, most: Arc<AtomicU64>) -> Bells<B> {
        Bells { most: Some(most), ..self }
    }

    /// The first one: whoever rings it wakes all who sleep on all of them.
    pub const fn first(&self) -> &B {
        &self.first
    }
}

impl<B: Pollable> Bell for Bells<B> {
    fn arm(&self) {
        self.first.arm();
        self.others.iter().for_each(B::arm);
    }

    fn sleep(&self, limit: Duration) {
        if self.others.is_empty() {
            return self.first.sleep(self.limit(limit));
        }
        let mut list = Vec::with_capacity(4);
        self.descriptors(&mut list);
        let mut list: Vec<_> = list.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // A sleep that a signal ends is over: sleeps may end early for no reason.
        let _ = ppoll(&mut list, Some(TimeSpec::from_duration(self.limit(limit))), None);
        self.disarm();
    }

    fn disarm(&self) {
        self.first.disarm();
        self.others.iter().for_each(B::disarm);
    }
}

impl<B: Pollable> Pollable for Bells<B> {
    fn descriptors<'a>(&'a self, list: &mut Vec<BorrowedFd<'a>>) {
        self.first.descriptors(list);
        self.others.iter().for_each(|other| other.descriptors(list));
    }

    fn limit(&self, limit: Duration) -> Duration {
        let limit = match self.most.as_ref().map_or(0, |most| most.load(Ordering::Relaxed)) {
            0 => limit,
            most => limit.min(Duration::from_nanos(most)),
        };
        self.others.iter().fold(self.first.limit(limit), |limit, other| other.limit(limit))
    }
}
