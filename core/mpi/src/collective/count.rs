//! How many collectives were begun on a communicator: the number, and so the tags, of the next one.
//!
//! # Memory ordering of a shared count
//! Collectives on one communicator are begun one after the other in every process (sections 6.1 and 11.6.2): where threads take
//! turns, the program orders them, so that each sees what the last one stored. All that is left to the word itself is that a
//! look by somebody else (the watchdog) finds some number that it had; so everything is Relaxed, and a beginning is a load and
//! a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A communicator's count of collectives.
#[derive(Debug)]
pub enum Count {
    /// In lane 0: all begin under the process's lock.
    Own(u32),
    /// In another lane: nonblocking ones begin without it.
    Shared(Arc<AtomicU32>),
}

impl Default for Count {
    fn default() -> Count {
        Count::Own(0)
    }
}

impl Count {
    /// One that is shared from now on.
    pub(crate) fn shared() -> Count {
        Count::Shared(Arc::default())
    }

    /// The same count, for who begins collectives elsewhere; one of nothing where it is not shared.
    pub(crate) fn share(&self) -> Count {
        match self {
            Count::Own(_) => Count::default(),
            Count::Shared(count) => Count::Shared(Arc::clone(count)),
        }
    }

    /// The number of the next one.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        match self {
            Count::Own(count) => *count,
            Count::Shared(count) => count.load(Ordering::Relaxed),
        }
    }

    /// The next one has this number.
    #[inline(always)]
    pub fn set(&mut self, next: u32) {
        match self {
            Count::Own(count) => *count = next,
            Count::Shared(count) => count.store(next, Ordering::Relaxed),
        }
    }

    /// One was begun.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.set(self.get().wrapping_add(1));
    }
}
