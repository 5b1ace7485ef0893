//! Bells that sleep on descriptors, so that one sleep can wait for two transports.

use crate::Bell;
use std::os::fd::BorrowedFd;
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
